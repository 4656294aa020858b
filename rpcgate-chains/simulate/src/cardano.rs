//! A node of Cardano: Ogmios' JSON-RPC 2.0 over HTTP and WebSocket.

mod block;
mod cbor;
mod chain;
mod method;
mod network;
mod pools;
mod stream;
mod tx;

use super::envelope::{Fault, Request};
use super::json::Json;
use super::json_rpc::{self, JsonRpc};
use super::ledger::{LedgerNode, ledger_of};
use super::stream::Sessions;
use super::{NodeReply, SimulatedRequest, SimulatedStreams};
use chain::{Chain, Outputs};
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The maximum number of calls in one batch.
const BATCH: usize = 1_000;

/// A node of Cardano behind Ogmios.
///
/// Four addresses without a staking part hold 10,000 ADA each; their secret keys are the numbers 1 to 4 as 32 bytes.
/// Only plain transfers are accepted: tokens, scripts, certificates and governance are refused. The chain's own traffic
/// mints tokens in every fourth block. A client can follow the chain block by block only over WebSocket.
#[derive(Debug)]
pub struct CardanoNode {
    chain: Chain,
    /// The time of the first request.
    since: Option<Time>,
    sessions: Sessions<stream::Session>,
}

impl CardanoNode {
    /// Creates a node from a seed.
    pub fn new(seed: u64) -> Self {
        CardanoNode { chain: Chain::of_seed(seed), since: None, sessions: Sessions::default() }
    }
}

impl JsonRpc for CardanoNode {
    type Error = Fault;

    fn run(&mut self, method: &str, params: Value, now: Time) -> Result<Json, Fault> {
        self.call(method, &params, now)
    }

    fn unreadable() -> Fault {
        invalid("must be a well-formed JSON object")
    }

    fn not_a_call(request: &Request, _: bool) -> Fault {
        if request.object {
            invalid("field 'method' must be present and be a string")
        } else {
            CardanoNode::unreadable()
        }
    }

    fn refused_batch(calls: usize) -> Option<Fault> {
        (!(1..=BATCH).contains(&calls)).then(CardanoNode::unreadable)
    }

    fn status(_: &Fault) -> u16 {
        400
    }

    fn write(request: &Request, result: Result<Json, Fault>, out: &mut String) {
        out.push_str("{\"jsonrpc\":\"2.0\"");
        // Ogmios omits the method's name from the answer to a request that it does not understand.
        let is_understood = !matches!(&result, Err(fault) if fault.code == -32_600);
        if let (true, Some(method)) = (is_understood, request.method.as_str()) {
            out.push_str(",\"method\":");
            Json::from(method.to_owned()).write(out);
        }
        out.push_str(if result.is_ok() { ",\"result\":" } else { ",\"error\":" });
        result.unwrap_or_else(Fault::json).write(out);
        out.push_str(",\"id\":");
        out.push_str(request.id.as_deref().unwrap_or("null"));
        out.push('}');
    }
}

/// Returns the error of Ogmios for a request that it does not understand.
fn invalid(what: &str) -> Fault {
    Fault::new(-32_600, format!("Invalid request: {what}."))
}

impl LedgerNode for CardanoNode {
    ledger_of!(Outputs);

    fn respond(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        self.since.get_or_insert(now);
        let path = request.path.split('?').next().unwrap_or_default().trim_matches('/');
        match (request.method.as_str(), path) {
            ("GET" | "HEAD", "health") => NodeReply::of(200, &self.health(now)),
            ("POST", "") => json_rpc::serve(self, request.body, now),
            _ => NodeReply { status: 404, content_type: "text/plain", body: b"Not found".to_vec() },
        }
    }

    fn web_socket(&mut self) -> Option<&mut dyn SimulatedStreams> {
        Some(self)
    }
}

#[cfg(test)]
mod tests;
