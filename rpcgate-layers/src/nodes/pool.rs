//! The nodes of one chain.

mod ask;
mod choose;
mod heights;
mod network;
mod open;
mod parallel_tries;
mod several;
mod two_grpc;

pub(crate) use self::two_grpc::SecondExchange;
use super::batching::BatchingCounts;
use super::choice::Rotation;
use super::config::{NodeConfig, make_distinct};
use super::head_requests::HeadRequests;
use super::hedge::{HedgeCounts, Hedging};
use super::in_flight::InFlightLimit;
use super::limits::PoolLimits;
use super::node::{Node, NodeIndex, NodeView};
use super::node_digits::NodeDigits;
use super::node_set::NodeSet;
use super::probe_call::ProbeFailure;
use super::retry_budget::RetryBalance;
use super::second_requests::{SecondReason, SecondRequests};
use super::timers::TimerPool;
use super::usefulness::MethodIndex;
use crate::transport::h1::client::{Client, ClientLimits};
use crate::transport::h2::client::H2Client;
use crate::transport::ws::dial::StreamClient;
use network::NetworkQuestion;
use rpcgate_core::adapter::NodeStatus;
use rpcgate_core::chain::{ChainName, Facts};
use rpcgate_core::clock::Clock;
use rpcgate_core::tally::{Transport, Transports};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

static NUMBERS: AtomicU32 = AtomicU32::new(0);

/// The nodes of one chain.
///
/// ```
/// use bytes::Bytes;
/// use rpcgate_core::adapter::Adapter;
/// use rpcgate_core::clock::SystemClock;
/// use rpcgate_core::fault::{Cause, Fault};
/// use rpcgate_core::memory::MemoryPermit;
/// use rpcgate_core::toy::Toy;
/// use rpcgate_layers::nodes::{NodeConfig, NodeRequestError, Pool, PoolLimits};
/// use rpcgate_layers::transport::h1::NodeRequest;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rpcgate_layers::nodes::BadUrl> {
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
    /// For tasks that outlive their call.
    itself: Weak<Pool>,
    /// A number that is unique in this process.
    number: u32,
    chain: ChainName,
    nodes: Box<[Arc<Node>]>,
    http: Box<[Client]>,
    ws: Box<[StreamClient]>,
    grpc: Box<[H2Client]>,
    networks: Box<[NetworkQuestion]>,
    limits: PoolLimits,
    clock: Arc<dyn Clock>,
    rotation: Rotation,
    retries: Arc<RetryBalance>,
    hedging: Option<Hedging>,
    second_requests: SecondRequests,
    is_batching: bool,
    timers: TimerPool,
    in_flight: Arc<InFlightLimit>,
    /// Separate from `in_flight`: gRPC calls may last for days and must not use up the capacity of the others.
    in_flight_grpc: Arc<InFlightLimit>,
    /// The maximum number of calls in one array that every HTTP node takes.
    max_batch: usize,
    /// True if some node takes only some methods.
    is_selective: bool,
    /// True if calls to some node have to be counted, because it has a limit or a price.
    has_allowances: bool,
    /// The preferred nodes for streams.
    for_streams: NodeSet,
    /// The HTTP nodes that keep what others have pruned; empty if all HTTP nodes do.
    archives: NodeSet,
    max_lag: u64,
    head_requests: HeadRequests,
}

