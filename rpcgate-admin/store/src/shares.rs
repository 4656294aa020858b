//! Limits on the read connections that usage queries hold at a time: the queries of one tenant, and the large queries
//! of all tenants. A tenant with many queries waits for its own queries and does not take the connections of others.

use super::error::StoreError;
use super::queue::Queue;
use rpcgate_core::caller::TenantId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// The number of queries of one tenant that run at once. A store has four read connections.
const PER_TENANT: u32 = 2;

const LARGE_PER_TENANT: u32 = 1;

const LARGE: u32 = 2;

/// The number of queries of one tenant that may wait; further ones fail at once.
const MAX_WAITING: usize = 16;

/// The longest wait for each permit of a query.
const TIMEOUT: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(super) struct UsagePermits {
    tenants: Mutex<HashMap<TenantId, Weak<TenantPermits>>>,
    large: Queue,
}

#[derive(Debug)]
struct TenantPermits {
    queries: Queue,
    large: Queue,
}

pub(super) struct QueryPermit<'s> {
    all: &'s UsagePermits,
    permits: Arc<TenantPermits>,
    _permit: OwnedSemaphorePermit,
}

impl Default for UsagePermits {
    fn default() -> Self {
        UsagePermits { tenants: Mutex::default(), large: Queue::new(LARGE) }
    }
}

impl UsagePermits {
    /// Waits until a query of `tenant` may run.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if too many queries wait, or the wait takes too long.
    pub(super) async fn acquire(&self, tenant: TenantId) -> Result<QueryPermit<'_>, StoreError> {
        let permits = self.permits(tenant);
        let permit = permits.queries.wait(TIMEOUT).await.map_err(|_| StoreError::Busy)?;
        Ok(QueryPermit { all: self, permits, _permit: permit })
    }

    fn permits(&self, tenant: TenantId) -> Arc<TenantPermits> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(permits) = tenants.get(&tenant).and_then(Weak::upgrade) {
            return permits;
        }
        tenants.retain(|_, permits| permits.strong_count() > 0);
        let queries = Queue::with_limit(PER_TENANT, MAX_WAITING);
        let permits =
            Arc::new(TenantPermits { queries, large: Queue::with_limit(LARGE_PER_TENANT, MAX_WAITING) });
        tenants.insert(tenant, Arc::downgrade(&permits));
        permits
    }
}

impl QueryPermit<'_> {
    /// Waits until the query may run although it is large.
    ///
    /// # Errors
    /// Those of [`UsagePermits::acquire`].
    pub(super) async fn acquire_large(&self) -> Result<impl Send, StoreError> {
        // The tenant's own permit comes first, so that each tenant has at most one query in the shared queue.
        let own = self.permits.large.wait(TIMEOUT).await.map_err(|_| StoreError::Busy)?;
        let permit = self.all.large.wait(TIMEOUT).await.map_err(|_| StoreError::Busy)?;
        Ok((own, permit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    fn is_waiting(work: &mut Pin<Box<impl Future>>) -> bool {
        work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    // Shows (Usage).
    #[tokio::test(start_paused = true)]
    async fn a_tenant_runs_two_queries_at_a_time_and_others_run_theirs() {
        let all = UsagePermits::default();
        let held = (all.acquire(TenantId(1)).await.unwrap(), all.acquire(TenantId(1)).await.unwrap());
        let mut third = Box::pin(all.acquire(TenantId(1)));
        assert!(is_waiting(&mut third));
        assert!(all.acquire(TenantId(2)).await.is_ok());
        drop(held.0);
        assert!(third.await.is_ok());
    }

    // Shows (Usage).
    #[tokio::test(start_paused = true)]
    async fn a_tenant_with_sixteen_waiting_queries_is_refused_at_once_and_long_waits_end() {
        let all = UsagePermits::default();
        let _held = (all.acquire(TenantId(1)).await.unwrap(), all.acquire(TenantId(1)).await.unwrap());
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(all.acquire(TenantId(1)))).collect();
        assert!(waiting.iter_mut().all(is_waiting));
        let mut more = Box::pin(all.acquire(TenantId(1)));
        assert!(!is_waiting(&mut more));
        let first = waiting.swap_remove(0).await;
        assert!(matches!(first.err(), Some(StoreError::Busy)), "its patience is over");
    }

    // Shows (Usage).
    #[tokio::test(start_paused = true)]
    async fn two_large_queries_run_at_a_time_and_at_most_one_of_a_tenant() {
        let all = UsagePermits::default();
        let ours = all.acquire(TenantId(1)).await.unwrap();
        let also_ours = all.acquire(TenantId(1)).await.unwrap();
        let theirs = all.acquire(TenantId(2)).await.unwrap();
        let others = all.acquire(TenantId(3)).await.unwrap();
        let large = ours.acquire_large().await.unwrap();
        let mut second = Box::pin(also_ours.acquire_large());
        assert!(is_waiting(&mut second));
        let also_large = theirs.acquire_large().await.unwrap();
        let mut third = Box::pin(others.acquire_large());
        assert!(is_waiting(&mut third));
        drop(also_large);
        assert!(third.await.is_ok());
        drop(large);
        assert!(second.await.is_ok());
    }

    // Shows (Usage).
    #[tokio::test]
    async fn a_tenant_without_running_queries_is_forgotten() {
        let all = UsagePermits::default();
        for tenant in 0..1_000 {
            let _part = all.acquire(TenantId(tenant)).await.unwrap();
        }
        assert!(all.tenants.lock().unwrap().len() <= 2);
    }
}
