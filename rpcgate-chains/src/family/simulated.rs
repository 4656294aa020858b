//! Nodes for tests of readers: simulated ones, ones whose answers a test writes, and real ones.

use bytes::Bytes;
use parking_lot::Mutex;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Time;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventType, NodeCalls, ReadError, Wanted,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt::{self, Debug};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The time at which tests start.
pub(crate) const NOW: Time = Time::from_secs(1_800_000_000);

/// The result of a future that has nothing to wait for.
#[track_caller]
pub(crate) fn ready<T>(mut future: BoxFuture<'_, T>) -> T {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("these calls answer at once"),
    }
}

fn unreachable<T>() -> Result<T, ReadError> {
    Err(ReadError::Unreachable("no test has this".to_owned()))
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Value>,
}

fn body(method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{params}}}")
}

/// The result in the answer of a JSON-RPC call.
fn result(answer: &[u8]) -> Result<Bytes, ReadError> {
    let answer: Envelope<'_> = serde_json::from_slice(answer).expect("an answer");
    match answer.error {
        Some(error) => Err(ReadError::Refused {
            code: error["code"].as_i64().expect("a code"),
            message: error["message"].as_str().expect("a message").to_owned(),
        }),
        None => Ok(answer.result.map_or("null", RawValue::get).to_owned().into()),
    }
}

/// A simulated node that is called in process.
#[derive(Debug)]
pub(crate) struct SimulatedCalls {
    node: Mutex<Box<dyn rpcgate_simulate::Simulated>>,
    now: Mutex<Time>,
}

impl SimulatedCalls {
    pub(crate) fn new(chain: &str) -> Self {
        let node = rpcgate_simulate::node(chain, 7).expect("a simulated chain");
        SimulatedCalls { node: Mutex::new(node), now: Mutex::new(NOW) }
    }

    pub(crate) fn wait(&self, seconds: u64) {
        let mut now = self.now.lock();
        *now = now.plus(Duration::from_secs(seconds));
    }

    fn handle(&self, method: &http::Method, path: &str, body: &str) -> Result<Bytes, ReadError> {
        let request = rpcgate_simulate::SimulatedRequest { method, path, body: body.as_bytes() };
        let reply = self.node.lock().handle(&request, *self.now.lock());
        if reply.status == 200 {
            return Ok(reply.body.into());
        }
        let message = String::from_utf8_lossy(&reply.body).into_owned();
        // Daemons of UTXO chains answer errors with other statuses, and JSON.
        if message.starts_with('{') {
            return Ok(reply.body.into());
        }
        Err(ReadError::Refused { code: reply.status.into(), message })
    }
}

impl NodeCalls for SimulatedCalls {
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async move { result(&self.handle(&http::Method::POST, "/", &body(method, &params))?) })
    }

    fn request<'a>(
        &'a self,
        verb: http::Method,
        path: String,
        body: String,
    ) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async move { self.handle(&verb, &path, &body) })
    }

    fn stream_call<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async { unreachable() })
    }
}

/// A node whose answers are those of a function of the method, or path, and its parameters.
pub(crate) struct WrittenCalls<F>(pub(crate) F);

impl<F> Debug for WrittenCalls<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrittenCalls").finish_non_exhaustive()
    }
}

impl<F: Fn(&str, &str) -> Result<String, ReadError> + Send + Sync> NodeCalls for WrittenCalls<F> {
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async move { (self.0)(method, &params).map(Bytes::from) })
    }

    fn request<'a>(
        &'a self,
        _: http::Method,
        path: String,
        body: String,
    ) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async move { (self.0)(&path, &body).map(Bytes::from) })
    }

    fn stream_call<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async { unreachable() })
    }
}

/// A real node on this machine, called over HTTP.
#[derive(Debug)]
pub(crate) struct RealCalls {
    address: String,
    authorization: String,
}

impl RealCalls {
    /// The node that a variable of the environment names: its address and, after a space, a value for `Authorization`.
    pub(crate) fn from_env(name: &str) -> Self {
        let value =
            std::env::var(name).unwrap_or_else(|_| panic!("{name} must name a node, such as 127.0.0.1:8545"));
        let (address, authorization) = value.split_once(' ').unwrap_or((&value, "none"));
        RealCalls { address: address.to_owned(), authorization: authorization.to_owned() }
    }

