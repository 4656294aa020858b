//! Nodes behind the calls of a reader: simulated, scripted and real ones.

use bytes::Bytes;
use http::Method;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Time;
use rpcgate_core::event::{NodeCalls, ReadError};
use rpcgate_simulate::{Simulated, SimulatedRequest, SimulatedStreamId, node};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt::{self, Debug, Display};
use std::future::ready;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

type Outcome = Result<Bytes, ReadError>;

/// The time at which simulated nodes start.
const NOW: Time = Time::from_secs(1_800_000_000);

pub(crate) fn refused(code: i64, message: &str) -> ReadError {
    ReadError::Refused { code, message: message.to_owned() }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Value>,
}

fn call_of(method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{params}}}")
}

/// Returns the raw result of a JSON-RPC answer.
fn result_in(answer: &[u8]) -> Outcome {
    let answer: Envelope<'_> = serde_json::from_slice(answer).unwrap();
    match answer.error {
        Some(error) => {
            Err(refused(error["code"].as_i64().unwrap(), error["message"].as_str().unwrap_or_default()))
        }
        None => Ok(answer.result.map_or("null", RawValue::get).to_owned().into()),
    }
}

fn json(answer: Outcome) -> Result<Value, ReadError> {
    answer.map(|answer| serde_json::from_slice(&answer).unwrap())
}

/// A node that answers from a script: a function of a method and its parameters, or of a path and a body.
pub(crate) struct ScriptedNode<'a>(Box<Script<'a>>);

/// Returns the outcome of a method, or of a path, with these parameters.
type Script<'a> = dyn Fn(&str, &str) -> Outcome + Send + Sync + 'a;

impl<'a> ScriptedNode<'a> {
    pub(crate) fn new(script: impl Fn(&str, &str) -> Result<Value, ReadError> + Send + Sync + 'a) -> Self {
        ScriptedNode::of_texts(move |what, with| script(what, with).map(|answer| answer.to_string()))
    }

    /// Returns a node whose answers need not be JSON.
    pub(crate) fn of_texts(
        script: impl Fn(&str, &str) -> Result<String, ReadError> + Send + Sync + 'a,
    ) -> Self {
        ScriptedNode(Box::new(move |what, with| script(what, with).map(Bytes::from)))
    }

    pub(crate) fn answer(&self, what: &str, with: &str) -> Result<Value, ReadError> {
        json((self.0)(what, with))
    }
}

impl Debug for ScriptedNode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptedNode")
    }
}

impl NodeCalls for ScriptedNode<'_> {
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Outcome> {
        Box::pin(ready((self.0)(method, &params)))
    }

    fn request<'a>(&'a self, _: Method, path: String, body: String) -> BoxFuture<'a, Outcome> {
        Box::pin(ready((self.0)(&path, &body)))
    }

    fn stream_call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Outcome> {
        Box::pin(ready((self.0)(method, &params)))
    }
}

type Change = dyn Fn(usize, Value) -> Value + Send + Sync;

/// A simulated node that records its calls. Its answers may be changed on their way.
pub(crate) struct SimulatedNode {
    node: Mutex<(Box<dyn Simulated>, Time, Option<SimulatedStreamId>)>,
    asked: Mutex<Vec<String>>,
    change: Option<Box<Change>>,
}

