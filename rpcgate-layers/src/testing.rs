//! Parts for tests of layers: a caller, a tally, sets of calls, a manual clock, and a scripted service at the end.
//!
//! ```
//! use rpcgate_layers::call::closed::ClosedLayer;
//! use rpcgate_layers::testing::{Fixture, ScriptedService};
//! use tower::{Layer, ServiceExt};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let (fixture, inner) = (Fixture::new(), ScriptedService::default());
//! let calls = fixture.calls(br#"[{"id":1,"method":"toy_id"},{"id":2,"method":"admin_stop"}]"#);
//! let calls = ClosedLayer::new().layer(inner.clone()).oneshot(calls).await.unwrap();
//! assert_eq!(inner.received(), ["toy_id"], "the layer refuses the other call");
//! // A tally that is dropped is recorded.
//! drop(calls);
//! assert_eq!(fixture.sink.records()[0].lines[1].method, "admin_stop");
//! # });
//! ```

#[cfg(test)]
mod readiness;
#[cfg(test)]
#[cfg(feature = "upstream")]
pub(crate) mod scripted_node;
#[cfg(test)]
mod toy_variant;

#[cfg(test)]
pub(crate) use toy_variant::ToyVariant;

use bytes::Bytes;
use parking_lot::Mutex;
use rpcgate_core::backend::counters::MemoryCounters;
use rpcgate_core::backend::usage_sink::MemoryUsageSink;
use rpcgate_core::call::{Before, Call, CallState, Calls, Entry, Parsed, Payload, Settled};
use rpcgate_core::caller::{Caller, KeyId, ProjectId, RequestId, TenantId};
use rpcgate_core::chain::{Chain, ChainOverrides};
use rpcgate_core::clock::{Clock, ManualClock, Time};
use rpcgate_core::envelope::{self, Limits};
use rpcgate_core::plan::{Plan, Tier};
use rpcgate_core::recent::RecentRequests;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{Form, Reply, Source};
use rpcgate_core::tally::{Accounting, Tally, Transport};
use rpcgate_core::toy::Toy;
use std::convert::Infallible;
use std::fmt;
use std::future::{Ready, ready};
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// A caller on the [`Toy`] chain, and the backends that record its calls. All of them can be replaced and read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fixture {
    /// A stopped clock, which a test advances.
    pub clock: Arc<ManualClock>,
    /// The counters of windows and quotas.
    pub counters: Arc<MemoryCounters>,
    /// The records of the tallies.
    pub sink: Arc<MemoryUsageSink>,
    /// The [`Toy`] chain.
    pub chain: Arc<Chain>,
    /// A caller on the Free plan.
    pub caller: Arc<Caller>,
    /// The remembered requests.
    pub recent: Arc<RecentRequests>,
}

impl Fixture {
    /// Creates a fixture whose clock is at 1,700,000,000 s.
    pub fn new() -> Self {
        let caller = Caller::new(KeyId(1), ProjectId(1_001), TenantId(2_001), Plan::of(Tier::Free));
        Fixture {
            clock: Arc::new(ManualClock::at(Time::from_secs(1_700_000_000))),
            counters: Arc::default(),
            sink: Arc::default(),
            chain: Arc::new(Chain::deployed(Arc::new(Toy))),
            caller: Arc::new(caller),
            recent: Arc::new(RecentRequests::new(1_000, 1)),
        }
    }

    /// Creates a fixture with another caller.
    ///
    /// ```
    /// use rpcgate_layers::testing::Fixture;
    ///
    /// let fixture = Fixture::with_caller(|caller| caller.suspended = true);
    /// assert!(fixture.tally().caller.suspended);
    /// ```
    pub fn with_caller(change: impl FnOnce(&mut Caller)) -> Self {
        let mut fixture = Fixture::new();
        change(Arc::make_mut(&mut fixture.caller));
        fixture
    }

