//! Simulated nodes: state machines that answer like a real blockchain node, for demonstrations and tests.
//!
//! A simulated node has no socket, task, file or clock: it takes a request and the time, and answers. TRON and Cosmos
//! also answer gRPC from the same chain ([`Simulated::handle_grpc`]). The chain is a function of a seed, the time and
//! the submissions of clients; reads change nothing. Two nodes with the same seed agree until a client submits. To
//! restart a node without a reorganisation, pass the [`Submission`]s of the old node to the new one
//! ([`Simulated::replay`]).
//!
//! Submissions are held in memory and enter the next block with space for them. An EVM node forgets the oldest ones,
//! whose effects on accounts remain. Any other node holds at most [`SUBMISSIONS`] transactions and then refuses more,
//! since the hashes of its blocks cover them.
//!
//! The nodes share two server loops, one for JSON-RPC and one for REST. Each node adds its methods or paths, its errors
//! and the form of its answers. Nodes with a WebSocket also implement [`SimulatedStreams`].
//!
//! Not simulated: proof of work, script and contract execution beyond one token, and state older than a pruned node
//! keeps.
//!
//! ```
//! use rpcgate_simulate::{SimulatedRequest, node};
//! use rpcgate_core::clock::Time;
//!
//! let mut eth = node("eth", 7).expect("eth is simulated");
//! let body = br#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
//! let request = SimulatedRequest { method: &http::Method::POST, path: "/", body };
//! let reply = eth.handle(&request, Time::from_secs(1_800_000_000));
//! assert_eq!(reply.body, br#"{"jsonrpc":"2.0","id":1,"result":"0x1"}"#);
//! ```

mod aptos;
mod bytes;
mod cardano;
mod cosmos;
mod dial;
mod envelope;
mod evm;
mod grpc;
mod hash;
mod json;
mod json_rpc;
mod ledger;
mod near;
mod rest;
mod seed;
mod solana;
mod stream;
mod sui;
mod target;
#[cfg(test)]
mod testing;
mod ton;
mod tron;
mod utc;
mod utxo;
mod xlm;
mod xrp;

pub use aptos::AptosNode;
pub use cardano::CardanoNode;
pub use cosmos::CosmosNode;
pub use dial::{Dial, Disturbance};
pub use evm::EvmNode;
pub use grpc::GrpcFailure;
use grpc::schema::Schema;
pub use ledger::{EPOCH, NoSubmission, SUBMISSION_BYTES, SUBMISSIONS, Submission};
pub use near::NearNode;
use rpcgate_core::clock::Time;
pub use solana::SolanaNode;
pub use stream::{SimulatedStreamId, SimulatedStreams, StreamDial, StreamDisturbance, StreamFate};
pub use sui::SuiNode;
pub use ton::TonNode;
pub use tron::TronNode;
pub use utxo::UtxoNode;
pub use xlm::XlmNode;
pub use xrp::XrpNode;

/// An HTTP request, as a node sees it.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedRequest<'a> {
    /// The HTTP method.
    pub method: &'a http::Method,
    /// Path and query without the gateway's chain segment.
    pub path: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// A node's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReply {
    /// The HTTP status.
    pub status: u16,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The body; empty without an answer (for a lone notification).
    pub body: Vec<u8>,
}

impl NodeReply {
    /// Returns an answer whose JSON is already written.
    pub(crate) fn json(status: u16, body: String) -> Self {
        NodeReply { status, content_type: "application/json", body: body.into_bytes() }
    }

    pub(crate) fn of(status: u16, value: &json::Json) -> Self {
        let mut out = String::new();
        value.write(&mut out);
        NodeReply::json(status, out)
    }
}

