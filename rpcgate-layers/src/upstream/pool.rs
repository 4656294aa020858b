//! A chain's nodes and the calls to them.

use super::answer::{AnswerBody, NodeAnswer, clean, is_framed};
use super::body::NodeBody;
use super::choose::Rotation;
use super::collect::{Collected, collect};
use super::connect::Conn;
use super::decode::{Coding, decode};
use super::idle::Idle;
use super::node::{Node, NodeConfig, NodeIndex, NodeView};
use super::node_request::{NodeRequest, NodeRequestError};
use super::progress::{CallProgress, InFlightGuard, Sent};
use super::retry::Budget;
use super::slots::Slots;
use super::timers::Timers;
use crate::coalesce::Coalesce;
use http::{Method, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use rpcgate_core::adapter::NodeStatus;
use rpcgate_core::chain::{ChainName, Facts};
use rpcgate_core::clock::Clock;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The bounds of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolLimits {
    /// How long a call may take, from the choice of a node to the last byte that is collected, retries included. Of an
    /// answer that is streamed, how long the reader is kept waiting for the next piece.
    pub timeout: Duration,
    /// How much of it a new connection may take: name look-up, TCP and TLS together.
    pub connect: Duration,
    /// Calls that may be under way to the chain at a time.
    pub in_flight: usize,
    /// Connections that may wait for a call, for each node.
    pub idle_per_node: usize,
    /// How long they may wait; less where a node says so in its `Keep-Alive` header.
    pub idle_time: Duration,
    /// Blocks that a node may be behind the others before it is asked only when none is better; `None`: as many as its
    /// [chain](Facts::max_lag) says.
    pub max_lag: Option<u64>,
}

impl Default for PoolLimits {
    /// 30 s for a call, 3 s of it for a connection, 1024 calls under way, 128 connections waiting for up to 60 s, and the
    /// chain's lag.
    fn default() -> Self {
        PoolLimits {
            timeout: Duration::from_secs(30),
            connect: Duration::from_secs(3),
            in_flight: 1024,
            idle_per_node: 128,
            idle_time: Duration::from_secs(60),
            max_lag: None,
        }
    }
}

/// Where a broadcast is concerned, a connection that waited longer than this may have been closed by the node, and
/// if it was, nobody can tell whether the broadcast got through: then a new connection is the safer way.
const FRESH_FOR_BROADCAST: Duration = Duration::from_secs(2);

/// The nodes of one chain.
///
/// ```
/// use bytes::Bytes;
/// use rpcgate_core::adapter::Adapter;
/// use rpcgate_core::clock::SystemClock;
/// use rpcgate_core::fault::{Cause, Fault};
/// use rpcgate_core::memory::MemoryPermit;
/// use rpcgate_core::toy::Toy;
/// use rpcgate_layers::upstream::{NodeRequest, NodeRequestError, NodeConfig, Pool, PoolLimits};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rpcgate_layers::upstream::BadUrl> {
/// // Nothing listens on port 1.
/// let node = NodeConfig::new("http://127.0.0.1:1".parse()?);
/// let pool = Pool::new(Toy.facts(), vec![node], PoolLimits::default(), Arc::new(SystemClock::new()));
/// let call = NodeRequest::json_rpc(Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#));
/// let answer = pool.ask(&call, &mut MemoryPermit::default()).await;
/// assert_eq!(answer.err(), Some(NodeRequestError::Fault(Fault::unsent(Cause::Connect))));
/// # Ok(())
/// # }
/// ```
pub struct Pool {
    chain: ChainName,
    nodes: Box<[Arc<Node>]>,
    limits: PoolLimits,
    clock: Arc<dyn Clock>,
    rotation: Rotation,
    budget: Budget,
    timers: Timers,
    slots: Arc<Slots>,
    /// Calls that every node takes in one array.
    max_batch: usize,
    max_lag: u64,
}

impl Pool {
    /// The pool of the chain with these facts, with `nodes`. Nothing is connected before the first call.
    pub fn new(
        facts: &Facts,
        nodes: Vec<NodeConfig>,
        limits: PoolLimits,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let node = |(index, config)| {
            Arc::new(Node::new(index, config, Idle::new(limits.idle_per_node, limits.idle_time)))
        };
        let max_batch = nodes.iter().filter_map(|node| node.max_batch).min().unwrap_or(usize::MAX).max(1);
        Arc::new(Pool {
            chain: facts.name,
            max_batch,
            max_lag: limits.max_lag.unwrap_or(facts.max_lag),
            timers: Timers::default(),
            nodes: nodes.into_iter().enumerate().map(node).collect(),
            slots: Slots::new(limits.in_flight),
            limits,
            rotation: Rotation::default(),
            budget: Budget::new(clock.elapsed()),
            clock,
        })
    }

    /// The chain whose nodes these are.
    pub fn chain(&self) -> ChainName {
        self.chain
    }

    /// How the nodes fare, in the order of their indexes.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeView<'_>> {
        let now = self.clock.elapsed();
        self.nodes.iter().map(move |node| node.view(now))
    }

    /// Calls that may be sent to any of the nodes in one array.
    pub(super) fn max_batch(&self) -> usize {
        self.max_batch
    }

    /// Blocks that a node may be behind.
    pub fn max_lag(&self) -> u64 {
        self.max_lag
    }

    /// Calls under way, streamed answers included.
    pub fn in_flight(&self) -> usize {
        self.slots.taken()
    }

    /// Closes connections that have waited too long. [`watch_head`](super::watch_head) does it with every probe;
    /// without it they are closed as others take their place.
    pub fn sweep(&self) {
        let now = self.clock.elapsed();
        self.nodes.iter().for_each(|node| node.idle.sweep(now));
    }

    /// Asks one of the nodes. What is collected of the answer takes its place in `room`.
    ///
    /// # Errors
    /// [`NodeRequestError::Busy`] beyond [`PoolLimits::in_flight`], beyond the part of it that the project of `room` may have, or
    /// if `room` is full, else the [`Fault`] of the last try;
    /// it says `sent` if a byte may have reached a node in any of them.
    pub async fn ask(
        &self,
        ask: &NodeRequest,
        room: &mut MemoryPermit,
    ) -> Result<NodeAnswer, NodeRequestError> {
        self.earn();
        self.ask_within(ask, room, self.limits.timeout, &mut |_| {}).await
    }

    /// Asks one of the nodes within `limit`; `told` hears when the first byte is about to be written, and if it was not.
    ///
    /// # Errors
    /// As [`ask`](Pool::ask).
    pub(super) async fn ask_within(
        &self,
        ask: &NodeRequest,
        room: &mut MemoryPermit,
        limit: Duration,
        told: &mut Sent<'_>,
    ) -> Result<NodeAnswer, NodeRequestError> {
        if limit.is_zero() {
            return Err(Fault::unsent(Cause::Timeout).into());
        }
        let slot = self.slots.take(room.project()).map_err(|_| NodeRequestError::Busy)?;
        let mut progress = CallProgress::new(Some(slot), told);
        let result = {
            // In a box of its own: two small ones are sooner got and filled than one large one.
            let mut run = Box::pin(self.run(ask, room, &mut progress));
            self.timers.within(limit, run.as_mut()).await
        };
        let result = result.unwrap_or_else(|| {
            if let Some(node) = progress.node {
                self.record_failure(node, Fault::sent(Cause::Timeout), None);
            }
            Err(Fault::unsent(Cause::Timeout).into())
        });
        result.map_err(|error| match error {
            NodeRequestError::Fault(fault) => {
                NodeRequestError::Fault(Fault { sent: fault.sent || progress.sent, ..fault })
            }
            NodeRequestError::Busy => NodeRequestError::Busy,
        })
    }

    /// A call was made: the reserve of retries grows.
    pub(super) fn earn(&self) {
        self.budget.earn();
    }

    /// Takes one retry out of the reserve; false if there is none.
    pub(super) fn may_repeat(&self) -> bool {
        self.budget.spend(self.clock.elapsed())
    }

    /// How long a call may take.
    pub(super) fn timeout(&self) -> Duration {
        self.limits.timeout
    }

    /// Asks one node and no other, whatever is known about it. For the gateway's own questions: not counted among the
    /// calls under way to the chain, so that a busy chain is not taken for a dead one.
    pub(super) async fn probe(
        &self,
        index: NodeIndex,
        ask: &NodeRequest,
        limit: Duration,
    ) -> Result<NodeAnswer, NodeRequestError> {
        let node = self.nodes.get(index.0).ok_or(Fault::unsent(Cause::NoNode))?;
        let mut nobody = |_| {};
        let mut progress = CallProgress::new(None, &mut nobody);
        let mut room = MemoryPermit::default();
        let tries = async {
            match self.attempt(node, ask, &mut room, false, &mut progress).await {
                Err(NodeRequestError::Fault(_)) if progress.stale => {
                    self.attempt(node, ask, &mut room, true, &mut progress).await
                }
                result => result,
            }
        };
        match tokio::time::timeout(limit.min(self.limits.timeout), tries).await {
            Ok(result) => result,
            Err(_) => Err(Fault::sent(Cause::Timeout).into()),
        }
    }

    /// What a node's probe came to, and how long that took.
    pub(super) fn probed(&self, index: NodeIndex, seen: Option<NodeStatus>, took: Duration) {
        if let Some(node) = self.nodes.get(index.0) {
            node.health.probed(seen);
            if seen.is_some() {
                node.health.took(took);
            }
        }
    }

    /// Holds all nodes against this height.
    pub(super) fn compare(&self, reference: u64) {
        self.nodes.iter().for_each(|node| node.health.compared(reference, self.max_lag));
    }

    /// What the node answered was an answer.
    pub(super) fn record_success(&self, index: NodeIndex) {
        if let Some(node) = self.nodes.get(index.0) {
            node.health.answered();
        }
    }

    /// What the node answered was none; `stay`: it asked to be left alone for so long.
    pub(super) fn record_failure(&self, index: NodeIndex, fault: Fault, stay: Option<Duration>) {
        let Some(node) = self.nodes.get(index.0) else { return };
        let now = self.clock.elapsed();
        match (fault.cause, stay) {
            (_, Some(stay)) => node.health.busy(now, stay),
            (Cause::Status(401 | 403), None) => node.health.refused(now),
            // What a node does not like about one call says nothing about the next: nobody may drive nodes out of the
            // pool by what he asks.
            (Cause::Status(status), None) if (400..500).contains(&status) && status != 429 => {}
            (Cause::Timeout | Cause::Broken | Cause::Undecodable | Cause::Status(_), None) => {
                node.health.failed(now);
            }
            // Connecting has its own account, and the rest is the call's matter.
            _ => {}
        }
    }

    /// The time that latencies are measured in.
    pub(super) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    async fn run(
        &self,
        ask: &NodeRequest,
        room: &mut MemoryPermit,
        progress: &mut CallProgress<'_>,
    ) -> Result<NodeAnswer, NodeRequestError> {
        let choose = |failed| self.rotation.choose(&self.nodes, [ask.avoid, failed], || self.clock.elapsed());
        let mut node = choose(None).ok_or(Fault::unsent(Cause::NoNode))?;
        let (mut renewed, mut moved) = (false, false);
        loop {
            let fresh = renewed || moved;
            let fault = match self.attempt(node, ask, room, fresh, progress).await {
                Ok(answer) => return Ok(answer),
                Err(NodeRequestError::Busy) => return Err(NodeRequestError::Busy),
                Err(NodeRequestError::Fault(fault)) => fault,
            };
            tracing::debug!(chain = %self.chain, node = %node.config.url, sent = fault.sent, "call failed: {fault}");
            // That an old connection was closed says nothing of the node.
            if !progress.stale {
                self.record_failure(node.index, fault, None);
            }
            if !fault.may_retry(!ask.broadcast) {
                return Err(fault.into());
            }
            if progress.stale && !renewed {
                renewed = true;
            } else if moved {
                return Err(fault.into());
            } else {
                moved = true;
                node = match choose(Some(node.index)) {
                    Some(other) => other,
                    // With no other node to go to: a connection that broke may have been that connection's trouble,
                    // but a node that refuses connections or talks nonsense will do so again.
                    None if fault.cause == Cause::Broken => node,
                    None => return Err(fault.into()),
                };
            }
            // What was never sent loads no node twice, so it needs no leave.
            if fault.sent && !self.may_repeat() {
                return Err(fault.into());
            }
        }
    }

    async fn attempt(
        &self,
        node: &Arc<Node>,
        ask: &NodeRequest,
        room: &mut MemoryPermit,
        fresh: bool,
        progress: &mut CallProgress<'_>,
    ) -> Result<NodeAnswer, NodeRequestError> {
        (progress.stale, progress.node) = (false, Some(node.index));
        let _under = InFlightGuard::new(&node.in_flight);
        let younger = if ask.broadcast { FRESH_FOR_BROADCAST } else { Duration::MAX };
        if !fresh {
            // Lets the runtime hear from the sockets, so that a connection that has ended by now is seen to have ended:
            // a broadcast that was written to it would not be sent again. And calls that come by then are written one
            // after another, which wakes the node once and not for each of them.
            Coalesce::default().await;
        }
        let began = self.clock.elapsed();
        let idle = if fresh { None } else { node.idle.take(began, younger) };
        let mut conn = match idle {
            Some(conn) => {
                progress.stale = true;
                conn
            }
            // Boxed, because connecting is rare and its state would make every call's larger.
            None => Box::pin(self.connect(node)).await?,
        };
        let request = node.request(ask).ok_or(Fault::unsent(Cause::Undecodable))?;
        let before = progress.sent;
        progress.set_sent(true);
        let sent = conn.send(request);
        let response = match sent.await {
            Ok(response) => response,
            Err(mut error) => {
                if error.take_message().is_some() {
                    progress.set_sent(before);
                    return Err(Fault::unsent(Cause::Broken).into());
                }
                let cause = if error.into_error().is_parse() { Cause::Undecodable } else { Cause::Broken };
                progress.stale &= cause == Cause::Broken;
                return Err(Fault::sent(cause).into());
            }
        };
        // RFC 9110 section 15.5.9: so says a node that gave up waiting for a request just before ours came.
        if progress.stale && response.status() == StatusCode::REQUEST_TIMEOUT {
            return Err(Fault::sent(Cause::Broken).into());
        }
        progress.stale = false;
        node.health.reached();
        self.read(node, ask, room, (conn, began, progress), response).await
    }

    async fn connect(&self, node: &Node) -> Result<Box<Conn>, Fault> {
        match node.dial.dial(self.limits.connect).await {
            Ok(conn) => {
                node.health.reached();
                Ok(conn)
            }
            Err(error) => {
                node.health.not_reached(self.clock.elapsed());
                tracing::debug!(chain = %self.chain, node = %node.config.url, "no connection: {error}");
                Err(Fault::unsent(Cause::Connect))
            }
        }
    }

    async fn read(
        &self,
        node: &Arc<Node>,
        ask: &NodeRequest,
        room: &mut MemoryPermit,
        (mut conn, began, progress): (Box<Conn>, Duration, &mut CallProgress<'_>),
        response: Response<Incoming>,
    ) -> Result<NodeAnswer, NodeRequestError> {
        let (mut head, mut incoming) = response.into_parts();
        let undecodable = Fault::sent(Cause::Undecodable);
        // Nobody asked for another protocol.
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(undecodable.into());
        }
        let coding = Coding::of(&head.headers).ok_or(undecodable)?;
        let framed = is_framed(&head.headers, incoming.size_hint().exact());
        if let Some(kept) = clean(&mut head.headers, ask.method == Method::HEAD) {
            conn.kept_for(kept);
        }
        let limit = if coding == Coding::Identity { ask.collect } else { ask.largest };
        let body = match collect(&mut conn, &mut incoming, limit, room).await? {
            Collected::Whole(body) => {
                let now = self.clock.elapsed();
                node.health.took(now.saturating_sub(began));
                node.idle.put(conn, now);
                AnswerBody::Whole(match coding {
                    Coding::Identity => body,
                    // Boxed, because nodes are asked for no coding.
                    coding => Box::pin(decode(coding, body, ask.largest, room)).await?,
                })
            }
            Collected::Prefix(_) if coding != Coding::Identity => {
                return Err(Fault::sent(Cause::Oversize).into());
            }
            Collected::Prefix(_) if !framed => return Err(undecodable.into()),
            Collected::Prefix(prefix) => {
                let (clock, patience) = (self.clock.clone(), self.limits.timeout);
                let rest = NodeBody::new(incoming, conn, node.clone(), progress.slot.take(), clock, patience);
                AnswerBody::Larger { prefix, rest: Box::new(rest) }
            }
        };
        Ok(NodeAnswer { node: node.index, status: head.status, headers: head.headers, body, framed })
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("chain", &self.chain)
            .field("limits", &self.limits)
            .field("nodes", &self.nodes().collect::<Vec<_>>())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::script::{Fixture, Refusing, Script, Wire, answer, call};
    use bytes::Bytes;
    use http::HeaderValue;
    use http::uri::PathAndQuery;
    use rpcgate_core::adapter::Adapter;
    use rpcgate_core::memory::MemoryBudget;
    use rpcgate_core::toy::Toy;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const fn broken() -> NodeRequestError {
        NodeRequestError::Fault(Fault::sent(Cause::Broken))
    }

    const fn undecodable() -> NodeRequestError {
        NodeRequestError::Fault(Fault::sent(Cause::Undecodable))
    }

    fn short(limit: u64) -> PoolLimits {
        PoolLimits { timeout: Duration::from_millis(limit), ..PoolLimits::default() }
    }

    /// A node that answers the first `good` requests of each connection and does `then` with the next.
    async fn failing<R: Future<Output = ()> + Send + 'static>(
        good: usize,
        then: impl Fn(Wire) -> R + Clone + Send + Sync + 'static,
    ) -> Script {
        Script::serve(move |_, mut wire| {
            let then = then.clone();
            async move {
                for _ in 0..good {
                    if wire.request().await.is_none() {
                        return;
                    }
                    wire.write(answer("{}")).await;
                }
                if wire.request().await.is_some() {
                    then(wire).await;
                }
            }
        })
        .await
    }

    #[tokio::test]
    async fn a_node_sees_our_request_and_nothing_else() {
        let node = Script::always(answer("{}")).await;
        let url = format!("http://us:p%40ss@{}/v3/?key=k", node.address);
        let mut config = NodeConfig::new(url.parse().unwrap());
        config.headers.push((http::HeaderName::from_static("x-own"), HeaderValue::from_static("o")));
        let fixture = Fixture::of(vec![config], PoolLimits::default());
        let mut ask = call("{\"id\":1}");
        ask.headers.insert("apikey", HeaderValue::from_static("secret"));
        ask.headers.insert("x-forwarded-for", HeaderValue::from_static("1.2.3.4"));
        fixture.whole(ask).await.unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            "POST /v3/?key=k HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\naccept-encoding: identity\r\n\
             user-agent: rpcgate/{version}\r\nauthorization: Basic dXM6cEBzcw==\r\nx-own: o\r\ncontent-length: 8\r\n\r\n\
             {{\"id\":1}}",
            node.address
        );
        assert_eq!(node.seen(), [expected]);
    }

    #[tokio::test]
    async fn a_rest_call_goes_below_the_url() {
        let node = Script::always(answer("{}")).await;
        let fixture = Fixture::with(&[format!("{}/api", node.url())], PoolLimits::default());
        let mut ask = call("");
        (ask.method, ask.path) = (Method::GET, Some(PathAndQuery::from_static("/v2/x?y=1")));
        ask.headers.insert("accept", HeaderValue::from_static("text/plain"));
        fixture.whole(ask).await.unwrap();
        let [seen] = &node.seen()[..] else { panic!("one request") };
        assert!(seen.starts_with("GET /api/v2/x?y=1 HTTP/1.1\r\n"), "{seen}");
        assert!(seen.contains("\r\naccept: text/plain\r\n"), "{seen}");
        assert!(!seen.contains("content-type") && !seen.contains("content-length"), "{seen}");
    }

    #[tokio::test]
    async fn a_read_survives_a_connection_that_dies_under_it() {
        let node = failing(1, async |_| {}).await;
        let fixture = Fixture::new(&[&node]);
        fixture.read().await.unwrap();
        assert_eq!(fixture.read().await.unwrap(), "{}");
        assert_eq!((node.conns(), node.seen().len()), (2, 3));
    }

    #[tokio::test]
    async fn a_broadcast_that_was_written_is_never_written_again() {
        for good in [0, 1] {
            let (one, two) = (failing(good, async |_| {}).await, failing(good, async |_| {}).await);
            let fixture = Fixture::new(&[&one, &two]);
            for _ in 0..2 * good {
                fixture.read().await.unwrap();
            }
            for sent in 1..=2 {
                assert_eq!(fixture.broadcast().await, Err(broken()));
                let seen = [one.seen(), two.seen()].concat();
                assert_eq!(seen.iter().filter(|seen| seen.ends_with("send")).count(), sent, "{good}");
            }
        }
    }

    #[tokio::test]
    async fn a_refused_connection_is_a_fault_before_anything_was_sent() {
        let refusing = Refusing::new();
        let fixture = Fixture::with(&[refusing.url()], PoolLimits::default());
        for call in [fixture.read().await, fixture.broadcast().await] {
            assert_eq!(call, Err(Fault::unsent(Cause::Connect).into()));
        }
    }

    #[tokio::test]
    async fn reads_and_broadcasts_go_to_another_node_when_one_refuses_connections() {
        let node = Script::always(answer("{}")).await;
        let refusing = Refusing::new();
        let fixture = Fixture::with(&[refusing.url(), node.url()], PoolLimits::default());
        for _ in 0..10 {
            fixture.read().await.unwrap();
            fixture.broadcast().await.unwrap();
        }
        assert_eq!(node.seen().len(), 20);
        let aside: Vec<_> = fixture.pool.nodes().map(|node| node.standing.left()).collect();
        assert_eq!(aside, [Duration::from_secs(1), Duration::ZERO]);
    }

    #[tokio::test]
    async fn a_node_put_aside_returns_when_its_time_is_up_and_it_can_be_reached() {
        let refusing = Refusing::new();
        let fixture = Fixture::with(&[refusing.url()], PoolLimits::default());
        let aside =
            |fixture: &Fixture| fixture.pool.nodes().map(|node| node.standing.left().as_secs()).sum::<u64>();
        assert_eq!(fixture.read().await, Err(Fault::unsent(Cause::Connect).into()));
        assert_eq!(aside(&fixture), 1);
        fixture.clock.advance(Duration::from_secs(1));
        assert_eq!(fixture.read().await, Err(Fault::unsent(Cause::Connect).into()));
        assert_eq!(aside(&fixture), 2);
        let _node = Script::serve_on(refusing.listen(), async |_, mut wire: Wire| {
            wire.request().await;
            wire.write(answer("{}")).await;
        });
        // It is the only one, so it is tried although its time is not up.
        assert_eq!(fixture.read().await.unwrap(), "{}");
        assert_eq!(aside(&fixture), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn many_calls_at_once_each_get_their_own_answer() {
        let echo = |_, mut wire: Wire| async move {
            while let Some(request) = wire.request().await {
                wire.write(answer(request.split_once("\r\n\r\n").unwrap().1)).await;
            }
        };
        let (one, two, three) =
            (Script::serve(echo).await, Script::serve(echo).await, Script::serve(echo).await);
        let fixture = Fixture::new(&[&one, &two, &three]);
        let calls = (0..32).map(|task| {
            let pool = fixture.pool.clone();
            tokio::spawn(async move {
                for n in 0..50 {
                    let body = Bytes::from(format!("{task} {n}"));
                    let answer = pool
                        .ask(&NodeRequest::json_rpc(body.clone()), &mut MemoryPermit::default())
                        .await
                        .unwrap();
                    assert!(
                        matches!(answer.body, AnswerBody::Whole(ref answer) if *answer == body),
                        "{body:?}"
                    );
                }
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        assert_eq!(one.seen().len() + two.seen().len() + three.seen().len(), 32 * 50);
        assert_eq!(
            fixture.pool.in_flight() + fixture.pool.nodes().map(|node| node.in_flight).sum::<usize>(),
            0
        );
    }

    #[tokio::test]
    async fn an_answer_that_is_cut_is_a_fault_wherever_it_is_cut() {
        let full = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 12\r\n\r\n{\"result\":1}";
        let chunked =
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n{\"resu\r\n6\r\nlt\":1}\r\n0\r\n\r\n";
        for (text, steps) in [(full, 7), (chunked, 5)] {
            for cut in (0..text.len()).step_by(steps) {
                let node = failing(0, move |mut wire| async move { wire.write(&text[..cut]).await }).await;
                let fixture = Fixture::new(&[&node]);
                assert_eq!(fixture.broadcast().await, Err(broken()), "cut at {cut} of {text}");
                assert_eq!((node.seen().len(), fixture.idle()), (1, 0));
            }
            let node = Script::always(text).await;
            assert_eq!(Fixture::new(&[&node]).read().await.unwrap(), "{\"result\":1}");
        }
    }

    #[tokio::test]
    async fn a_reset_in_the_middle_of_an_answer_is_a_fault_and_a_read_moves_on() {
        let reset = failing(0, async |mut wire| {
            wire.write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{").await;
            wire.reset();
        })
        .await;
        assert_eq!(Fixture::new(&[&reset]).broadcast().await, Err(broken()));
        let good = Script::always(answer("{}")).await;
        let fixture = Fixture::new(&[&reset, &good]);
        for _ in 0..4 {
            assert_eq!(fixture.read().await.unwrap(), "{}");
        }
        assert_eq!(good.seen().len(), 4);
    }

    #[tokio::test]
    async fn a_read_is_sent_at_most_twice_on_new_connections() {
        let (one, two) = (failing(0, async |_| {}).await, failing(0, async |_| {}).await);
        let fixture = Fixture::new(&[&one]);
        assert_eq!(fixture.read().await, Err(broken()));
        assert_eq!(one.seen().len(), 2);
        let fixture = Fixture::new(&[&one, &two]);
        assert_eq!(fixture.read().await, Err(broken()));
        assert_eq!((one.seen().len(), two.seen().len()), (3, 1));
    }

    #[tokio::test]
    async fn a_half_closed_connection_is_not_used_again() {
        let node = Script::serve(|_, mut wire| async move {
            wire.request().await;
            wire.write(answer("{}")).await;
            wire.stream.shutdown().await.unwrap();
            wire.closed().await;
        })
        .await;
        let fixture = Fixture::new(&[&node]);
        fixture.read().await.unwrap();
        fixture.until(|_| fixture.idle() == 0).await;
        assert_eq!(fixture.broadcast().await.unwrap(), "{}");
        assert_eq!(node.seen().len(), 2);
    }

    #[tokio::test]
    async fn a_node_that_half_closes_instead_of_answering_is_a_fault() {
        let node = failing(0, async |mut wire| {
            wire.stream.shutdown().await.unwrap();
            wire.closed().await;
        })
        .await;
        assert_eq!(Fixture::new(&[&node]).broadcast().await, Err(broken()));
    }

    #[tokio::test]
    async fn an_early_answer_counts_but_its_connection_is_not_used_again() {
        let node = Script::serve(|number, mut wire| async move {
            if number == 0 {
                let mut byte = [0];
                wire.stream.read_exact(&mut byte).await.unwrap();
                wire.write("HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\n{}").await;
                // The rest of the request is never read.
                std::future::pending::<()>().await;
            }
            while wire.request().await.is_some() {
                wire.write(answer("next")).await;
            }
        })
        .await;
        let fixture = Fixture::new(&[&node]);
        let large =
            NodeRequest { broadcast: true, ..NodeRequest::json_rpc(Bytes::from(vec![b' '; 32 << 20])) };
        let early = fixture.pool.ask(&large, &mut MemoryPermit::default()).await.unwrap();
        assert_eq!(early.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(fixture.broadcast().await.unwrap(), "next");
        assert_eq!(node.conns(), 2);
    }

    #[tokio::test]
    async fn what_follows_an_answer_is_no_answer_to_the_next_call() {
        let poison = answer("poison");
        let node = Script::serve(move |number, mut wire| {
            let poison = poison.clone();
            async move {
                let tail = if number == 0 { poison } else { String::new() };
                while wire.request().await.is_some() {
                    wire.write(answer("good") + &tail).await;
                }
            }
        })
        .await;
        let fixture = Fixture::new(&[&node]);
        for _ in 0..3 {
            assert_eq!(fixture.read().await.unwrap(), "good");
        }
        assert_eq!((node.conns(), node.seen().len()), (2, 3));
    }

    #[tokio::test]
    async fn what_comes_while_a_connection_waits_closes_it() {
        let node = Script::serve(|_, mut wire| async move {
            wire.request().await;
            wire.write(answer("good")).await;
            wire.stream.flush().await.unwrap();
            tokio::task::yield_now().await;
            wire.write(answer("poison")).await;
            wire.closed().await;
        })
        .await;
        let fixture = Fixture::new(&[&node]);
        assert_eq!(fixture.read().await.unwrap(), "good");
        fixture.until(|_| fixture.idle() == 0).await;
        assert_eq!(fixture.read().await.unwrap(), "good");
    }

    /// A node that closes its first connection after an answer on it, and a channel that tells when it did. It has a
    /// thread of its own, so that the pool's can be held up until then.
    fn ending() -> (String, std::sync::mpsc::Receiver<String>) {
        use std::io::{BufRead, BufReader, Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let serve = |reply: &str| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let head: Vec<_> =
                    reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
                let mut body = [0; 4];
                reader.read_exact(&mut body).unwrap();
                stream.write_all(answer(reply).as_bytes()).unwrap();
                (stream, format!("{} {}", head.len(), String::from_utf8_lossy(&body)))
            };
            let (stream, seen) = serve("first");
            drop(stream);
            tell.send(seen).unwrap();
            let (_stream, seen) = serve("second");
            tell.send(seen).unwrap();
        });
        (url, told)
    }

    #[tokio::test]
    async fn a_broadcast_on_a_connection_that_has_just_ended_is_sent_on_another() {
        let (url, told) = ending();
        let fixture = Fixture::with(&[url], PoolLimits::default());
        assert_eq!(fixture.broadcast().await.unwrap(), "first");
        // The thread waits, so the pool cannot notice before its next call.
        assert_eq!(told.recv().unwrap(), "6 send");
        assert_eq!(fixture.broadcast().await.unwrap(), "second");
        assert_eq!(told.recv().unwrap(), "6 send");
    }

    #[tokio::test]
    async fn informational_answers_are_passed_over() {
        let early = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
        let node = Script::always(early.to_owned() + &answer("{}")).await;
        let fixture = Fixture::new(&[&node]);
        for _ in 0..2 {
            assert_eq!(fixture.read().await.unwrap(), "{}");
        }
        assert_eq!(node.conns(), 1);
    }

    #[tokio::test]
    async fn what_is_no_http_answer_is_undecodable() {
        for garbage in [
            "\x16\x03\x01 not http\r\n\r\n",
            "{\"result\":1}\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
        ] {
            let node = Script::always(garbage).await;
            let fixture = Fixture::new(&[&node]);
            assert_eq!(fixture.read().await, Err(undecodable()), "{garbage}");
            assert_eq!(node.seen().len(), 1, "a node that talks nonsense is not asked again: {garbage}");
        }
    }

    #[tokio::test]
    async fn chunks_that_cannot_be_read_are_a_fault() {
        for chunks in ["x\r\n", "2\r\n{}xx", "ffffffffffffffffff\r\n", "2\r\n{}\r\nz"] {
            let node =
                Script::always(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}"))
                    .await;
            assert_eq!(Fixture::new(&[&node]).broadcast().await, Err(broken()), "{chunks}");
        }
    }

    #[tokio::test]
    async fn trailers_are_left_out_and_the_connection_stays() {
        let node = Script::always(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n2\r\n{}\r\n0\r\nx: y\r\n\r\n",
        )
        .await;
        let fixture = Fixture::new(&[&node]);
        for _ in 0..2 {
            let answer = fixture.pool.ask(&call("a"), &mut MemoryPermit::default()).await.unwrap();
            assert!(answer.framed && answer.headers.is_empty(), "{answer:?}");
        }
        assert_eq!(node.conns(), 1);
    }

    #[tokio::test]
    async fn a_node_that_closes_after_each_answer_gets_a_connection_for_each_call() {
        for head in ["HTTP/1.1 200 OK\r\nconnection: close", "HTTP/1.0 200 OK"] {
            let node = Script::always(format!("{head}\r\ncontent-length: 2\r\n\r\n{{}}")).await;
            let fixture = Fixture::new(&[&node]);
            for _ in 0..3 {
                assert_eq!(fixture.broadcast().await.unwrap(), "{}");
            }
            assert_eq!((node.conns(), fixture.idle()), (3, 0));
        }
    }

    #[tokio::test]
    async fn a_body_that_ends_with_the_connection_is_given_out_whole_or_not_at_all() {
        let node =
            failing(0, async |mut wire| wire.write("HTTP/1.0 200 OK\r\n\r\n{\"result\":1}").await).await;
        let fixture = Fixture::new(&[&node]);
        let answer = fixture.pool.ask(&call("a"), &mut MemoryPermit::default()).await.unwrap();
        assert!(
            !answer.framed && matches!(answer.body, AnswerBody::Whole(ref body) if body == "{\"result\":1}")
        );
        assert_eq!(
            fixture.whole(NodeRequest { collect: 11, broadcast: true, ..call("a") }).await,
            Err(undecodable())
        );
    }

    #[tokio::test]
    async fn a_call_without_an_answer_ends_with_its_time_and_is_not_sent_again() {
        let node = failing(0, async |_wire| std::future::pending().await).await;
        let fixture = Fixture::with(&[node.url()], short(50));
        assert_eq!(fixture.read().await, Err(Fault::sent(Cause::Timeout).into()));
        assert_eq!(node.seen().len(), 1);
        assert_eq!(
            fixture.pool.nodes().map(|node| node.in_flight).sum::<usize>() + fixture.pool.in_flight(),
            0
        );
    }

    #[tokio::test]
    async fn an_answer_that_drips_ends_with_the_time_of_the_call() {
        let node = failing(0, async |mut wire| {
            wire.write("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await;
            loop {
                wire.write(" ").await;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        let fixture = Fixture::with(&[node.url()], short(50));
        assert_eq!(fixture.read().await, Err(Fault::sent(Cause::Timeout).into()));
    }

    #[tokio::test]
    async fn leaving_a_call_closes_its_connection() {
        let node = failing(0, async |mut wire| {
            wire.closed().await;
            wire.note("closed");
        })
        .await;
        let fixture = Fixture::new(&[&node]);
        {
            let mut room = MemoryPermit::default();
            let call = call("a");
            let mut ask = Box::pin(fixture.pool.ask(&call, &mut room));
            let seen = fixture.until(|_| !node.seen().is_empty());
            tokio::select! { _ = &mut ask => panic!("no answer was sent"), () = seen => {} }
        }
        fixture.until(|_| node.seen().len() == 2).await;
        assert_eq!(fixture.pool.in_flight(), 0);
    }

    #[tokio::test]
    async fn compressed_answers_are_decoded_within_bounds() {
        let text = "{\"result\":0}".repeat(1000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
        let body = gzip.finish().unwrap();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", body.len());
        let node = Script::always([head.as_bytes(), &body].concat()).await;
        let fixture = Fixture::new(&[&node]);
        let ask = NodeRequest { collect: 10, largest: text.len(), ..call("a") };
        let answer = fixture.pool.ask(&ask.clone(), &mut MemoryPermit::default()).await.unwrap();
        assert!(
            answer.headers.is_empty() && matches!(answer.body, AnswerBody::Whole(ref body) if *body == text)
        );
        for largest in [text.len() - 1, body.len() - 1] {
            let error = fixture.whole(NodeRequest { largest, ..ask.clone() }).await;
            assert_eq!(error, Err(Fault::sent(Cause::Oversize).into()), "{largest}");
        }
    }

    #[tokio::test]
    async fn no_more_calls_are_under_way_than_may_be() {
        let node = failing(0, async |_wire| std::future::pending().await).await;
        let fixture = Fixture::with(&[node.url()], PoolLimits { in_flight: 2, ..PoolLimits::default() });
        let calls = async { tokio::join!(fixture.read(), fixture.read()) };
        let third = async {
            fixture.until(|_| node.seen().len() == 2).await;
            fixture.read().await
        };
        tokio::select! {
            _ = calls => panic!("nobody answers"),
            third = third => assert_eq!(third, Err(NodeRequestError::Busy)),
        }
        assert_eq!(fixture.pool.in_flight(), 0);
    }

    #[tokio::test]
    async fn an_answer_that_finds_no_room_is_given_up() {
        let node = Script::always(answer(&"x".repeat(100))).await;
        let fixture = Fixture::new(&[&node]);
        let room = MemoryBudget::new(100);
        assert!(fixture.pool.ask(&call("a"), &mut MemoryPermit::of(room.clone())).await.is_ok());
        let mut held = MemoryPermit::of(room.clone());
        held.take(1).unwrap();
        assert_eq!(fixture.pool.ask(&call("a"), &mut held).await.err(), Some(NodeRequestError::Busy));
        assert_eq!(node.seen().len(), 2);
    }

    #[test]
    fn a_pool_takes_the_lag_of_its_chain() {
        let lag = |max_lag| {
            let limits = PoolLimits { max_lag, ..PoolLimits::default() };
            Fixture::with(&["http://127.0.0.1:1".to_owned()], limits).pool.max_lag()
        };
        assert_eq!((lag(None), lag(Some(50))), (Toy.facts().max_lag, 50));
    }

    #[tokio::test]
    async fn retries_end_with_their_reserve() {
        let node = failing(0, async |_| {}).await;
        let fixture = Fixture::new(&[&node]);
        for _ in 0..100 {
            assert_eq!(fixture.read().await, Err(broken()));
        }
        assert_eq!(node.seen().len(), 100 + 30 + 10, "thirty in reserve, and one for ten calls");
    }

    #[tokio::test]
    async fn a_node_to_avoid_is_not_asked() {
        let (one, two) = (Script::always(answer("1")).await, Script::always(answer("2")).await);
        let fixture = Fixture::new(&[&one, &two]);
        let first = fixture.pool.ask(&call("a"), &mut MemoryPermit::default()).await.unwrap().node;
        let ask = NodeRequest { avoid: Some(first), ..call("a") };
        assert_ne!(fixture.pool.ask(&ask.clone(), &mut MemoryPermit::default()).await.unwrap().node, first);
        let no_node = Err(Fault::unsent(Cause::NoNode).into());
        assert_eq!(
            Fixture::new(&[&one]).whole(NodeRequest { avoid: Some(NodeIndex(0)), ..ask }).await,
            no_node
        );
        assert_eq!(Fixture::new(&[]).read().await, no_node);
    }

    #[tokio::test]
    async fn a_node_that_gave_up_waiting_is_asked_again() {
        let node = failing(1, async |mut wire| {
            wire.write("HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                .await;
        })
        .await;
        let fixture = Fixture::new(&[&node]);
        fixture.read().await.unwrap();
        assert_eq!(fixture.read().await.unwrap(), "{}");
        assert_eq!(node.conns(), 2);
    }

    #[test]
    fn what_is_shown_of_a_pool_holds_no_password() {
        let fixture = Fixture::with(&["http://u:hunter2@h:1/?key=sesame".into()], PoolLimits::default());
        let shown = format!("{:?}", fixture.pool);
        assert!(shown.contains("h:1") && !shown.contains("hunter2") && !shown.contains("sesame"), "{shown}");
    }

    #[test]
    fn a_call_may_run_on_any_thread() {
        fn send<T: Send>(_: T) {}
        let fixture = Fixture::new(&[]);
        let pool = fixture.pool.clone();
        send(async move { pool.ask(&call("a"), &mut MemoryPermit::default()).await });
    }
}
