//! The node of the XRP Ledger: the JSON-RPC and the WebSocket of rippled, API versions 1 and 2.

mod fields;
mod ledger;
mod method;
mod root;
mod settings;
mod show;
mod stream;
mod wire;

use super::envelope::{Body, Request};
use super::json::{Json, object};
use super::ledger::{LedgerNode, ledger_of};
use super::stream::Sessions;
use super::{NodeReply, SimulatedRequest, SimulatedStreams};
use ledger::{Accounts, Chain};
use method::Trouble;
use rpcgate_core::clock::Time;
use serde_json::{Map, Value};

/// A server of the XRP Ledger that keeps two weeks of ledgers.
///
/// The account of the phrase "masterpassphrase" (`rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh`) holds a million XRP, so that
/// every client can send. Payments of XRP and `AccountSet` are executed, without the settings of accounts. Every other
/// type of transaction is refused as disabled.
#[derive(Debug)]
pub struct XrpNode {
    chain: Chain,
    /// The time of the first request, for the server's uptime.
    since: Option<Time>,
    sessions: Sessions<stream::Session>,
}

/// The context of a call, in addition to its parameters.
#[derive(Debug, Clone, Copy)]
struct Context {
    now: Time,
    since: Time,
    /// The API version, 1 or 2.
    version: u64,
}

impl XrpNode {
    /// Creates a node from a seed.
    pub fn new(seed: u64) -> Self {
        XrpNode { chain: Chain::of_seed(seed), since: None, sessions: Sessions::default() }
    }

    fn answer(&mut self, request: &Request, now: Time) -> NodeReply {
        let Some(method) = request.method.as_str() else {
            let why = if request.method.is_null() { "Null method" } else { "method is not string" };
            return refused(400, why);
        };
        if method.is_empty() {
            return refused(400, "method is empty");
        }
        let nothing = Map::new();
        let params = match &request.params {
            Value::Null => &nothing,
            Value::Array(list) => match list.as_slice() {
                [] => &nothing,
                [Value::Object(params)] => params,
                [Value::Null] => &nothing,
                _ => return refused(400, "params unparseable"),
            },
            _ => return refused(400, "params unparseable"),
        };
        let Some(version) = version(params) else { return refused(400, "invalid_API_version") };
        if method::is_for_administrators(method) {
            return refused(403, "Forbidden");
        }
        let context = Context { now, since: *self.since.get_or_insert(now), version };
        let mut result = match self.call(method, params, context) {
            Ok(mut result) => {
                result.put("status", "success");
                result
            }
            Err(trouble) => error(trouble, method, params),
        };
        if let Json::Object(members) = &mut result {
            members.sort_by(|a, b| a.0.cmp(&b.0));
        }
        let mut out = String::new();
        object! { "result": result }.write(&mut out);
        if let (Some(id), Some('}')) = (&request.id, out.pop()) {
            out.push_str(",\"id\":");
            out.push_str(id);
        }
        out.push_str("}\n");
        NodeReply::json(200, out)
    }
}

/// Returns the API version of a request, 1 or 2; `None` for any other.
fn version(params: &Map<String, Value>) -> Option<u64> {
    match params.get("api_version") {
        None => Some(1),
        Some(version) => version.as_u64().filter(|version| (1..=2).contains(version)),
    }
}

/// Returns an error inside the result, together with the request, as rippled writes it.
fn error(trouble: Trouble, method: &str, params: &Map<String, Value>) -> Json {
    let mut request = repeated(params);
    request.set("command", method.to_owned());
    let mut out = object! { "error": trouble.name, "request": request, "status": "error" };
    if let Some((code, message)) = trouble.words {
        out.put("error_code", code);
        out.put("error_message", message);
    }
    for (name, value) in trouble.more {
        out.put(name, value);
    }
    out
}

/// Returns the parameters that an answer repeats, without secrets.
fn repeated(params: &Map<String, Value>) -> Json {
    let mut request = from_value(&Value::Object(params.clone()));
    for secret in ["secret", "seed", "seed_hex", "passphrase"] {
        if params.contains_key(secret) {
            request.set(secret, "<masked>");
        }
    }
    request
}

/// Converts a value of the client that an answer repeats.
fn from_value(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => Json::Number(number.to_string()),
        Value::String(text) => text.clone().into(),
        Value::Array(items) => Json::Array(items.iter().map(from_value).collect()),
        Value::Object(members) => Json::Object(
            members.iter().map(|(name, value)| (name.clone().into(), from_value(value))).collect(),
        ),
    }
}

/// Returns the plain-text error of rippled for a request that reaches no method.
fn refused(status: u16, why: &str) -> NodeReply {
    let body = format!("{why}\r\n").into_bytes();
    NodeReply { status, content_type: "text/plain; charset=UTF-8", body }
}

impl LedgerNode for XrpNode {
    ledger_of!(Accounts);

    fn respond(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        match Body::read(request.body) {
            Body::Single(request) if request.object => self.answer(&request, now),
            _ => refused(400, "Unable to parse request: "),
        }
    }

    fn web_socket(&mut self) -> Option<&mut dyn SimulatedStreams> {
        Some(self)
    }
}

#[cfg(test)]
mod tests;
