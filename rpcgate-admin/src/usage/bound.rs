//! How many rows of usage a tenant has in an hour.
//!
//! Rows multiply: keys by chains by methods by statuses, and clients make up methods. Whoever has as many as its keys can
//! come by in earnest has new ones counted without their method: what is charged, and to which key, is told as ever.

use super::fold::join;
use super::method::OTHER;
use super::rollup::{Rollup, Stream};
use foldhash::fast::RandomState;
use rpcgate_core::caller::TenantId;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

/// Rows of a tenant in an hour whose methods are told apart, whatever its keys.
pub const ROWS: u64 = 10_000;

/// As many more for each key that has any.
pub const ROWS_OF_KEY: u64 = 100;

/// At so many rows [`Rows`] begins anew: some sixteen MiB.
const MOST_KNOWN: usize = 1 << 20;

/// A tenant in an hour.
pub(crate) type TenantHour = (TenantId, u64);

/// What the database had of a tenant in an hour when it was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) rows: u64,
    pub(crate) keys: u64,
}

/// The rows that are known to be there, by their hashes, so that the database is asked once for each tenant and hour. It
/// hears of those that other gateways have shipped only then: the bound is each gateway's.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    tenants: HashMap<TenantHour, Known, RandomState>,
    hash: RandomState,
    count: usize,
}

#[derive(Debug, Default)]
struct Known {
    stored: Stored,
    rows: HashSet<u64, RandomState>,
    keys: HashSet<u128, RandomState>,
}

impl Known {
    fn may_have_more(&self) -> bool {
        let keys = self.stored.keys.max(self.keys.len() as u64);
        self.stored.rows + (self.rows.len() as u64) < ROWS + ROWS_OF_KEY * keys
    }
}

impl Rows {
    /// Tenants and hours of `rollups` of which nothing is known.
    pub(crate) fn strangers(&self, rollups: &[Rollup]) -> Vec<TenantHour> {
        let mut strangers: Vec<_> = rollups.iter().map(place).collect();
        strangers.sort_unstable();
        strangers.dedup();
        strangers.retain(|place| !self.tenants.contains_key(place));
        strangers
    }

    /// Learns what the database has.
    pub(crate) fn learn(&mut self, stored: impl IntoIterator<Item = (TenantHour, Stored)>) {
        if self.count >= MOST_KNOWN {
            *self = Rows::default();
        }
        for (place, stored) in stored {
            self.tenants.entry(place).or_insert_with(|| Known { stored, ..Known::default() });
        }
    }

    /// The rollups, in the order they are stored in, with those that their tenant has no room for under no method of their
    /// own. What is shipped in vain counts all the same.
    pub(crate) fn bound<'r>(&mut self, rollups: Cow<'r, [Rollup]>) -> Cow<'r, [Rollup]> {
        let mut unseen = Vec::new();
        for (at, rollup) in rollups.iter().enumerate() {
            if rollup.stream != Stream::Call || rollup.method == OTHER {
                continue;
            }
            let hash = self.hash.hash_one(names(rollup));
            let known = self.tenants.entry(place(rollup)).or_default();
            if known.rows.contains(&hash) {
                continue;
            }
            known.keys.insert(rollup.key.0);
            if known.may_have_more() {
                known.rows.insert(hash);
                self.count += 1;
            } else {
                unseen.push(at);
            }
        }
        if unseen.is_empty() {
            return rollups;
        }
        let mut rollups = rollups.into_owned();
        for at in unseen {
            if let Some(rollup) = rollups.get_mut(at) {
                rollup.method = OTHER.to_owned();
            }
        }
        join(&mut rollups);
        Cow::Owned(rollups)
    }
}

fn place(rollup: &Rollup) -> TenantHour {
    (rollup.tenant, rollup.hour)
}

