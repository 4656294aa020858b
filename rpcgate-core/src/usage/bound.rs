//! A limit on the usage rows of a tenant per hour.
//!
//! Rows multiply by key, chain, method and status, and clients can invent methods. Beyond what a tenant's keys
//! plausibly need, new rows are counted without their method. The charges of each key stay exact.

use super::method::OTHER;
use super::rollup::{Rollup, Stream, join};
use crate::caller::TenantId;
use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

/// The number of a tenant's rows per hour with separate methods, independent of its keys.
pub const ROWS: u64 = 10_000;

/// The number of additional rows per active key.
pub const ROWS_OF_KEY: u64 = 100;

/// The number of rows at which [`KnownRows`] is cleared: about 16 MiB.
const MOST_KNOWN: usize = 1 << 20;

/// A tenant and the number of an hour, counted from the epoch.
pub type TenantHour = (TenantId, u64);

/// The rows of a tenant and hour in the database, at the time of the query.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoredRows {
    /// The number of rows.
    pub rows: u64,
    /// The number of distinct keys in them.
    pub keys: u64,
}

/// The known rows, by hash, so that the database is queried once per tenant and hour. Rows that other gateways ship
/// later are not noticed: each gateway has its own limit.
#[derive(Debug, Default)]
pub struct KnownRows {
    tenants: HashMap<TenantHour, TenantRows, RandomState>,
    hash: RandomState,
    count: usize,
}

#[derive(Debug, Default)]
struct TenantRows {
    stored: StoredRows,
    rows: HashSet<u64, RandomState>,
    keys: HashSet<u128, RandomState>,
}

impl TenantRows {
    fn may_have_more(&self) -> bool {
        let keys = self.stored.keys.max(self.keys.len() as u64);
        self.stored.rows + (self.rows.len() as u64) < ROWS + ROWS_OF_KEY * keys
    }
}

impl KnownRows {
    /// Returns the tenants and hours of `rollups` for which the database was not queried yet.
    pub fn unknown(&self, rollups: &[Rollup]) -> Vec<TenantHour> {
        let mut unknown: Vec<_> = rollups.iter().map(tenant_hour).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown.retain(|tenant_hour| !self.tenants.contains_key(tenant_hour));
        unknown
    }

    /// Adds the rows of the database.
    pub fn learn(&mut self, stored: impl IntoIterator<Item = (TenantHour, StoredRows)>) {
        if self.count >= MOST_KNOWN {
            *self = KnownRows::default();
        }
        for (tenant_hour, stored) in stored {
            self.tenants.entry(tenant_hour).or_insert_with(|| TenantRows { stored, ..TenantRows::default() });
        }
    }

    /// Returns the rollups in storage order. Rows beyond their tenant's limit become [`OTHER`]. Rows of failed
    /// shipments count too.
    pub fn bound<'r>(&mut self, rollups: Cow<'r, [Rollup]>) -> Cow<'r, [Rollup]> {
        let mut unseen = Vec::new();
        for (at, rollup) in rollups.iter().enumerate() {
            if rollup.stream != Stream::Call || rollup.method == OTHER {
                continue;
            }
            let hash = self.hash.hash_one(names(rollup));
            let known = self.tenants.entry(tenant_hour(rollup)).or_default();
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

fn tenant_hour(rollup: &Rollup) -> TenantHour {
    (rollup.tenant, rollup.hour)
}

/// Returns the names that distinguish the rows of one tenant and hour.
fn names(rollup: &Rollup) -> impl std::hash::Hash + '_ {
    let Rollup { project, key, chain, method, transport, status, .. } = rollup;
    (project, key, chain.as_str(), method.as_str(), *transport as u8, status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{KeyId, ProjectId};
    use crate::transport::Transport;
    use crate::usage::Metrics;

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

    // Shows (Usage).
    #[test]
    fn rows_beyond_a_tenants_limit_are_summed_by_key_chain_and_status() {
        let mut rows = KnownRows::default();
        let most = ROWS + ROWS_OF_KEY;
        let rollups = many(most + 500);
        let bounded = rows.bound(Cow::Borrowed(&rollups));
        assert_eq!(bounded.len() as u64, most + 1);
        let other = bounded.iter().find(|row| row.method == OTHER).unwrap();
        assert_eq!(other.metrics.requests, 500);
        assert_eq!(bounded.iter().map(|row| row.metrics.requests).sum::<u64>(), most + 500, "none is lost");
        // Separate methods stay separate, and a new key gets additional rows.
        let again = many(1);
        assert!(matches!(rows.bound(Cow::Borrowed(&again)), Cow::Borrowed(_)));
        let fresh = [rollup(2, "a", 200), rollup(2, "a", 429)];
        assert_eq!(rows.bound(Cow::Borrowed(&fresh)).len(), 2);
        let other = [rollup(1, "new", 200), rollup(1, "new", 429), rollup(1, "newer", 429)];
        let joined = rows.bound(Cow::Borrowed(&other));
        let told: Vec<_> = joined.iter().map(|row| (row.method.as_str(), row.status)).collect();
        // The second key allows a hundred more rows, and two of them are used.
        assert_eq!(told, [("new", 200), ("new", 429), ("newer", 429)]);
    }

    // Shows (Usage).
    #[test]
    fn rows_of_the_database_count_and_are_queried_once() {
        let mut rows = KnownRows::default();
        let tenant_hour = (TenantId(1), 5);
        let rollups = [rollup(1, "a", 200), rollup(1, "b", 200)];
        assert_eq!(rows.unknown(&rollups), [tenant_hour]);
        rows.learn([(tenant_hour, StoredRows { rows: ROWS + ROWS_OF_KEY - 1, keys: 1 })]);
        assert!(rows.unknown(&rollups).is_empty());
        let bounded = rows.bound(Cow::Borrowed(&rollups));
        let told: Vec<_> = bounded.iter().map(|row| row.method.as_str()).collect();
        assert_eq!(told, [OTHER, "a"]);
    }

    // Shows (Usage).
    #[test]
    fn the_number_of_known_rows_is_bounded() {
        let mut rows = KnownRows::default();
        for hour in 0..2 * (MOST_KNOWN as u64 / ROWS) {
            let rollups: Vec<_> = many(ROWS).into_iter().map(|row| Rollup { hour, ..row }).collect();
            rows.learn(
                rows.unknown(&rollups)
                    .into_iter()
                    .map(|tenant_hour| (tenant_hour, StoredRows::default()))
                    .collect::<Vec<_>>(),
            );
            rows.bound(Cow::Borrowed(&rollups));
        }
        assert!(rows.count as u64 <= MOST_KNOWN as u64 + ROWS);
        assert_eq!(rows.tenants.values().map(|known| known.rows.len()).sum::<usize>(), rows.count);
    }
}
