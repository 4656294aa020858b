//! The streams of a node: the answers and pushes on each connection of its WebSocket.
//!
//! Like the node, a stream has no socket and no clock. Its owner passes in the client's messages, and calls for pushes
//! at the times that the stream returns. A stream has no queue: it stores only its position in the chain, so that a
//! slow client does not increase its memory.

mod call;
#[cfg(test)]
pub(crate) mod client;
mod dial;

pub(crate) use call::{StreamCall, StreamRpc, answer};
pub use dial::{StreamDial, StreamDisturbance, StreamFate};
use rpcgate_core::clock::Time;
use std::collections::HashMap;

/// The number of messages after which [`SimulatedStreams::push`] stops at the next block or transaction.
pub(crate) const PUSHES: usize = 64;
/// The maximum subscriptions of one connection.
pub(crate) const SUBSCRIPTIONS: usize = 128;
/// The number of newest blocks that a stream reports. A stream that is behind by more skips the older blocks.
pub(crate) const TOLD: u64 = 128;

/// The identifier of an open stream of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SimulatedStreamId(u64);

/// The WebSocket of a node.
///
/// ```
/// use rpcgate_simulate::node;
/// use rpcgate_core::clock::Time;
///
/// let mut eth = node("eth", 7).expect("eth is simulated");
/// let streams = eth.streams().expect("eth has streams");
/// let now = Time::from_secs(1_800_000_000);
/// let id = streams.open();
///
/// let call = br#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#;
/// assert_eq!(streams.receive(id, call, now).len(), 1, "the id of the subscription");
/// let next = streams.next_push(id, now).expect("a block will come");
/// assert!(streams.push(id, now).is_empty() && next > now);
/// assert!(streams.push(id, next)[0].contains("eth_subscription"));
/// streams.close(id);
/// ```
pub trait SimulatedStreams {
    /// Opens a stream. It must be closed, or it stays in memory.
    fn open(&mut self) -> SimulatedStreamId;

    /// Takes a whole message of the client, text or binary, and returns the answers. A stream that is not open answers
    /// nothing.
    fn receive(&mut self, id: SimulatedStreamId, message: &[u8], now: Time) -> Vec<String>;

    /// Returns the messages that are due at `now`. Once they are written, ask again: there may be more than fit into
    /// one answer.
    fn push(&mut self, id: SimulatedStreamId, now: Time) -> Vec<String>;

    /// Returns the time at which [`SimulatedStreams::push`] may next return a message, `now` or later; `None` without a
    /// subscription. A message or submission of any client may bring it forward.
    fn next_push(&mut self, id: SimulatedStreamId, now: Time) -> Option<Time>;

    /// Lets the next [`SimulatedStreams::push`] repeat the newest block, for a node that floods its clients.
    fn rewind(&mut self, id: SimulatedStreamId);

    /// Closes a stream.
    fn close(&mut self, id: SimulatedStreamId);
}

#[derive(Debug)]
pub(crate) struct Sessions<S> {
    opened: u64,
    open: HashMap<SimulatedStreamId, S>,
}

impl<S> Default for Sessions<S> {
    fn default() -> Self {
        Sessions { opened: 0, open: HashMap::new() }
    }
}

/// A node that has a session with each client of its WebSocket.
pub(crate) trait StreamNode {
    /// The subscriptions of one client.
    type Session: Default;

    fn sessions(&mut self) -> &mut Sessions<Self::Session>;

    /// Answers a message.
    fn receive(&mut self, session: &mut Self::Session, message: &[u8], now: Time, out: &mut Vec<String>);

    /// Writes due messages, and stops once `out` has [`PUSHES`] messages.
    fn push(&mut self, session: &mut Self::Session, now: Time, out: &mut Vec<String>);

    fn next_push(&mut self, session: &Self::Session, now: Time) -> Option<Time>;

    fn rewind(&mut self, session: &mut Self::Session);
}

/// Runs `with` with a session, which is taken out of the node while it runs.
fn with_session<N: StreamNode, T>(
    node: &mut N,
    id: SimulatedStreamId,
    with: impl FnOnce(&mut N, &mut N::Session) -> T,
) -> Option<T> {
    let mut session = node.sessions().open.remove(&id)?;
    let done = with(node, &mut session);
    node.sessions().open.insert(id, session);
    Some(done)
}

impl<N: StreamNode> SimulatedStreams for N {
    fn open(&mut self) -> SimulatedStreamId {
        let sessions = self.sessions();
        sessions.opened += 1;
        let id = SimulatedStreamId(sessions.opened);
        sessions.open.insert(id, N::Session::default());
        id
    }

    fn receive(&mut self, id: SimulatedStreamId, message: &[u8], now: Time) -> Vec<String> {
        let mut out = Vec::new();
        with_session(self, id, |node, session| StreamNode::receive(node, session, message, now, &mut out));
        out
    }

    fn push(&mut self, id: SimulatedStreamId, now: Time) -> Vec<String> {
        let mut out = Vec::new();
        with_session(self, id, |node, session| StreamNode::push(node, session, now, &mut out));
        out
    }

    fn next_push(&mut self, id: SimulatedStreamId, now: Time) -> Option<Time> {
        with_session(self, id, |node, session| StreamNode::next_push(node, session, now)).flatten()
    }

    fn rewind(&mut self, id: SimulatedStreamId) {
        with_session(self, id, StreamNode::rewind);
    }

    fn close(&mut self, id: SimulatedStreamId) {
        self.sessions().open.remove(&id);
    }
}
