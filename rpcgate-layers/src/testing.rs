//! A fixture for tests of layers: a toy chain, a caller, a manual clock, readable accounting.

#[cfg(feature = "upstream")]
pub(crate) mod scripted_node;

use bytes::Bytes;
use rpcgate_core::adapter::{Adapter, NodeStatus, Permanence, Probe};
use rpcgate_core::backend::counters::MemoryCounters;
use rpcgate_core::backend::suite;
use rpcgate_core::backend::usage_sink::MemoryUsageSink;
use rpcgate_core::call::{Before, Call, CallState, CallView, Calls, Entry, Parsed, Payload, Settled};
use rpcgate_core::caller::{Caller, RequestId};
use rpcgate_core::chain::{Chain, ChainOverrides, Facts, Finality, Method, MethodRule};
use rpcgate_core::clock::{Clock, ManualClock, Time};
use rpcgate_core::envelope::{self, Limits};
use rpcgate_core::recent::RecentRequests;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{Form, Reply, Source};
use rpcgate_core::tally::{Accounting, Tally, Transport};
use rpcgate_core::toy::Toy;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

mod readiness;

#[derive(Debug, Clone)]
pub(crate) struct Fixture {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) counters: Arc<MemoryCounters>,
    pub(crate) sink: Arc<MemoryUsageSink>,
    pub(crate) chain: Arc<Chain>,
    pub(crate) caller: Arc<Caller>,
    pub(crate) recent: Arc<RecentRequests>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Fixture {
            clock: Arc::new(ManualClock::at(Time::from_secs(1_700_000_000))),
            counters: Arc::default(),
            sink: Arc::default(),
            chain: Arc::new(Chain::deployed(Arc::new(Toy))),
            caller: Arc::new(suite::caller(1)),
            recent: Arc::new(RecentRequests::new(1_000, 1)),
        }
    }

    pub(crate) fn with_caller(change: impl FnOnce(&mut Caller)) -> Self {
        let mut caller = suite::caller(1);
        change(&mut caller);
        Fixture { caller: Arc::new(caller), ..Fixture::new() }
    }

    pub(crate) fn with_chain_off() -> Self {
        let chain = Chain::new(Arc::new(Toy), ChainOverrides::default(), false, Arc::default());
        Fixture { chain: Arc::new(chain), ..Fixture::new() }
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn accounting(&self) -> Arc<Accounting> {
        let accounting = Accounting::new(self.clock.clone(), self.counters.clone(), self.sink.clone());
        Arc::new(accounting.remembering(self.recent.clone()))
    }

    pub(crate) fn tally(&self) -> Box<Tally> {
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

    pub(crate) fn calls(&self, body: &'static [u8]) -> Calls<Parsed> {
        self.calls_in(self.accounting(), body)
    }

    pub(crate) fn calls_in(&self, accounting: Arc<Accounting>, body: &'static [u8]) -> Calls<Parsed> {
        set(self.tally_in(accounting), Bytes::from_static(body))
    }
}

pub(crate) fn set(mut tally: Box<Tally>, body: Bytes) -> Calls<Parsed> {
    let items = match envelope::parse(&body, &Limits::default()).unwrap() {
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

/// The toy chain with other facts and further methods.
#[derive(Debug)]
pub(crate) struct ToyVariant {
    pub(crate) facts: Facts,
    pub(crate) more: Vec<Method>,
}

impl Adapter for ToyVariant {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn methods(&self) -> Vec<Method> {
        Toy.methods().into_iter().chain(self.more.iter().copied()).collect()
    }

    fn unlisted(&self, method: &str) -> MethodRule {
        Toy.unlisted(method)
    }

    fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence {
        Toy.settled(call, result, finality)
    }

    fn probe(&self) -> Probe {
        Toy.probe()
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        Toy.seen(answer)
    }
}

/// Sends `calls` through one layer and returns its output.
pub(crate) async fn through<L, A, B>(layer: L, calls: Calls<A>) -> Calls<B>
where
    L: Layer<Echo<B>>,
    L::Service: Service<Calls<A>, Response = Calls<B>, Error = Infallible>,
{
    let Ok(calls) = layer.layer(Echo(PhantomData)).call(calls).await;
    calls
}

#[derive(Debug)]
pub(crate) struct Echo<B>(PhantomData<fn() -> B>);

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

/// The end of a stack. It answers every open call immediately, with `"<method>"` as the result.
#[derive(Clone, Debug, Default)]
pub(crate) struct End;

impl<A: Before<Settled>> Service<Calls<A>> for End {
    type Response = Calls<Settled>;
    type Error = Infallible;
    type Future = Ready<Result<Calls<Settled>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut calls: Calls<A>) -> Self::Future {
        let tally = calls.tally_mut();
        for entry in &mut tally.entries {
            if entry.is_open() {
                let mut result = vec![b'"'];
                result.extend_from_slice(entry.call.sent(&tally.body));
                result.push(b'"');
                entry.state =
                    CallState::Answered(Reply { form: Form::Result(result.into()), from: Source::Node });
            }
        }
        ready(Ok(calls.at()))
    }
}
