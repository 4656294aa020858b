//! The node of Sui: the JSON-RPC 2.0 of a full node.

mod chain;
mod execute;
mod method;
mod program;
mod show;
mod system;
mod tx;

use super::envelope::{Fault, Request};
use super::json::Json;
use super::json_rpc::{self, JsonRpc};
use super::ledger::{LedgerNode, ledger_of};
use super::{NodeReply, SimulatedRequest};
use chain::{Chain, Objects};
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The maximum number of calls in one batch.
const BATCH: usize = 1_000;

/// A full node of Sui that keeps a month of checkpoints.
///
/// Its objects are coins of SUI. Ten coins of 1,000 SUI each belong to the address of the Ed25519 key whose secret is
/// 1, so that every client can send. Transactions split, merge and transfer coins. Clients cannot call packages; two
/// residents call one that records their payments in events. The system state (`0x5`) and the clock (`0x6`) can be
/// read.
#[derive(Debug)]
pub struct SuiNode {
    chain: Chain,
}

impl SuiNode {
    /// Creates a node from a seed.
    pub fn new(seed: u64) -> Self {
        SuiNode { chain: Chain::of_seed(seed) }
    }
}

impl JsonRpc for SuiNode {
    type Error = Fault;

    fn run(&mut self, method: &str, params: Value, now: Time) -> Result<Json, Fault> {
        self.call(method, &params, now)
    }

    fn unreadable() -> Fault {
        Fault::new(-32700, "Parse error")
    }

    fn not_a_call(_: &Request, _: bool) -> Fault {
        Fault::new(-32600, "Invalid request")
    }

    fn refused_batch(calls: usize) -> Option<Fault> {
        (!(1..=BATCH).contains(&calls)).then(|| Fault::new(-32600, "Invalid request"))
    }

    fn is_notification(request: &Request) -> bool {
        request.object && request.method.is_string() && request.id.is_none()
    }

    fn write(request: &Request, result: Result<Json, Fault>, out: &mut String) {
        json_rpc::write_id_first(request.id.as_deref(), result, out);
    }
}

impl LedgerNode for SuiNode {
    ledger_of!(Objects);

    fn respond(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        if *request.method != http::Method::POST {
            let body = b"Used HTTP Method is not allowed. POST is required\n".to_vec();
            return NodeReply { status: 405, content_type: "text/plain; charset=utf-8", body };
        }
        json_rpc::serve(self, request.body, now)
    }
}

#[cfg(test)]
mod tests;
