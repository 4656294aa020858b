//! Removing what is old.

use super::days;
use super::shipment::stored;
use super::value::moment;
use crate::store::entity::{block_keys, blocks, marks, rollups};
use crate::store::{Removed, StoreError, UsageStore};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, Expr, ExprTrait};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

/// Blocks of one step. Each may have a megabyte.
const BLOCKS: u64 = 16;

/// Rollups of one step.
const ROLLUPS: u64 = 1_000;

impl UsageStore {
    /// Removes blocks whose events all came before `events_before`, the marks of segments that were begun and
    /// notifications that were raised before it, and rollups and charges of hours that were over by `rollups_before`. It
    /// goes in small steps, each a transaction of its own, so that shipping hardly waits; what is done when it fails
    /// stays done.
    ///
    /// On a server blocks go a UTC day at a time, once all of it came before `events_before`. Any program may do this at
    /// any time: where another is at it, this one leaves it to that.
    ///
    /// # Errors
    /// [`StoreError::Away`].
    pub async fn retain(&self, events_before: Time, rollups_before: Time) -> Result<Removed, StoreError> {
        let mut removed = Removed::default();
        loop {
            let step = self.remove_blocks(events_before).await?;
            removed.blocks += step;
            if step == 0 {
                break;
            }
        }
        removed.marks = self.remove_marks(events_before).await?;
        removed.notifications = self.remove_notifications(events_before).await?;
        removed.charges = self.remove_charges(rollups_before).await?;
        loop {
            let (step, more) = self.remove_rollups(rollups_before).await?;
            removed.rollups += step;
            if !more {
                break;
            }
        }
        Ok(removed)
    }

    /// Removes some old blocks: how many. None are left if there were none.
    async fn remove_blocks(&self, before: Time) -> Result<u64, StoreError> {
        if self.database.server().is_some() {
            return self.remove_day(before).await;
        }
        self.retire(async |transaction| {
            let oldest = blocks::Entity::find()
                .select_only()
                .column(blocks::Column::Id)
                .filter(blocks::Column::Last.lt(moment(before)))
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

    /// Removes the oldest day of blocks that has any, if it is old.
    async fn remove_day(&self, before: Time) -> Result<u64, StoreError> {
        self.retire(async |transaction| {
            // A day without blocks says nothing about the next one.
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

    /// Removes the marks of old segments: how many. There is one for each minute at most, so this is a small step.
    async fn remove_marks(&self, before: Time) -> Result<u64, StoreError> {
        // Segments' names begin with the millisecond in which they were begun.
        let first = Uuid::from_u128(u128::from(before.millis()) << 80);
        self.retire(async |transaction| {
            let old = marks::Entity::delete_many().filter(marks::Column::Segment.lt(first));
            Ok(old.exec(transaction).await?.rows_affected)
        })
        .await
    }

    /// Removes some old rollups: how many, and whether there are more.
    async fn remove_rollups(&self, before: Time) -> Result<(u64, bool), StoreError> {
        use rollups::{Column, Entity, Model};
        let is_old = Column::Hour.lt(stored(before.hour()));
        self.retire(async |transaction| {
            // Up to the row that is so many rows away: a table that is kept in the order of its key has no shorter
            // name for its rows.
            let end = Entity::find()
                .filter(is_old.clone())
                .order_by_asc(Column::Hour)
                .order_by_asc(Column::Tenant)
                .order_by_asc(Column::Project)
                .order_by_asc(Column::Key)
                .order_by_asc(Column::Chain)
                .order_by_asc(Column::Method)
                .order_by_asc(Column::Transport)
                .order_by_asc(Column::Status)
                .order_by_asc(Column::Stream)
                .offset(ROLLUPS)
                .limit(1);
            let end: Option<Model> = end.one(transaction).await?;
            let up_to = end.as_ref().map(|end| {
                let row = Expr::tuple([
                    Expr::col(Column::Hour),
                    Expr::col(Column::Tenant),
                    Expr::col(Column::Project),
                    Expr::col(Column::Key),
                    Expr::col(Column::Chain),
                    Expr::col(Column::Method),
                    Expr::col(Column::Transport),
                    Expr::col(Column::Status),
                    Expr::col(Column::Stream),
                ]);
                row.lt(Expr::tuple([
                    end.hour.into(),
                    end.tenant.into(),
                    end.project.into(),
                    end.key.into(),
                    end.chain.as_str().into(),
                    end.method.as_str().into(),
                    end.transport.into(),
                    end.status.into(),
                    end.stream.into(),
                ]))
            });
            let old = Condition::all().add(is_old.clone()).add_option(up_to);
            let deleted = Entity::delete_many().filter(old).exec(transaction).await?;
            Ok((deleted.rows_affected, end.is_some()))
        })
        .await
    }
}
