//! The distribution of chains over active watchers.
//!
//! A watcher's share of the chains that it would follow is their number per active watcher, rounded up. Chains without
//! a watcher are left to watchers below their share; any other watcher takes them only if those would not follow them.

use super::value::moment;
use crate::entity::watched_chains;
use crate::entity::watchers::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use std::time::Duration;
use uuid::Uuid;

#[derive(Clone, PartialEq, Eq, Debug)]
struct WatcherAtWork {
    id: Uuid,
    would_follow: Vec<String>,
    follows: usize,
}

/// The active watchers, with the chains that each has and its share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ChainShares {
    watchers: Vec<WatcherAtWork>,
}

impl ChainShares {
    pub(super) async fn read(
        database: &impl ConnectionTrait,
        leases: &[watched_chains::Model],
        now: Time,
    ) -> Result<Self, StoreError> {
        let rows = Entity::find().filter(Column::SeenUntil.gt(now)).all(database).await?;
        let at_work = |row: Model| {
            let its = leases.iter().filter(|lease| lease.watcher == Some(row.id));
            WatcherAtWork {
                id: row.id,
                would_follow: row.chains.split(',').map(str::to_owned).collect(),
                follows: its.filter(|lease| lease.watched_until > moment(now)).count(),
            }
        };
        Ok(ChainShares { watchers: rows.into_iter().map(at_work).collect() })
    }

    fn share(&self, of: &WatcherAtWork) -> usize {
        of.would_follow.len().div_ceil(self.watchers.len().max(1))
    }

    /// Returns the number of chains that a watcher may add within its share; no limit for an unknown watcher.
    pub(super) fn free_slots(&self, watcher: Uuid) -> usize {
        let one = self.watchers.iter().find(|one| one.id == watcher);
        one.map_or(usize::MAX, |one| self.share(one).saturating_sub(one.follows))
    }

    fn has_too_many(&self, watcher: Uuid) -> bool {
        self.watchers.iter().any(|one| one.id == watcher && one.follows > self.share(one))
    }

    /// Reports whether another watcher would follow this chain and is below its share.
    pub(super) fn is_for_another(&self, chain: &str, watcher: Uuid) -> bool {
        let others = self.watchers.iter().filter(|one| one.id != watcher);
        let mut others = others.filter(|one| one.would_follow.iter().any(|name| name == chain));
        others.any(|one| one.follows < self.share(one))
    }
}

impl Store {
    /// Records that a watcher is active for `lease`, and would follow these chains.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn note_watcher(
        &self,
        watcher: u128,
        chains: &[&'static str],
        lease: Duration,
        now: Time,
    ) -> Result<(), StoreError> {
        self.write(async |transaction| {
            Entity::delete_many().filter(Column::SeenUntil.lte(now)).exec(transaction).await?;
            let row = ActiveModel {
                id: Set(Uuid::from_u128(watcher)),
                chains: Set(chains.join(",")),
                seen_until: Set(moment(now.plus(lease))),
            };
            let again =
                OnConflict::column(Column::Id).update_columns([Column::Chains, Column::SeenUntil]).to_owned();
            Entity::insert(row).on_conflict(again).exec_without_returning(transaction).await?;
            Ok(())
        })
        .await
    }

    /// Records that a watcher has stopped, so that no chain is left to it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn forget_watcher(&self, watcher: u128) -> Result<(), StoreError> {
        self.write(async |transaction| {
            Entity::delete_by_id(Uuid::from_u128(watcher)).exec(transaction).await?;
            Ok(())
        })
        .await
    }

    /// Returns a chain of `watcher` that another watcher should have; `None` if it is within its share.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn surplus_chain(
        &self,
        watcher: u128,
        chains: &[&'static str],
        now: Time,
    ) -> Result<Option<&'static str>, StoreError> {
        let watcher = Uuid::from_u128(watcher);
        self.read(async |database| {
            let leases = watched_chains::Entity::find().all(database).await?;
            let shares = ChainShares::read(database, &leases, now).await?;
            if !shares.has_too_many(watcher) {
                return Ok(None);
            }
            Ok(chains.iter().copied().find(|chain| shares.is_for_another(chain, watcher)))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    fn shares(watchers: &[(u128, &str, usize)]) -> ChainShares {
        let one = |(number, chains, follows): &(u128, &str, usize)| WatcherAtWork {
            id: id(*number),
            would_follow: chains.split(',').map(str::to_owned).collect(),
            follows: *follows,
        };
        ChainShares { watchers: watchers.iter().map(one).collect() }
    }

    #[test]
    fn a_share_is_the_chains_for_each_watcher_rounded_up() {
        let all = "a,b,c,d,e";
        let shares = shares(&[(1, all, 5), (2, all, 0)]);
        assert_eq!(
            (shares.free_slots(id(1)), shares.free_slots(id(2)), shares.free_slots(id(9))),
            (0, 3, usize::MAX)
        );
        assert!(shares.has_too_many(id(1)) && !shares.has_too_many(id(2)) && !shares.has_too_many(id(9)));
        assert!(shares.is_for_another("a", id(1)) && !shares.is_for_another("a", id(2)));
    }

    // Shows (Webhooks).
    #[test]
    fn a_chain_moves_only_to_a_watcher_that_follows_it_and_has_less_than_its_share() {
        let shares = shares(&[(1, "a,b,c", 3), (2, "a", 0), (3, "b,c", 1)]);
        assert!(shares.is_for_another("a", id(1)));
        assert!(!shares.is_for_another("b", id(1)), "the third one has its share");
        assert!(!shares.is_for_another("x", id(1)));
    }
}
