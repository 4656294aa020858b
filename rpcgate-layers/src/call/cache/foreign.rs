//! The cache in front of any client.

use super::singleflight::{Follow, Joined, LeadOutcome, Leads};
use super::{BoundedReplies, Cache, CacheLayer, CacheState};
use crate::foreign::{AcceptAll, AcceptFn, Accepts};
use crate::future::ResponseFuture;
use crate::spawn::TokioSpawn;
use bytes::Bytes;
use http::Response;
use pin_project_lite::pin_project;
use rpcgate_core::adapter::Permanence;
use rpcgate_core::backend::reply_store::{ReplyKey, ReplySought};
use rpcgate_core::cache_rule::{CacheDecision, CacheRule};
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Chain, ChainName, Flags, MethodRule};
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_core::reply::{Form, Rest};
use std::borrow::Cow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tower_service::Service;

/// A response that can be stored as bytes.
pub trait Cacheable: Sized {
    /// Returns the bytes to store; `None` if the response must not be cached.
    fn to_cached(&self) -> Option<Bytes>;

    /// Restores a response; `None` if the bytes are not a stored response.
    fn from_cached(stored: Bytes) -> Option<Self>;

    /// Returns the part that a chain's adapter checks for finality: a raw JSON-RPC `result`, or the body of a REST
    /// response.
    fn content(&self) -> &[u8];
}

impl Cacheable for Bytes {
    fn to_cached(&self) -> Option<Bytes> {
        Some(self.clone())
    }

    fn from_cached(stored: Bytes) -> Option<Self> {
        Some(stored)
    }

    fn content(&self) -> &[u8] {
        self
    }
}

/// Status, headers and body of a success (2xx). Other responses are not cached. A JSON-RPC response would be stored
/// with its id and its error, so put the cache in front of a client that returns results.
impl Cacheable for Response<Bytes> {
    fn to_cached(&self) -> Option<Bytes> {
        let status = self.status();
        let headers = self.headers().clone();
        let body = self.body().clone();
        status.is_success().then(|| Rest { status, headers, body, is_error: false }.stored())
    }

    fn from_cached(stored: Bytes) -> Option<Self> {
        let Rest { status, headers, body, .. } = Rest::restored(stored)?;
        let mut response = Response::new(body);
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        Some(response)
    }

    fn content(&self) -> &[u8] {
        self.body()
    }
}

/// Marks a cache in front of any client. It holds the function that reads requests and the filter for stored responses.
#[derive(Clone)]
pub struct ForeignCache<F, P = AcceptAll> {
    extract: F,
    keeping: P,
    chain: Option<Arc<Chain>>,
}

impl<F, P> fmt::Debug for ForeignCache<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignCache").finish_non_exhaustive()
    }
}

impl CacheLayer {
    /// Adapts the layer to any client. `extract` returns the call of a request: chain, method as sent and parameters
    /// are the key, and the rule decides how long the response is stored. A request without a call (`None`), or whose
    /// rule forbids caching, passes. The new layer shares only the store with this one. Give it a store of its own,
    /// because other kinds of responses have another stored form.
    ///
    /// A call that others follow ends when its own client disconnects. Then one follower sends its own call, and the
    /// rest follow that one. Errors and responses that are not stored are not shared: each follower then sends its own
    /// call.
    pub fn with_call<R, F>(self, extract: F) -> CacheLayer<ForeignCache<F>>
    where
        F: for<'r> Fn(&'r R) -> Option<CallView<'r>>,
    {
        let CacheState { replies, clock, spawn, .. } = &*self.shared;
        CacheLayer {
            shared: CacheState::new(replies.clone(), clock.clone(), spawn.clone()),
            mode: ForeignCache { extract, keeping: AcceptAll, chain: None },
        }
    }

    /// Creates a layer for any client that stores each response for `ttl` under the key of its request. Concurrent
    /// requests with the same key are sent once, as with [`with_call`](CacheLayer::with_call). A request without a key
    /// (`None`) passes. The stored responses use at most 64 MiB of memory.
    ///
    /// ```
    /// use rpcgate_layers::{call::cache::CacheLayer, testing::Fixture};
    /// use std::{convert::Infallible, time::Duration};
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let clock = Fixture::new().clock;
    /// let layer = CacheLayer::keyed(
    ///     |request: &http::Request<u8>| (request.method() == "GET").then(|| request.uri().to_string().into()),
    ///     Duration::from_secs(10),
    /// )
    /// .with_clock(clock.clone())
    /// .with_capacity(1 << 20);
    /// let echo = service_fn(async |request: http::Request<u8>| {
    ///     Ok::<_, Infallible>(http::Response::new(bytes::Bytes::from(vec![*request.body()])))
    /// });
    /// let service = layer.layer(echo);
    /// let send = async |method: &str, body: u8| {
    ///     let request = http::Request::builder().method(method).uri("/oslo").body(body).unwrap();
    ///     service.clone().oneshot(request).await.unwrap().into_body()
    /// };
    /// assert_eq!((send("GET", 1).await, send("GET", 2).await), (vec![1].into(), vec![1].into()));
    /// assert_eq!(send("POST", 3).await, vec![3], "a request without a key passes");
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(send("GET", 4).await, vec![4]);
    /// # });
    /// ```
    pub fn keyed<R, F>(key: F, ttl: Duration) -> CacheLayer<ForeignCache<ByKey<F>>>
    where
        F: for<'r> Fn(&'r R) -> Option<Cow<'r, str>>,
    {
        let extract = ByKey { key, rule: MethodRule::UNLISTED.cached(CacheRule::Short(ttl)) };
        let replies = Arc::new(BoundedReplies::new(64 << 20));
        CacheLayer {
            shared: CacheState::new(replies, Arc::new(SystemClock::new()), Arc::new(TokioSpawn)),
            mode: ForeignCache { extract, keeping: AcceptAll, chain: None },
        }
    }
}

