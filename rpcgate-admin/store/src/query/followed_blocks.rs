//! The position of a watcher in a chain: its newest blocks, whose events are appended or taken back with their
//! deliveries.
//!
//! Only the watcher that holds the chain's lease writes here. A write that is too large for one transaction marks the
//! block as unfinished in its `state`, and the next watcher of the chain finishes it.

use super::delivery_status::PENDING;
use super::matched_events::{AT_ONCE, EventRows, MatchedEvent, event_ids, height, parts, store};
use super::removal::remove;
use super::removed_events::{Position, take_back_part};
use super::value::{moment, time, unreadable};
use super::watched_chains::{WatchLease, WatchOutcome, hold};
use crate::entity::followed_blocks::{ActiveModel, Column, Entity, Model};
use crate::entity::{deliveries, watched_chains};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use rpcgate_core::event::BlockRef;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};

const WHOLE: &str = "whole";
const APPENDING: &str = "appending";
const LEAVING: &str = "leaving";

/// The position of a watcher in a chain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Followed {
    /// The newest blocks whose events are stored, by height.
    pub blocks: Vec<BlockRef>,
    /// An unfinished block above them.
    pub unfinished: Option<UnfinishedBlock>,
    /// The height up to which blocks replace others.
    pub replaced_until: Option<u64>,
}

/// A block that was being appended or taken back when its watcher stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UnfinishedBlock {
    /// Some of its deliveries are made. It must be appended again, or taken back if it is no longer part of the chain.
    Appending(BlockRef),
    /// It must be taken back.
    Leaving(BlockRef),
}

fn block_of(row: Model) -> Result<BlockRef, StoreError> {
    let height = u64::try_from(row.height).map_err(|_| unreadable("height", row.height))?;
    Ok(BlockRef::new(height, row.hash, row.parent, row.timestamp).with_position(row.place))
}

fn of_chain(chain: &str) -> sea_orm::Select<Entity> {
    Entity::find().filter(Column::Chain.eq(chain))
}

