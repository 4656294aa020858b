//! A node of TON: TonCenter's HTTP API, version 2.

mod address;
mod cell;
mod chain;
mod config;
mod message;
mod method;
mod params;

use super::envelope::Body;
use super::json::{Json, object};
use super::{NodeReply, Simulated, SimulatedRequest, Submission};
use chain::Chain;
use params::Params;
use rpcgate_core::clock::Time;

/// A TonCenter in front of a lite server.
///
/// Four wallets of version 4 hold 10,000 TON each; the seeds of their secret keys are the numbers 1 to 4 as 32 bytes.
/// What they are told by their owners they do, apart from plugins. Code does not run otherwise: get methods are those
/// of wallets, and coins sent to where nobody is stay there. One transaction in 64 of an account that makes the
/// chain's own traffic has a hash that is not the hash of its cell.
#[derive(Debug)]
pub struct TonNode {
    chain: Chain,
}

/// Why a call failed: the HTTP status, and the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    status: u16,
    words: String,
}

impl Failure {
    fn new(status: u16, words: impl Into<String>) -> Self {
        Failure { status, words: words.into() }
    }

    fn reply(&self) -> NodeReply {
        reply(
            self.status,
            &object! { "ok": false, "error": self.words.clone(), "code": u32::from(self.status) },
        )
    }
}

fn reply(status: u16, body: &Json) -> NodeReply {
    let mut out = String::new();
    body.write(&mut out);
    NodeReply::json(status, out)
}

impl TonNode {
    /// A node for a seed.
    pub fn new(seed: u64) -> Self {
        TonNode { chain: Chain::new(seed) }
    }

    fn json_rpc(&mut self, body: &[u8], now: Time) -> NodeReply {
        let invalid = |what: &str| {
            Failure::new(422, format!("Validation error: 1 validation error for Request\n{what}"))
        };
        let request = match Body::read(body) {
            Body::Single(request) if request.object => request,
            Body::Unreadable => {
                return invalid("body -> 0\n  Expecting value (type=value_error.jsondecode)").reply();
            }
            _ => return invalid("body\n  value is not a valid dict (type=type_error.dict)").reply(),
        };
        let Some(method) = request.method.as_str() else {
            return invalid("body -> method\n  field required (type=value_error.missing)").reply();
        };
        // The server reads ids as text, and repeats them so.
        let id = request.id.as_deref().map(serde_json::from_str::<serde_json::Value>);
        let id = match id {
            None | Some(Ok(serde_json::Value::Null)) => None,
            Some(Ok(serde_json::Value::String(text))) => Some(text),
            Some(Ok(number @ serde_json::Value::Number(_))) => Some(number.to_string()),
            Some(_) => return invalid("body -> id\n  str type expected (type=type_error.str)").reply(),
        };
        let close = |mut out: Json| {
            out.put("jsonrpc", "2.0");
            if let Some(id) = id.clone() {
                out.put("id", id);
            }
            out
        };
        if !method::is_served(method) {
            return reply(422, &close(object! { "ok": false, "error": "Unknown method" }));
        }
        let params = match request.params {
            serde_json::Value::Null => Params::new(serde_json::Map::new(), false),
            serde_json::Value::Object(members) => Params::new(members, false),
            _ => {
                return invalid("body -> params\n  value is not a valid dict (type=type_error.dict)").reply();
            }
        };
        match self.call(method, &params, now) {
            Ok(result) => reply(200, &close(object! { "ok": true, "result": result })),
            Err(failure) if failure.status == 422 => {
                let words = format!("TypeError: {}", failure.words);
                reply(422, &close(object! { "ok": false, "error": words }))
            }
            Err(failure) => failure.reply(),
        }
    }

    fn rest(&mut self, method: &str, params: &Params, now: Time) -> NodeReply {
        match self.call(method, params, now) {
            Ok(result) => reply(200, &object! { "ok": true, "result": result }),
            Err(failure) if failure.status == 422 => {
                let words = format!("Validation error: 1 validation error for Request\n{}", failure.words);
                Failure::new(422, words).reply()
            }
            Err(failure) => failure.reply(),
        }
    }
}

impl Simulated for TonNode {
    fn handle(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        self.chain.inbox.turn();
        self.chain.head = self.chain.height(now);
        let (path, query) = request.path.split_once('?').unwrap_or((request.path, ""));
        let is_post = *request.method == http::Method::POST;
        let method = path.trim_matches('/');
        if matches!(method, "" | "jsonRPC") {
            return if is_post {
                self.json_rpc(request.body, now)
            } else {
                Failure::new(405, "Method Not Allowed").reply()
            };
        }
        if !method::is_served(method) {
            return Failure::new(404, "Not Found").reply();
        }
        if is_post != method::is_posted(method) {
            return Failure::new(405, "Method Not Allowed").reply();
        }
        let params = if is_post { Params::of_body(request.body) } else { Ok(Params::of_query(query)) };
        match params {
            Ok(params) => self.rest(method, &params, now),
            Err(failure) => failure.reply(),
        }
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
            // What an edited list lacks may leave a later message without its number.
            let _ = self.chain.take(raw, *moment);
        }
        self.chain.inbox.turn();
    }
}

#[cfg(test)]
mod tests;
