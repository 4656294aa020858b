//! Explanations of calls at nodes: the tries, and the part of the cache.

use super::*;
use rpcgate_core::node_try::{NodeChoice, NodeTry, TryEnd};
use rpcgate_core::recent::{CacheUse, RecentRequest};

impl Site {
    /// Answers a request through the cache, and returns the record of it.
    async fn remembered(&self, cache: &CacheLayer, body: &'static str) -> RecentRequest {
        let Ok(calls) = cache.layer(self.upstream.clone()).call(self.fixture.calls(body.as_bytes())).await;
        let request = calls.tally().request;
        drop(join(calls, usize::MAX));
        self.fixture.recent.find(request).unwrap()
    }

    fn cache(&self) -> CacheLayer {
        CacheLayer::new(Arc::new(BoundedReplies::new(1 << 20)), self.fixture.clock.clone())
    }
}

fn uses(request: &RecentRequest) -> Vec<CacheUse> {
    request.calls.iter().map(|call| call.facts.cache).collect()
}

/// Returns the calls and the node of a try.
fn places(one: &NodeTry) -> (Vec<usize>, u16) {
    ((0..100).filter(|place| one.calls.has(*place)).collect(), one.node)
}

#[tokio::test]
async fn a_call_that_is_tried_again_has_both_tries_with_their_ends() {
    let bad = ScriptedNode::always(status(500, "oh")).await;
    let good = echo().await;
    let site = Site::new(&[&bad, &good]);
    let request = site.remembered(&site.cache(), r#"{"id":1,"method":"toy_scan"}"#).await;
    let [first, second] = &request.tries[..] else { panic!("{:?}", request.tries) };
    assert_eq!((places(first), first.choice), ((vec![0], 0), NodeChoice::Turn));
    assert!(matches!(first.end, TryEnd::Failed(Fault { sent: true, .. })), "{first:?}");
    assert_eq!(
        (places(second), second.choice, second.end),
        ((vec![0], 1), NodeChoice::OnlyHealthy, TryEnd::Answered)
    );
    assert!(first.began.is_some() && first.took.is_some() && second.took.is_some());
    assert_eq!((first.pool, second.pool), (site.pool.pool.number(), site.pool.pool.number()));
    let call = &request.calls[0];
    assert_eq!((call.method.as_str(), call.facts.outcome), ("toy_scan", Outcome::Answered));
    assert_eq!(uses(&request), [CacheUse::Uncacheable]);
}

#[tokio::test]
async fn a_call_without_an_answer_has_its_fault() {
    let refusing = Refusing::new();
    let site = Site::of(Fixture::new(), PoolFixture::with(&[refusing.url()], PoolLimits::default()));
    let request = site.remembered(&site.cache(), r#"{"id":1,"method":"toy_read"}"#).await;
    let fault = Fault::unsent(Cause::Connect);
    assert_eq!((request.calls[0].facts.fault, request.calls[0].facts.cu), (Some(fault), 0));
    let [only] = &request.tries[..] else { panic!("{:?}", request.tries) };
    assert_eq!((only.choice, only.end), (NodeChoice::Only, TryEnd::Failed(fault)));
    assert_eq!(uses(&request), [CacheUse::Miss]);
}

#[tokio::test]
async fn a_stored_answer_has_no_try() {
    let node = echo().await;
    let site = Site::new(&[&node]);
    let cache = site.cache();
    let call = r#"{"id":1,"method":"toy_read"}"#;
    let first = site.remembered(&cache, call).await;
    let second = site.remembered(&cache, call).await;
    assert_eq!((uses(&first), first.tries.len()), (vec![CacheUse::Miss], 1));
    assert_eq!((uses(&second), second.tries.len()), (vec![CacheUse::Hit], 0));
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn the_calls_of_a_batch_have_the_try_of_their_own_request() {
    let node = echo().await;
    let site = Site::new(&[&node]);
    let cache = site.cache();
    site.remembered(&cache, r#"{"id":1,"method":"toy_read"}"#).await;
    let batch = r#"[{"id":1,"method":"toy_scan"},{"id":2,"method":"toy_read"},{"id":3,"method":"toy_scan"},
        {"id":4,"method":"toy_read","params":[7]},{"id":5,"method":"toy_read","params":[7]}]"#;
    let request = site.remembered(&cache, batch).await;
    assert!(request.facts.is_batch);
    let miss = CacheUse::Miss;
    assert_eq!(
        uses(&request),
        [CacheUse::Uncacheable, CacheUse::Hit, CacheUse::Uncacheable, miss, CacheUse::Joined]
    );
    let mut tried: Vec<_> = request.tries.iter().flat_map(|one| places(one).0).collect();
    tried.sort_unstable();
    assert_eq!(tried, [0, 2, 3]);
    assert!(request.tries.iter().all(|one| one.end == TryEnd::Answered));
}

#[tokio::test]
async fn a_broadcast_in_a_batch_has_a_try_of_its_own() {
    let node = echo().await;
    let site = Site::new(&[&node]);
    let batch = r#"[{"id":1,"method":"toy_scan"},{"id":2,"method":"toy_send"},{"id":3,"method":"toy_scan"}]"#;
    let request = site.remembered(&site.cache(), batch).await;
    let mut tried: Vec<_> = request.tries.iter().map(|one| places(one).0).collect();
    tried.sort();
    assert_eq!(tried, [vec![0, 2], vec![1]]);
}

#[tokio::test]
async fn a_try_that_its_client_did_not_wait_for_is_running() {
    let node = ScriptedNode::serve(|_, mut wire: Wire| async move {
        wire.request().await;
        wire.closed().await;
    })
    .await;
    let site = Site::new(&[&node]);
    let calls = site.fixture.calls(br#"{"id":1,"method":"toy_scan"}"#);
    let request = calls.tally().request;
    let mut upstream = site.upstream.clone();
    {
        let mut answering = std::pin::pin!(upstream.call(calls));
        let sent = async {
            while node.seen().is_empty() {
                assert!(answering.as_mut().now_or_never().is_none());
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), sent).await.unwrap();
    }
    let request = site.fixture.recent.find(request).unwrap();
    assert_eq!(request.calls[0].facts.outcome, Outcome::Abandoned);
    assert_eq!((request.tries[0].end, request.tries[0].took), (TryEnd::Running, None));
}