/// All that a row is told apart by, within its tenant and hour.
fn names(rollup: &Rollup) -> impl std::hash::Hash + '_ {
    let Rollup { project, key, chain, method, transport, status, .. } = rollup;
    (project, key, chain.as_str(), method.as_str(), *transport as u8, status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Metrics;
    use rpcgate_core::caller::{KeyId, ProjectId};
    use rpcgate_core::tally::Transport;

    fn rollup(key: u128, method: &str, status: u16) -> Rollup {
        Rollup {
            hour: 5,
            tenant: TenantId(1),
            project: ProjectId(2),
            key: KeyId(key),
            chain: "toy".into(),
            method: method.into(),
            transport: Transport::Http,
            status,
            stream: Stream::Call,
            metrics: Metrics { requests: 1, ..Default::default() },
            window_requests: 1,
        }
    }

    fn many(count: u64) -> Vec<Rollup> {
        let mut rollups: Vec<_> = (0..count).map(|n| rollup(1, &format!("m{n:06}"), 200)).collect();
        join(&mut rollups);
        rollups
    }

    #[test]
    fn what_a_tenant_has_no_room_for_is_one_row_for_each_key_chain_and_status() {
        let mut rows = Rows::default();
        let most = ROWS + ROWS_OF_KEY;
        let rollups = many(most + 500);
        let bounded = rows.bound(Cow::Borrowed(&rollups));
        assert_eq!(bounded.len() as u64, most + 1);
        let other = bounded.iter().find(|row| row.method == OTHER).unwrap();
        assert_eq!(other.metrics.requests, 500);
        assert_eq!(bounded.iter().map(|row| row.metrics.requests).sum::<u64>(), most + 500, "none is lost");
        // What is told apart goes on being told apart, and a new key has a row of its own, and some more.
        let again = many(1);
        assert!(matches!(rows.bound(Cow::Borrowed(&again)), Cow::Borrowed(_)));
        let fresh = [rollup(2, "a", 200), rollup(2, "a", 429)];
        assert_eq!(rows.bound(Cow::Borrowed(&fresh)).len(), 2);
        let other = [rollup(1, "new", 200), rollup(1, "new", 429), rollup(1, "newer", 429)];
        let joined = rows.bound(Cow::Borrowed(&other));
        let told: Vec<_> = joined.iter().map(|row| (row.method.as_str(), row.status)).collect();
        // The second key made room for a hundred, of which two are taken.
        assert_eq!(told, [("new", 200), ("new", 429), ("newer", 429)]);
    }

    #[test]
    fn what_the_database_has_counts_and_is_asked_for_once() {
        let mut rows = Rows::default();
        let place = (TenantId(1), 5);
        let rollups = [rollup(1, "a", 200), rollup(1, "b", 200)];
        assert_eq!(rows.strangers(&rollups), [place]);
        rows.learn([(place, Stored { rows: ROWS + ROWS_OF_KEY - 1, keys: 1 })]);
        assert!(rows.strangers(&rollups).is_empty());
        let bounded = rows.bound(Cow::Borrowed(&rollups));
        let told: Vec<_> = bounded.iter().map(|row| row.method.as_str()).collect();
        assert_eq!(told, [OTHER, "a"]);
    }

    #[test]
    fn what_is_known_is_bounded() {
        let mut rows = Rows::default();
        for hour in 0..2 * (MOST_KNOWN as u64 / ROWS) {
            let rollups: Vec<_> = many(ROWS).into_iter().map(|row| Rollup { hour, ..row }).collect();
            rows.learn(
                rows.strangers(&rollups)
                    .into_iter()
                    .map(|place| (place, Stored::default()))
                    .collect::<Vec<_>>(),
            );
            rows.bound(Cow::Borrowed(&rollups));
        }
        assert!(rows.count as u64 <= MOST_KNOWN as u64 + ROWS);
        assert_eq!(rows.tenants.values().map(|known| known.rows.len()).sum::<usize>(), rows.count);
    }
}