impl Store {
    /// Returns the position in a chain.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn followed(&self, chain: &str) -> Result<Followed, StoreError> {
        self.read(async |database| {
            let mut followed = Followed::default();
            for row in of_chain(chain).order_by_asc(Column::Height).all(database).await? {
                match row.state.as_str() {
                    WHOLE => followed.blocks.push(block_of(row)?),
                    APPENDING => followed.unfinished = Some(UnfinishedBlock::Appending(block_of(row)?)),
                    LEAVING => followed.unfinished = Some(UnfinishedBlock::Leaving(block_of(row)?)),
                    state => return Err(unreadable("state of a block", state)),
                }
            }
            let watched = watched_chains::Entity::find_by_id(chain).one(database).await?;
            let until = watched.and_then(|row| row.replaced_until);
            followed.replaced_until = until.and_then(|until| u64::try_from(until).ok());
            Ok(followed)
        })
        .await
    }

    /// Appends a block that follows the newest one: its events, their log entries and their deliveries; deliveries that
    /// waited for its height become due. Removes blocks below the newest `kept`. Leaves a block that is already
    /// appended unchanged.
    ///
    /// # Errors
    /// [`StoreError::WrongState`] if there is another block of this height; [`StoreError::Unavailable`], after which it
    /// may be appended in part, and must be appended again or taken back.
    pub async fn append_block(
        &self,
        lease: &WatchLease<'_>,
        block: &BlockRef,
        events: &[MatchedEvent],
        kept: u64,
        now: Time,
    ) -> Result<WatchOutcome, StoreError> {
        self.append_in_parts(lease, block, (events, AT_ONCE), kept, now, usize::MAX).await
    }

    /// Appends a block with up to `most` deliveries in each transaction, and stops before the one with the number
    /// `stop`.
    pub(super) async fn append_in_parts(
        &self,
        lease: &WatchLease<'_>,
        block: &BlockRef,
        (events, most): (&[MatchedEvent], usize),
        kept: u64,
        now: Time,
        stop: usize,
    ) -> Result<WatchOutcome, StoreError> {
        let parts = parts(events, most);
        let rows = EventRows { chain: lease.chain, block, events };
        let mut released = 0;
        for (number, part) in parts.iter().enumerate().take(stop) {
            let is_last = number + 1 == parts.len();
            let done = self
                .write(async |transaction| {
                    if !hold(transaction, lease, now).await? {
                        return Ok(Err(WatchOutcome::LeaseLost));
                    }
                    let Some(appended_at) = begin(transaction, lease.chain, block, now).await? else {
                        return Ok(Err(WatchOutcome::Done));
                    };
                    let ids = event_ids(events, appended_at);
                    store(transaction, rows, &ids, part, (appended_at, now)).await?;
                    if !is_last {
                        return Ok(Ok(0));
                    }
                    finish(transaction, lease.chain, block, kept).await?;
                    Ok(Ok(release(transaction, lease.chain, block.height, now).await?))
                })
                .await?;
            match done {
                Ok(count) => released = count,
                Err(outcome) => return Ok(outcome),
            }
        }
        // The deliveries that remain if this stops are released with the next block.
        while released == AT_ONCE as u64 {
            let more = async |transaction: &DatabaseTransaction| {
                release(transaction, lease.chain, block.height, now).await
            };
            released = self.write(more).await?;
        }
        Ok(WatchOutcome::Done)
    }

    /// Takes back the newest block. Each of its remaining events is sent again with `removed: true` to the endpoints
    /// that got it; deliveries that still waited for confirmations are removed. A block that does not exist counts as
    /// taken back.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], after which it may be taken back in part, and must be taken back again.
    pub async fn take_back(
        &self,
        lease: &WatchLease<'_>,
        block: &BlockRef,
        now: Time,
    ) -> Result<WatchOutcome, StoreError> {
        self.take_back_in_parts(lease, block, AT_ONCE as u64, now, usize::MAX).await
    }

    /// Takes a block back with up to `most` deliveries in each transaction, and stops before the one with the number
    /// `stop`.
    pub(super) async fn take_back_in_parts(
        &self,
        lease: &WatchLease<'_>,
        block: &BlockRef,
        most: u64,
        now: Time,
        stop: usize,
    ) -> Result<WatchOutcome, StoreError> {
        let mut position = Position::default();
        for _ in 0..stop {
            let next = self
                .write(async |transaction| {
                    if !hold(transaction, lease, now).await? {
                        return Ok(Err(WatchOutcome::LeaseLost));
                    }
                    let row = Entity::find_by_id((lease.chain.to_owned(), height(block.height)));
                    let Some(row) = row.one(transaction).await?.filter(|row| row.hash == block.hash) else {
                        return Ok(Err(WatchOutcome::Done));
                    };
                    let next = take_back_part(transaction, &row, (position, most), now).await?;
                    if let Some(next) = next {
                        let state = Entity::update_many().col_expr(Column::State, Expr::value(LEAVING));
                        state.filter(is_block(&row)).exec(transaction).await?;
                        return Ok(Ok(next));
                    }
                    Entity::delete_many().filter(is_block(&row)).exec(transaction).await?;
                    replaced(transaction, lease.chain, row.height).await?;
                    Ok(Err(WatchOutcome::Done))
                })
                .await?;
            match next {
                Ok(next) => position = next,
                Err(outcome) => return Ok(outcome),
            }
        }
        Ok(WatchOutcome::Done)
    }

    /// Removes the position in a chain, because it has no subscriptions any more, or because its nodes know none of the
    /// stored blocks. Removes deliveries that wait for confirmations.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn forget_followed(
        &self,
        lease: &WatchLease<'_>,
        now: Time,
    ) -> Result<WatchOutcome, StoreError> {
        loop {
            let outcome = self
                .write(async |transaction| {
                    if !hold(transaction, lease, now).await? {
                        return Ok(Some(WatchOutcome::LeaseLost));
                    }
                    let waiting = Condition::all().add(deliveries::Column::HeldChain.eq(lease.chain));
                    let held = deliveries::Column::Id;
                    let limit = AT_ONCE as u64;
                    if remove::<deliveries::Entity>(transaction, held, waiting, limit).await? == limit {
                        return Ok(None);
                    }
                    Entity::delete_many().filter(Column::Chain.eq(lease.chain)).exec(transaction).await?;
                    watched_chains::Entity::update_many()
                        .col_expr(watched_chains::Column::ReplacedUntil, Expr::value(None::<i64>))
                        .filter(watched_chains::Column::Chain.eq(lease.chain))
                        .exec(transaction)
                        .await?;
                    Ok(Some(WatchOutcome::Done))
                })
                .await?;
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
        }
    }
}

fn is_block(row: &Model) -> Condition {
    Condition::all().add(Column::Chain.eq(row.chain.as_str())).add(Column::Height.eq(row.height))
}

