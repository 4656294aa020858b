//! One way to ask a node: what the retry loop needs to know of a protocol.

use super::node::{Node, NodeIndex};
use super::node_set::NodeSet;
use super::progress::CallProgress;
use super::retry::TryFailure;
use super::transport_health::Judged;
use super::usefulness::MethodPlace;
use crate::transport::h1::client::{Client, Reuse};
use crate::transport::h1::{NodeAnswer, NodeRequest};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::node_try::NodeChoice;
use rpcgate_core::tally::Transport;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A call that can be sent to a node, and to another one if that fails.
pub(crate) trait Exchange: Send {
    /// A client of one node.
    type Client: AsRef<Node> + Sync;
    /// An answer that is accepted.
    type Answer: Judged + Send;

    /// How it reaches the node.
    const TRANSPORT: Transport;

    /// The place of its method in the account of a node.
    fn method(&self) -> MethodPlace {
        MethodPlace::OTHER
    }

    /// The node that gets it first, if that is decided.
    fn first(&self) -> Option<NodeIndex> {
        None
    }

    /// A node that must not get it.
    fn avoid(&self) -> Option<NodeIndex> {
        None
    }

    /// The nodes that take it.
    fn among(&self) -> NodeSet {
        NodeSet::ALL
    }

    /// How long its first node has, if that was decided and the time is not that of the call.
    fn first_limit(&self) -> Option<Duration> {
        None
    }

    /// How many calls a node counts it as.
    fn calls(&self) -> u32 {
        1
    }

    /// Why its first node is chosen, if there is a reason of its own.
    fn choice(&self) -> Option<NodeChoice> {
        None
    }

    /// What is told where it is tried, if something watches it.
    fn place(&self) -> Option<&TryPlace> {
        None
    }

    /// Whether it may be sent again although a byte of it was sent before.
    fn may_repeat(&self) -> bool;

    /// Whether the client chose the time for all tries. Then a node that has not answered within it has not failed, and is not
    /// ejected for it; it counts as silent if the time was longer than usual.
    fn is_limited_by_client(&self) -> bool {
        false
    }

    /// Sends it once.
    fn try_once(
        &mut self,
        client: &Self::Client,
        reuse: Reuse,
        progress: &mut CallProgress<'_>,
    ) -> impl Future<Output = Result<Self::Answer, Rejected>> + Send;
}

/// A try that failed, and the time for which the node requested no calls.
pub(crate) struct Rejected {
    pub(super) failure: TryFailure,
    pub(super) pause: Option<Duration>,
}

impl<F: Into<TryFailure>> From<F> for Rejected {
    fn from(failure: F) -> Self {
        Rejected { failure: failure.into(), pause: None }
    }
}

/// Where a call is tried, for one that watches it.
#[derive(Default)]
pub(crate) struct TryPlace {
    /// The place of the node, and 1; 0: none.
    node: AtomicUsize,
    tries: AtomicUsize,
}

impl TryPlace {
    pub(crate) fn enter(&self, node: NodeIndex) {
        self.node.store(node.0 + 1, Relaxed);
        self.tries.fetch_add(1, Relaxed);
    }

    /// The node that has it.
    pub(crate) fn node(&self) -> Option<NodeIndex> {
        self.node.load(Relaxed).checked_sub(1).map(NodeIndex)
    }

    /// Whether it was tried no more than once.
    pub(super) fn is_first_try(&self) -> bool {
        self.tries.load(Relaxed) == 1
    }
}

/// A request over HTTP/1.1 whose answer must satisfy `classify`.
pub(super) struct HttpExchange<'a, F> {
    pub(super) request: &'a NodeRequest,
    pub(super) memory: &'a mut MemoryPermit,
    pub(super) classify: F,
    /// Is told where it is tried.
    pub(super) place: Option<&'a TryPlace>,
}

impl<T, F> Exchange for HttpExchange<'_, F>
where
    T: Judged + Send,
    F: Fn(NodeAnswer) -> Result<T, Fault> + Send,
{
    type Client = Client;
    type Answer = T;

    const TRANSPORT: Transport = Transport::Http;

    fn method(&self) -> MethodPlace {
        MethodPlace::of(self.request.method_name)
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

    fn place(&self) -> Option<&TryPlace> {
        self.place
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
        // What cannot be read, or answers another call, was perhaps not all that the node had to send.
        if classified.as_ref().err().is_none_or(|fault| matches!(fault.cause, Cause::Status(_))) {
            client.give_back(connection);
        }
        classified.map_err(|fault| Rejected {
            failure: match fault.cause {
                // It may be left over from an earlier call, which says nothing about the node: a read is sent once more, to the
                // same node on a new connection.
                Cause::Undecodable if is_reused => TryFailure::IdleConnectionClosed { sent: fault.sent },
                _ => TryFailure::BadAnswer(fault),
            },
            pause,
        })
    }
}
