//! A node of Cardano: Ogmios' JSON-RPC 2.0 over HTTP.

mod cbor;
mod chain;
mod method;
mod network;
mod pools;
mod tx;

use super::envelope::{Body, Fault, Request};
use super::{NodeReply, Simulated, SimulatedRequest, Submission};
use chain::Chain;
use rpcgate_core::clock::Time;

/// Most calls of one batch.
const BATCH: usize = 1_000;

/// A node of Cardano behind Ogmios.
///
/// Four addresses without a part for staking hold 10,000 ADA each; their secret keys are the numbers 1 to 4 as 32 bytes.
/// Coins move; tokens, scripts, certificates and governance are refused. Following the chain block by block is no matter
/// of HTTP.
#[derive(Debug)]
pub struct CardanoNode {
    chain: Chain,
    /// When the first request came.
    since: Option<Time>,
}

impl CardanoNode {
    /// A node for a seed.
    pub fn new(seed: u64) -> Self {
        CardanoNode { chain: Chain::new(seed), since: None }
    }

    /// Writes the answer to one request; says whether it was no refusal.
    fn answer(&mut self, request: &Request, now: Time, out: &mut String) -> bool {
        let (method, result) = match request.method.as_str() {
            Some(method) if request.object => {
                let result = self.call(method, &request.params, now);
                // What is not understood at all is answered without the method's name.
                let is_known = !matches!(&result, Err(fault) if fault.code == -32_600);
                (is_known.then_some(method), result)
            }
            None if request.object => (None, Err(invalid("field 'method' must be present and be a string"))),
            _ => (None, Err(invalid("must be a well-formed JSON object"))),
        };
        out.push_str("{\"jsonrpc\":\"2.0\"");
        if let Some(method) = method {
            out.push_str(",\"method\":");
            super::json::Json::from(method.to_owned()).write(out);
        }
        let is_good = result.is_ok();
        out.push_str(if is_good { ",\"result\":" } else { ",\"error\":" });
        result.unwrap_or_else(Fault::json).write(out);
        out.push_str(",\"id\":");
        out.push_str(request.id.as_deref().unwrap_or("null"));
        out.push('}');
        is_good
    }
}

/// What Ogmios says of a request that it does not understand.
fn invalid(what: &str) -> Fault {
    Fault::new(-32_600, format!("Invalid request: {what}."))
}

impl Simulated for CardanoNode {
    fn handle(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        self.chain.inbox.turn();
        self.since.get_or_insert(now);
        self.chain.head = self.chain.height(now);
        let path = request.path.split('?').next().unwrap_or_default().trim_matches('/');
        let mut out = String::new();
        match (request.method.as_str(), path) {
            ("GET" | "HEAD", "health") => {
                self.health(now).write(&mut out);
                return NodeReply::json(200, out);
            }
            ("POST", "") => {}
            _ => return NodeReply { status: 404, content_type: "text/plain", body: b"Not found".to_vec() },
        }
        let is_good = match Body::read(request.body) {
            Body::Unreadable => self.answer(&Request::default(), now, &mut out),
            Body::Single(request) => self.answer(&request, now, &mut out),
            Body::Batch(items) if items.is_empty() || items.len() > BATCH => {
                self.answer(&Request::default(), now, &mut out)
            }
            Body::Batch(items) => {
                for (index, item) in items.iter().enumerate() {
                    out.push(if index == 0 { '[' } else { ',' });
                    self.answer(item, now, &mut out);
                }
                out.push(']');
                true
            }
        };
        NodeReply::json(if is_good { 200 } else { 400 }, out)
    }

    fn height(&self, now: Time) -> u64 {
        self.chain.height(now)
    }

    fn submitted(&mut self) -> Vec<Submission> {
        self.chain.inbox.news()
    }

    fn replay(&mut self, past: &[Submission]) {
        for Submission { moment, raw } in past {
            self.chain.head = self.chain.height(*moment);
            if let Ok(tx) = tx::Tx::read(raw) {
                // What an edited list lacks may leave a later transaction without its outputs.
                let _ = self.chain.take(&tx, raw.clone(), *moment);
            }
        }
        self.chain.inbox.turn();
    }
}

#[cfg(test)]
mod tests;
