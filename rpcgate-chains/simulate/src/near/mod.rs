//! The node of NEAR: the JSON-RPC 2.0 of nearcore.

mod chain;
mod method;
mod show;
mod state;
mod trouble;
mod tx;

use super::envelope::{Body, Request};
use super::json::{Json, object};
use super::{NodeReply, Simulated, SimulatedRequest, Submission};
use chain::Chain;
use rpcgate_core::clock::Time;
use trouble::Trouble;

/// A node of NEAR that keeps two and a half days of blocks.
///
/// The account `test.near` holds a million NEAR; its key is the Ed25519 key of the secret 1, so that anybody can
/// send. One contract runs, the token `usdt.tether-token.near`. A transaction enters the next block, its receipt runs
/// in the block after that; who waits for it is told at once what will come of it, and who looks at an account without
/// naming a block finds it done.
#[derive(Debug)]
pub struct NearNode {
    chain: Chain,
    /// When the first request came, for the node's uptime.
    since: Option<Time>,
}

impl NearNode {
    /// A node of this seed.
    pub fn new(seed: u64) -> Self {
        NearNode { chain: Chain::new(seed), since: None }
    }

    /// Writes the answer to one request and gives its HTTP status; nothing for a notification.
    fn answer(&mut self, request: &Request, now: Time, out: &mut String) -> Option<u16> {
        let result = match request.method.as_str() {
            Some(method) if request.object => self.call(method, &request.params, now),
            _ => Err(Trouble::parse("invalid request")),
        };
        if request.id.is_none() && request.object {
            return None;
        }
        out.push_str("{\"jsonrpc\":\"2.0\",");
        let status = match result {
            Ok(value) => {
                out.push_str("\"result\":");
                value.write(out);
                200
            }
            Err(trouble) => {
                let status = trouble.status();
                out.push_str("\"error\":");
                trouble.json().write(out);
                status
            }
        };
        out.push_str(",\"id\":");
        out.push_str(request.id.as_deref().unwrap_or("null"));
        out.push('}');
        Some(status)
    }
}

impl Simulated for NearNode {
    fn handle(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        self.chain.inbox.turn();
        self.chain.advance(now);
        self.since.get_or_insert(now);
        let path = request.path.split('?').next().unwrap_or_default();
        if *request.method == http::Method::GET && path == "/status" {
            return match self.call("status", &serde_json::Value::Null, now) {
                Ok(status) => {
                    let mut out = String::new();
                    status.write(&mut out);
                    NodeReply::json(200, out)
                }
                Err(trouble) => NodeReply::json(trouble.status(), String::new()),
            };
        }
        if *request.method != http::Method::POST {
            return NodeReply { status: 405, content_type: "text/plain; charset=utf-8", body: Vec::new() };
        }
        let mut out = String::new();
        let status = match Body::read(request.body) {
            Body::Unreadable => {
                let error = Trouble::parse("the body is no JSON").json();
                object! { "jsonrpc": "2.0", "error": error, "id": Json::Null }.write(&mut out);
                400
            }
            Body::Single(request) => self.answer(&request, now, &mut out).unwrap_or(200),
            Body::Batch(items) => {
                for item in items {
                    let before = out.len();
                    out.push(if before == 0 { '[' } else { ',' });
                    if self.answer(&item, now, &mut out).is_none() {
                        out.truncate(before);
                    }
                }
                if !out.is_empty() {
                    out.push(']');
                }
                200
            }
        };
        NodeReply::json(status, out)
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
            // What an edited list lacks may leave a later transaction without its number or its coins.
            let _ = self.chain.submit(raw, *moment);
        }
        self.chain.inbox.turn();
    }
}

#[cfg(test)]
mod tests;