    /// Creates a fixture whose chain is not served.
    ///
    /// ```
    /// assert!(!rpcgate_layers::testing::Fixture::with_chain_off().chain.is_served());
    /// ```
    pub fn with_chain_off() -> Self {
        let chain = Chain::new(Arc::new(Toy), ChainOverrides::default(), false, Arc::default());
        Fixture { chain: Arc::new(chain), ..Fixture::new() }
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns the accounting of the fixture's clock, counters and sink.
    pub fn accounting(&self) -> Arc<Accounting> {
        let accounting = Accounting::new(self.clock.clone(), self.counters.clone(), self.sink.clone());
        Arc::new(accounting.remembering(self.recent.clone()))
    }

    /// Returns the tally of a request without calls.
    pub fn tally(&self) -> Box<Tally> {
        self.tally_in(self.accounting())
    }

    pub(crate) fn tally_in(&self, accounting: Arc<Accounting>) -> Box<Tally> {
        Box::new(Tally::new(
            // With this id the numbers in calls to nodes start at 0.
            RequestId(7 << 76),
            Transport::Http,
            self.chain.clone(),
            self.caller.clone(),
            self.now(),
            self.clock.elapsed(),
            accounting,
        ))
    }

    /// Returns the calls of a body, as they leave the layer that parses it.
    ///
    /// # Panics
    /// If the body is not JSON.
    pub fn calls(&self, body: &'static [u8]) -> Calls<Parsed> {
        self.calls_in(self.accounting(), body)
    }

    pub(crate) fn calls_in(&self, accounting: Arc<Accounting>, body: &'static [u8]) -> Calls<Parsed> {
        set(self.tally_in(accounting), Bytes::from_static(body))
    }

    /// Returns the parts of a gateway that serves the chain without nodes. The caller has the key `secret`.
    #[cfg(feature = "upstream")]
    pub fn parts(&self) -> crate::stack::Parts {
        use rpcgate_core::backend::directory::MemoryDirectory;
        let hash = rpcgate_core::secret::KeyHash::of("secret");
        crate::stack::Parts::new(
            Arc::new(arc_swap::ArcSwap::from_pointee([self.chain.clone()].into_iter().collect())),
            Arc::default(),
            Arc::new(MemoryDirectory::new([(hash, self.caller.clone())])),
            self.accounting(),
        )
    }
}

impl Default for Fixture {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(clippy::expect_used, reason = "a test with a bad body fails")]
pub(crate) fn set(mut tally: Box<Tally>, body: Bytes) -> Calls<Parsed> {
    let items = match envelope::parse(&body, &Limits::default()).expect("a body of JSON-RPC") {
        envelope::ParsedBody::Single(item) => vec![item],
        envelope::ParsedBody::Batch(items) => {
            tally.batch = true;
            items
        }
    };
    for item in items {
        tally.entries.push(match item {
            Ok(envelope) => {
                let found = tally.chain.look_up(envelope.method.text(&body));
                Entry::open(Call::json_rpc(envelope, found))
            }
            Err(bad) => Entry::refused(Call::unread(Payload::Bad(bad)), Refusal::InvalidRequest),
        });
    }
    tally.body = body;
    Calls::new(tally)
}

/// Sends `calls` through one layer, in front of a service that returns them, and returns the layer's output.
///
/// ```
/// use rpcgate_core::call::{CallState, Calls, Listed};
/// use rpcgate_layers::{call::lists::ListsLayer, testing::{Fixture, through}};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let fixture = Fixture::with_caller(|caller| caller.lists.blocked = [Box::from(*b"toy_id")].into());
/// let calls: Calls<Listed> = through(ListsLayer::new(), fixture.calls(br#"{"id":1,"method":"toy_id"}"#)).await;
/// assert!(matches!(calls.tally().entries[0].state, CallState::Refused(_)));
/// # });
/// ```
pub async fn through<L, A, B>(layer: L, calls: Calls<A>) -> Calls<B>
where
    L: Layer<Echo<B>>,
    L::Service: Service<Calls<A>, Response = Calls<B>, Error = Infallible>,
{
    let Ok(calls) = layer.layer(Echo(PhantomData)).call(calls).await;
    calls
}

/// A service that returns the calls that it gets, the inner one of [`through`].
#[derive(Debug)]
pub struct Echo<B>(PhantomData<fn() -> B>);

impl<B> Clone for Echo<B> {
    fn clone(&self) -> Self {
        Echo(PhantomData)
    }
}

impl<B> Service<Calls<B>> for Echo<B> {
    type Response = Calls<B>;
    type Error = Infallible;
    type Future = Ready<Result<Calls<B>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, calls: Calls<B>) -> Self::Future {
        ready(Ok(calls))
    }
}

type Script = dyn Fn(&str) -> Result<Bytes, Refusal> + Send + Sync;

/// The end of a stack. It settles every open call immediately, as a script says. Clones share the received calls.
#[derive(Clone)]
pub struct ScriptedService {
    script: Arc<Script>,
    received: Arc<Mutex<Vec<String>>>,
}

impl ScriptedService {
    /// Creates a service that answers a method with the JSON that `script` returns, or refuses it.
    ///
    /// ```
    /// use rpcgate_core::{call::CallState, refusal::Refusal};
    /// use rpcgate_layers::testing::{Fixture, ScriptedService};
    /// use tower::ServiceExt;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let busy = ScriptedService::new(|_| Err(Refusal::Overloaded));
    /// let calls = busy.oneshot(Fixture::new().calls(br#"{"id":1,"method":"toy_id"}"#)).await.unwrap();
    /// assert!(matches!(calls.tally().entries[0].state, CallState::Refused(Refusal::Overloaded)));
    /// # });
    /// ```
    pub fn new(script: impl Fn(&str) -> Result<Bytes, Refusal> + Send + Sync + 'static) -> Self {
        ScriptedService { script: Arc::new(script), received: Arc::default() }
    }

    /// Returns the methods of the calls that the service has settled.
    pub fn received(&self) -> Vec<String> {
        self.received.lock().clone()
    }
}

impl Default for ScriptedService {
    /// Answers every call with its method.
    fn default() -> Self {
        ScriptedService::new(|method| Ok(format!("\"{method}\"").into()))
    }
}

impl fmt::Debug for ScriptedService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScriptedService").field(&self.received()).finish()
    }
}

impl<A: Before<Settled>> Service<Calls<A>> for ScriptedService {
    type Response = Calls<Settled>;
    type Error = Infallible;
    type Future = Ready<Result<Calls<Settled>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut calls: Calls<A>) -> Self::Future {
        let tally = calls.tally_mut();
        for entry in tally.entries.iter_mut().filter(|entry| entry.is_open()) {
            let method = String::from_utf8_lossy(entry.call.sent(&tally.body)).into_owned();
            entry.state = match (self.script)(&method) {
                Ok(result) => CallState::Answered(Reply { form: Form::Result(result), from: Source::Node }),
                Err(refusal) => CallState::Refused(refusal),
            };
            self.received.lock().push(method);
        }
        ready(Ok(calls.at()))
    }
}