/// The call of a request of type `R`, as a cache sees it: a function that returns its [`CallView`], or [`ByKey`].
pub trait DescribeCall<R> {
    /// Passes the call of `request` to `find`; `None` if the request has no call.
    fn describe<T>(&self, request: &R, find: impl FnOnce(CallView<'_>) -> Option<T>) -> Option<T>;
}

impl<R, F: for<'r> Fn(&'r R) -> Option<CallView<'r>>> DescribeCall<R> for F {
    fn describe<T>(&self, request: &R, find: impl FnOnce(CallView<'_>) -> Option<T>) -> Option<T> {
        find(self(request)?)
    }
}

/// The key of a request, and the lifetime of all responses ([`CacheLayer::keyed`]).
#[derive(Clone)]
pub struct ByKey<F> {
    key: F,
    rule: MethodRule,
}

impl<F> fmt::Debug for ByKey<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByKey").field("rule", &self.rule).finish_non_exhaustive()
    }
}

impl<R, F: for<'r> Fn(&'r R) -> Option<Cow<'r, str>>> DescribeCall<R> for ByKey<F> {
    fn describe<T>(&self, request: &R, find: impl FnOnce(CallView<'_>) -> Option<T>) -> Option<T> {
        // A layer without chains has its store for itself, so the name only fills the key.
        find(CallView::new(ChainName::new("keyed"), &(self.key)(request)?, self.rule))
    }
}

impl<F> CacheLayer<ForeignCache<ByKey<F>>> {
    /// Stores at most `bytes` bytes of responses, keys and overhead, in a new store. A response may use a sixteenth.
    #[must_use]
    pub fn with_capacity(mut self, bytes: u64) -> Self {
        let CacheState { clock, spawn, .. } = &*self.shared;
        self.shared = CacheState::new(Arc::new(BoundedReplies::new(bytes)), clock.clone(), spawn.clone());
        self
    }
}

impl<F, P> CacheLayer<ForeignCache<F, P>> {
    /// Stores only the responses for which `keeping` returns `true`.
    pub fn keeping_if<Res, G>(self, keeping: G) -> CacheLayer<ForeignCache<F, AcceptFn<G>>>
    where
        G: Fn(&Res) -> bool,
    {
        let ForeignCache { extract, chain, .. } = self.mode;
        CacheLayer { shared: self.shared, mode: ForeignCache { extract, keeping: AcceptFn(keeping), chain } }
    }

    /// Sets the clock that decides when responses expire.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        let CacheState { replies, spawn, .. } = &*self.shared;
        self.shared = CacheState::new(replies.clone(), clock, spawn.clone());
        self
    }

    /// Sets the chain, whose adapter decides which answers of the immutable class are final. Without a chain no answer
    /// is final, and the class stores them for its short time.
    #[must_use]
    pub fn with_chain(mut self, chain: Arc<Chain>) -> Self {
        self.mode.chain = Some(chain);
        self
    }
}

