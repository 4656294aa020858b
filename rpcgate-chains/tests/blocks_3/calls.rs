//! Nodes without sockets: a simulated one, and one that answers as a function says.

use bytes::Bytes;
use rpcgate_chains::by_path;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Time;
use rpcgate_core::event::{BlockEvents, BlockRef, ChainEvent, EventType, NodeCalls, ReadError, Wanted};
use rpcgate_simulate::{Simulated, SimulatedRequest, SimulatedStreamId, node};
use serde_json::{Value, json};
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The time at which simulated nodes start.
const NOW: Time = Time::from_secs(1_800_000_000);

/// The value of a future that waits for nothing.
pub(crate) fn done<T>(mut future: BoxFuture<'_, T>) -> T {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

/// A simulated node, with the requests that it has received.
#[derive(Debug)]
pub(crate) struct SimulatedCalls {
    node: Mutex<(Box<dyn Simulated>, Time, Option<SimulatedStreamId>)>,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl SimulatedCalls {
    pub(crate) fn of(chain: &str) -> Self {
        let node = node(chain, 7).expect("a simulated chain");
        SimulatedCalls { node: Mutex::new((node, NOW, None)), asked: Mutex::default() }
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, millis: u64) {
        let mut node = self.node.lock().unwrap();
        node.1 = node.1.plus(Duration::from_millis(millis));
    }

    /// The JSON at a path.
    pub(crate) fn get(&self, path: &str) -> Value {
        serde_json::from_slice(&self.http(&http::Method::GET, path, "").unwrap()).unwrap()
    }

    fn http(&self, method: &http::Method, path: &str, body: &str) -> Result<Vec<u8>, ReadError> {
        let mut node = self.node.lock().unwrap();
        let (node, now, _) = &mut *node;
        let reply = node.handle(&SimulatedRequest { method, path, body: body.as_bytes() }, *now);
        if reply.status == 200 {
            Ok(reply.body)
        } else {
            let message = String::from_utf8_lossy(&reply.body).into_owned();
            Err(ReadError::Refused { code: reply.status.into(), message })
        }
    }

    fn note(&self, what: impl fmt::Display) {
        self.asked.lock().unwrap().push(what.to_string());
    }
}

/// The outcome of a JSON-RPC answer.
fn result(answer: &[u8]) -> Result<Bytes, ReadError> {
    let answer: Value = serde_json::from_slice(answer).unwrap();
    match &answer["error"] {
        Value::Null => Ok(answer["result"].to_string().into()),
        error => Err(ReadError::Refused {
            code: error["code"].as_i64().unwrap(),
            message: error["message"].as_str().unwrap().to_owned(),
        }),
    }
}

fn rpc(method: &str, params: &str) -> String {
    let params: Value = serde_json::from_str(params).unwrap();
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

impl NodeCalls for SimulatedCalls {
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        self.note(format_args!("{method} {params}"));
        let answer = self.http(&http::Method::POST, "/", &rpc(method, &params));
        Box::pin(ready(answer.and_then(|answer| result(&answer))))
    }

    fn request<'a>(
        &'a self,
        verb: http::Method,
        path: String,
        body: String,
    ) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        self.note(&path);
        Box::pin(ready(self.http(&verb, &path, &body).map(Bytes::from)))
    }

    fn stream_call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        self.note(format_args!("{method} {params}"));
        let mut node = self.node.lock().unwrap();
        let (node, now, id) = &mut *node;
        let streams = node.streams().expect("streams");
        let id = *id.get_or_insert_with(|| streams.open());
        let answers = streams.receive(id, rpc(method, &params).as_bytes(), *now);
        let answer = match answers.as_slice() {
            [answer] => result(answer.as_bytes()),
            _ => Err(ReadError::Unreachable("it waits".into())),
        };
        Box::pin(ready(answer))
    }
}

/// The answer to a method or a path with its parameters.
type Answer = Box<dyn Fn(&str, &str) -> Result<Value, ReadError> + Send + Sync>;

/// A node that answers as a function says.
pub(crate) struct ScriptedCalls(pub(crate) Answer);

impl fmt::Debug for ScriptedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptedCalls")
    }
}

impl ScriptedCalls {
    pub(crate) fn new(
        answer: impl Fn(&str, &str) -> Result<Value, ReadError> + Send + Sync + 'static,
    ) -> Self {
        ScriptedCalls(Box::new(answer))
    }

