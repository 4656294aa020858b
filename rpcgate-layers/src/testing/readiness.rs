//! Checks that every layer polls its inner service ready before it calls it. Each layer wraps a strict mock, which
//! panics if it is called without, and the limits of tower.

use super::{Fixture, ScriptedService};
use crate::call::batch::BatchLayer;
use crate::call::cache::{BoundedReplies, CacheLayer};
use crate::call::closed::ClosedLayer;
use crate::call::each::EachLayer;
use crate::call::heavy::HeavyLayer;
use crate::call::lists::ListsLayer;
use crate::call::overload::OverloadLayer;
use crate::call::pace::PaceLayer;
use crate::call::quota::QuotaLayer;
use crate::call::served::ServedLayer;
use crate::call::split::SplitBatchLayer;
use crate::call::window::WindowLayer;
use crate::foreign::caller_of;
use crate::request::authenticate::AuthenticateLayer;
use crate::request::message::{Authenticated, PendingResponse, Received, Routed, Target};
use crate::request::route::RouteLayer;
use crate::request::safeguard::SafeguardLayer;
use crate::request::scope::ScopeLayer;
use crate::request::suspend::SuspendLayer;
use crate::respond::RespondLayer;
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::Full;
use rpcgate_core::backend::directory::MemoryDirectory;
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::{Before, CallState, CallView, Calls, Parsed, Reserved, Settled};
use rpcgate_core::caller::{CallerRef, RequestId};
use rpcgate_core::chain::{ChainName, MethodRule};
use rpcgate_core::clock::Clock;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::secret::KeyHash;
use rpcgate_core::tally::Transport;
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Semaphore;
use tower::buffer::BufferLayer;
use tower::limit::ConcurrencyLimitLayer;
use tower::load_shed::LoadShedLayer;
use tower::timeout::TimeoutLayer;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
use tower_layer::Layer;
use tower_service::Service;
use tower_test::mock::{Mock, pair};

const READ: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"toy_read","params":[1]}"#;

fn once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Sends `request` through `layer` to a mock that becomes ready late, and lets `respond` choose the answer of the mock.
/// A layer with `waits` is ready immediately and polls the mock later.
async fn sees_to_readiness<L, Req, In, Out>(
    layer: L,
    request: Req,
    waits: bool,
    respond: impl FnOnce(In) -> Out,
) where
    L: Layer<Mock<In, Out>>,
    L::Service: Service<Req>,
    In: Send + 'static,
    Out: Send + 'static,
{
    let name = std::any::type_name::<L>();
    let (mock, mut handle) = pair::<In, Out>();
    let mut service = layer.layer(mock);
    handle.allow(0);
    let is_ready = once(service.ready()).is_ready();
    assert_eq!(is_ready, waits, "{name} says whether its inner service is ready");
    if !waits {
        handle.allow(1);
        assert!(once(service.ready()).is_ready(), "{name}");
    }
    let mut response = pin!(service.call(request));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(response.as_mut().poll(&mut cx).is_pending(), "{name}");
    if waits {
        assert!(once(handle.next_request()).is_pending(), "{name} waits until its inner service is ready");
        handle.allow(1);
        assert!(response.as_mut().poll(&mut cx).is_pending(), "{name}");
    }
    let (inner, sender) = handle.next_request().await.expect(name);
    sender.send_response(respond(inner));
    let served = tokio::time::timeout(Duration::from_secs(5), response).await;
    assert!(matches!(served, Ok(Ok(_))), "{name}");
}

fn received(fixture: &Fixture) -> Received<Full<Bytes>> {
    Received {
        request: Box::new(Request::post("/toy").header("apikey", "key").body(Full::from(READ)).unwrap()),
        id: RequestId::new(fixture.now()),
        arrival: fixture.now(),
        started: fixture.clock.elapsed(),
    }
}

fn authenticated(fixture: &Fixture, body: &'static [u8]) -> Authenticated<Full<Bytes>> {
    Authenticated {
        request: Box::new(Request::new(Full::from(body))),
        target: Target::JsonRpc,
        tally: fixture.tally(),
    }
}