impl<S, F, P, R> Service<R> for Cache<S, ForeignCache<F, P>>
where
    F: DescribeCall<R>,
    P: Accepts<S::Response> + Clone + Send + 'static,
    R: Send + 'static,
    S: Service<R> + Clone + Send + 'static,
    S::Response: Cacheable,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<KeepFuture<S::Future, P>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let ForeignCache { extract, keeping, chain } = &self.mode;
        let task = |key, rule| {
            let shared = self.shared.clone();
            let chain = chain.clone();
            let keeping = keeping.clone();
            let head = height(chain.as_deref());
            KeepTask { shared, chain, head, leads: Leads::default(), key, rule, keeping }
        };
        let found = extract.describe(&request, |call| {
            if !call.rule.cache.is_cached() || call.rule.flags.has(Flags::BROADCAST) {
                return None;
            }
            let epoch = chain.as_ref().map_or(0, |chain| chain.head().epoch());
            let sought = ReplySought::new(call.chain, call.sent, call.params).in_epoch(epoch);
            Some(match self.shared.find(&sought) {
                Found::Stored(response) => Found::Stored(response),
                Found::Leads(leads) => Found::Leads(KeepTask { leads, ..task(sought.to_key(), call.rule) }),
                Found::Follows(follow) => Found::Follows((follow, task(sought.to_key(), call.rule))),
            })
        });
        let keep = match found {
            None => None,
            Some(Found::Stored(response)) => return ResponseFuture::own(Ok(response)),
            Some(Found::Leads(task)) => Some(task),
            Some(Found::Follows((follow, task))) => {
                // A waiting follower gives its permit of the inner service, if any, to other calls.
                self.inner = self.inner.clone();
                let mut inner = self.inner.clone();
                return ResponseFuture::waiting(async move {
                    let keep = match task.follow(follow).await {
                        Followed::Answered(response) => return Ok(response),
                        Followed::Alone(keep) => keep,
                    };
                    poll_fn(|cx| inner.poll_ready(cx)).await?;
                    KeepFuture { inner: inner.call(request), keep }.await
                });
            }
        };
        ResponseFuture::inner(KeepFuture { inner: self.inner.call(request), keep })
    }
}

enum Found<Res, L, F> {
    Stored(Res),
    Leads(L),
    Follows(F),
}

enum Followed<Res, P> {
    Answered(Res),
    /// The call must be sent. The task is present if the call leads others.
    Alone(Option<KeepTask<P>>),
}

impl CacheState {
    fn find<Res: Cacheable>(&self, sought: &ReplySought<'_>) -> Found<Res, Leads, Follow> {
        let now = self.clock.elapsed();
        let look = || self.replies.get(sought, now).and_then(Res::from_cached);
        let landed = self.in_flight.landed(sought);
        if let Some(response) = look() {
            return Found::Stored(response);
        }
        match self.in_flight.join(sought, &Bytes::new(), now) {
            Joined::Follow(follow) => Found::Follows(follow),
            Joined::Lead(lead) => {
                let is_later = lead.is_later_than(landed);
                let mut leads = Leads::default();
                leads.push(&self.in_flight, 0, lead, 0);
                // An earlier call may have ended after the first look-up.
                match look().filter(|_| is_later) {
                    Some(response) => Found::Stored(response),
                    None => Found::Leads(leads),
                }
            }
        }
    }
}

pin_project! {
    /// The response of the inner service, which is stored on arrival and shared with the followers.
    pub struct KeepFuture<F, P> {
        #[pin]
        inner: F,
        keep: Option<KeepTask<P>>,
    }
}

impl<F, P> fmt::Debug for KeepFuture<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeepFuture").field("keeps", &self.keep.is_some()).finish_non_exhaustive()
    }
}

impl<F, P, Res, E> Future for KeepFuture<F, P>
where
    F: Future<Output = Result<Res, E>>,
    P: Accepts<Res>,
    Res: Cacheable,
{
    type Output = Result<Res, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx));
        // If this future is dropped without an outcome, the followers learn that their leader is lost.
        if let Some(task) = this.keep.take() {
            task.land(response.as_ref().ok());
        }
        Poll::Ready(response)
    }
}

struct KeepTask<P> {
    shared: Arc<CacheState>,
    chain: Option<Arc<Chain>>,
    /// The newest height before the call is sent.
    head: Option<u64>,
    leads: Leads,
    key: ReplyKey,
    rule: MethodRule,
    keeping: P,
}

fn height(chain: Option<&Chain>) -> Option<u64> {
    chain?.head().height()
}

