//! Nodes of the EVM chains: the JSON-RPC of go-ethereum and its kin.

mod block;
mod call;
mod chain;
mod logs;
mod method;
mod network;
mod params;
mod pool;
mod state;
mod token;
mod tx;

use super::envelope::{Body, Fault, Request};
use super::json::Json;
use super::{NodeReply, Simulated, SimulatedRequest, Submission};
use chain::Chain;
use logs::Filters;
use network::NETWORKS;
use rpcgate_core::clock::Time;

/// Most calls of one batch; go-ethereum's default.
const BATCH: usize = 1_000;

/// A node of an EVM chain.
///
/// The ten accounts that local development nodes fund hold 10,000 coins each; whoever has their keys can send.
/// Contracts do not run, except for one ERC-20 token. State older than 128 blocks is pruned.
#[derive(Debug)]
pub struct EvmNode {
    chain: Chain,
    filters: Filters,
    /// Taken with the last request.
    submitted: Vec<Submission>,
}

impl EvmNode {
    /// The node of `eth`, `bsc`, `polygon` or `avax`; `None` for any other chain.
    pub fn new(chain: &str, seed: u64) -> Option<Self> {
        let network = NETWORKS.iter().find(|network| network.name == chain)?;
        Some(EvmNode { chain: Chain::new(network, seed), filters: Filters::default(), submitted: Vec::new() })
    }

    /// Writes the answer to one request; nothing for a notification.
    fn answer(&mut self, request: Request, now: Time, out: &mut String) -> bool {
        let result = match request.method.as_str() {
            Some(method) if request.object => {
                let result = self.call(method, request.params, now);
                if request.id.is_none() {
                    return false;
                }
                result
            }
            _ => Err(Fault::new(-32600, "invalid request")),
        };
        write_reply(request.id.as_deref(), result, out);
        true
    }
}

fn write_reply(id: Option<&str>, result: Result<Json, Fault>, out: &mut String) {
    out.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    out.push_str(id.unwrap_or("null"));
    match result {
        Ok(value) => {
            out.push_str(",\"result\":");
            value.write(out);
        }
        Err(fault) => {
            out.push_str(",\"error\":");
            fault.json().write(out);
        }
    }
    out.push('}');
}

impl Simulated for EvmNode {
    fn handle(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        self.submitted.clear();
        if *request.method != http::Method::POST {
            // go-ethereum lets load balancers look at it with an empty GET.
            let status =
                if *request.method == http::Method::GET && request.body.is_empty() { 200 } else { 405 };
            let body = if status == 200 { Vec::new() } else { b"method not allowed\n".to_vec() };
            return NodeReply { status, content_type: "text/plain; charset=utf-8", body };
        }
        self.chain.advance(now);
        let mut out = String::new();
        match Body::read(request.body) {
            Body::Unreadable => write_reply(None, Err(Fault::new(-32700, "parse error")), &mut out),
            Body::Single(request) => {
                self.answer(request, now, &mut out);
            }
            Body::Batch(items) if items.is_empty() => {
                write_reply(None, Err(Fault::new(-32600, "empty batch")), &mut out);
            }
            Body::Batch(items) if items.len() > BATCH => {
                write_reply(None, Err(Fault::new(-32600, "batch too large")), &mut out);
            }
            Body::Batch(items) => {
                for item in items {
                    let before = out.len();
                    out.push(if before == 0 { '[' } else { ',' });
                    if !self.answer(item, now, &mut out) {
                        out.truncate(before);
                    }
                }
                if !out.is_empty() {
                    out.push(']');
                }
            }
        }
        NodeReply::json(200, out)
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
            // What an edited list lacks may leave a later transaction without its nonce or its coins.
            let _ = self.take(raw);
        }
    }
}

#[cfg(test)]
mod tests;
