//! Nodes behind the calls of a reader: a simulated one, and one that answers from a script.

use bytes::Bytes;
use http::Method;
use rpcgate_chains::by_path;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Time;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventType, NodeCalls, ReadError, Wanted,
};
use rpcgate_simulate::{Simulated, SimulatedRequest, node};
use serde_json::{Value, json};
use std::fmt::{self, Debug};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

const NOW: Time = Time::from_secs(1_800_000_000);

/// Everything that blocks can have.
pub(crate) fn all() -> Wanted {
    Wanted::new(EventType::ALL)
}

pub(crate) fn only(kinds: &[EventType]) -> Wanted {
    Wanted::new(kinds.iter().copied())
}

/// The output of a future that never waits.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("these nodes answer at once"),
    }
}

/// The names of an event's members.
pub(crate) fn names(event: &ChainEvent) -> Vec<&str> {
    event.data.keys().map(String::as_str).collect()
}

/// The innermost data of the events of one type.
pub(crate) fn data(events: &[ChainEvent], kind: EventType) -> Vec<Value> {
    let of_kind = events.iter().filter(|event| event.kind == kind);
    of_kind.map(|event| Value::Object(event.data.clone())).collect()
}

/// The reader of a chain.
#[derive(Debug)]
pub(crate) struct Reader(Arc<dyn Adapter>);

impl Reader {
    pub(crate) fn of(chain: &str) -> Self {
        Reader(by_path(chain).unwrap())
    }

    fn inner(&self) -> &dyn BlockReader {
        self.0.block_reader().unwrap()
    }

    pub(crate) fn kinds(&self) -> &'static [EventType] {
        self.inner().kinds()
    }

    pub(crate) fn canonical(&self, key: &str, value: &str) -> Option<String> {
        self.inner().canonical(key, value)
    }

    pub(crate) fn head(&self, node: &dyn NodeCalls) -> Result<BlockRef, ReadError> {
        ready(self.inner().head(node))
    }

    pub(crate) fn at(&self, node: &dyn NodeCalls, known: &BlockRef) -> Result<Option<BlockRef>, ReadError> {
        ready(self.inner().at(node, known))
    }

    pub(crate) fn after(
        &self,
        node: &dyn NodeCalls,
        known: &BlockRef,
        wanted: &Wanted,
    ) -> Result<Option<BlockEvents>, ReadError> {
        ready(self.inner().after(node, known, wanted))
    }

    /// The block `depth` blocks below the newest one.
    pub(crate) fn back(&self, node: &dyn NodeCalls, depth: u64) -> BlockRef {
        let head = self.head(node).unwrap();
        let known = BlockRef { height: head.height - depth, ..head };
        self.at(node, &known).unwrap().unwrap()
    }

    /// Some blocks in a row with all their events.
    pub(crate) fn some(&self, node: &dyn NodeCalls, count: u64) -> Vec<BlockEvents> {
        let mut known = self.back(node, count + 10);
        let mut blocks = Vec::new();
        for _ in 0..count {
            let next = self.after(node, &known, &all()).unwrap().unwrap();
            known = next.block.clone();
            blocks.push(next);
        }
        blocks
    }

    /// The first event of a type in some blocks, with its block.
    #[track_caller]
    pub(crate) fn first(&self, node: &dyn NodeCalls, kind: EventType) -> (BlockRef, ChainEvent) {
        let blocks = self.some(node, 40).into_iter();
        let found = blocks.filter_map(|BlockEvents { block, events }| {
            Some((block, events.into_iter().find(|event| event.kind == kind)?))
        });
        found.into_iter().next().unwrap()
    }
}

/// A node that answers from a script: a function of a method and its parameters, or of a path and a body.
pub(crate) struct Scripted<F>(F);

impl<F: Fn(&str, &str) -> Result<Value, ReadError> + Send + Sync> Scripted<F> {
    pub(crate) fn new(script: F) -> Self {
        Scripted(script)
    }

    pub(crate) fn answer(&self, what: &str, with: &str) -> Result<Value, ReadError> {
        (self.0)(what, with)
    }

    fn answered(&self, what: &str, with: &str) -> BoxFuture<'_, Result<Bytes, ReadError>> {
        let answer = self.answer(what, with).map(|value| Bytes::from(value.to_string()));
        Box::pin(async move { answer })
    }
}

impl<F> Debug for Scripted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

impl<F: Fn(&str, &str) -> Result<Value, ReadError> + Send + Sync> NodeCalls for Scripted<F> {
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        self.answered(method, &params)
    }

    fn request<'a>(
        &'a self,
        _: Method,
        path: String,
        body: String,
    ) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        self.answered(&path, &body)
    }

    fn stream_call<'a>(&'a self, method: &'a str, _: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async move { Err(ReadError::Unreachable(format!("no stream for {method}"))) })
    }
}

type Change = dyn Fn(usize, Value) -> Value + Send + Sync;

/// A simulated node that counts its calls. Its answers may be changed on their way.
pub(crate) struct Recorded {
    node: Mutex<Box<dyn Simulated>>,
    calls: AtomicUsize,
    change: Box<Change>,
}

impl Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl Recorded {
    pub(crate) fn simulated(chain: &str) -> Self {
        Recorded::changed(chain, |_, answer| answer)
    }

    /// A node each of whose answers goes through `change`, with the number of the call.
    pub(crate) fn changed(
        chain: &str,
        change: impl Fn(usize, Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        let node = Mutex::new(node(chain, 7).unwrap());
        Recorded { node, calls: AtomicUsize::new(0), change: Box::new(change) }
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    fn handle(&self, method: &Method, path: &str, body: &str) -> (u16, Value) {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let request = SimulatedRequest { method, path, body: body.as_bytes() };
        let reply = self.node.lock().unwrap().handle(&request, NOW);
        (reply.status, (self.change)(number, serde_json::from_slice(&reply.body).unwrap_or_default()))
    }

    /// Calls a method; the error as a reader gets it.
    pub(crate) fn result(&self, method: &str, params: &Value) -> Result<Value, ReadError> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (_, answer) = self.handle(&Method::POST, "/", &body.to_string());
        let error = &answer["error"];
        if error.is_null() {
            return Ok(answer["result"].clone());
        }
        let message = error["message"].as_str().unwrap_or_default().to_owned();
        Err(ReadError::Refused { code: error["code"].as_i64().unwrap_or_default(), message })
    }

    /// Requests a path; the error as a reader gets it.
    pub(crate) fn body(&self, verb: &Method, path: &str, body: &str) -> Result<Value, ReadError> {
        match self.handle(verb, path, body) {
            (200..=299, answer) => Ok(answer),
            (status, answer) => Err(ReadError::Refused { code: status.into(), message: answer.to_string() }),
        }
    }
}

impl NodeCalls for Recorded {
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        let result = self.result(method, &serde_json::from_str(&params).unwrap());
        Box::pin(async move { result.map(|value| Bytes::from(value.to_string())) })
    }

    fn request<'a>(
        &'a self,
        verb: Method,
        path: String,
        body: String,
    ) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        let result = self.body(&verb, &path, &body);
        Box::pin(async move { result.map(|value| Bytes::from(value.to_string())) })
    }

    fn stream_call<'a>(&'a self, method: &'a str, _: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async move { Err(ReadError::Unreachable(format!("no stream for {method}"))) })
    }
}
