//! The daily request allowances of tenants, for the notifications that shipments make due.
//!
//! Usage is in the usage database, plans and keys are in the management database, and on SQLite these are two files. So
//! the shipper queries allowances before it ships. It does not wait if they are unavailable: usage matters more than a
//! notification, which is caught up later.

use super::directory::StoreDirectory;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Clock;
use rpcgate_store::{Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The lifetime of an answer, equal to the time that any change may take to have an effect.
const FRESH: Duration = Duration::from_secs(1);
/// The pause after a failed attempt.
const AGAIN: Duration = Duration::from_secs(5);

pub(super) trait Allowances: Send + Sync + fmt::Debug {
    /// Returns the requests that all keys of each tenant may make together in a UTC day. Unknown tenants are left out.
    fn daily(
        &self,
        tenants: BTreeSet<TenantId>,
    ) -> BoxFuture<'_, Result<BTreeMap<TenantId, u64>, StoreError>>;
}

/// The management database with the current plans.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) store: Store,
    pub(super) directory: Arc<StoreDirectory>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Allowances for Stored {
    fn daily(
        &self,
        tenants: BTreeSet<TenantId>,
    ) -> BoxFuture<'_, Result<BTreeMap<TenantId, u64>, StoreError>> {
        Box::pin(async move {
            let plans = self.directory.figures();
            self.store.daily_allowances(&tenants, &plans, self.clock.now()).await
        })
    }
}

/// The recent answers of a source.
#[derive(Debug, Default)]
pub(super) struct CachedAllowances {
    source: Option<Arc<dyn Allowances>>,
    /// Allowances with the time of the answer.
    known: BTreeMap<TenantId, (u64, Duration)>,
    again: Duration,
}

impl CachedAllowances {
    /// Sets the source. Before, no allowance is known.
    pub(super) fn ask(&mut self, source: Arc<dyn Allowances>) {
        self.source = Some(source);
    }

    pub(super) const fn is_open(&self) -> bool {
        self.source.is_some()
    }

    /// Returns the known allowances of `tenants` at `now`, a reading of the clock's `elapsed`.
    pub(super) async fn of(
        &mut self,
        tenants: impl IntoIterator<Item = TenantId>,
        now: Duration,
    ) -> BTreeMap<TenantId, u64> {
        self.known.retain(|_, (_, queried)| now.saturating_sub(*queried) < FRESH);
        let tenants: BTreeSet<TenantId> = tenants.into_iter().collect();
        let unknown: BTreeSet<TenantId> =
            tenants.iter().copied().filter(|tenant| !self.known.contains_key(tenant)).collect();
        if let Some(source) = &self.source
            && !unknown.is_empty()
            && now >= self.again
        {
            match source.daily(unknown).await {
                Ok(found) => {
                    self.known.extend(found.into_iter().map(|(tenant, allowed)| (tenant, (allowed, now))));
                }
                Err(error) => {
                    tracing::debug!("the daily allowances of tenants are not known now: {error}");
                    self.again = now.saturating_add(AGAIN);
                }
            }
        }
        let known = |tenant: TenantId| self.known.get(&tenant).map(|(allowed, _)| (tenant, *allowed));
        tenants.into_iter().filter_map(known).collect()
    }

    /// Returns the current allowances, or the reason why they are not known.
    pub(super) async fn now(
        &self,
        tenants: BTreeSet<TenantId>,
    ) -> Result<BTreeMap<TenantId, u64>, StoreError> {
        match &self.source {
            Some(source) if !tenants.is_empty() => source.daily(tenants).await,
            _ => Ok(BTreeMap::new()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use parking_lot::Mutex;

    /// A source for tests that answers as configured and records its requests.
    #[derive(Debug, Default)]
    pub(in super::super) struct CountedAllowances {
        pub(in super::super) allowed: Mutex<BTreeMap<TenantId, u64>>,
        pub(in super::super) away: Mutex<bool>,
        queries: Mutex<Vec<BTreeSet<TenantId>>>,
    }

    impl Allowances for CountedAllowances {
        fn daily(
            &self,
            tenants: BTreeSet<TenantId>,
        ) -> BoxFuture<'_, Result<BTreeMap<TenantId, u64>, StoreError>> {
            self.queries.lock().push(tenants.clone());
            let mut allowed = self.allowed.lock().clone();
            allowed.retain(|tenant, _| tenants.contains(tenant));
            let away = *self.away.lock();
            Box::pin(
                async move { if away { Err(StoreError::Unavailable("away".into())) } else { Ok(allowed) } },
            )
        }
    }

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[tokio::test]
    async fn one_query_serves_for_a_second_and_a_failed_one_is_not_repeated_at_once() {
        let a = TenantId(1);
        let b = TenantId(2);
        let reported = Arc::new(CountedAllowances::default());
        *reported.allowed.lock() = [(a, 10)].into();
        let mut allowances = CachedAllowances::default();
        assert_eq!(allowances.of([a], secs(1)).await, [].into());
        assert!(!allowances.is_open());
        allowances.ask(reported.clone());
        assert_eq!(allowances.of([a, b, a], secs(1)).await, [(a, 10)].into());
        *reported.allowed.lock() = [(a, 20), (b, 5)].into();
        assert_eq!(allowances.of([a], secs(1)).await, [(a, 10)].into());
        assert_eq!(allowances.of([a, b], secs(1)).await, [(a, 10), (b, 5)].into());
        assert_eq!(allowances.of([a], secs(2)).await, [(a, 20)].into());
        *reported.away.lock() = true;
        assert_eq!(allowances.of([a], secs(3)).await, [].into());
        *reported.away.lock() = false;
        assert_eq!(allowances.of([a], secs(7)).await, [].into());
        assert_eq!(allowances.of([], secs(8)).await, [].into());
        assert_eq!(allowances.of([b], secs(8)).await, [(b, 5)].into());
        let all: Vec<_> = reported.queries.lock().iter().map(BTreeSet::len).collect();
        assert_eq!(all, [2, 1, 1, 1, 1]);
    }
}