impl Pool {
    /// Creates a pool of `nodes` for the chain with these facts. It connects to no node before the first call.
    pub fn new(
        facts: &Facts,
        mut nodes: Vec<NodeConfig>,
        limits: PoolLimits,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        make_distinct(&mut nodes);
        let by_http = nodes.iter().filter(|node| node.address(Transport::Http).is_some());
        let max_batch = by_http.filter_map(|node| node.max_batch).min().unwrap_or(usize::MAX).max(1);
        let nodes: Box<[_]> =
            nodes.into_iter().enumerate().map(|(index, config)| Node::new(index, config)).collect();
        let serves_all = |node: &Arc<Node>| node.config.methods.is_all();
        let has_ws = |node: &&Arc<Node>| node.config.address(Transport::Ws).is_some();
        let full_streams = nodes.iter().filter(has_ws).filter(|node| serves_all(node));
        let full_streams: NodeSet = full_streams.map(|node| node.index).collect();
        let by_http = || nodes.iter().filter(|node| node.config.address(Transport::Http).is_some());
        let archives: NodeSet =
            by_http().filter(|node| node.config.is_archive).map(|node| node.index).collect();
        let are_all = by_http().all(|node| node.config.is_archive);
        let is_selective = !nodes.iter().all(serves_all);
        let has_allowances = nodes.iter().any(|node| node.has_allowance());
        let client_limits = ClientLimits {
            connect: limits.connect,
            read: limits.retry.deadline,
            max_idle: limits.idle_per_node,
            idle: limits.idle_time,
            rest: limits.rest,
        };
        let batching = limits.batching.filter(|_| facts.joins_reads());
        let retries = Arc::new(RetryBalance::new(limits.retry.budget, clock.elapsed()));
        let client = |node: &Arc<Node>| {
            let url = node.config.address(Transport::Http)?;
            let client = || Client::new(node.clone(), url, client_limits, clock.clone());
            Some(match batching {
                Some(policy) => client().with_batching(client(), policy, &retries),
                None => client(),
            })
        };
        let stream_client =
            |node: &Arc<Node>| Some(StreamClient::new(node.clone(), node.config.address(Transport::Ws)?));
        let grpc_client = |node: &Arc<Node>| {
            let url = node.config.address(Transport::Grpc)?;
            Some(H2Client::new(node.clone(), url, limits.connect, clock.clone()))
        };
        let ws = nodes.iter().filter_map(stream_client).collect();
        let http = nodes.iter().filter_map(client).collect();
        let grpc = nodes.iter().filter_map(grpc_client).collect();
        Arc::new_cyclic(|itself| Pool {
            itself: itself.clone(),
            number: NUMBERS.fetch_add(1, Relaxed),
            chain: facts.name,
            ws,
            http,
            grpc,
            networks: nodes.iter().map(|_| NetworkQuestion::new()).collect(),
            nodes,
            max_batch,
            is_selective,
            has_allowances,
            for_streams: if is_selective && !full_streams.is_empty() { full_streams } else { NodeSet::ALL },
            archives: if are_all { NodeSet::NONE } else { archives },
            max_lag: limits.max_lag.unwrap_or(facts.max_lag),
            timers: TimerPool::default(),
            head_requests: HeadRequests::default(),
            in_flight: InFlightLimit::new(limits.in_flight),
            in_flight_grpc: InFlightLimit::new(limits.in_flight),
            rotation: Rotation::default(),
            hedging: limits.hedge.map(Hedging::new),
            second_requests: SecondRequests::default(),
            is_batching: batching.is_some(),
            retries,
            limits,
            clock,
        })
    }

    /// Returns the pool's number, which is unique in this process and identifies the pool in the records of tries.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the chain of the nodes.
    pub fn chain(&self) -> ChainName {
        self.chain
    }