/// Ensures that the block has a row, and returns the time of its events; `None` if it is appended completely.
async fn begin(
    transaction: &DatabaseTransaction,
    chain: &str,
    block: &BlockRef,
    now: Time,
) -> Result<Option<Time>, StoreError> {
    let known = Entity::find_by_id((chain.to_owned(), height(block.height))).one(transaction).await?;
    match known {
        Some(row) if row.hash != block.hash => {
            Err(StoreError::WrongState("another block of this height is part of the chain"))
        }
        Some(row) if row.state == APPENDING => Ok(Some(time(row.appended_at))),
        Some(row) if row.state == WHOLE => Ok(None),
        Some(_) => Err(StoreError::WrongState("the block is being taken back")),
        None => {
            // A block that comes back, and a clock that steps back, must not assign a time twice.
            let watched = watched_chains::Entity::find_by_id(chain).one(transaction).await?;
            let appended_at = moment(now).max(watched.map_or(0, |watched| watched.appended_at) + 1);
            watched_chains::Entity::update_many()
                .col_expr(watched_chains::Column::AppendedAt, Expr::value(appended_at))
                .filter(watched_chains::Column::Chain.eq(chain))
                .exec(transaction)
                .await?;
            let row = ActiveModel {
                chain: Set(chain.to_owned()),
                height: Set(height(block.height)),
                hash: Set(block.hash.clone()),
                parent: Set(block.parent.clone()),
                timestamp: Set(block.timestamp),
                place: Set(block.position.clone()),
                state: Set(APPENDING.to_owned()),
                appended_at: Set(appended_at),
            };
            Entity::insert(row).exec_without_returning(transaction).await?;
            Ok(Some(time(appended_at)))
        }
    }
}

async fn finish(
    transaction: &DatabaseTransaction,
    chain: &str,
    block: &BlockRef,
    kept: u64,
) -> Result<(), StoreError> {
    let own = height(block.height);
    let this = Condition::all().add(Column::Chain.eq(chain)).add(Column::Height.eq(own));
    Entity::update_many().col_expr(Column::State, Expr::value(WHOLE)).filter(this).exec(transaction).await?;
    let old = of_chain(chain).select_only().column(Column::Height).order_by_desc(Column::Height).offset(kept);
    if let Some(old) = old.limit(1).into_tuple::<i64>().one(transaction).await? {
        let forgotten = Condition::all().add(Column::Chain.eq(chain)).add(Column::Height.lte(old));
        Entity::delete_many().filter(forgotten).exec(transaction).await?;
    }
    watched_chains::Entity::update_many()
        .col_expr(watched_chains::Column::ReplacedUntil, Expr::value(None::<i64>))
        .filter(watched_chains::Column::Chain.eq(chain))
        .filter(watched_chains::Column::ReplacedUntil.lte(own))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Makes deliveries due that waited for this height, within the limit of one transaction, and returns their number.
async fn release(
    transaction: &DatabaseTransaction,
    chain: &str,
    height_now: u64,
    now: Time,
) -> Result<u64, StoreError> {
    use deliveries::Column as Delivery;
    let reached = deliveries::Entity::find()
        .select_only()
        .column(Delivery::Id)
        .filter(Delivery::HeldChain.eq(chain))
        .filter(Delivery::HeldUntil.lte(height(height_now)))
        .limit(AT_ONCE as u64)
        .into_query();
    let released = deliveries::Entity::update_many()
        .col_expr(Delivery::Status, Expr::value(PENDING))
        .col_expr(Delivery::DueAt, Expr::value(now))
        .col_expr(Delivery::HeldChain, Expr::value(None::<String>))
        .col_expr(Delivery::HeldUntil, Expr::value(None::<i64>))
        .filter(Delivery::Id.in_subquery(reached))
        .exec(transaction)
        .await?;
    Ok(released.rows_affected)
}

/// Records that blocks up to this height will replace those that were taken back.
async fn replaced(transaction: &DatabaseTransaction, chain: &str, until: i64) -> Result<(), StoreError> {
    use watched_chains::Column as Watched;
    let lower = Condition::any().add(Watched::ReplacedUntil.is_null()).add(Watched::ReplacedUntil.lt(until));
    watched_chains::Entity::update_many()
        .col_expr(Watched::ReplacedUntil, Expr::value(Some(until)))
        .filter(Watched::Chain.eq(chain))
        .filter(lower)
        .exec(transaction)
        .await?;
    Ok(())
}
