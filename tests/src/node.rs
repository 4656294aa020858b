//! A scripted node that records its requests.

#![expect(clippy::unwrap_used, reason = "a node of the tests that cannot work fails its test")]

use crate::gateway::START;
use crate::until;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rpcgate_simulate::{Simulated, SimulatedRequest};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// The answer of a node to one call.
#[derive(Clone, Debug)]
pub enum ScriptedAnswer {
    /// This result, as JSON text.
    Result(String),
    /// This error, as JSON text.
    Error(String),
    /// A closed connection.
    Cut,
}

/// A whole answer to one HTTP request.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    /// The HTTP status; 0 means 200.
    pub status: u16,
    /// Headers.
    pub headers: Vec<(&'static str, &'static str)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Raw {
    /// Returns a JSON body at an HTTP status.
    pub fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Raw { status, headers: vec![("content-type", "application/json")], body: body.into() }
    }
}

/// A request that a node has received.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    /// The HTTP method.
    pub verb: String,
    /// The path and query.
    pub target: String,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// The calls.
    pub calls: Vec<NodeCall>,
}

impl SeenRequest {
    /// Returns the whole request as text.
    pub fn whole(&self) -> String {
        let headers: Vec<_> = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        format!("{} {}\n{}\n{}", self.verb, self.target, headers.concat(), self.body)
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// A call that a node has received.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeCall {
    /// `id` as JSON text.
    pub id: Option<String>,
    /// `method`.
    pub method: String,
    /// `params` as JSON text; empty if absent.
    pub params: String,
    /// True if the version is 2.0.
    pub version_2: bool,
}

type Whole = Arc<dyn Fn(&SeenRequest) -> Option<Raw> + Send + Sync>;

struct Script {
    answers: HashMap<String, ScriptedAnswer>,
    whole: Option<Whole>,
    simulated: Option<Box<dyn Simulated>>,
    height: u64,
    utxo: bool,
}

struct Shared {
    script: Mutex<Script>,
    seen: Mutex<Vec<SeenRequest>>,
    probes: Mutex<usize>,
    open: watch::Sender<bool>,
}

/// A node on its own socket. It stops when dropped.
pub struct Node {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.addr)
    }
}

impl Node {
    /// Starts a node that speaks JSON-RPC 2.0 and answers every call with the result `"ok"`.
    pub async fn evm() -> Self {
        Node::start(false, None).await
    }

    /// Starts a node that speaks the UTXO daemons' JSON-RPC 1.0 and answers every call with the result `"ok"`.
    pub async fn utxo() -> Self {
        Node::start(true, None).await
    }

    /// Starts a node of the simulated chain, at the time at which gateways start.
    ///
    /// # Panics
    /// When the chain has no simulated node.
    pub async fn simulated(chain: &str) -> Self {
        Node::start(false, Some(rpcgate_simulate::node(chain, 7).unwrap())).await
    }

    async fn start(utxo: bool, simulated: Option<Box<dyn Simulated>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let script = Script { answers: HashMap::new(), whole: None, simulated, height: 1_000_000, utxo };
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            seen: Mutex::default(),
            probes: Mutex::default(),
            open: watch::Sender::new(true),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        Node { addr, shared, accepting }
    }

    /// Returns the node's address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the node's URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Sets the answer to calls of `method`.
    pub fn answer(&self, method: &str, answer: ScriptedAnswer) {
        lock(&self.shared.script).answers.insert(method.into(), answer);
    }

    /// Sets the result, as JSON text, of calls of `method`.
    pub fn result(&self, method: &str, result: &str) {
        self.answer(method, ScriptedAnswer::Result(result.into()));
    }

    /// Uses the value of `answer`, if it returns one, as the whole answer to further requests.
    pub fn whole(&self, answer: impl Fn(&SeenRequest) -> Option<Raw> + Send + Sync + 'static) {
        lock(&self.shared.script).whole = Some(Arc::new(answer));
    }

    /// Answers every further request with `raw`.
    pub fn always(&self, raw: Raw) {
        self.whole(move |_| Some(raw.clone()));
    }

    /// Sets the height that the node reports to probes.
    pub fn height(&self, height: u64) {
        lock(&self.shared.script).height = height;
    }