    /// Returns the current status of the nodes, in the order of their indexes.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeView<'_>> {
        let clock = &*self.clock;
        self.nodes.iter().map(move |node| node.view(clock, self.client(node.index).map_or(0, Client::idle)))
    }

    /// Returns the reason for a node's last failure, if it is known.
    pub fn unreachable_reason(&self, index: NodeIndex) -> Option<Arc<str>> {
        self.nodes.get(index.0).and_then(|node| node.last_failure())
    }

    /// Reports whether a node has an address for this transport.
    pub fn has(&self, transport: Transport) -> bool {
        self.nodes.iter().any(|node| node.config.address(transport).is_some())
    }

    /// Returns the transports for which a node has an address.
    pub fn transports(&self) -> Transports {
        let every = [Transport::Http, Transport::Ws, Transport::Grpc];
        every.into_iter().filter(|transport| self.has(*transport)).collect()
    }

    /// Returns the maximum number of calls in one array that any node takes.
    pub(crate) fn max_batch(&self) -> usize {
        self.max_batch
    }

    /// Reports whether some node takes only some methods, so that callers have to ask [`takers`](Pool::takers).
    pub(crate) fn is_selective(&self) -> bool {
        self.is_selective
    }

    /// Returns the nodes with this transport that take a method with the name `sent` in the request and `metered` for
    /// metering.
    pub(crate) fn takers(&self, transport: Transport, sent: &[u8], metered: &[u8]) -> NodeSet {
        if !self.is_selective {
            return NodeSet::ALL;
        }
        let takes = |node: &&Arc<Node>| {
            node.config.address(transport).is_some() && node.config.methods.takes(sent, metered)
        };
        self.nodes.iter().filter(takes).map(|node| node.index).collect()
    }

    /// Returns the node with this transport that has these digits.
    pub(crate) fn named(&self, digits: NodeDigits, transport: Transport) -> Option<NodeIndex> {
        let is_it = |node: &&Arc<Node>| {
            node.config.digits == digits && node.config.address(transport).is_some() && node.index.0 < 64
        };
        self.nodes.iter().find(is_it).map(|node| node.index)
    }

    pub(crate) fn digits(&self, position: u16) -> Option<NodeDigits> {
        self.nodes.get(usize::from(position)).map(|node| node.config.digits)
    }

    /// Returns the nodes that may create state of their own: those to which later calls can be bound.
    pub(crate) fn nameable(&self) -> NodeSet {
        NodeSet::nameable(self.nodes.len())
    }

    pub(crate) fn archives(&self) -> NodeSet {
        self.archives
    }

    pub(crate) fn is_archive(&self, position: u16) -> bool {
        self.archives.has(NodeIndex(position.into()))
    }

    /// Returns the nodes to ask if the node at `index` answers with an error that it may have caused itself. These are
    /// nodes that served a call lately, if this node has served none lately or ever. Otherwise returns the empty set.
    pub(crate) fn better_than(&self, index: NodeIndex, transport: Transport) -> NodeSet {
        let Some(node) = self.nodes.get(index.get()) else { return NodeSet::NONE };
        let own = node.health.by(transport).usefulness();
        if own.has_served() && !own.is_suspect() {
            return NodeSet::NONE;
        }
        let is_better = |node: &&Arc<Node>| {
            let other = node.health.by(transport).usefulness();
            other.has_served_lately() && (own.is_suspect() || other.has_served())
        };
        self.nodes.iter().filter(is_better).map(|node| node.index).collect()
    }

    pub(crate) fn may_retry(&self) -> bool {
        self.limits.retry.attempts > 1
    }

    /// Takes one retry from the [budget](crate::nodes::RetryPolicy::budget). Returns false if none is left.
    pub(crate) fn take_retry(&self) -> bool {
        self.retries.withdraw(self.clock.elapsed())
    }

    /// Takes one retry, but only while enough are left for other callers.
    pub(crate) fn take_spare_retry(&self) -> bool {
        self.retries.withdraw_spare(self.clock.elapsed())
    }

    /// Records that the node answered a call of this method over HTTP with an error, and that another node has served
    /// the call.
    pub(crate) fn record_method_failed(&self, index: NodeIndex, method: MethodIndex) {
        if let Some(node) = self.nodes.get(index.get()) {
            node.health.by(Transport::Http).usefulness().record_method_failed(method);
        }
    }

    /// Returns the gRPC nodes whose errors are not trusted, because [better nodes](Pool::better_than) exist.
    pub(crate) fn grpc_doubted(&self, among: NodeSet) -> NodeSet {
        let doubted = self.grpc.iter().map(|client| client.as_ref().index);
        doubted.filter(|index| !self.better_than(*index, Transport::Grpc).and(among).is_empty()).collect()
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.clock.elapsed() + self.limits.retry.deadline
    }

    /// Returns the maximum lag of a node in blocks.
    pub fn max_lag(&self) -> u64 {
        self.max_lag
    }

    pub(crate) fn has_broadcasts_to_several(&self) -> bool {
        self.limits.broadcast_nodes > 1
    }

    /// Returns the counts of hedges, if the pool hedges.
    pub fn hedges(&self) -> Option<HedgeCounts> {
        self.hedging.as_ref().map(Hedging::counts)
    }

    /// Returns the number of reads that were sent to a second node for this reason while the first still worked on
    /// them.
    pub fn second_requests(&self, reason: SecondReason) -> u64 {
        self.second_requests.of(reason)
    }

    /// Reports whether single reads of several clients may be sent in one array.
    pub(crate) fn is_batching(&self) -> bool {
        self.is_batching
    }

    /// Returns the counts of arrays that were made of single calls, if the pool batches.
    pub fn arrays(&self) -> Option<BatchingCounts> {
        let sum =
            || self.http.iter().map(Client::arrays).fold(BatchingCounts::default(), BatchingCounts::and);
        self.is_batching.then(sum)
    }

    /// Returns the number of calls in flight, including streamed answers.
    pub fn in_flight(&self) -> usize {
        self.in_flight.in_flight() + self.in_flight_grpc.in_flight()
    }

    /// Closes connections that have been idle for too long. [`watch_head`](super::watch_head) does it with every probe.
    /// Without it, an idle connection is closed when another one takes its slot.
    pub fn sweep(&self) {
        let now = self.clock.elapsed();
        self.http.iter().for_each(|client| client.sweep(now));
    }

    /// Records the result and the latency of a node's probe. Returns the status, if there is one.
    pub(super) fn record_probe(
        &self,
        index: NodeIndex,
        result: Result<NodeStatus, ProbeFailure>,
        latency: Duration,
    ) -> Option<NodeStatus> {
        let node = self.nodes.get(index.0)?;
        let was_silent = node.health.is_silent();
        node.health.record_probe(result.as_ref().ok().copied());
        match result {
            Ok(status) => {
                node.health.by(Transport::Http).usefulness().record_latency(latency);
                node.forget_failure();
                Some(status)
            }
            Err(failure) => {
                if !failure.is_unconnected() {
                    node.note_failure(&failure);
                }
                if failure.is_silence() && !was_silent && node.health.is_silent() {
                    node.network.forget();
                }
                None
            }
        }
    }

    /// Reports whether the network of a node has to be checked before the node is compared with others.
    pub(super) fn is_network_due(&self, index: NodeIndex) -> bool {
        let is_due = |node: &Arc<Node>| {
            node.network.is_unknown() || node.network.is_wrong() || node.health.is_silent()
        };
        self.nodes.get(index.0).is_some_and(is_due)
    }

    pub(super) fn is_of_wrong_network(&self, index: NodeIndex) -> bool {
        self.nodes.get(index.0).is_some_and(|node| node.network.is_wrong())
    }

    /// Returns the nodes that can be probed: those with an HTTP address.
    pub(super) fn probed(&self) -> impl ExactSizeIterator<Item = NodeIndex> {
        self.http.iter().map(|client| client.as_ref().index)
    }

    /// Reports whether the budget of a node is used up, so that it gets neither calls nor probes.
    pub(super) fn is_spent(&self, index: NodeIndex) -> bool {
        self.has_allowances && self.nodes.get(index.0).is_some_and(|node| node.is_spent(&*self.clock))
    }

    pub(super) fn compare(&self, reference: u64) {
        self.http.iter().for_each(|client| client.as_ref().health.compare(reference, self.max_lag));
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    fn client(&self, index: NodeIndex) -> Option<&Client> {
        self.http.iter().find(|client| client.as_ref().index == index)
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
mod tests;
