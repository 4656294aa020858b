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
use super::ledger::{LedgerNode, ledger_of};
use super::rest::{self, Rest, RestRequest};
use super::{NodeReply, SimulatedRequest};
use chain::{Chain, Wallets};
use method::METHODS;
use params::Params;
use rpcgate_core::clock::Time;
use serde_json::Value;

/// A TonCenter server in front of a lite server.
///
/// Four wallets of version 4 hold 10,000 TON each; the seeds of their secret keys are the numbers 1 to 4 as 32 bytes.
/// They execute the orders of their owners, except for plugins. Other code does not run: get methods are those of wallets,
/// and coins sent to an address without an account stay there. One in 64 transactions of an account that makes the chain's
/// own traffic has a hash that is not the hash of its cell.
#[derive(Debug)]
pub struct TonNode {
    chain: Chain,
}

/// The error of a call: the HTTP status and the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    status: u16,
    words: String,
}

impl Failure {
    fn new(status: u16, words: impl Into<String>) -> Self {
        Failure { status, words: words.into() }
    }
}

impl From<Failure> for NodeReply {
    fn from(failure: Failure) -> Self {
        let code = u32::from(failure.status);
        NodeReply::of(failure.status, &object! { "ok": false, "error": failure.words, "code": code })
    }
}

impl TonNode {
    /// Creates a node from a seed.
    pub fn new(seed: u64) -> Self {
        TonNode { chain: Chain::of_seed(seed) }
    }

    /// Answers a JSON-RPC body, which must be a single call.
    fn json_rpc(&mut self, body: &[u8], now: Time) -> Result<NodeReply, Failure> {
        let invalid = |what: &str| {
            Failure::new(422, format!("Validation error: 1 validation error for Request\n{what}"))
        };
        let request = match Body::read(body) {
            Body::Single(request) if request.object => request,
            Body::Unreadable => {
                return Err(invalid("body -> 0\n  Expecting value (type=value_error.jsondecode)"));
            }
            _ => return Err(invalid("body\n  value is not a valid dict (type=type_error.dict)")),
        };
        let Some(method) = request.method.as_str() else {
            return Err(invalid("body -> method\n  field required (type=value_error.missing)"));
        };
        // The server reads ids as text, and repeats them as text.
        let id = match request.id.as_deref().map(serde_json::from_str::<Value>) {
            None | Some(Ok(Value::Null)) => None,
            Some(Ok(Value::String(text))) => Some(text),
            Some(Ok(number @ Value::Number(_))) => Some(number.to_string()),
            Some(_) => return Err(invalid("body -> id\n  str type expected (type=type_error.str)")),
        };
        let close = |mut out: Json| {
            out.put("jsonrpc", "2.0");
            if let Some(id) = id.clone() {
                out.put("id", id);
            }
            out
        };
        if !METHODS.is_served(method) {
            return Ok(NodeReply::of(422, &close(object! { "ok": false, "error": "Unknown method" })));
        }
        let params = match request.params {
            Value::Null => Params::new(serde_json::Map::new(), false),
            Value::Object(members) => Params::new(members, false),
            _ => {
                return Err(invalid("body -> params\n  value is not a valid dict (type=type_error.dict)"));
            }
        };
        match self.call(method, &params, now) {
            Ok(result) => Ok(NodeReply::of(200, &close(object! { "ok": true, "result": result }))),
            Err(failure) if failure.status == 422 => {
                let words = format!("TypeError: {}", failure.words);
                Ok(NodeReply::of(422, &close(object! { "ok": false, "error": words })))
            }
            Err(failure) => Err(failure),
        }
    }
}

impl Rest for TonNode {
    type Error = Failure;

    fn run(&mut self, call: RestRequest<'_>, now: Time) -> Result<NodeReply, Failure> {
        // The server compares the path as it was sent.
        let method = call.raw_path.trim_matches('/');
        let is_json_rpc = matches!(method, "" | "jsonRPC");
        if !is_json_rpc && !METHODS.is_served(method) {
            return Err(Failure::new(404, "Not Found"));
        }
        if call.is_post() != (is_json_rpc || METHODS.is_posted(method)) {
            return Err(Failure::new(405, "Method Not Allowed"));
        }
        if is_json_rpc {
            return self.json_rpc(call.body, now);
        }
        let params =
            if call.is_post() { Params::of_body(call.body)? } else { Params::of_query(call.raw_query) };
        match self.call(method, &params, now) {
            Ok(result) => Ok(NodeReply::of(200, &object! { "ok": true, "result": result })),
            Err(failure) if failure.status == 422 => {
                let words = format!("Validation error: 1 validation error for Request\n{}", failure.words);
                Err(Failure::new(422, words))
            }
            Err(failure) => Err(failure),
        }
    }
}

impl LedgerNode for TonNode {
    ledger_of!(Wallets);

    fn respond(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        rest::serve(self, request, now)
    }
}

#[cfg(test)]
mod tests;