fn settle<A: Before<Settled>>(calls: Calls<A>) -> Calls<Settled> {
    once(ScriptedService::default().call(calls))
        .map(|calls| calls.unwrap_or_else(|never: Infallible| match never {}))
        .expect_ready()
}

trait ExpectReady<T> {
    fn expect_ready(self) -> T;
}

impl<T> ExpectReady<T> for Poll<T> {
    fn expect_ready(self) -> T {
        match self {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it does not wait"),
        }
    }
}

#[tokio::test]
async fn every_layer_of_requests_polls_its_inner_service_ready() {
    let fixture = Fixture::new();
    let refused = |_: Received<Full<Bytes>>| PendingResponse::refused(Refusal::Closed);
    let request = Request::new(Full::from(READ));
    sees_to_readiness(RespondLayer::new(fixture.clock.clone()), request, false, refused).await;

    let chains = Arc::new(ArcSwap::from_pointee([fixture.chain.clone()].into_iter().collect()));
    let refused = |_: Routed<Full<Bytes>>| PendingResponse::refused(Refusal::Closed);
    sees_to_readiness(RouteLayer::new(chains), received(&fixture), false, refused).await;

    let refused =
        |known: Authenticated<Full<Bytes>>| PendingResponse::refused_unread(known.tally, Refusal::Closed);
    let directory = MemoryDirectory::new([(KeyHash::of("key"), fixture.caller.clone())]);
    let routed = Routed {
        received: received(&fixture),
        chain: fixture.chain.clone(),
        transport: Transport::Http,
        target: Target::JsonRpc,
    };
    let layer = AuthenticateLayer::new(Arc::new(directory), fixture.accounting());
    sees_to_readiness(layer, routed, false, refused).await;
    sees_to_readiness(SafeguardLayer::by(Arc::default()), authenticated(&fixture, READ), false, refused)
        .await;
    sees_to_readiness(SuspendLayer::new(), authenticated(&fixture, READ), false, refused).await;
    sees_to_readiness(ScopeLayer::new(), authenticated(&fixture, READ), false, refused).await;
    sees_to_readiness(BatchLayer::new(), authenticated(&fixture, READ), true, settle::<Parsed>).await;
}

#[tokio::test]
async fn every_layer_of_calls_polls_its_inner_service_ready() {
    let fixture = Fixture::new();
    let counters = fixture.counters.clone();
    let calls = || fixture.calls(READ);
    sees_to_readiness(ListsLayer::new(), calls(), false, settle).await;
    sees_to_readiness(OverloadLayer::new(fixture.clock.clone()), calls(), false, settle).await;
    sees_to_readiness(WindowLayer::new(counters.clone()), calls(), false, settle).await;
    sees_to_readiness(ServedLayer::new(), calls(), false, settle).await;
    sees_to_readiness(PaceLayer::new(), calls(), false, settle).await;
    sees_to_readiness(HeavyLayer::new(), calls(), false, settle).await;
    sees_to_readiness(ClosedLayer::new(), calls(), false, settle).await;
    sees_to_readiness(QuotaLayer::new(counters), calls(), false, settle).await;
    let each = EachLayer::new(service_fn(async |_| Ok::<_, Refusal>(None::<Bytes>)));
    sees_to_readiness(each, calls(), false, settle::<Parsed>).await;
    let cache = CacheLayer::new(Arc::new(BoundedReplies::new(1 << 20)), fixture.clock.clone());
    sees_to_readiness(cache, calls(), false, settle).await;
}

/// Returns a foreign request, with a caller in its extensions and its key in the query.
fn foreign(fixture: &Fixture) -> Request<Full<Bytes>> {
    let mut request = Request::get("/toy?apikey=key").body(Full::from(READ)).unwrap();
    request.extensions_mut().insert(fixture.caller.clone());
    request
}

fn call(request: &Request<Full<Bytes>>) -> Option<(CallerRef<'_>, CallView<'_>)> {
    let rule = MethodRule::new(5).cached(CacheRule::secs(2));
    Some((caller_of(request)?, CallView::new(ChainName::new("toy"), "toy_read", rule)))
}

