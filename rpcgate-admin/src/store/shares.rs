//! How many of a database's readers questions about usage have at a time: those of one tenant, and large ones of all
//! tenants. Whoever asks much waits for its own questions, and not for anybody's place.

use super::error::StoreError;
use super::queue::Queue;
use rpcgate_core::caller::TenantId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Questions of a tenant that are answered at once. A store has four readers.
const OF_TENANT: u32 = 2;

/// Large questions of a tenant that are answered at once.
const LARGE_OF_TENANT: u32 = 1;

/// Large questions of all tenants that are answered at once.
const LARGE: u32 = 2;

/// Questions of a tenant that wait; who comes then is told at once to come back.
const MOST_WAITING: usize = 16;

/// How long a question waits for each of its places.
const PATIENCE: Duration = Duration::from_secs(4);

/// What each tenant has of the readers.
#[derive(Debug)]
pub(super) struct Shares {
    /// Those that have questions under way.
    tenants: Mutex<HashMap<TenantId, Weak<Share>>>,
    large: Queue,
}

#[derive(Debug)]
struct Share {
    questions: Queue,
    large: Queue,
}

/// A place for a question, until it is dropped.
pub(super) struct Part<'s> {
    shares: &'s Shares,
    share: Arc<Share>,
    _place: OwnedSemaphorePermit,
}

impl Default for Shares {
    fn default() -> Self {
        Shares { tenants: Mutex::default(), large: Queue::new(LARGE) }
    }
}

impl Shares {
    /// Waits until a question of `tenant` may be answered.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if too many wait, or it would wait too long.
    pub(super) async fn of(&self, tenant: TenantId) -> Result<Part<'_>, StoreError> {
        let share = self.share(tenant);
        let place = share.questions.wait(PATIENCE).await.map_err(|_| StoreError::Busy)?;
        Ok(Part { shares: self, share, _place: place })
    }

    fn share(&self, tenant: TenantId) -> Arc<Share> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = tenants.get(&tenant).and_then(Weak::upgrade) {
            return share;
        }
        tenants.retain(|_, share| share.strong_count() > 0);
        let questions = Queue::of(OF_TENANT, MOST_WAITING);
        let share = Arc::new(Share { questions, large: Queue::of(LARGE_OF_TENANT, MOST_WAITING) });
        tenants.insert(tenant, Arc::downgrade(&share));
        share
    }
}

impl Part<'_> {
    /// Waits until the question may be answered although it is large.
    ///
    /// # Errors
    /// As [`Shares::of`].
    pub(super) async fn large(&self) -> Result<impl Send, StoreError> {
        // Its own place first, so that among those who wait for one of all each tenant is there once.
        let own = self.share.large.wait(PATIENCE).await.map_err(|_| StoreError::Busy)?;
        let place = self.shares.large.wait(PATIENCE).await.map_err(|_| StoreError::Busy)?;
        Ok((own, place))
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

    #[tokio::test(start_paused = true)]
    async fn a_tenant_has_two_places_and_others_have_theirs_meanwhile() {
        let shares = Shares::default();
        let held = (shares.of(TenantId(1)).await.unwrap(), shares.of(TenantId(1)).await.unwrap());
        let mut third = Box::pin(shares.of(TenantId(1)));
        assert!(is_waiting(&mut third));
        assert!(shares.of(TenantId(2)).await.is_ok());
        drop(held.0);
        assert!(third.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_sixteen_waiting_is_told_at_once_and_who_waits_too_long_too() {
        let shares = Shares::default();
        let _held = (shares.of(TenantId(1)).await.unwrap(), shares.of(TenantId(1)).await.unwrap());
        let mut waiting: Vec<_> = (0..MOST_WAITING).map(|_| Box::pin(shares.of(TenantId(1)))).collect();
        assert!(waiting.iter_mut().all(is_waiting));
        let mut more = Box::pin(shares.of(TenantId(1)));
        assert!(!is_waiting(&mut more));
        let first = waiting.swap_remove(0).await;
        assert!(matches!(first.err(), Some(StoreError::Busy)), "its patience is over");
    }

    #[tokio::test(start_paused = true)]
    async fn large_questions_have_two_places_and_one_tenant_has_one_of_them() {
        let shares = Shares::default();
        let (ours, also_ours) =
            (shares.of(TenantId(1)).await.unwrap(), shares.of(TenantId(1)).await.unwrap());
        let (theirs, others) = (shares.of(TenantId(2)).await.unwrap(), shares.of(TenantId(3)).await.unwrap());
        let large = ours.large().await.unwrap();
        let mut second = Box::pin(also_ours.large());
        assert!(is_waiting(&mut second));
        let also_large = theirs.large().await.unwrap();
        let mut third = Box::pin(others.large());
        assert!(is_waiting(&mut third));
        drop(also_large);
        assert!(third.await.is_ok());
        drop(large);
        assert!(second.await.is_ok());
    }

    #[tokio::test]
    async fn whoever_has_no_question_under_way_is_forgotten() {
        let shares = Shares::default();
        for tenant in 0..1_000 {
            let _part = shares.of(TenantId(tenant)).await.unwrap();
        }
        assert!(shares.tenants.lock().unwrap().len() <= 2);
    }
}