impl<P> KeepTask<P> {
    /// Waits for the outcome of the leader. If the leader is lost, one follower becomes the leader and the others wait
    /// again.
    async fn follow<Res: Cacheable>(mut self, mut follow: Follow) -> Followed<Res, P> {
        loop {
            match follow.landing().await {
                LeadOutcome::Answered(Form::Result(stored)) => {
                    let response = Res::from_cached(stored);
                    return response.map_or(Followed::Alone(None), Followed::Answered);
                }
                LeadOutcome::Lost => match self.shared.find(&self.key.sought()) {
                    Found::Stored(response) => return Followed::Answered(response),
                    Found::Leads(leads) => {
                        (self.leads, self.head) = (leads, height(self.chain.as_deref()));
                        return Followed::Alone(Some(self));
                    }
                    Found::Follows(next) => follow = next,
                },
                _ => return Followed::Alone(None),
            }
        }
    }

    /// Stores the response if allowed, and shares it with the followers.
    fn land<Res: Cacheable>(self, response: Option<&Res>)
    where
        P: Accepts<Res>,
    {
        let stored = response.and_then(|response| self.keep(response));
        let shared = || {
            stored.clone().map_or(LeadOutcome::Unshared, |stored| LeadOutcome::Answered(Form::Result(stored)))
        };
        self.leads.land(|_, _| {}, |_| shared());
    }

    fn keep<Res: Cacheable>(&self, response: &Res) -> Option<Bytes>
    where
        P: Accepts<Res>,
    {
        let stored = response.to_cached().filter(|_| self.keeping.accepts(response))?;
        let sought = self.key.sought();
        let clock = &self.shared.clock;
        let expires_at = match self.permanence(response.content()) {
            CacheDecision::No => return None,
            CacheDecision::Forever => None,
            CacheDecision::For(time) => {
                let now = clock.elapsed();
                if self.leads.is_superseded(now) {
                    return Some(stored);
                }
                Some(now + time)
            }
        };
        self.shared.replies.put(&sought, &stored, expires_at);
        Some(stored)
    }