/// A node that is a state machine.
pub trait Simulated: Send + std::fmt::Debug {
    /// Answers one request at `now`. The chain never gets shorter, even if the time steps back.
    fn handle(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply;

    /// Answers one gRPC call at `now`: `path` is `/package.Service/Method`, `message` the only message of the request.
    ///
    /// ```
    /// use rpcgate_simulate::{Simulated, node};
    /// use rpcgate_core::clock::Time;
    ///
    /// let mut tron = node("tron", 7).expect("tron is simulated");
    /// let now = Time::from_secs(1_800_000_000);
    /// let block = tron.handle_grpc("/protocol.Wallet/GetNowBlock", b"", now).expect("a block");
    /// assert!(!block.is_empty());
    /// assert_eq!(tron.handle_grpc("/protocol.Wallet/Get", b"", now).expect_err("no such method").code, 12);
    /// ```
    ///
    /// # Errors
    /// The status with which the node ends the call; 12 from a node without gRPC.
    fn handle_grpc(&mut self, path: &str, message: &[u8], now: Time) -> Result<Vec<u8>, GrpcFailure> {
        let _ = (message, now);
        Err(GrpcFailure::unimplemented(format!("unknown method {path}")))
    }

    /// Returns the height of the newest block at `now`.
    fn height(&self, now: Time) -> u64;

    /// Returns the node's WebSocket; `None` if it has none.
    fn streams(&mut self) -> Option<&mut dyn SimulatedStreams> {
        None
    }

    /// Returns the submissions that the node accepted with the last request or message, in order; empty on a second
    /// call. The next request or message clears them.
    fn submitted(&mut self) -> Vec<Submission>;

    /// Replays `past`, in order, into a node that has handled no request yet: everything that [`Simulated::submitted`]
    /// returned for a node of the same chain and seed. Blocks, receipts, balances and waiting transactions are then the
    /// same as there. The node skips submissions that it cannot read, or would not accept after the earlier ones.
    ///
    /// ```
    /// use rpcgate_simulate::{SimulatedRequest, Simulated, node};
    /// use rpcgate_core::clock::Time;
    ///
    /// let mut first = node("eth", 7).expect("eth is simulated");
    /// let body = br#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#;
    /// let request = SimulatedRequest { method: &http::Method::POST, path: "/", body };
    /// first.handle(&request, Time::from_secs(1_800_000_000));
    /// let past = first.submitted();
    /// assert!(past.is_empty(), "reading submits nothing");
    /// node("eth", 7).expect("eth is simulated").replay(&past);
    /// ```
    fn replay(&mut self, past: &[Submission]);
}

/// Creates the node of a chain, by its path name at the gateway (`eth`, `btc`, …); `None` for a chain without a
/// simulated node.
pub fn node(chain: &str, seed: u64) -> Option<Box<dyn Simulated>> {
    if let Some(node) = EvmNode::new(chain, seed) {
        return Some(Box::new(node));
    }
    Some(match chain {
        // One line for each chain, in the catalog's order.
        "xrp" => Box::new(XrpNode::new(seed)),
        "xlm" => Box::new(XlmNode::new(seed)),
        "tron" => Box::new(TronNode::new(seed)),
        "cosmos" => Box::new(CosmosNode::new(seed)),
        "near" => Box::new(NearNode::new(seed)),
        "aptos" => Box::new(AptosNode::new(seed)),
        "sui" => Box::new(SuiNode::new(seed)),
        "cardano" => Box::new(CardanoNode::new(seed)),
        "ton" => Box::new(TonNode::new(seed)),
        "solana" => Box::new(SolanaNode::new(seed)),
        _ => Box::new(UtxoNode::new(chain, seed)?),
    })
}

/// Returns the full names of the gRPC services of a chain's node, by the chain's path name at the gateway; empty for a
/// chain without any.
pub fn grpc_services(chain: &str) -> &'static [String] {
    schema(chain).map_or(&[], Schema::services)
}

/// Returns the messages and services of a chain's node, as an encoded `google.protobuf.FileDescriptorSet`: for
/// reflection, and for command line clients that need descriptors. `None` for a chain without gRPC.
///
/// ```
/// assert!(rpcgate_simulate::grpc_descriptors("cosmos").is_some_and(|descriptors| !descriptors.is_empty()));
/// assert_eq!(rpcgate_simulate::grpc_descriptors("eth"), None);
/// ```
pub fn grpc_descriptors(chain: &str) -> Option<&'static [u8]> {
    schema(chain).map(Schema::descriptors)
}

fn schema(chain: &str) -> Option<&'static Schema> {
    match chain {
        "tron" => Some(tron::grpc::services()),
        "cosmos" => Some(cosmos::grpc::services()),
        _ => None,
    }
}
