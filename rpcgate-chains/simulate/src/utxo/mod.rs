//! Nodes of the UTXO chains: the JSON-RPC 1.0 of Bitcoin Core and its kin.

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

use super::envelope::{Body, Fault, Request};
use super::json::Json;
use super::{NodeReply, Simulated, SimulatedRequest, Submission};
use chain::Chain;
use coin::COINS;
use rpcgate_core::clock::Time;

/// A daemon of a UTXO chain, with an index of transactions and without a wallet.
///
/// Every block pays to the public key whose secret key is 1; anybody can spend from blocks of odd height once they
/// are 100 blocks old. Scripts do not run, and the proof of work is not done. One block in 4,096 has a hash that is
/// not the hash of its header, so that the chain need not be computed from its first block on.
#[derive(Debug)]
pub struct UtxoNode {
    chain: Chain,
    /// When the first request came, for `uptime`.
    since: Option<Time>,
    /// Taken with the last request.
    submitted: Vec<Submission>,
}

impl UtxoNode {
    /// The daemon of `btc`, `ltc`, `bch`, `doge`, `dash` or `liquid`; `None` for any other chain.
    pub fn new(chain: &str, seed: u64) -> Option<Self> {
        let coin = COINS.iter().find(|coin| coin.name == chain)?;
        Some(UtxoNode { chain: Chain::new(coin, seed), since: None, submitted: Vec::new() })
    }

    /// Writes the answer to one request and gives its HTTP status.
    fn answer(&mut self, request: Request, now: Time, out: &mut String) -> u16 {
        let result = if !request.object {
            Err(Fault::new(-32600, "Invalid Request object"))
        } else if request.method.is_null() {
            Err(Fault::new(-32600, "Missing method"))
        } else if let Some(method) = request.method.as_str() {
            self.call(method, request.params, now)
        } else {
            Err(Fault::new(-32600, "Method must be a string"))
        };
        write_reply(request.id.as_deref(), result, out)
    }
}

/// Writes an answer and gives its HTTP status.
fn write_reply(id: Option<&str>, result: Result<Json, Fault>, out: &mut String) -> u16 {
    let status = match &result {
        Ok(_) => 200,
        Err(fault) if fault.code == -32601 => 404,
        Err(fault) if fault.code == -32600 => 400,
        Err(_) => 500,
    };
    let (result, error) = match result {
        Ok(value) => (value, Json::Null),
        Err(fault) => (Json::Null, fault.json()),
    };
    out.push_str("{\"result\":");
    result.write(out);
    out.push_str(",\"error\":");
    error.write(out);
    out.push_str(",\"id\":");
    out.push_str(id.unwrap_or("null"));
    out.push('}');
    status
}

impl Simulated for UtxoNode {
    fn handle(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        self.submitted.clear();
        if *request.method != http::Method::POST {
            let body = b"JSONRPC server handles only POST requests".to_vec();
            return NodeReply { status: 405, content_type: "text/html; charset=ISO-8859-1", body };
        }
        self.since.get_or_insert(now);
        self.chain.advance(now);
        let mut out = String::new();
        let status = match Body::read(request.body) {
            Body::Unreadable => write_reply(None, Err(Fault::new(-32700, "Parse error")), &mut out),
            Body::Single(request) if !request.object => {
                write_reply(None, Err(Fault::new(-32700, "Top-level object parse error")), &mut out)
            }
            Body::Single(request) => self.answer(request, now, &mut out),
            Body::Batch(items) => {
                out.push('[');
                for (index, item) in items.into_iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    self.answer(item, now, &mut out);
                }
                out.push(']');
                200
            }
        };
        out.push('\n');
        NodeReply::json(status, out)
    }

    fn height(&self, now: Time) -> u64 {
        self.chain.height(now)
    }

    fn submitted(&mut self) -> Vec<Submission> {
        std::mem::take(&mut self.submitted)
    }

    fn replay(&mut self, past: &[Submission]) {
        for Submission { moment, raw } in past {
            self.chain.advance(*moment);
            self.chain.retake(raw, *moment);
        }
        self.chain.weigh_waiting();
    }
}

#[cfg(test)]
mod tests;
