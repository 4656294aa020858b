//! The service of gRPC calls.

use super::account::{AnswerAccount, answered};
use super::answer::{GrpcBody, Live, strip, timer};
use super::counts::GrpcCounts;
use super::exchange::{GrpcExchange, NodeReply, Rest};
use super::feed::{Feed, Gone};
use super::limits::GrpcLimits;
use super::long_call::{Interrupted, LongCall};
use super::status::{Ending, OK, is_grpc};
use super::timeout;
use crate::coalesce::Coalesce;
use crate::headers::{Metered, plain};
use crate::nodes::exchange::TryAddress;
use crate::nodes::node_set::NodeSet;
use crate::nodes::progress::OnSent;
use crate::nodes::timers::TimerPool;
use crate::nodes::usefulness::MethodIndex;
use crate::nodes::{NodeRequestError, Pool, Pools, SecondExchange};
use crate::request::admission::Denied;
use crate::request::admit::Admission;
use crate::request::message::{Authenticated, Received};
use crate::service_pool::{PooledService, ServicePool};
use crate::websocket::OpenStreams;
use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, CONTENT_TYPE, HeaderMap, HeaderValue,
    RETRY_AFTER,
};
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use rpcgate_core::call::{Call, CallState, Calls, Entry, Settled};
use rpcgate_core::caller::{ProjectId, RequestId};
use rpcgate_core::chain::{Flags, MethodRule};
use rpcgate_core::clock::Clock;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::grpc::{GrpcCall, GrpcPath};
use rpcgate_core::memory::{MemoryBudget, MemoryPermit};
use rpcgate_core::node_try::NodeTries;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::Source;
use rpcgate_core::tally::{Tally, Transport};
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower_service::Service;

#[derive(Clone, Debug)]
struct Shared {
    pools: Arc<ArcSwap<Pools>>,
    clock: Arc<dyn Clock>,
    memory_budget: Arc<MemoryBudget>,
    limits: GrpcLimits,
    counts: Arc<GrpcCounts>,
    streams: Arc<OpenStreams>,
    timers: Arc<TimerPool>,
}

/// Serves gRPC calls. `A` admits them, and `C` decides about them.
#[derive(Clone)]
pub struct GrpcService<A, C: Clone> {
    admission: A,
    calls: ServicePool<C>,
    shared: Arc<Shared>,
}

impl<A, C: Clone> GrpcService<A, C> {
    /// Creates a service that calls the nodes in `pools` and follows their replacement. Kept messages take memory from
    /// `memory_budget`. Long calls are registered with `streams`.
    pub fn new(
        admission: A,
        calls: C,
        pools: Arc<ArcSwap<Pools>>,
        clock: Arc<dyn Clock>,
        memory_budget: Arc<MemoryBudget>,
        streams: Arc<OpenStreams>,
    ) -> Self {
        let limits = GrpcLimits::default();
        let counts = Arc::default();
        let timers = Arc::default();
        let shared = Arc::new(Shared { pools, clock, memory_budget, limits, counts, streams, timers });
        GrpcService { admission, calls: ServicePool::new(calls), shared }
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: GrpcLimits) -> Self {
        Arc::make_mut(&mut self.shared).limits = limits;
        self
    }

    /// Counts the ends of calls in `counts`.
    #[must_use]
    pub fn with_counts(mut self, counts: Arc<GrpcCounts>) -> Self {
        Arc::make_mut(&mut self.shared).counts = counts;
        self
    }
}

impl<A, C: Clone> fmt::Debug for GrpcService<A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcService").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl<A, C, B> Service<Request<B>> for GrpcService<A, C>
where
    A: Service<Received<B>, Response = Admission<B>, Error = Infallible, Future: Send + 'static>,
    C: Service<Calls, Response = Calls<Settled>, Error: Into<Refusal> + Send, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<GrpcBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<GrpcBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.admission.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let received = Received::now(request, &*self.shared.clock);
        let id = received.id;
        let started = received.started;
        if !is_grpc(received.request.headers()) {
            let alone = alone(id, None, false, Ending::Refused(Refusal::NoRoute));
            return Box::pin(std::future::ready(Ok(alone)));
        }
        let admission = self.admission.call(received);
        let calls = self.calls.get();
        let shared = self.shared.clone();
        Box::pin(async move {
            let Ok(admitted) = admission.await;
            Ok(match admitted {
                Ok(known) => {
                    let unanswered = shared.counts.unanswered(known.tally.chain.name());
                    let answer = shared.answer(known, calls, id, started).await;
                    unanswered.answered();
                    answer
                }
                Err(denied) => shared.denied(id, denied),
            })
        })
    }
}

