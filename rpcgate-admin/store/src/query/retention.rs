//! Removes old usage.

use super::days;
use super::sums::LEVELS;
use super::usage_rows::stored;
use crate::entity::rollups::{self, Column, KEY_COLUMNS};
use crate::entity::{block_keys, blocks, marks, sums};
use crate::{Removed, StoreError, UsageStore};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, Expr, ExprTrait, IntoIden, Order, Query};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

/// The number of blocks removed per transaction. Each may have a megabyte.
const BLOCKS: u64 = 16;

const ROLLUPS: u64 = 1_000;

impl UsageStore {
    /// Removes blocks whose events all arrived before `events_before`, notifications raised before it, and rollups and
    /// charges of hours that ended by `rollups_before`. Also removes the marks of segments with only such hours. From
    /// then on nothing is added to those hours ([`ship`](UsageStore::ship)), so a segment that reappears later is not
    /// billed again. Uses small transactions, so that shipments hardly wait; after an error, the finished ones stay.
    ///
    /// On a server, blocks are removed by whole UTC days, once the whole day is before `events_before`. Any program may
    /// call this at any time; it does nothing while another program does the work.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn retain(
        &self,
        events_before: Time,
        rollups_before: Time,
    ) -> BoxFuture<'_, Result<Removed, StoreError>> {
        Box::pin(async move {
            let mut removed = Removed::default();
            loop {
                let step = self.remove_blocks(events_before).await?;
                removed.blocks += step;
                if step == 0 {
                    break;
                }
            }
            removed.notifications = self.remove_notifications(events_before).await?;
            // First, so that the sums of removed rollups are no longer read or added to.
            self.set_first_hour(rollups_before.hour()).await?;
            removed.marks = self.remove_marks(rollups_before).await?;
            removed.charges = self.remove_charges(rollups_before).await?;
            removed.rollups = self.remove_sums(None, rollups_before).await?;
            for level in &LEVELS {
                self.remove_sums(Some(level.code), rollups_before).await?;
            }
            Ok(removed)
        })
    }

    /// Removes some old blocks and returns their number; zero means that no old blocks are left.
    async fn remove_blocks(&self, before: Time) -> Result<u64, StoreError> {
        if self.database.server().is_some() {
            return self.remove_day(before).await;
        }
        self.remove_old(async |transaction| {
            let oldest = blocks::Entity::find()
                .select_only()
                .column(blocks::Column::Id)
                .filter(blocks::Column::Last.lt(before))
                .order_by_asc(blocks::Column::Last)
                .limit(BLOCKS);
            let ids: Vec<Uuid> = oldest.into_tuple().all(transaction).await?;
            if ids.is_empty() {
                return Ok(0);
            }
            let keys = block_keys::Entity::delete_many()
                .filter(block_keys::Column::Block.is_in(ids.iter().copied()));
            keys.exec(transaction).await?;
            let rows = blocks::Entity::delete_many().filter(blocks::Column::Id.is_in(ids));
            Ok(rows.exec(transaction).await?.rows_affected)
        })
        .await
    }

    async fn remove_day(&self, before: Time) -> Result<u64, StoreError> {
        self.remove_old(async |transaction| {
            // Later days may have blocks even if this one has none.
            while let Some(day) = days::oldest(transaction, before).await? {
                let blocks = days::drop_day(transaction, day).await?;
                if blocks > 0 {
                    return Ok(blocks);
                }
            }
            Ok(0)
        })
        .await
    }

    /// Removes the marks of segments that are no longer billed, an hour at a time, and returns their number.
    async fn remove_marks(&self, before: Time) -> Result<u64, StoreError> {
        let mut removed = 0;
        loop {
            let step = self
                .remove_old(async |transaction| {
                    let old = marks::Entity::find()
                        .select_only()
                        .column(marks::Column::Hour)
                        .filter(marks::Column::Hour.lt(stored(before.hour())))
                        .order_by_asc(marks::Column::Hour);
                    let Some(hour) = old.into_tuple::<i64>().one(transaction).await? else { return Ok(0) };
                    let marks = marks::Entity::delete_many().filter(marks::Column::Hour.eq(hour));
                    Ok(marks.exec(transaction).await?.rows_affected)
                })
                .await?;
            if step == 0 {
                return Ok(removed);
            }
            removed += step;
        }
    }

    async fn remove_sums(&self, level: Option<i16>, before: Time) -> Result<u64, StoreError> {
        let mut old = Condition::all().add(Expr::col(Column::Hour).lt(stored(before.hour())));
        if let Some(level) = level {
            old = old.add(Expr::col(sums::Column::Level).eq(level));
        }
        let mut removed = 0;
        loop {
            let step =
                self.remove_old(async |transaction| remove(transaction, level.is_some(), &old).await).await?;
            match step {
                None => return Ok(removed),
                Some(rows) => removed += rows,
            }
        }
    }
}

/// Removes some of the `old` rows of the rollups or of the sums and returns their number, or `None` if there were no
/// such rows.
async fn remove(
    transaction: &DatabaseTransaction,
    from_sums: bool,
    old: &Condition,
) -> Result<Option<u64>, StoreError> {
    let table = || if from_sums { sums::Entity.into_iden() } else { rollups::Entity.into_iden() };
    // Removes everything before the row at that distance: a table in key order has no other row identifier.
    let mut end = Query::select();
    end.columns(KEY_COLUMNS).from(table()).cond_where(old.clone()).offset(ROLLUPS).limit(1);
    for name in KEY_COLUMNS {
        end.order_by(name, Order::Asc);
    }
    let end = transaction.query_one(&end).await?;
    let up_to = end.map(|row| {
        let position: [Expr; 9] = [
            row.try_get_by_index::<i64>(0)?.into(),
            row.try_get_by_index::<Uuid>(1)?.into(),
            row.try_get_by_index::<Uuid>(2)?.into(),
            row.try_get_by_index::<Uuid>(3)?.into(),
            row.try_get_by_index::<String>(4)?.into(),
            row.try_get_by_index::<String>(5)?.into(),
            row.try_get_by_index::<i16>(6)?.into(),
            row.try_get_by_index::<i32>(7)?.into(),
            row.try_get_by_index::<i16>(8)?.into(),
        ];
        Ok::<_, StoreError>(Expr::tuple(KEY_COLUMNS.map(Expr::col)).lt(Expr::tuple(position)))
    });
    let mut delete = Query::delete();
    delete.from_table(table()).cond_where(old.clone().add_option(up_to.transpose()?));
    let rows = transaction.execute(&delete).await?.rows_affected();
    Ok((rows > 0).then_some(rows))
}
