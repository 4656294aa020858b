//! Simulated nodes: state machines that answer like a real blockchain node, for demonstrations and tests.
//!
//! A node here has no socket, no task and no clock: it is handed a request and the time, and answers. Its chain
//! is a function of a seed and the time, so that two nodes of one seed agree and a restart is no reorganisation.
//! What clients submit lives in memory only, is bounded, and enters the next block.
//!
//! Not simulated: proof of work, script and contract execution beyond one token, and state older than a pruned
//! node keeps.
//!
//! ```
//! use rpcgate_chains::simulate::{NodeRequest, node};
//! use rpcgate_core::clock::Time;
//!
//! let mut eth = node("eth", 7).expect("eth is simulated");
//! let body = br#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
//! let request = NodeRequest { method: &http::Method::POST, path: "/", body };
//! let reply = eth.handle(&request, Time::from_secs(1_800_000_000));
//! assert_eq!(reply.body, br#"{"jsonrpc":"2.0","id":1,"result":"0x1"}"#);
//! ```

mod dial;
mod envelope;
mod evm;
#[cfg(test)]
mod golden;
mod json;
mod seed;
mod timeline;
mod utxo;

pub use dial::{Dial, Disturbance};
pub use evm::EvmNode;
use rpcgate_core::clock::Time;
pub use timeline::EPOCH;
pub use utxo::UtxoNode;

/// What a node sees of an HTTP request.
#[derive(Debug, Clone, Copy)]
pub struct NodeRequest<'a> {
    /// The HTTP method.
    pub method: &'a http::Method,
    /// Path and query as the node sees them, the gateway's chain segment already removed.
    pub path: &'a str,
    /// The whole body.
    pub body: &'a [u8],
}

/// What a node answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReply {
    /// The HTTP status.
    pub status: u16,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The body; empty when the node has nothing to say (a lone notification).
    pub body: Vec<u8>,
}

impl NodeReply {
    /// A JSON answer.
    pub(crate) fn json(status: u16, body: String) -> Self {
        NodeReply { status, content_type: "application/json", body: body.into_bytes() }
    }
}

/// A node that is a state machine.
pub trait Simulated: Send + std::fmt::Debug {
    /// Answers one request at `now`. Time that steps back never makes the chain shorter.
    fn handle(&mut self, request: &NodeRequest<'_>, now: Time) -> NodeReply;

    /// Height of the newest block at `now`.
    fn height(&self, now: Time) -> u64;
}

/// The node of a chain, by its path name at the gateway (`eth`, `btc`, …); `None` for a chain that has no
/// simulated node.
pub fn node(chain: &str, seed: u64) -> Option<Box<dyn Simulated>> {
    if let Some(node) = EvmNode::new(chain, seed) {
        return Some(Box::new(node));
    }
    Some(Box::new(UtxoNode::new(chain, seed)?))
}