    /// Holds all requests from now on.
    pub fn hold(&self) {
        self.shared.open.send_replace(false);
    }

    /// Answers the held requests, and all later ones.
    pub fn release(&self) {
        self.shared.open.send_replace(true);
    }

    /// Returns the requests so far, without probes and requests for the node's network.
    pub fn seen(&self) -> Vec<SeenRequest> {
        lock(&self.shared.seen).clone()
    }

    /// Returns the number of requests so far, without probes.
    pub fn requests(&self) -> usize {
        lock(&self.shared.seen).len()
    }

    /// Returns the calls so far, without probes.
    pub fn calls(&self) -> Vec<NodeCall> {
        self.seen().into_iter().flat_map(|seen| seen.calls).collect()
    }

    /// Returns the number of calls of `method`.
    pub fn count(&self, method: &str) -> usize {
        self.calls().iter().filter(|call| call.method == method).count()
    }

    /// Waits until this number of requests has arrived.
    pub async fn got(&self, requests: usize) {
        until(&format!("{requests} requests at a node"), || self.requests() >= requests).await;
    }

    /// Waits until a gateway with repeated probes knows the current height, and trusts it even if it has grown fast.
    pub async fn known(&self) {
        let before = *lock(&self.shared.probes);
        until("a gateway asks for the height", || *lock(&self.shared.probes) >= before + 6).await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        let _ = stream.set_nodelay(true);
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let shared = shared.clone();
                async move { shared.serve(request).await }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Shared {
    async fn serve(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let cut = || std::io::Error::other("cut on purpose");
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| cut())?.to_bytes();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let seen = SeenRequest {
            verb: head.method.to_string(),
            target: head.uri.to_string(),
            headers: head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            body: String::from_utf8_lossy(&body).into_owned(),
            calls: calls(&body),
        };
        let probe = is_probe(&seen.body);
        let asks_network = asks_network(&seen.target, &seen.body);
        if probe {
            *lock(&self.probes) += 1;
        } else if !asks_network {
            lock(&self.seen).push(seen.clone());
            let mut open = self.open.subscribe();
            open.wait_for(|open| *open).await.map_err(|_| cut())?;
        }
        let mut raw = lock(&self.script).raw(&seen, &body, (probe, asks_network)).ok_or_else(cut)?;
        if let ([call], false) = (&seen.calls[..], probe || asks_network) {
            raw.body = under_number(raw.body, call.id.as_deref());
        }
        let mut response = Response::new(Full::new(raw.body.into()));
        *response.status_mut() = StatusCode::from_u16(raw.status).unwrap_or_default();
        for (name, value) in raw.headers {
            response.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        Ok(response)
    }
}

impl Script {
    fn raw(&mut self, seen: &SeenRequest, body: &[u8], (probe, asks_network): (bool, bool)) -> Option<Raw> {
        if !probe
            && !asks_network
            && let Some(raw) = self.whole.as_ref().and_then(|whole| whole(seen))
        {
            return Some(raw);
        }
        if let Some(node) = &mut self.simulated {
            let method = seen.verb.parse().ok()?;
            let reply = node.handle(&SimulatedRequest { method: &method, path: &seen.target, body }, START);
            let headers = vec![("content-type", reply.content_type)];
            return Some(Raw { status: reply.status, headers, body: reply.body });
        }
        if probe {
            let height = if self.utxo { self.height.to_string() } else { format!("\"{:#x}\"", self.height) };
            let id = seen.calls.first()?.id.clone()?;
            return Some(Raw::json(200, self.reply(&id, &ScriptedAnswer::Result(height))?));
        }
        if asks_network {
            // The node hides its network unless the test sets the answer.
            let answer = seen.calls.first().and_then(|call| self.answers.get(&call.method)).cloned();
            let hidden = ScriptedAnswer::Error(r#"{"code":-32601,"message":"no such method"}"#.into());
            let id = seen.calls.first().and_then(|call| call.id.clone()).unwrap_or_else(|| "null".into());
            return Some(Raw::json(200, self.reply(&id, &answer.unwrap_or(hidden))?));
        }
        let mut replies = Vec::new();
        for call in &seen.calls {
            let answer =
                self.answers.get(&call.method).cloned().unwrap_or(ScriptedAnswer::Result("\"ok\"".into()));
            match &call.id {
                None if call.version_2 && !self.utxo => {}
                id => replies.push(self.reply(id.as_deref().unwrap_or("null"), &answer)?),
            }
        }
        if body.first() == Some(&b'[') {
            // A node may answer in any order.
            replies.reverse();
            return Some(Raw::json(200, format!("[{}]", replies.join(","))));
        }
        let failed = self.utxo && replies.first().is_some_and(|reply| !reply.contains("\"error\":null"));
        Some(Raw::json(if failed { 500 } else { 200 }, replies.concat()))
    }

    fn reply(&self, id: &str, answer: &ScriptedAnswer) -> Option<String> {
        Some(match (self.utxo, answer) {
            (_, ScriptedAnswer::Cut) => return None,
            (false, ScriptedAnswer::Result(result)) => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
            }
            (false, ScriptedAnswer::Error(error)) => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
            }
            (true, ScriptedAnswer::Result(result)) => {
                format!(r#"{{"result":{result},"error":null,"id":{id}}}"#)
            }
            (true, ScriptedAnswer::Error(error)) => format!(r#"{{"result":null,"error":{error},"id":{id}}}"#),
        })
    }
}

/// Returns the rest, from the method on, of a call that the gateway makes for itself. Calls of clients have lower
/// numbers.
fn own_call<'b>(body: &'b str, version: &str) -> Option<&'b str> {
    /// The lowest number of a gateway's own call.
    const OWN: u64 = 1 << 40;
    let rest = body.strip_prefix(&format!(r#"{{"jsonrpc":"{version}","id":"#))?;
    let (number, call) = rest.split_once(',')?;
    number.parse().is_ok_and(|number: u64| number >= OWN).then_some(call)
}

/// Reports whether the body is a probe of the gateway.
fn is_probe(body: &str) -> bool {
    [("2.0", "eth_blockNumber"), ("1.0", "getblockcount")].into_iter().any(|(version, method)| {
        let call = format!(r#""method":"{method}","params":[]}}"#);
        own_call(body, version).is_some_and(|own| own == call)
    })
}

/// Replaces the id of a scripted answer. Scripts have the id 9 of the tests' clients, but nodes answer under the number
/// of the call.
fn under_number(body: Vec<u8>, number: Option<&str>) -> Vec<u8> {
    let Some(number) = number else { return body };
    for member in ["\"id\":9", "\"id\" : 9"] {
        let at = body.windows(member.len()).position(|window| window == member.as_bytes());
        if let Some(end) = at.map(|at| at + member.len())
            && !body.get(end).is_some_and(u8::is_ascii_digit)
        {
            return [&body[..end - 1], number.as_bytes(), &body[end..]].concat();
        }
    }
    body
}

/// Reports whether the request is the gateway's query for the network of the node.
fn asks_network(target: &str, body: &str) -> bool {
    target == "/cosmos/base/tendermint/v1beta1/node_info"
        || (target == "/wallet/getblockbynum" && body == r#"{"num":0}"#)
        || own_call(body, "2.0") == Some(r#""method":"eth_chainId","params":[]}"#)
        || own_call(body, "1.0").is_some_and(|call| call.starts_with(r#""method":"getblockhash","params":["#))
}

fn calls(body: &[u8]) -> Vec<NodeCall> {
    let items: Vec<&RawValue> = match serde_json::from_slice::<Vec<&RawValue>>(body) {
        Ok(items) => items,
        Err(_) => serde_json::from_slice(body).into_iter().collect(),
    };
    let call = |item: &&RawValue| {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(item.get()).ok()?;
        Some(NodeCall {
            id: members.get("id").map(|id| id.get().to_owned()),
            method: members.get("method").and_then(|method| serde_json::from_str(method.get()).ok())?,
            params: members.get("params").map(|params| params.get().to_owned()).unwrap_or_default(),
            version_2: members.get("jsonrpc").is_some_and(|version| version.get() == "\"2.0\""),
        })
    };
    items.iter().filter_map(call).collect()
}
