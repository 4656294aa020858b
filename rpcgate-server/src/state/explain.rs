//! Explains requests that this gateway remembers when the management side asks.

use parking_lot::Mutex;
use rpcgate_core::caller::{RequestId, TenantId};
use rpcgate_core::clock::Clock;
use rpcgate_store::{Explanation, ExplanationRequest, Store, StoreError};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The polling interval if the database does not notify.
const EVERY: Duration = Duration::from_millis(400);
/// The time limit of a round. Later rows may be outdated; the next round finds those that are not.
const LONG: Duration = Duration::from_secs(1);

/// A memory of requests: returns the tenant and the explanation of a request.
type Source = dyn Fn(RequestId) -> Option<(TenantId, Explanation)> + Send + Sync;

/// The gateway's memory; absent before the gateway has started, or if it remembers nothing.
#[derive(Default)]
pub(super) struct ExplanationSource(Mutex<Option<Arc<Source>>>);

impl fmt::Debug for ExplanationSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExplanationSource")
    }
}

impl ExplanationSource {
    pub(super) fn attach(&self, source: Arc<Source>) {
        *self.0.lock() = Some(source);
    }

    fn get(&self) -> Option<Arc<Source>> {
        self.0.lock().clone()
    }
}

/// Answers queries until `closing`. `notify` starts a round at once.
pub(super) async fn run(
    store: Store,
    source: Arc<ExplanationSource>,
    notify: Arc<Notify>,
    clock: Arc<dyn Clock>,
    closing: CancellationToken,
) {
    let mut looked_up = HashSet::new();
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            () = notify.notified() => {}
            () = tokio::time::sleep(EVERY) => {}
        }
        let Some(source) = source.get() else { continue };
        // Each call of the store has its own deadline. Cutting off a write would break its connection to a file.
        let done = tokio::select! {
            done = answer_all(&store, &source, &*clock, &mut looked_up) => done,
            () = closing.cancelled() => return,
        };
        if let Err(error) = done {
            tracing::debug!(%error, "no request could be explained");
        }
    }
}

/// Answers the open rows that are not in `looked_up`, and adds them to it.
async fn answer_all(
    store: &Store,
    source: &Arc<Source>,
    clock: &dyn Clock,
    looked_up: &mut HashSet<u128>,
) -> Result<(), StoreError> {
    let requests = store.open_explanation_requests(clock.now()).await?;
    let open: HashSet<u128> = requests.iter().map(|row| row.id).collect();
    looked_up.retain(|id| open.contains(id));
    let end = clock.elapsed().saturating_add(LONG);
    for ExplanationRequest { id, request, tenant } in requests {
        if looked_up.contains(&id) {
            continue;
        }
        let source = source.clone();
        // A search takes as much time as many calls.
        let found = tokio::task::spawn_blocking(move || source(request)).await.unwrap_or_default();
        // Other tenants must not learn that the request exists.
        if let Some((owner, explanation)) = found
            && tenant.is_none_or(|tenant| tenant == owner)
        {
            store.answer_explanation_request(id, owner, &explanation).await?;
        }
        looked_up.insert(id);
        if clock.elapsed() > end {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::clock::{ManualClock, Time};
    use rpcgate_store::url_of;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    const OWNER: TenantId = TenantId(3);
    const OTHER: TenantId = TenantId(4);

    struct Fixture {
        store: Store,
        clock: Arc<ManualClock>,
        looks: Arc<AtomicU32>,
        source: Arc<Source>,
        looked_up: HashSet<u128>,
        _dir: tempfile::TempDir,
    }

    impl Fixture {
        /// Creates a gateway that remembers `request` of [`OWNER`].
        async fn new(request: RequestId) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(&url_of(&dir.path().join("rpcgate.db")), true).await.unwrap();
            let looks = Arc::new(AtomicU32::new(0));
            let counted = looks.clone();
            let source: Arc<Source> = Arc::new(move |sought| {
                counted.fetch_add(1, Relaxed);
                let explanation = Explanation { chain: "eth".into(), ..Explanation::default() };
                (sought == request).then_some((OWNER, explanation))
            });
            let clock = Arc::new(ManualClock::at(Time::from_secs(1_790_000_000)));
            Fixture { store, clock, looks, source, looked_up: HashSet::new(), _dir: dir }
        }

        async fn ask(&self, request: RequestId, tenant: Option<TenantId>) -> u128 {
            self.store.ask_explanation(request, tenant, self.clock.now()).await.unwrap()
        }

        async fn answer(&mut self) {
            answer_all(&self.store, &self.source, &*self.clock, &mut self.looked_up).await.unwrap();
        }

        async fn is_answered(&self, id: u128) -> bool {
            self.store.explanation(id).await.unwrap().is_some()
        }
    }

    #[tokio::test]
    async fn the_gateway_that_remembers_a_request_explains_it_to_its_owner_and_to_operators() {
        let mut one = Fixture::new(RequestId(1)).await;
        let mut expectations = Vec::new();
        for tenant in [Some(OWNER), None, Some(OTHER)] {
            expectations.push((one.ask(RequestId(1), tenant).await, tenant != Some(OTHER)));
        }
        let unknown = one.ask(RequestId(2), Some(OWNER)).await;
        one.answer().await;
        for (id, expected) in expectations {
            assert_eq!(one.is_answered(id).await, expected);
        }
        assert!(!one.is_answered(unknown).await);
    }

    #[tokio::test]
    async fn the_one_of_two_gateways_that_remembers_a_request_answers() {
        let mut one = Fixture::new(RequestId(1)).await;
        let mut two = Fixture { store: one.store.clone(), ..Fixture::new(RequestId(2)).await };
        let first = one.ask(RequestId(1), Some(OWNER)).await;
        let second = one.ask(RequestId(2), Some(OWNER)).await;
        two.answer().await;
        assert_eq!((two.is_answered(first).await, two.is_answered(second).await), (false, true));
        one.answer().await;
        assert!(one.is_answered(first).await);
    }

    #[tokio::test]
    async fn a_look_that_takes_long_leaves_the_rest_to_the_next() {
        let mut one = Fixture::new(RequestId(2)).await;
        let clock = one.clock.clone();
        let search = one.source.clone();
        one.source = Arc::new(move |request: RequestId| {
            clock.advance(2 * LONG);
            search(request)
        });
        one.ask(RequestId(1), None).await;
        one.clock.advance(LONG);
        let second = one.ask(RequestId(2), None).await;
        one.answer().await;
        assert_eq!((one.looks.load(Relaxed), one.is_answered(second).await), (1, false));
        one.answer().await;
        assert_eq!((one.looks.load(Relaxed), one.is_answered(second).await), (2, true));
    }

    #[tokio::test]
    async fn a_missing_request_is_not_searched_again_and_is_forgotten_with_its_row() {
        let mut one = Fixture::new(RequestId(1)).await;
        let requests = one.ask(RequestId(2), Some(OWNER)).await;
        for _ in 0..3 {
            one.answer().await;
        }
        assert_eq!((one.looks.load(Relaxed), one.looked_up.len()), (1, 1));
        one.store.end_asking(requests).await.unwrap();
        one.answer().await;
        assert_eq!((one.looks.load(Relaxed), one.looked_up.len()), (1, 0));
    }
}
