//! The leases of watchers on chains, and the last reported health phase of each chain.

use super::chain_shares::ChainShares;
use super::matched_events::{AT_ONCE, EventRows, MatchedEvent, event_ids, parts, store};
use super::value::moment;
use crate::entity::followed_blocks;
use crate::entity::watched_chains::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use rpcgate_core::event::{BlockRef, HealthPhase};
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};
use std::collections::HashMap;
use std::time::Duration;
use uuid::Uuid;

/// A watcher's lease of a chain. Each write of the watcher about the chain requires the lease and renews it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchLease<'l> {
    /// The chain.
    pub chain: &'l str,
    /// The watcher's identifier, a UUID.
    pub watcher: u128,
    /// The duration of the lease from each write on.
    pub lease: Duration,
}

/// The outcome of a write of a watcher about its chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum WatchOutcome {
    /// It was made.
    Done,
    /// Another watcher follows the chain, or may: this one must stop.
    LeaseLost,
}

/// Renews the lease if the watcher holds it, and reports whether it does. An expired lease still belongs to its watcher
/// until another takes it.
pub(super) async fn hold(
    transaction: &DatabaseTransaction,
    lease: &WatchLease<'_>,
    now: Time,
) -> Result<bool, StoreError> {
    let held = Entity::update_many()
        .col_expr(Column::WatchedUntil, Expr::value(moment(now.plus(lease.lease))))
        .col_expr(Column::UpdatedAt, Expr::value(now))
        .filter(Column::Chain.eq(lease.chain))
        .filter(Column::Watcher.eq(Uuid::from_u128(lease.watcher)));
    Ok(held.exec(transaction).await?.rows_affected > 0)
}

impl Store {
    /// Renews the leases that `watcher` holds on `chains`, and takes at most `most` free ones, except those beyond its
    /// share that another watcher should take. Returns the chains that it holds.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn claim_chains(
        &self,
        watcher: u128,
        chains: &[&'static str],
        most: usize,
        lease: Duration,
        now: Time,
    ) -> Result<Vec<&'static str>, StoreError> {
        let watcher = Uuid::from_u128(watcher);
        let until = moment(now.plus(lease));
        let me = Some(watcher);
        self.write(async |transaction| {
            let leases = Entity::find().all(transaction).await?;
            let shares = ChainShares::read(transaction, &leases, now).await?;
            let known: HashMap<String, Model> =
                leases.into_iter().map(|row| (row.chain.clone(), row)).collect();
            let mut held = Vec::new();
            let mut taken = 0;
            for chain in chains {
                let row = known.get(*chain);
                let is_mine = row.is_some_and(|row| row.watcher == me);
                let is_free = row.is_none_or(|row| row.watcher.is_none() || row.watched_until <= moment(now));
                let is_for_me =
                    || taken < shares.free_slots(watcher) || !shares.is_for_another(chain, watcher);
                if !is_mine && (!is_free || taken == most || !is_for_me()) {
                    continue;
                }
                taken += usize::from(!is_mine);
                held.push(*chain);
                if row.is_none() {
                    let row = ActiveModel {
                        chain: Set((*chain).to_owned()),
                        watcher: Set(me),
                        watched_until: Set(until),
                        phase: Set(String::new()),
                        replaced_until: Set(None),
                        appended_at: Set(0),
                        updated_at: Set(moment(now)),
                    };
                    Entity::insert(row).exec_without_returning(transaction).await?;
                }
            }
            Entity::update_many()
                .col_expr(Column::Watcher, Expr::value(me))
                .col_expr(Column::WatchedUntil, Expr::value(until))
                .col_expr(Column::UpdatedAt, Expr::value(now))
                .filter(Column::Chain.is_in(held.iter().copied()))
                .exec(transaction)
                .await?;
            Ok(held)
        })
        .await
    }

    /// Ends the leases that `watcher` holds on `chains`, so that another one takes them at once.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn release_chains(
        &self,
        watcher: u128,
        chains: &[&'static str],
        now: Time,
    ) -> Result<(), StoreError> {
        self.write(async |transaction| {
            Entity::update_many()
                .col_expr(Column::Watcher, Expr::value(None::<Uuid>))
                .col_expr(Column::WatchedUntil, Expr::value(now))
                .filter(Column::Chain.is_in(chains.iter().copied()))
                .filter(Column::Watcher.eq(Uuid::from_u128(watcher)))
                .exec(transaction)
                .await?;
            Ok(())
        })
        .await
    }

    /// Returns the chains with a stored position.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn followed_chains(&self) -> Result<Vec<String>, StoreError> {
        use followed_blocks::{Column as Block, Entity as Blocks};
        self.read(async |database| {
            let chains = Blocks::find().select_only().column(Block::Chain).distinct();
            Ok(chains.into_tuple().all(database).await?)
        })
        .await
    }

    /// Returns the last reported health phase of a chain; `None` if it was never known.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], [`StoreError::Unreadable`].
    pub async fn reported_phase(&self, chain: &str) -> Result<Option<HealthPhase>, StoreError> {
        self.read(async |database| {
            let Some(row) = Entity::find_by_id(chain).one(database).await? else { return Ok(None) };
            let phases = [HealthPhase::Healthy, HealthPhase::Degraded];
            Ok(phases.into_iter().find(|phase| phase.name() == row.phase))
        })
        .await
    }

    /// Stores the health phase of a chain, with the events that report it. `block` is the last known one.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], after which the events may be stored in part, and a retry may repeat them.
    pub async fn report_phase(
        &self,
        lease: &WatchLease<'_>,
        phase: HealthPhase,
        block: &BlockRef,
        events: &[MatchedEvent],
        now: Time,
    ) -> Result<WatchOutcome, StoreError> {
        let parts = parts(events, AT_ONCE);
        let ids = event_ids(events, now);
        let rows = EventRows { chain: lease.chain, block, events };
        for (number, part) in parts.iter().enumerate() {
            let is_last = number + 1 == parts.len();
            let is_held = self
                .write(async |transaction| {
                    if !hold(transaction, lease, now).await? {
                        return Ok(false);
                    }
                    store(transaction, rows, &ids, part, (now, now)).await?;
                    if is_last {
                        let update = Entity::update_many().col_expr(Column::Phase, Expr::value(phase.name()));
                        update.filter(Column::Chain.eq(lease.chain)).exec(transaction).await?;
                    }
                    Ok(true)
                })
                .await?;
            if !is_held {
                return Ok(WatchOutcome::LeaseLost);
            }
        }
        Ok(WatchOutcome::Done)
    }
}