    fn permanence(&self, content: &[u8]) -> CacheDecision {
        let Some(chain) = &self.chain else { return self.rule.cache.keep(false) };
        let sought = self.key.sought();
        let call =
            CallView::of_bytes(sought.chain(), sought.method(), self.rule).with_params(sought.params());
        match chain.adapter().settled(call, content, &chain.finality().as_of(self.head)) {
            Permanence::Unknown => CacheDecision::No,
            Permanence::Yes => self.rule.cache.keep(true),
            Permanence::NotYet => self.rule.cache.keep(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::cache::BoundedReplies;
    use crate::testing::Fixture;
    use rpcgate_core::cache_rule::CacheRule;
    use rpcgate_core::chain::ChainName;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::time::Duration;
    use tower::{BoxError, ServiceExt, service_fn};
    use tower_layer::Layer;

    fn rule() -> MethodRule {
        MethodRule::UNLISTED.cached(CacheRule::secs(2))
    }

    fn read<'r>(request: &'r &'static str) -> Option<CallView<'r>> {
        Some(CallView::new(ChainName::new("toy"), request, rule()))
    }

    fn layer(fixture: &Fixture) -> CacheLayer {
        CacheLayer::new(Arc::new(BoundedReplies::new(1 << 20)), fixture.clock.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn requests_for_the_same_at_the_same_time_are_one_and_each_fails_for_itself() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let inner = service_fn(move |request: &'static str| {
            count.fetch_add(1, Relaxed);
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                if request == "broken" { Err(BoxError::from("broken")) } else { Ok(Bytes::from(request)) }
            }
        });
        let service = layer(&Fixture::new()).with_call(read).layer(inner);
        for (request, expected) in [("sound", 1), ("broken", 5)] {
            asked.store(0, Relaxed);
            let all = (0..5).map(|_| service.clone().oneshot(request));
            let all = futures_util::future::join_all(all).await;
            assert!(all.iter().all(|response| response.is_ok() == (request == "sound")));
            assert_eq!(asked.load(Relaxed), expected, "{request}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_enough_and_memory_has_a_bound() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let inner = service_fn(move |request: String| {
            count.fetch_add(1, Relaxed);
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok::<_, BoxError>(Bytes::from(request))
            }
        });
        let clock = Fixture::new().clock;
        let ttl = Duration::from_millis(1_500);
        let layer = CacheLayer::keyed(|key: &String| (key != "uncached").then(|| key.as_str().into()), ttl)
            .with_clock(clock.clone());
        let service = layer.clone().layer(inner.clone());
        let together = (0..5).map(|_| service.clone().oneshot("one".to_owned()));
        assert!(futures_util::future::join_all(together).await.iter().all(Result::is_ok));
        assert_eq!(asked.load(Relaxed), 1, "equal requests in flight are one");
        for (request, after, expected) in
            [("one", 1_499, 1), ("one", 1, 2), ("uncached", 0, 3), ("uncached", 0, 4)]
        {
            clock.advance(Duration::from_millis(after));
            assert_eq!(service.clone().oneshot(request.to_owned()).await.unwrap(), request);
            assert_eq!(asked.load(Relaxed), expected, "{request} after {after} ms");
        }
        let small = layer.with_capacity(64 << 10).layer(inner);
        for _ in 0..2 {
            for number in 0..1_000 {
                assert!(small.clone().oneshot(format!("{number:0200}")).await.is_ok());
            }
        }
        assert!(asked.load(Relaxed) > 1_500, "a small store has forgotten most of a thousand responses");
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_client_of_a_call_leaves_one_of_its_followers_sends_its_own_for_all() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let inner = service_fn(move |request: &'static str| {
            count.fetch_add(1, Relaxed);
            async move {
                tokio::time::sleep(Duration::from_millis(2)).await;
                Ok::<_, BoxError>(Bytes::from(request))
            }
        });
        let service = layer(&Fixture::new()).with_call(read).layer(inner);
        let mut tasks: Vec<_> = Vec::new();
        for _ in 0..5 {
            tasks.push(tokio::spawn(service.clone().oneshot("sound")));
            tokio::task::yield_now().await;
        }
        // The client of the leader disconnects, then the client of the follower that leads after it.
        for expected in [1, 2] {
            assert_eq!(asked.load(Relaxed), expected);
            tasks.remove(0).abort();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap(), "sound");
        }
        assert_eq!(asked.load(Relaxed), 3);
    }

    // Shows (Nodes and cache).
    #[tokio::test(start_paused = true)]
    async fn a_slow_call_gets_no_more_followers_and_its_response_replaces_no_later_one() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let inner = service_fn(move |_: &'static str| {
            let number = count.fetch_add(1, Relaxed);
            async move {
                // The second call is faster.
                tokio::time::sleep(Duration::from_millis(if number == 0 { 10 } else { 1 })).await;
                Ok::<_, BoxError>(Bytes::from(number.to_string()))
            }
        });
        let fixture = Fixture::new();
        let service = layer(&fixture).with_call(read).layer(inner);
        let first = tokio::spawn(service.clone().oneshot("slow"));
        tokio::task::yield_now().await;
        fixture.clock.advance(Duration::from_secs(2));
        assert_eq!(service.clone().oneshot("slow").await.unwrap(), "1");
        assert_eq!(first.await.unwrap().unwrap(), "0");
        assert_eq!(
            service.clone().oneshot("slow").await.unwrap(),
            "1",
            "the response of the second one is kept"
        );
        assert_eq!(asked.load(Relaxed), 2);
    }

    #[tokio::test]
    async fn only_successes_that_are_accepted_are_kept() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let inner = service_fn(move |status: &'static str| {
            let response = Response::builder().status(status).header("n", count.fetch_add(1, Relaxed));
            std::future::ready(Ok::<_, BoxError>(response.body(Bytes::from_static(b"body")).unwrap()))
        });
        let service = layer(&Fixture::new())
            .with_call(read)
            .keeping_if(|response: &Response<Bytes>| response.status() != 206)
            .layer(inner);
        for (status, is_kept) in [("200", true), ("206", false), ("404", false)] {
            let first = service.clone().oneshot(status).await.unwrap();
            let second = service.clone().oneshot(status).await.unwrap();
            assert_eq!(first.headers()["n"] == second.headers()["n"], is_kept, "{status}");
            assert_eq!((second.status().as_str(), &second.body()[..]), (status, &b"body"[..]));
        }
    }

    #[tokio::test]
    async fn a_chains_table_and_adapter_decide_what_is_cached_and_for_how_long() {
        let fixture = Fixture::new();
        let chain = fixture.chain.clone();
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let inner = service_fn(move |method: &'static str| {
            count.fetch_add(1, Relaxed);
            std::future::ready(Ok::<_, BoxError>(Bytes::from(if method == "toy_block" {
                "1"
            } else {
                "null"
            })))
        });
        let table = chain.clone();
        let service = layer(&fixture)
            .with_call(move |method: &&'static str| {
                Some(CallView::new(table.name(), method, table.look_up(method).rule))
            })
            .with_chain(chain)
            .layer(inner);
        // Final for ever, not known yet, never stored.
        for (method, expected) in [("toy_block", 1), ("toy_read", 2), ("toy_scan", 2)] {
            asked.store(0, Relaxed);
            assert!(service.clone().oneshot(method).await.is_ok());
            fixture.clock.advance(Duration::from_secs(3_600));
            assert!(service.clone().oneshot(method).await.is_ok());
            assert_eq!(asked.load(Relaxed), expected, "{method}");
        }
    }
}
