//! The node of Sui: the JSON-RPC 2.0 of a full node.

mod chain;
mod execute;
mod method;
mod program;
mod show;
mod system;
mod tx;

use super::envelope::{Body, Fault, Request};
use super::json::Json;
use super::{NodeReply, Simulated, SimulatedRequest, Submission};
use chain::Chain;
use rpcgate_core::clock::Time;

/// Most calls of one batch.
const BATCH: usize = 1_000;

/// A full node of Sui that keeps a month of checkpoints.
///
/// Its objects are coins of SUI. Ten of them, of 1,000 SUI each, belong to the address of the Ed25519 key whose secret
/// is 1, so that anybody can send. Transactions split, merge and hand over coins; there are no packages to call. The
/// state of the system (`0x5`) and the clock (`0x6`) are there to be looked at.
#[derive(Debug)]
pub struct SuiNode {
    chain: Chain,
}

impl SuiNode {
    /// A node of this seed.
    pub fn new(seed: u64) -> Self {
        SuiNode { chain: Chain::new(seed) }
    }

    /// Writes the answer to one request; nothing for a notification.
    fn answer(&mut self, request: &Request, now: Time, out: &mut String) -> bool {
        let result = match request.method.as_str() {
            Some(method) if request.object => {
                let result = self.call(method, &request.params, now);
                if request.id.is_none() {
                    return false;
                }
                result
            }
            _ => Err(Fault::new(-32600, "Invalid request")),
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

impl Simulated for SuiNode {
    fn handle(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        self.chain.inbox.turn();
        if *request.method != http::Method::POST {
            let body = b"Used HTTP Method is not allowed. POST is required\n".to_vec();
            return NodeReply { status: 405, content_type: "text/plain; charset=utf-8", body };
        }
        self.chain.advance(now);
        let mut out = String::new();
        match Body::read(request.body) {
            Body::Unreadable => write_reply(None, Err(Fault::new(-32700, "Parse error")), &mut out),
            Body::Single(request) => {
                self.answer(&request, now, &mut out);
            }
            Body::Batch(items) if items.is_empty() || items.len() > BATCH => {
                write_reply(None, Err(Fault::new(-32600, "Invalid request")), &mut out);
            }
            Body::Batch(items) => {
                for item in items {
                    let before = out.len();
                    out.push(if before == 0 { '[' } else { ',' });
                    if !self.answer(&item, now, &mut out) {
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
        self.chain.inbox.news()
    }

    fn replay(&mut self, past: &[Submission]) {
        for Submission { moment, raw } in past {
            self.chain.advance(*moment);
            if let Some([tx, signatures @ ..]) = execute::unpack(raw).as_deref() {
                // What an edited list lacks may leave a later transaction without its coins.
                let _ = self.chain.execute(tx, signatures.to_vec(), *moment);
            }
        }
        self.chain.inbox.turn();
    }
}

#[cfg(test)]
mod tests;
