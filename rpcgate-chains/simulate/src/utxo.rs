//! Nodes of the UTXO chains: the JSON-RPC 1.0 of Bitcoin Core and its relatives.

mod accept;
mod catalog;
mod chain;
mod coin;
mod dash;
mod info;
mod method;
mod pool;
mod script;
mod show;
mod tx;

use super::envelope::{Fault, Request};
use super::json::Json;
use super::json_rpc::{self, JsonRpc};
use super::ledger::{LedgerNode, ledger_of};
use super::{NodeReply, SimulatedRequest};
use chain::{Chain, UtxoState};
use coin::COINS;
use rpcgate_core::clock::Time;
use serde_json::Value;

/// A daemon of a UTXO chain, with a transaction index and without a wallet.
///
/// Every block pays to the public key whose secret key is 1. Every client can spend from blocks of odd height that are
/// at least 100 blocks old. Scripts do not run, and there is no proof of work. One block in 4,096 has a hash that does
/// not derive from its header, so that the chain need not be computed from its first block.
#[derive(Debug)]
pub struct UtxoNode {
    chain: Chain,
    /// The time of the first request, for `uptime`.
    since: Option<Time>,
}

impl UtxoNode {
    /// Creates the daemon of `btc`, `ltc`, `bch`, `doge`, `dash` or `liquid`; `None` for any other chain.
    pub fn new(chain: &str, seed: u64) -> Option<Self> {
        let coin = COINS.iter().find(|coin| coin.name == chain)?;
        Some(UtxoNode { chain: Chain::of_coin(coin, seed), since: None })
    }
}

impl JsonRpc for UtxoNode {
    type Error = Fault;

    const END: &'static str = "\n";
    const EMPTY_BATCH: &'static str = "[]";

    fn run(&mut self, method: &str, params: Value, now: Time) -> Result<Json, Fault> {
        self.call(method, params, now)
    }

    fn unreadable() -> Fault {
        Fault::new(-32700, "Parse error")
    }

    fn not_a_call(request: &Request, is_alone: bool) -> Fault {
        match request {
            Request { object: false, .. } if is_alone => Fault::new(-32700, "Top-level object parse error"),
            Request { object: false, .. } => Fault::new(-32600, "Invalid Request object"),
            Request { method: Value::Null, .. } => Fault::new(-32600, "Missing method"),
            _ => Fault::new(-32600, "Method must be a string"),
        }
    }

    fn status(error: &Fault) -> u16 {
        match error.code {
            -32601 => 404,
            -32600 => 400,
            _ => 500,
        }
    }

    fn write(request: &Request, result: Result<Json, Fault>, out: &mut String) {
        let (result, error) = match result {
            Ok(value) => (value, Json::Null),
            Err(fault) => (Json::Null, fault.json()),
        };
        out.push_str("{\"result\":");
        result.write(out);
        out.push_str(",\"error\":");
        error.write(out);
        out.push_str(",\"id\":");
        out.push_str(request.id.as_deref().unwrap_or("null"));
        out.push('}');
    }
}

impl LedgerNode for UtxoNode {
    ledger_of!(UtxoState);

    fn respond(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        if *request.method != http::Method::POST {
            let body = b"JSONRPC server handles only POST requests".to_vec();
            return NodeReply { status: 405, content_type: "text/html; charset=ISO-8859-1", body };
        }
        self.since.get_or_insert(now);
        json_rpc::serve(self, request.body, now)
    }
}

#[cfg(test)]
mod tests;
