//! The WebSocket of a node, as the owner of its connections sees it.

use rpcgate_core::clock::Time;

/// The identifier of an open stream of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SimulatedStreamId(pub(super) u64);

/// The WebSocket of a node.
///
/// ```
/// use rpcgate_simulate::node;
/// use rpcgate_core::clock::Time;
///
/// let mut eth = node("eth", 7).expect("eth is simulated");
/// let streams = eth.streams().expect("eth has streams");
/// let (now, id) = (Time::from_secs(1_800_000_000), streams.open());
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