    fn answer(&self, what: &str, params: &str) -> Result<Bytes, ReadError> {
        (self.0)(what, params).map(|value| value.to_string().into())
    }
}

impl NodeCalls for ScriptedCalls {
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(ready(self.answer(method, &params)))
    }

    fn request<'a>(
        &'a self,
        _: http::Method,
        path: String,
        body: String,
    ) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(ready(self.answer(&path, &body)))
    }

    fn stream_call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(ready(self.answer(method, &params)))
    }
}

pub(crate) fn refused(code: i64) -> ReadError {
    ReadError::Refused { code, message: String::new() }
}

/// A chain's reader and a node.
pub(crate) struct Reading<N> {
    adapter: Arc<dyn Adapter>,
    pub(crate) node: N,
}

impl<N: NodeCalls> Reading<N> {
    pub(crate) fn new(chain: &str, node: N) -> Self {
        Reading { adapter: by_path(chain).expect("a chain"), node }
    }

    fn reader(&self) -> &dyn rpcgate_core::event::BlockReader {
        self.adapter.block_reader().expect("a reader")
    }

    pub(crate) fn kinds(&self) -> &'static [EventType] {
        self.reader().kinds()
    }

    pub(crate) fn head(&self) -> Result<BlockRef, ReadError> {
        done(self.reader().head(&self.node))
    }

    pub(crate) fn at(&self, known: &BlockRef) -> Result<Option<BlockRef>, ReadError> {
        done(self.reader().at(&self.node, known))
    }

    pub(crate) fn after(&self, known: &BlockRef, wanted: &Wanted) -> Result<Option<BlockEvents>, ReadError> {
        done(self.reader().after(&self.node, known, wanted))
    }

    pub(crate) fn canonical(&self, key: &str, value: &str) -> Option<String> {
        self.reader().canonical(key, value)
    }

    /// The events of one type in the block after `known`.
    #[track_caller]
    pub(crate) fn events(&self, known: &BlockRef, kind: EventType) -> Vec<ChainEvent> {
        let next = self.after(known, &Wanted::new([kind])).expect("an answer").expect("a block");
        assert!(next.events.iter().all(|event| event.kind == kind));
        next.events
    }
}

impl Reading<SimulatedCalls> {
    pub(crate) fn simulated(chain: &str) -> Self {
        Reading::new(chain, SimulatedCalls::of(chain))
    }

    /// Follows the chain from its head for `count` blocks, which come within `millis` each. Every block but those of
    /// Aptos names the one before it, and is found again at its height.
    #[track_caller]
    pub(crate) fn follow(&self, kinds: &[EventType], count: usize, millis: u64) -> Vec<BlockEvents> {
        let wanted = Wanted::new(kinds.iter().copied());
        let mut known = self.head().expect("a head");
        let mut found = Vec::new();
        for _ in 0..50 * count {
            match self.after(&known, &wanted).expect("an answer") {
                None => self.node.pass(millis),
                Some(next) => {
                    assert!(next.block.parent.is_empty() || next.block.parent == known.hash);
                    assert!(next.block.height > known.height && next.block.timestamp >= known.timestamp);
                    assert_eq!(self.at(&next.block), Ok(Some(next.block.clone())));
                    assert!(next.events.iter().all(|event| kinds.contains(&event.kind)));
                    known = next.block.clone();
                    found.push(next);
                }
            }
            if found.len() == count {
                return found;
            }
        }
        panic!("{} of {count} blocks", found.len());
    }
}

/// A member of an event's data, as a text.
#[track_caller]
pub(crate) fn text<'a>(event: &'a ChainEvent, name: &str) -> &'a str {
    event.data.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("no {name}: {:?}", event.data))
}

/// The data of events.
pub(crate) fn data(events: &[ChainEvent]) -> Vec<Value> {
    events.iter().map(|event| Value::Object(event.data.clone())).collect()
}

/// All events of blocks.
pub(crate) fn all(blocks: &[BlockEvents]) -> Vec<ChainEvent> {
    blocks.iter().flat_map(|block| block.events.clone()).collect()
}

/// Everything in events is a scalar.
#[track_caller]
pub(crate) fn assert_flat(events: &[ChainEvent]) {
    for event in events {
        let is_flat =
            event.data.values().all(|value| !value.is_object() && !value.is_array() && !value.is_f64());
        assert!(is_flat && !event.data.is_empty(), "{event:?}");
    }
}
