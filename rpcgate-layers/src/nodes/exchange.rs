//! The interface between the retry loop and a protocol.

use super::node::{Node, NodeIndex};
use super::node_set::NodeSet;
use super::progress::CallProgress;
use super::retry::TryFailure;
use super::transport_health::Judged;
use super::usefulness::MethodIndex;
use crate::transport::h1::client::{Client, Reuse};
use crate::transport::h1::{NodeAnswer, NodeRequest};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::node_try::NodeChoice;
use rpcgate_core::tally::Transport;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A call that can be sent to a node, and to another node if the first one fails.
pub(crate) trait Exchange: Send {
    type Client: AsRef<Node> + Sync;
    type Answer: Judged + Send;

    const TRANSPORT: Transport;

    /// Returns the position of the call's method in the statistics of a node.
    fn method(&self) -> MethodIndex {
        MethodIndex::OTHER
    }

    /// Returns the node that gets the call first, if that is already decided.
    fn first(&self) -> Option<NodeIndex> {
        None
    }

    fn avoid(&self) -> Option<NodeIndex> {
        None
    }

    fn among(&self) -> NodeSet {
        NodeSet::ALL
    }

    /// Returns the timeout of the predetermined first node, if it differs from that of the call.
    fn first_limit(&self) -> Option<Duration> {
        None
    }

    /// Returns the number of calls that a node counts for this exchange.
    fn calls(&self) -> u32 {
        1
    }

    /// Returns the reason for the choice of the first node, if it is a special one.
    fn choice(&self) -> Option<NodeChoice> {
        None
    }

    /// Returns the observer that follows where the call is tried, if there is one.
    fn address(&self) -> Option<&TryAddress> {
        None
    }

    /// Reports whether the call may be sent again although a part of it was sent before.
    fn may_repeat(&self) -> bool;

    /// Reports whether the client chose the time limit for all tries. If a node does not answer within it, that is not
    /// a failure of the node and does not eject it. The node counts as silent if the limit was longer than the usual
    /// one.
    fn is_limited_by_client(&self) -> bool {
        false
    }

    fn try_once(
        &mut self,
        client: &Self::Client,
        reuse: Reuse,
        progress: &mut CallProgress<'_>,
    ) -> impl Future<Output = Result<Self::Answer, Rejected>> + Send;
}

pub(crate) struct Rejected {
    pub(super) failure: TryFailure,
    pub(super) pause: Option<Duration>,
}

impl<F: Into<TryFailure>> From<F> for Rejected {
    fn from(failure: F) -> Self {
        Rejected { failure: failure.into(), pause: None }
    }
}

/// The place where a call is tried, for an observer.
#[derive(Default)]
pub(crate) struct TryAddress {
    /// The index of the node plus 1; 0 for no node.
    node: AtomicUsize,
    tries: AtomicUsize,
}

impl TryAddress {
    pub(crate) fn enter(&self, node: NodeIndex) {
        self.node.store(node.0 + 1, Relaxed);
        self.tries.fetch_add(1, Relaxed);
    }

    pub(crate) fn node(&self) -> Option<NodeIndex> {
        self.node.load(Relaxed).checked_sub(1).map(NodeIndex)
    }

    pub(super) fn is_first_try(&self) -> bool {
        self.tries.load(Relaxed) == 1
    }
}

/// A request over HTTP/1.1 whose answer `classify` has to accept.
pub(super) struct HttpExchange<'a, F> {
    pub(super) request: &'a NodeRequest,
    pub(super) memory: &'a mut MemoryPermit,
    pub(super) classify: F,
    /// The observer of the tries.
    pub(super) address: Option<&'a TryAddress>,
}

impl<T, F> Exchange for HttpExchange<'_, F>
where
    T: Judged + Send,
    F: Fn(NodeAnswer) -> Result<T, Fault> + Send,
{
    type Client = Client;
    type Answer = T;

    const TRANSPORT: Transport = Transport::Http;

    fn method(&self) -> MethodIndex {
        MethodIndex::of(self.request.method_name)
    }

    fn first(&self) -> Option<NodeIndex> {
        self.request.first
    }

    fn avoid(&self) -> Option<NodeIndex> {
        self.request.avoid
    }

    fn among(&self) -> NodeSet {
        self.request.among
    }

    fn calls(&self) -> u32 {
        self.request.calls
    }

    fn choice(&self) -> Option<NodeChoice> {
        self.request.choice
    }

    fn address(&self) -> Option<&TryAddress> {
        self.address
    }

    fn may_repeat(&self) -> bool {
        !self.request.broadcast && !self.request.is_hedge
    }

    async fn try_once(
        &mut self,
        client: &Client,
        reuse: Reuse,
        progress: &mut CallProgress<'_>,
    ) -> Result<T, Rejected> {
        let mut answer = client.send(self.request, self.memory, reuse, progress).await?;
        let pause = answer.retry_after();
        let connection = answer.take_connection();
        let is_reused = answer.is_reused;
        let classified = (self.classify)(answer);
        // After an unreadable answer, or an answer to another call, the node may still send more bytes.
        if classified.as_ref().err().is_none_or(|fault| matches!(fault.cause, Cause::Status(_))) {
            client.give_back(connection);
        }
        classified.map_err(|fault| Rejected {
            failure: match fault.cause {
                // The answer may belong to an earlier call on this connection, which says nothing about the node. A
                // read is sent once more, to the same node on a new connection.
                Cause::Undecodable if is_reused => TryFailure::IdleConnectionClosed { sent: fault.sent },
                _ => TryFailure::BadAnswer(fault),
            },
            pause,
        })
    }
}
