//! The streams of a node: the answers and pushes on each connection of its WebSocket.
//!
//! Like the node, a stream has no socket and no clock. Its owner passes in the client's messages, and calls for pushes
//! at the times that the stream returns. A stream has no queue: it stores only its position in the chain, so that a
//! slow client does not increase its memory.

mod block;
mod call;
mod dial;
mod socket;

use super::ledger::LedgerNode;
pub(crate) use block::{BlockStream, BlockSubscription, Subscriptions};
pub(crate) use call::{StreamCall, StreamRpc, answer};
pub use dial::{StreamDial, StreamDisturbance, StreamFate};
use rpcgate_core::clock::Time;
pub use socket::{SimulatedStreamId, SimulatedStreams};
use std::collections::HashMap;

/// The number of messages after which [`SimulatedStreams::push`] stops at the next block or transaction.
pub(crate) const PUSHES: usize = 64;
/// The maximum subscriptions of one connection.
pub(crate) const SUBSCRIPTIONS: usize = 128;
/// The number of newest blocks that a stream reports. A stream that is behind by more skips the older blocks.
pub(crate) const TOLD: u64 = 128;

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
pub(crate) trait StreamNode: LedgerNode {
    /// The subscriptions of one client.
    type Session: Default;

    fn sessions(&mut self) -> &mut Sessions<Self::Session>;

    /// Answers a message, after the ledger advanced to `now`.
    fn receive(&mut self, session: &mut Self::Session, message: &[u8], now: Time, out: &mut Vec<String>);

    /// Writes due messages, after the ledger advanced to `now`, and stops once `out` has [`PUSHES`] messages.
    fn push(&mut self, session: &mut Self::Session, now: Time, out: &mut Vec<String>);

    fn next_push(&mut self, session: &mut Self::Session, now: Time) -> Option<Time>;

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
        self.ledger_mut().begin(now);
        with_session(self, id, |node, session| StreamNode::receive(node, session, message, now, &mut out));
        out
    }

    fn push(&mut self, id: SimulatedStreamId, now: Time) -> Vec<String> {
        let mut out = Vec::new();
        self.ledger_mut().advance(now);
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