fn chain(request: &Request<Full<Bytes>>) -> Option<(CallerRef<'_>, ChainName)> {
    Some((caller_of(request)?, ChainName::new("toy")))
}

fn found(_: Request<Full<Bytes>>) -> Response<Bytes> {
    Response::new(Bytes::new())
}

#[tokio::test]
async fn every_layer_over_foreign_requests_polls_its_inner_service_ready() {
    let fixture = Fixture::new();
    let clock = fixture.clock.clone();
    let counters = fixture.counters.clone();
    sees_to_readiness(SuspendLayer::new().with_caller(chain), foreign(&fixture), false, found).await;
    sees_to_readiness(ScopeLayer::new().with_caller(chain), foreign(&fixture), false, found).await;
    let gates = (
        ListsLayer::new().with_call(clock.clone(), call),
        ServedLayer::new().with_call(clock.clone(), call),
        PaceLayer::new().with_call(clock.clone(), call),
        HeavyLayer::new().with_call(clock.clone(), call),
        ClosedLayer::new().with_call(clock.clone(), call),
    );
    sees_to_readiness(gates, foreign(&fixture), false, found).await;
    let overload = OverloadLayer::new(clock.clone()).with_caller(chain);
    sees_to_readiness(overload, foreign(&fixture), false, found).await;
    let windows = WindowLayer::new(counters.clone()).with_caller(clock.clone(), caller_of);
    sees_to_readiness(windows, foreign(&fixture), false, found).await;
    let quota = QuotaLayer::new(counters).with_call(clock.clone(), call);
    sees_to_readiness(quota, foreign(&fixture), false, found).await;
    let cache = CacheLayer::new(Arc::new(BoundedReplies::new(1 << 20)), clock.clone())
        .with_call(|request: &Request<Full<Bytes>>| call(request).map(|(_, call)| call));
    sees_to_readiness(cache, foreign(&fixture), false, found).await;
    let safeguard = SafeguardLayer::by(Arc::default()).over_http(clock.clone());
    sees_to_readiness(safeguard, foreign(&fixture), false, found).await;
    let directory = MemoryDirectory::new([(KeyHash::of("key"), fixture.caller.clone())]);
    let known = AuthenticateLayer::over_http(Arc::new(directory), clock.clone());
    sees_to_readiness(known, foreign(&fixture), false, found).await;
    let caller = fixture.caller.clone();
    let looked_up =
        AuthenticateLayer::with_lookup(clock, move |_| std::future::ready(Ok(Some(caller.clone()))));
    sees_to_readiness(looked_up, foreign(&fixture), false, found).await;
    let split = SplitBatchLayer::new();
    let answered = |request: Request<Bytes>| Response::new(Full::from(request.into_body()));
    sees_to_readiness(split, foreign(&fixture), false, answered).await;
}

/// The end of a stack. It answers when permitted, and counts its calls in progress.
#[derive(Clone)]
struct Slow {
    gate: Arc<Semaphore>,
    working: Arc<Semaphore>,
}

impl Slow {
    fn new(most: usize) -> Self {
        Slow { gate: Arc::new(Semaphore::new(0)), working: Arc::new(Semaphore::new(most)) }
    }

    fn service<A>(&self) -> BoxCloneSyncService<Calls<A>, Calls<Settled>, Infallible>
    where
        A: Before<Settled> + 'static,
    {
        let slow = self.clone();
        BoxCloneSyncService::new(service_fn(move |calls: Calls<A>| {
            let slow = slow.clone();
            async move {
                let working = slow.working.try_acquire().expect("no more at a time than are allowed");
                slow.gate.acquire().await.expect("it is never closed").forget();
                drop(working);
                ScriptedService::default().call(calls).await
            }
        }))
    }
}

