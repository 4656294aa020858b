//! The node of NEAR: the JSON-RPC 2.0 of nearcore.

mod chain;
mod gas;
mod method;
mod show;
mod state;
mod trouble;
mod tx;

use super::envelope::Request;
use super::json::Json;
use super::json_rpc::{self, JsonRpc};
use super::ledger::{LedgerNode, ledger_of};
use super::{NodeReply, SimulatedRequest};
use chain::Chain;
use rpcgate_core::clock::Time;
use serde_json::Value;
use state::State;
use trouble::Trouble;

/// A node of NEAR that keeps two and a half days of blocks.
///
/// The account `test.near` holds a million NEAR. Its key is the Ed25519 key of the secret 1, so that every client can
/// send. Two contracts run: the token `usdt.tether-token.near`, with which two residents pay each other, and the
/// read-only `wrap.near`. A transaction enters the next block, and its receipt runs in the block after that. A client
/// that waits for a transaction gets its future outcome at once. A client that reads an account without naming a block
/// gets the state after all receipts so far.
#[derive(Debug)]
pub struct NearNode {
    chain: Chain,
    /// The time of the first request, for the node's uptime.
    since: Option<Time>,
}

impl NearNode {
    /// Creates a node from a seed.
    pub fn new(seed: u64) -> Self {
        NearNode { chain: Chain::of_seed(seed), since: None }
    }
}

impl JsonRpc for NearNode {
    type Error = Trouble;

    fn run(&mut self, method: &str, params: Value, now: Time) -> Result<Json, Trouble> {
        self.call(method, &params, now)
    }

    fn unreadable() -> Trouble {
        Trouble::parse("the body is no JSON")
    }

    fn not_a_call(_: &Request, _: bool) -> Trouble {
        Trouble::parse("invalid request")
    }

    fn is_notification(request: &Request) -> bool {
        request.object && request.id.is_none()
    }

    fn status(error: &Trouble) -> u16 {
        error.status()
    }

    fn write(request: &Request, result: Result<Json, Trouble>, out: &mut String) {
        json_rpc::write_id_last(request.id.as_deref(), result.map_err(Trouble::json), out);
    }
}

impl LedgerNode for NearNode {
    ledger_of!(State);

    fn respond(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        self.since.get_or_insert(now);
        let path = request.path.split('?').next().unwrap_or_default();
        if *request.method == http::Method::GET && path == "/status" {
            return match self.call("status", &Value::Null, now) {
                Ok(status) => NodeReply::of(200, &status),
                Err(trouble) => NodeReply::json(trouble.status(), String::new()),
            };
        }
        if *request.method != http::Method::POST {
            return NodeReply { status: 405, content_type: "text/plain; charset=utf-8", body: Vec::new() };
        }
        json_rpc::serve(self, request.body, now)
    }
}

#[cfg(test)]
mod tests;