    /// Calls a method with these parameters.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]
    pub(crate) fn ask(&self, method: &str, params: Value) -> Value {
        let answer = self.post(method, &params.to_string()).expect("a result");
        serde_json::from_slice(&answer).expect("JSON")
    }

    fn post(&self, method: &str, params: &str) -> Result<Bytes, ReadError> {
        let body = body(method, params);
        let request = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\nAuthorization: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.address,
            self.authorization,
            body.len()
        );
        let mut socket = TcpStream::connect(&self.address).expect("a node that listens");
        socket.write_all(request.as_bytes()).expect("a node that reads");
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).expect("an answer");
        let start = answer.windows(4).position(|end| end == b"\r\n\r\n").expect("a head");
        result(&answer[start + 4..])
    }
}

impl NodeCalls for RealCalls {
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async move { self.post(method, &params) })
    }

    fn request<'a>(
        &'a self,
        _: http::Method,
        _: String,
        _: String,
    ) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async { unreachable() })
    }

    fn stream_call<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async { unreachable() })
    }
}

/// A node's refusal.
pub(crate) fn refused(code: i64, message: &str) -> ReadError {
    ReadError::Refused { code, message: message.to_owned() }
}

/// A block of which only the height is known.
pub(crate) fn at_height(height: u64) -> BlockRef {
    BlockRef::new(height, "", "", 0)
}

/// The blocks after `height`, up to the newest, each the parent of the next one.
#[track_caller]
pub(crate) fn blocks_after(
    reader: &dyn BlockReader,
    node: &dyn NodeCalls,
    height: u64,
    wanted: &Wanted,
) -> Vec<BlockEvents> {
    let (mut known, mut out) = (at_height(height), Vec::<BlockEvents>::new());
    while let Some(next) = ready(reader.after(node, &known, wanted)).expect("a block") {
        assert_eq!(next.block.height, known.height + 1);
        if let Some(before) = out.last() {
            assert_eq!(next.block.parent, before.block.hash);
            assert!(next.block.timestamp >= before.block.timestamp);
        }
        assert_eq!(ready(reader.at(node, &next.block)).expect("a block").as_ref(), Some(&next.block));
        known = next.block.clone();
        out.push(next);
    }
    assert_eq!(ready(reader.head(node)).expect("a head"), known, "up to the newest");
    out
}

/// The events of one type in the newest blocks of a simulated chain: there are some, no others come with them, and their
/// values have the form with which filters are compared.
#[track_caller]
pub(crate) fn events_of(chain: &str, kind: EventType) -> Vec<ChainEvent> {
    let adapter = crate::by_path(chain).expect("a chain");
    let reader = adapter.block_reader().expect("a reader");
    assert!(reader.kinds().contains(&kind), "{chain} {kind}");
    let node = SimulatedCalls::new(chain);
    let head = ready(reader.head(&node)).expect("a head");
    let blocks = blocks_after(reader, &node, head.height - 40, &Wanted::new([kind]));
    assert_eq!(blocks.len(), 40);
    let events: Vec<ChainEvent> = blocks.into_iter().flat_map(|block| block.events).collect();
    assert!(!events.is_empty(), "{chain} has events of the type {kind}");
    for event in &events {
        assert_eq!(event.kind, kind, "{chain}");
        for (name, value) in &event.data {
            match value {
                Value::String(text) => {
                    assert_eq!(reader.canonical(name, text).as_ref(), Some(text), "{chain} {kind} {name}");
                }
                Value::Array(_) => assert_eq!(name, "topics"),
                value => assert!(value.is_number() || value.is_boolean(), "{chain} {kind} {name} {value}"),
            }
        }
    }
    let nothing = blocks_after(reader, &node, head.height - 5, &Wanted::new([]));
    assert!(nothing.iter().all(|block| block.events.is_empty()), "what nobody wants is not told");
    events
}

/// The names of the members of events, in alphabetical order.
pub(crate) fn members(events: &[ChainEvent]) -> Vec<&str> {
    let mut out = Vec::new();
    for name in events.iter().flat_map(|event| event.data.keys()) {
        if !out.contains(&name.as_str()) {
            out.push(name.as_str());
        }
    }
    out.sort_unstable();
    out
}