impl Debug for SimulatedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedNode").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl SimulatedNode {
    pub(crate) fn of(chain: &str) -> Self {
        let node = Mutex::new((node(chain, 7).unwrap(), NOW, None));
        SimulatedNode { node, asked: Mutex::default(), change: None }
    }

    /// Returns a node whose answers go through `change`, with the number of the call.
    pub(crate) fn changed(
        chain: &str,
        change: impl Fn(usize, Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        SimulatedNode { change: Some(Box::new(change)), ..SimulatedNode::of(chain) }
    }

    pub(crate) fn wait(&self, millis: u64) {
        let mut node = self.node.lock().unwrap();
        node.1 = node.1.plus(Duration::from_millis(millis));
    }

    /// Returns the recorded calls: methods with their parameters, and paths.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn result(&self, method: &str, params: &Value) -> Result<Value, ReadError> {
        json(self.rpc(method, &params.to_string()))
    }

    pub(crate) fn body(&self, verb: &Method, path: &str, body: &str) -> Result<Value, ReadError> {
        json(self.http(verb, path, body))
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.body(&Method::GET, path, "").unwrap()
    }

    fn note(&self, what: impl Display) -> usize {
        let mut asked = self.asked.lock().unwrap();
        asked.push(what.to_string());
        asked.len() - 1
    }

    fn told(&self, number: usize, answer: Outcome) -> Outcome {
        let Some(change) = &self.change else { return answer };
        json(answer).map(|answer| change(number, answer).to_string().into())
    }

    fn handle(&self, method: &Method, path: &str, body: &str) -> Outcome {
        let mut node = self.node.lock().unwrap();
        let (node, now, _) = &mut *node;
        let reply = node.handle(&SimulatedRequest { method, path, body: body.as_bytes() }, *now);
        // Daemons of UTXO chains answer errors of JSON-RPC with other statuses.
        if (200..300).contains(&reply.status) || (path == "/" && reply.body.starts_with(b"{")) {
            return Ok(reply.body.into());
        }
        Err(refused(reply.status.into(), &String::from_utf8_lossy(&reply.body)))
    }

    fn rpc(&self, method: &str, params: &str) -> Outcome {
        let number = self.note(format_args!("{method} {params}"));
        let answer = self.handle(&Method::POST, "/", &call_of(method, params));
        self.told(number, answer.and_then(|answer| result_in(&answer)))
    }

    fn http(&self, verb: &Method, path: &str, body: &str) -> Outcome {
        let number = self.note(path);
        self.told(number, self.handle(verb, path, body))
    }

    fn stream(&self, method: &str, params: &str) -> Outcome {
        let number = self.note(format_args!("{method} {params}"));
        let mut node = self.node.lock().unwrap();
        let (node, now, id) = &mut *node;
        let Some(streams) = node.streams() else {
            return Err(ReadError::Unreachable("it has no streams".to_owned()));
        };
        let id = *id.get_or_insert_with(|| streams.open());
        let answers = streams.receive(id, call_of(method, params).as_bytes(), *now);
        match answers.as_slice() {
            [answer] => self.told(number, result_in(answer.as_bytes())),
            _ => Err(ReadError::Unreachable("it waits".to_owned())),
        }
    }
}

impl NodeCalls for SimulatedNode {
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Outcome> {
        Box::pin(ready(self.rpc(method, &params)))
    }

    fn request<'a>(&'a self, verb: Method, path: String, body: String) -> BoxFuture<'a, Outcome> {
        Box::pin(ready(self.http(&verb, &path, &body)))
    }

    fn stream_call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Outcome> {
        Box::pin(ready(self.stream(method, &params)))
    }
}

/// A real node on this machine, called over HTTP.
#[derive(Debug)]
pub(crate) struct RealNode {
    address: String,
    authorization: String,
}

impl RealNode {
    /// Returns the node that an environment variable names: its address and, after a space, a value for
    /// `Authorization`.
    pub(crate) fn from_env(name: &str) -> Self {
        let value =
            std::env::var(name).unwrap_or_else(|_| panic!("{name} must name a node, such as 127.0.0.1:8545"));
        let (address, authorization) = value.split_once(' ').unwrap_or((&value, "none"));
        RealNode { address: address.to_owned(), authorization: authorization.to_owned() }
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, params: Value) -> Value {
        json(self.post(method, &params.to_string())).unwrap()
    }

    fn post(&self, method: &str, params: &str) -> Outcome {
        let body = call_of(method, params);
        let request = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\nAuthorization: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.address,
            self.authorization,
            body.len()
        );
        let mut socket = TcpStream::connect(&self.address).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        let start = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
        result_in(&answer[start + 4..])
    }
}

impl NodeCalls for RealNode {
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Outcome> {
        Box::pin(ready(self.post(method, &params)))
    }

    fn request<'a>(&'a self, _: Method, path: String, _: String) -> BoxFuture<'a, Outcome> {
        Box::pin(ready(Err(ReadError::Unreachable(path))))
    }

    fn stream_call<'a>(&'a self, method: &'a str, _: String) -> BoxFuture<'a, Outcome> {
        Box::pin(ready(Err(ReadError::Unreachable(method.to_owned()))))
    }
}
