//! A node of Solana: the calls that need no transaction of a client, and its publish and subscribe API.

mod block;
mod chain;
mod method;
mod stream;

use super::envelope::{Fault, Request};
use super::json::Json;
use super::json_rpc::{self, JsonRpc};
use super::ledger::{LedgerNode, ResidentTraffic, ledger_of};
use super::stream::Sessions;
use super::{NodeReply, SimulatedRequest, SimulatedStreams};
use chain::Chain;
use rpcgate_core::clock::Time;
use serde_json::Value;

/// A validator of Solana that accepts no transactions of clients: accounts in pairs pay each other.
///
/// A real validator serves only subscriptions over WebSocket, on a separate port. This one also answers calls there.
#[derive(Debug)]
pub struct SolanaNode {
    chain: Chain,
    sessions: Sessions<stream::Session>,
    /// The number of subscriptions of all streams, from the start.
    subscribed: u64,
}

impl SolanaNode {
    /// Creates a node from a seed.
    pub fn new(seed: u64) -> Self {
        SolanaNode { chain: Chain::of_seed(seed), sessions: Sessions::default(), subscribed: 0 }
    }
}

impl JsonRpc for SolanaNode {
    type Error = Fault;

    fn run(&mut self, method: &str, params: Value, _: Time) -> Result<Json, Fault> {
        self.chain.call(method, &params)
    }

    fn unreadable() -> Fault {
        Fault::new(-32700, "Parse error")
    }

    fn not_a_call(_: &Request, _: bool) -> Fault {
        Fault::new(-32600, "Invalid request")
    }

    fn refused_batch(calls: usize) -> Option<Fault> {
        (calls == 0).then(|| Fault::new(-32600, "Invalid request"))
    }

    fn is_notification(request: &Request) -> bool {
        request.object && request.method.is_string() && request.id.is_none()
    }

    fn write(request: &Request, result: Result<Json, Fault>, out: &mut String) {
        json_rpc::write_id_last(request.id.as_deref(), result.map_err(Fault::json), out);
    }
}

impl LedgerNode for SolanaNode {
    ledger_of!(ResidentTraffic);

    fn respond(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        match (request.method.as_str(), request.path) {
            ("GET", "/health") => NodeReply { status: 200, content_type: "text/plain", body: b"ok".to_vec() },
            ("POST", _) => json_rpc::serve(self, request.body, now),
            _ => NodeReply {
                status: 405,
                content_type: "text/plain",
                body: b"Used HTTP Method is not allowed. POST or OPTIONS is required\n".to_vec(),
            },
        }
    }

    fn web_socket(&mut self) -> Option<&mut dyn SimulatedStreams> {
        Some(self)
    }
}

#[cfg(test)]
mod tests;