impl Shared {
    async fn answer<B, C>(
        &self,
        known: Authenticated<B>,
        stack: PooledService<C>,
        id: RequestId,
        started: Duration,
    ) -> Response<GrpcBody>
    where
        B: Body<Data = Bytes> + Send + 'static,
        C: Service<Calls, Response = Calls<Settled>, Error: Into<Refusal>>,
    {
        let (head, body) = known.request.into_parts();
        let mut tally = known.tally;
        let memory = || MemoryPermit::of_project(self.memory_budget.clone(), tally.caller.project);
        let body = Box::pin(body.map_err(|_| Gone));
        let feed = Feed::new(body, self.limits.message, memory());
        // Ends the node's side of the call however the call ends.
        let mut guard = FeedGuard(Some(feed.clone()));
        tally.memory = memory();
        let deadline = match timeout::read(&head.headers) {
            Ok(timeout) => timeout.map(|timeout| started.saturating_add(timeout)),
            Err(_) => return self.denied(id, Denied::known(tally, Refusal::BadHead)),
        };
        let Some(path) = GrpcPath::parse(head.uri.path()) else {
            return self.denied(id, Denied::known(tally, Refusal::NoRoute));
        };
        let mut lasting = LongCall::new(&self.streams, &self.timers, &tally, &head);
        let found = tally.chain.look_up_grpc(path);
        let mut call = Call::grpc(GrpcCall::new(path, feed.received().clone()), found);
        if call.rule.flags.has(Flags::COMMANDS) {
            match self.narrowed(&call, &mut tally, &feed, &mut lasting).await {
                Ok(rule) => call.rule = rule,
                Err(refusal) => return self.denied(id, Denied::known(tally, refusal)),
            }
        }
        tally.entries.push(Entry::open(call));
        let mut tally = match decide(tally, stack).await {
            Ok(tally) => tally,
            // The stack has dropped the call and its tally.
            Err(refusal) => return alone(id, None, false, Ending::Refused(refusal)),
        };
        let mut exchange = GrpcExchange {
            uri: &head.uri,
            metadata: &head.headers,
            key_header: tally.chain.adapter().key_sources().header,
            feed: &feed,
            lasting,
            refusal: None,
            deadline,
            timeout: tally.chain.timeout(),
            is_slow: false,
            among: NodeSet::ALL,
            method: MethodIndex::of(tally.entries.first().and_then(|entry| entry.call.metered)),
            doubted: NodeSet::NONE,
            trial: None,
            unserved: None,
            address: None,
            avoid: None,
            is_broadcast: tally.entries.iter().any(|entry| entry.call.rule.flags.has(Flags::BROADCAST)),
            most: self.limits.message,
            clock: &self.clock,
        };
        let outcome = self.ask(&mut tally, &mut exchange).await;
        let lasting = exchange.lasting;
        match outcome {
            Ok(reply) => {
                guard.0 = None;
                self.reply(id, tally, reply, feed, deadline, lasting).await
            }
            Err(ending) => self.ended(id, tally, ending).await,
        }
    }

    /// Waits for the first message and returns the rule of a call that depends on it.
    async fn narrowed(
        &self,
        call: &Call,
        tally: &mut Tally,
        feed: &Feed,
        lasting: &mut LongCall<'_>,
    ) -> Result<MethodRule, Refusal> {
        let until = Instant::now() + self.limits.first;
        let first = lasting.during(feed.first(self.limits.message), || false, |_| until).await;
        tally.body = first.map_err(|interrupted| match interrupted {
            Interrupted::Late => Refusal::BodyTooSlow,
            Interrupted::Refused(refusal) => refusal,
        })??;
        Ok(tally.chain.narrow(call.view(&tally.body, tally.chain.name())))
    }