async fn batch<S>(service: S, fixture: &Fixture, body: &'static [u8]) -> PendingResponse
where
    S: Service<Calls<Parsed>, Response = Calls<Settled>, Error: Into<Refusal>> + Clone,
{
    let service = BatchLayer::new().layer(service);
    let Ok(pending) = service.oneshot(authenticated(fixture, body)).await;
    pending
}

#[tokio::test(start_paused = true)]
async fn a_concurrency_limit_behind_batch_admits_requests_one_after_another() {
    let fixture = Fixture::new();
    let slow = Slow::new(2);
    let limited = ConcurrencyLimitLayer::new(2).layer(slow.service());
    let requests = (0..5).map(|_| batch(limited.clone(), &fixture, READ));
    let release = async {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            slow.gate.add_permits(1);
        }
    };
    let (responses, ()) = tokio::join!(join_all(requests), release);
    assert!(responses.iter().all(|response| response.status == 200));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_its_request_waits_frees_its_slot() {
    let fixture = Fixture::new();
    let slow = Slow::new(1);
    let limited = ConcurrencyLimitLayer::new(1).layer(slow.service::<Parsed>());
    let mut service = BatchLayer::new().layer(limited.clone());
    let mut first = Box::pin(service.call(authenticated(&fixture, READ)));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut cx).is_pending());
    {
        let mut waiting = pin!(service.call(authenticated(&fixture, READ)));
        assert!(waiting.as_mut().poll(&mut cx).is_pending(), "one call at a time");
    }
    slow.gate.add_permits(2);
    assert!(first.await.is_ok());
    // Another connection: a permit held by an idle service of the first one would be missing here.
    let response = tokio::time::timeout(Duration::from_secs(1), batch(limited, &fixture, READ)).await;
    assert_eq!(response.unwrap().status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_load_shedder_behind_batch_refuses_excess_calls_with_503() {
    let fixture = Fixture::new();
    let slow = Slow::new(1);
    let shedding = ServiceBuilder::new()
        .layer(LoadShedLayer::new())
        .layer(ConcurrencyLimitLayer::new(1))
        .service(slow.service());
    let mut first = pin!(batch(shedding.clone(), &fixture, READ));
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let response = batch(shedding, &fixture, READ).await;
    assert_eq!((response.status.as_u16(), response.refusal), (503, Some(Refusal::Overloaded)));
    slow.gate.add_permits(1);
    assert_eq!(first.await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_behind_batch_is_answered_and_the_aborted_call_is_recorded() {
    let fixture = Fixture::new();
    let timed = TimeoutLayer::new(Duration::from_secs(1)).layer(Slow::new(1).service());
    let response = batch(timed, &fixture, READ).await;
    assert_eq!(response.status, 503);
    let records = fixture.sink.records();
    assert_eq!(records[0].lines[0].outcome, Outcome::Abandoned);
}

#[tokio::test(start_paused = true)]
async fn a_buffer_behind_batch_and_cache_serves_and_a_dead_worker_is_a_recorded_503() {
    let fixture = Fixture::new();
    let cache = CacheLayer::new(Arc::new(BoundedReplies::new(1 << 20)), fixture.clock.clone());
    let (buffered, worker) =
        tower::buffer::Buffer::pair(cache.layer(BufferLayer::new(1).layer(ScriptedService::default())), 1);
    let worker = tokio::spawn(worker);
    for _ in 0..3 {
        let response = batch(buffered.clone(), &fixture, READ).await;
        assert_eq!(
            (response.status.as_u16(), &response.body[..]),
            (200, &br#"{"jsonrpc":"2.0","id":1,"result":"toy_read"}"#[..])
        );
    }
    worker.abort();
    let _ = worker.await;
    let response = batch(buffered, &fixture, READ).await;
    assert_eq!((response.status.as_u16(), response.rated), (503, true));
    assert!(response.tally.is_some_and(|tally| tally.refused == Some(Refusal::Overloaded)));
}

/// Identical sets behind a concurrency limit of one call: they wait for each other's permits and answers.
#[tokio::test(start_paused = true)]
async fn a_concurrency_limit_behind_the_cache_does_not_lock_sets_that_follow_each_other() {
    let fixture = Fixture::new();
    let slow = Slow::new(1);
    slow.gate.add_permits(100);
    let limited = ConcurrencyLimitLayer::new(1).layer(slow.service::<rpcgate_core::call::Cached>());
    let cache = CacheLayer::new(Arc::new(BoundedReplies::new(1 << 20)), fixture.clock.clone()).layer(limited);
    let requests = (0..8).map(|_| cache.clone().oneshot(fixture.calls(READ).at::<Reserved>()));
    let settled = tokio::time::timeout(Duration::from_secs(60), join_all(requests)).await.unwrap();
    for calls in settled {
        assert!(matches!(calls.unwrap().tally().entries[0].state, CallState::Answered(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_whose_leader_was_lost_polls_ready_again_before_it_leads_itself() {
    let fixture = Fixture::new();
    let (mock, mut handle) = pair::<Calls<rpcgate_core::call::Cached>, Calls<Settled>>();
    let cache = CacheLayer::new(Arc::new(BoundedReplies::new(1 << 20)), fixture.clock.clone()).layer(mock);
    let mut tasks = Vec::new();
    // A batch leads, and its answer says nothing about either call; a single call follows it.
    for body in [&br#"[{"id":1,"method":"toy_read","params":[1]},{"id":2,"method":"toy_id"}]"#[..], READ] {
        let calls = fixture.calls(body).at::<Reserved>();
        tasks.push(tokio::spawn(cache.clone().oneshot(calls)));
        tokio::task::yield_now().await;
    }
    let (mut leader, sender) = handle.next_request().await.unwrap();
    for entry in &mut leader.tally_mut().entries {
        entry.state = CallState::Failed(Fault::sent(Cause::Oversize));
    }
    let (follower, follower_sender) = handle.next_request().await.unwrap();
    follower_sender.send_response(follower.at());
    handle.allow(0);
    sender.send_response(leader.at());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(once(handle.next_request()).is_pending(), "it waits until its inner service is ready");
    handle.allow(1);
    let (again, sender) = handle.next_request().await.unwrap();
    sender.send_response(settle(again));
    for task in tasks {
        assert!(task.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn an_error_between_the_outer_layers_is_a_refusal_of_the_outermost() {
    let fixture = Fixture::new();
    for (error, expected) in
        [(BoxError::from("out of order"), 503), (BoxError::from(Refusal::Suspended), 402)]
    {
        let mut error = Some(error);
        let inner = service_fn(move |_: Received<()>| {
            std::future::ready(Err::<PendingResponse, _>(error.take().expect("called once")))
        });
        let Ok(response) =
            RespondLayer::new(fixture.clock.clone()).layer(inner).oneshot(Request::new(())).await;
        assert_eq!(response.status(), expected);
        assert!(response.headers().contains_key("x-request-id"));
    }
}

#[tokio::test]
async fn a_service_that_failed_to_become_ready_is_not_polled_again_and_disconnects() {
    let fixture = Fixture::new();
    let (mock, mut handle) = pair::<Received<()>, PendingResponse>();
    handle.send_error("gone");
    let mut service = RespondLayer::new(fixture.clock.clone()).layer(mock);
    for _ in 0..2 {
        let Ok(ready) = service.ready().await;
        let Ok(response) = ready.call(Request::new(())).await;
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["connection"], "close");
    }

    // Fails once; a clone of it has not failed.
    #[derive(Clone)]
    struct Flaky(Arc<std::sync::atomic::AtomicBool>);
    impl Service<Received<()>> for Flaky {
        type Response = PendingResponse;
        type Error = BoxError;
        type Future = std::future::Ready<Result<PendingResponse, BoxError>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            let failed = self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
            Poll::Ready(if failed { Ok(()) } else { Err("once".into()) })
        }
        fn call(&mut self, _: Received<()>) -> Self::Future {
            std::future::ready(Ok(PendingResponse::refused(Refusal::NoKey)))
        }
    }
    let mut service = RespondLayer::new(fixture.clock.clone()).layer(Flaky(Arc::default()));
    for expected in [503, 503] {
        let Ok(ready) = service.ready().await;
        let Ok(response) = ready.call(Request::new(())).await;
        assert_eq!(response.status(), expected, "the same instance stays out of use");
    }
    let Ok(response) = service.clone().oneshot(Request::new(())).await;
    assert_eq!(response.status(), 401);
}