    /// Sends the call to a node unless the stack has refused it.
    async fn ask(&self, tally: &mut Tally, exchange: &mut GrpcExchange<'_, '_>) -> Result<NodeReply, Ending> {
        let project = tally.caller.project;
        let chain = tally.chain.name();
        let Tally { entries, tries, body, .. } = tally;
        let Some(entry) = entries.first_mut() else { return Err(Ending::Failed) };
        match &entry.state {
            CallState::Open => {}
            CallState::Refused(refusal) => return Err(Ending::Refused(*refusal)),
            _ => return Err(Ending::Failed),
        }
        let Some(pool) = self.pools.load().get(chain).cloned() else {
            entry.state = CallState::Failed(Fault::unsent(Cause::NoNode));
            return Err(Ending::Failed);
        };
        exchange.among = pool.takers(Transport::Grpc, entry.call.sent(body), entry.call.method(body));
        if exchange.among.is_empty() {
            entry.state = CallState::Refused(Refusal::Closed);
            return Err(Ending::Refused(Refusal::Closed));
        }
        if let Some(refusal) = exchange.look_at_nodes(&pool).await {
            entry.state = CallState::Refused(refusal);
            return Err(Ending::Refused(refusal));
        }
        let left = exchange.deadline.map(|deadline| deadline.saturating_sub(self.clock.elapsed()));
        let mut on_sent = |is_sent| entry.state = if is_sent { CallState::Sent } else { CallState::Open };
        tries.set_calls([0]);
        let noted: (&mut OnSent<'_>, _) = (&mut on_sent, tries);
        let answer = match pool.next_node_after().filter(|_| !exchange.is_broadcast) {
            None => pool.ask_grpc(left, Some(project), noted, exchange).await,
            // Boxed, so that other calls stay small.
            Some(after) => Box::pin(ask_two(&pool, after, left, project, noted, exchange)).await,
        };
        let (state, ending) = match answer {
            Ok(reply) => return Ok(reply),
            // No other node could serve the call either, so the client gets this node's answer.
            Err(NodeRequestError::Fault(_))
                if exchange.refusal.is_none()
                    && exchange.feed.refusal().is_none()
                    && let Some(reply) = exchange.unserved.take() =>
            {
                return Ok(reply);
            }
            Err(_) if let Some(refusal) = exchange.refusal => {
                (CallState::Refused(refusal), Ending::Refused(refusal))
            }
            Err(NodeRequestError::AtLimit) => {
                (CallState::Refused(Refusal::NodesAtLimit), Ending::Refused(Refusal::NodesAtLimit))
            }
            Err(NodeRequestError::Busy) => {
                (CallState::Refused(Refusal::Overloaded), Ending::Refused(Refusal::Overloaded))
            }
            Err(NodeRequestError::Fault(fault)) => match exchange.feed.refusal() {
                Some(refusal) => (CallState::Refused(refusal), Ending::Refused(refusal)),
                // The client chose this deadline, so it counts as a client that disconnected.
                None if fault.cause == Cause::Timeout && !exchange.is_slow => {
                    let state = if fault.sent { CallState::Sent } else { CallState::Failed(fault) };
                    (state, Ending::Late)
                }
                None => (CallState::Failed(fault), Ending::Failed),
            },
        };
        entry.state = state;
        Err(ending)
    }

    /// Passes a node's answer on, completely or as it arrives.
    async fn reply(
        &self,
        id: RequestId,
        mut tally: Box<Tally>,
        reply: NodeReply,
        feed: Arc<Feed>,
        deadline: Option<Duration>,
        lasting: LongCall<'_>,
    ) -> Response<GrpcBody> {
        let is_unserved = reply.is_unserved();
        let NodeReply { headers: mut own, pieces, messages, rest, slot, permit, .. } = reply;
        let content_type = own.get(CONTENT_TYPE).cloned();
        strip(&mut own);
        if let Some(content_type) = content_type {
            own.insert(CONTENT_TYPE, content_type);
        }
        if let Some(entry) = tally.entries.first_mut() {
            entry.bytes_out = pieces.iter().map(|piece| piece.len() as u32).sum();
            entry.state = match rest {
                Rest::Complete { status, .. } if is_unserved => answered(status == OK, Source::Unserved),
                Rest::Complete { status, .. } => answered(status == OK, Source::Node),
                Rest::Open { .. } => CallState::Sent,
            };
        }
        let headers = metadata(id, Some(&tally), true, own);
        match rest {
            Rest::Complete { status, trailers } => {
                feed.end();
                let chain = tally.chain.name();
                record(tally).await;
                self.counts.count(chain, status);
                let trailers = trailers.map(|mut trailers| {
                    strip(&mut trailers);
                    trailers
                });
                response(headers, GrpcBody::complete(pieces, trailers))
            }
            Rest::Open { body, judge } => {
                let patience = tally.chain.timeout();
                let left = deadline.map(|deadline| deadline.saturating_sub(self.clock.elapsed()));
                let is_stream = messages.are_several();
                let account = Some(AnswerAccount::new(tally));
                let mut live = Live {
                    pieces: pieces.into_iter().collect(),
                    body,
                    messages,
                    feed,
                    account,
                    judge: Some(judge),
                    counts: self.counts.clone(),
                    sent: 0,
                    deadline: timer(left),
                    patience,
                    stall: None,
                    lasting: lasting.answered(),
                    is_over: false,
                    held: Some((slot, permit)),
                };
                if is_stream {
                    live.begin_stream();
                }
                response(headers, GrpcBody::live(live))
            }
        }
    }

    async fn ended(&self, id: RequestId, tally: Box<Tally>, ending: Ending) -> Response<GrpcBody> {
        let chain = tally.chain.name();
        let answer = alone(id, Some(&tally), true, ending);
        record(tally).await;
        self.counts.count(chain, ending.number());
        answer
    }

    fn denied(&self, id: RequestId, denied: Denied) -> Response<GrpcBody> {
        let Denied { refusal, tally, rated, .. } = denied;
        let ending = Ending::Refused(refusal);
        if let Some(tally) = &tally {
            self.counts.count(tally.chain.name(), ending.number());
        }
        alone(id, tally.as_deref(), rated, ending)
    }
}

/// Sends the call to a second node as well if the first has not answered within `after`.
async fn ask_two(
    pool: &Pool,
    after: Duration,
    left: Option<Duration>,
    project: ProjectId,
    noted: (&mut OnSent<'_>, &mut NodeTries),
    exchange: &mut GrpcExchange<'_, '_>,
) -> Result<NodeReply, NodeRequestError> {
    let address = Arc::<TryAddress>::default();
    let feed = exchange.feed.clone();
    exchange.address = Some(address.clone());
    let mut other = exchange.another();
    let second = SecondExchange {
        exchange: &mut other,
        // Two nodes can read only a call that the client has sent completely.
        busy_node: || address.node().filter(|_| feed.share()),
        avoid: |other: &mut GrpcExchange<'_, '_>, node| other.avoid = Some(node),
    };
    let (answer, is_second) = pool.ask_two_grpc((after, left), Some(project), noted, exchange, second).await;
    if is_second {
        std::mem::swap(exchange, &mut other);
    } else if exchange.unserved.is_none() {
        exchange.unserved = other.unserved.take();
    }
    answer
}

/// Passes the call through the stack. Returns its tally, in which it is open or refused.
async fn decide<C>(tally: Box<Tally>, mut stack: PooledService<C>) -> Result<Box<Tally>, Refusal>
where
    C: Service<Calls, Response = Calls<Settled>, Error: Into<Refusal>>,
{
    let mut calls = Calls::new(tally);
    if let Err(error) = poll_fn(|cx| stack.poll_ready(cx)).await {
        calls.tally_mut().refuse(error.into());
        return Ok(calls.into_tally());
    }
    match stack.call(calls) {
        Some(calling) => Ok(calling.await.map_err(Into::into)?.into_tally()),
        None => Err(Refusal::Overloaded),
    }
}

/// Closes the tally of a call and waits until its record is written, together with the records of other calls.
async fn record(tally: Box<Tally>) {
    let receipt = tally.close();
    Coalesce::default().await;
    drop(receipt);
}

/// Returns the metadata of an answer: the node's `own`, and the headers of every gateway answer.
fn metadata(id: RequestId, tally: Option<&Tally>, rated: bool, own: HeaderMap) -> HeaderMap {
    let metered = |tally: &Tally, windows| Metered {
        id,
        windows,
        units: tally.charged(),
        hit: false,
        is_json: false,
        is_grpc: true,
    };
    let mut headers = match tally {
        Some(tally) if rated => return metered(tally, Some(tally.windows_now())).headers(own),
        Some(tally) => metered(tally, None).headers(own),
        None => plain(id, false, false, own),
    };
    // No browser speaks this protocol.
    for name in [ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS] {
        headers.remove(name);
    }
    headers
}

/// Returns an answer with a status of the gateway.
fn alone(id: RequestId, tally: Option<&Tally>, rated: bool, ending: Ending) -> Response<GrpcBody> {
    let mut headers = ending.alone(metadata(id, tally, rated, HeaderMap::new()));
    if let Ending::Refused(refusal) = ending
        && let Some(seconds) = refusal.retry_after()
    {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response(headers, GrpcBody::none())
}

fn response(headers: HeaderMap, body: GrpcBody) -> Response<GrpcBody> {
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response
}

/// Ends the client's messages when dropped before a node has answered.
struct FeedGuard(Option<Arc<Feed>>);

impl Drop for FeedGuard {
    fn drop(&mut self) {
        if let Some(feed) = &self.0 {
            feed.end();
        }
    }
}
