//! gRPC calls of every shape through the whole stack, to hyper nodes that a test scripts.

mod charges;
mod judging;
mod long_call;

use super::messages::tests::message;
use super::*;
use crate::nodes::{NodeConfig, NodeSpending, NodeUrl, Pool, PoolLimits, Pools, RetryPolicy};
use crate::stack::{GrpcStack, Parts, grpc_stack};
use crate::testing::scripted_node::Refusing;
use crate::testing::{Fixture, ToyVariant};
use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::backend::directory::MemoryDirectory;
use rpcgate_core::backend::usage_sink::{Outcome, OwnedRecord, Phase};
use rpcgate_core::caller::{Caller, Scope};
use rpcgate_core::chain::{Chain, ChainName, ChainOverrides, Flags, Method, NodeAllowance};
use rpcgate_core::fault::Cause;
use rpcgate_core::node_try::TryEnd;
use rpcgate_core::plan::{Plan, Tier};
use rpcgate_core::recent::CacheUse;
use rpcgate_core::secret::KeyHash;
use rpcgate_core::tally::Transport;
use rpcgate_core::toy::Toy;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tower::ServiceExt;

const KEY: &str = "a key";

/// A body that a test feeds.
struct Fed(mpsc::Receiver<Frame<Bytes>>);

impl Body for Fed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}

type Pieces = mpsc::Sender<Frame<Bytes>>;

fn fed(memory_budget: usize) -> (Pieces, Fed) {
    let (pieces, taken) = mpsc::channel(memory_budget);
    (pieces, Fed(taken))
}

fn data(content: &[u8]) -> Frame<Bytes> {
    Frame::data(message(content).into())
}

fn trailers(status: &'static str) -> Frame<Bytes> {
    let trailers = [("grpc-status", status), ("x-trailer", "t"), ("server", "hidden")];
    let pairs = trailers.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
    Frame::trailers(pairs.into_iter().collect())
}

type NodeBody = Pin<Box<dyn Body<Data = Bytes, Error = Infallible> + Send>>;

fn head(body: impl Body<Data = Bytes, Error = Infallible> + Send + 'static) -> Response<NodeBody> {
    let answer = Response::builder().header("content-type", "application/grpc+proto").header("x-meta", "m");
    answer.header("server", "hidden").body(Box::pin(body) as NodeBody).unwrap()
}

fn frames(frames: Vec<Frame<Bytes>>) -> Response<NodeBody> {
    head(StreamBody::new(futures_util::stream::iter(frames.into_iter().map(Ok::<_, Infallible>))))
}

fn unary(content: &[u8]) -> Response<NodeBody> {
    frames(vec![data(content), trailers("0")])
}

fn status_alone(status: &'static str) -> Response<NodeBody> {
    let answer = Response::builder().header("content-type", "application/grpc");
    answer.header("grpc-status", status).body(Box::pin(http_body_util::Empty::new()) as NodeBody).unwrap()
}

/// A node that speaks HTTP/2. Dropping it stops it.
struct Node {
    url: String,
    calls: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    task: JoinHandle<()>,
}

impl Node {
    async fn serve<F, R>(answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<NodeBody>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("grpc://{}", listener.local_addr().unwrap());
        let calls = Arc::<AtomicUsize>::default();
        let connections = Arc::<AtomicUsize>::default();
        let heads = Arc::<Mutex<Vec<(String, HeaderMap)>>>::default();
        let task = {
            let calls = calls.clone();
            let connections = connections.clone();
            let heads = heads.clone();
            tokio::spawn(async move {
                let mut tasks = tokio::task::JoinSet::new();
                while let Ok((tcp, _)) = listener.accept().await {
                    connections.fetch_add(1, SeqCst);
                    let answer = answer.clone();
                    let calls = calls.clone();
                    let heads = heads.clone();
                    let service = service_fn(move |request: Request<Incoming>| {
                        calls.fetch_add(1, SeqCst);
                        heads.lock().push((request.uri().path().to_owned(), request.headers().clone()));
                        let answered = answer(request);
                        async move { Ok::<_, Infallible>(answered.await) }
                    });
                    let mut builder = http2::Builder::new(TokioExecutor::new());
                    builder.max_concurrent_streams(8).initial_stream_window_size(64 << 10);
                    tasks.spawn(async move {
                        let _ = builder.serve_connection(TokioIo::new(tcp), service).await;
                    });
                }
            })
        };
        Node { url, calls, connections, heads, task }
    }

    /// Creates a node that answers every call with one message.
    async fn saying(content: &'static [u8]) -> Self {
        Node::serve(move |_| async move { unary(content) }).await
    }

    fn calls(&self) -> usize {
        self.calls.load(SeqCst)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Gateway {
    fixture: Fixture,
    stack: GrpcStack,
    counts: Arc<GrpcCounts>,
    memory_budget: Arc<rpcgate_core::memory::MemoryBudget>,
    pool: Arc<Pool>,
}

#[derive(Debug)]
struct Answer {
    headers: HeaderMap,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
    is_broken: bool,
}

impl Answer {
    fn status(&self) -> &str {
        let of = |map: &'_ HeaderMap| map.get("grpc-status").is_some();
        let map = if of(&self.headers) { &self.headers } else { self.trailers.as_ref().unwrap() };
        map["grpc-status"].to_str().unwrap()
    }
}

fn limits(millis: u64) -> PoolLimits {
    PoolLimits::default()
        .with_retry(RetryPolicy::default().with_deadline(Duration::from_millis(millis)))
        .with_connect(Duration::from_secs(2))
}

impl Gateway {
    fn new(urls: &[&str]) -> Self {
        Gateway::with(urls, |_| (), &|fixture| Fixture { ..fixture })
    }

    fn with(urls: &[&str], change: impl FnOnce(&mut Caller), chain: &dyn Fn(Fixture) -> Fixture) -> Self {
        Gateway::built(urls, change, chain, |_| ())
    }

    fn built(
        urls: &[&str],
        change: impl FnOnce(&mut Caller),
        fixture: &dyn Fn(Fixture) -> Fixture,
        parts: impl FnOnce(&mut Parts),
    ) -> Self {
        let start = Fixture::with_caller(|caller| {
            caller.plan = Plan::of(Tier::Enterprise);
            change(caller);
        });
        let adapter = toy(Vec::new());
        let fixture = fixture(Fixture { chain: Arc::new(Chain::deployed(adapter)), ..start });
        let node = |url: &&str| NodeConfig::new(NodeUrl::parse(url, Transport::Grpc).unwrap());
        let nodes = urls.iter().map(node).collect();
        let pool = Pool::new(fixture.chain.facts(), nodes, limits(5_000), fixture.clock.clone());
        let directory = MemoryDirectory::new([(KeyHash::of(KEY), fixture.caller.clone())]);
        let pools: Pools = [pool.clone()].into_iter().collect();
        let mut all = Parts::new(
            Arc::new(ArcSwap::from_pointee([fixture.chain.clone()].into_iter().collect())),
            Arc::new(ArcSwap::from_pointee(pools)),
            Arc::new(directory),
            fixture.accounting(),
        );
        parts(&mut all);
        let counts = all.grpc_counts.clone();
        let memory_budget = all.memory_budget.clone();
        Gateway { stack: grpc_stack(&all), fixture, counts, memory_budget, pool }
    }

    async fn send<B>(&self, path: &str, metadata: &[(&str, &str)], body: B) -> Response<GrpcBody>
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let mut request = Request::post(format!("http://gateway{path}")).header("te", "trailers");
        if !metadata.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/grpc");
        }
        for (name, value) in metadata {
            request = request.header(*name, *value);
        }
        let Ok(response) = self.stack.clone().oneshot(request.body(body).unwrap()).await;
        response
    }

    async fn ask<B>(&self, path: &str, metadata: &[(&str, &str)], body: B) -> Answer
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        complete(self.send(path, metadata, body).await).await
    }

    async fn unary(&self, method: &str) -> Answer {
        self.ask(&format!("/toy.Query/{method}"), &[("apikey", KEY)], Full::from(message(b"ask"))).await
    }

    fn records(&self) -> Vec<OwnedRecord> {
        self.fixture.sink.records()
    }

    async fn quiet(&self) {
        let pool = self.pool.clone();
        until(move || pool.in_flight() == 0 && pool.nodes().all(|node| node.in_flight == 0)).await;
    }
}

fn toy(more: Vec<Method>) -> Arc<dyn Adapter> {
    Arc::new(ToyVariant { facts: Toy.facts().with_grpc(&["toy"]), more })
}

async fn until(so: impl Fn() -> bool) {
    let wait = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it never became so");
}

async fn complete(response: Response<GrpcBody>) -> Answer {
    let (head, mut body) = response.into_parts();
    assert_eq!(head.status, 200, "every answer of gRPC");
    let mut answer = Answer { headers: head.headers, body: Vec::new(), trailers: None, is_broken: false };
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => answer.body.extend_from_slice(&data),
            Ok(Err(frame)) => answer.trailers = frame.into_trailers().ok(),
            Err(_) => answer.is_broken = true,
        }
    }
    answer
}

/// Returns the next message of a body, which must come in one piece.
async fn next(body: &mut GrpcBody) -> Bytes {
    body.frame().await.unwrap().unwrap().into_data().unwrap()
}

const READ: &str = "/toy.Query/Toy_Read";

#[tokio::test]
async fn a_unary_call_passes_with_its_metadata_and_trailers_and_is_recorded_once() {
    let node = Node::saying(b"answer").await;
    let gateway = Gateway::new(&[&node.url]);
    let metadata = [("apikey", KEY), ("x-own", "o"), ("authorization", "Bearer mine")];
    let answer = gateway.ask(READ, &metadata, Full::from(message(b"ask"))).await;
    assert_eq!((answer.status(), &answer.body[..]), ("0", &message(b"answer")[..]));
    assert_eq!(
        (&answer.headers["x-meta"], &answer.headers["content-type"]),
        (&"m".parse().unwrap(), &"application/grpc+proto".parse().unwrap())
    );
    let trailers = answer.trailers.as_ref().unwrap();
    assert_eq!(trailers["x-trailer"], "t");
    assert!(!answer.headers.contains_key("server") && !trailers.contains_key("server"));
    assert_eq!(answer.headers["x-compute-units"], "5");
    assert_eq!(answer.headers["x-request-id"].len(), 36);
    assert!(answer.headers.contains_key("x-ratelimit-remaining-minute"));
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
    let (path, seen) = node.heads.lock()[0].clone();
    assert_eq!(
        (path.as_str(), &seen["x-own"], &seen["te"]),
        (READ, &"o".parse().unwrap(), &"trailers".parse().unwrap())
    );
    assert!(!seen.contains_key("apikey") && !seen.contains_key("authorization"));
    let records = gateway.records();
    let line = &records[0].lines[0];
    assert_eq!((records.len(), records[0].transport, records[0].windowed), (1, Transport::Grpc, 1));
    assert_eq!((&*line.method, line.cu, line.status, line.outcome), ("toy_read", 5, 200, Outcome::Answered));
    assert_eq!((line.bytes_in, line.bytes_out), (8, 11));
    assert_eq!(gateway.counts.ended(), [(gateway.fixture.chain.name(), "OK", 1)]);
    gateway.quiet().await;
    assert_eq!(gateway.memory_budget.held(), 0);
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn a_call_is_remembered_with_its_tries_and_a_long_one_from_its_begin() {
    let refusing = Refusing::new();
    let node = Node::serve(|request| async move {
        let is_long = request.uri().path().ends_with("Follow");
        if is_long { frames(vec![data(b"1"), data(b"2"), trailers("0")]) } else { unary(b"answer") }
    })
    .await;
    let gateway = Gateway::new(&[&refusing.url().replace("http", "grpc"), &node.url]);
    for (method, is_lasting) in [("Toy_Read", false), ("Follow", true)] {
        let answer = gateway.unary(method).await;
        assert_eq!(answer.status(), "0");
        let id = answer.headers["x-request-id"].to_str().unwrap().parse().unwrap();
        let request = gateway.fixture.recent.find(id).unwrap();
        assert_eq!((request.facts.transport, request.facts.is_lasting), (Transport::Grpc, is_lasting));
        assert_eq!((request.facts.counted, request.calls[0].facts.cache), (1, CacheUse::Uncacheable));
        assert_eq!(request.calls[0].facts.cu, request.calls[0].facts.weight);
        assert_eq!(request.tries.last().unwrap().end, TryEnd::Answered);
        if !is_lasting {
            assert_eq!(request.calls[0].method, "toy_read");
            assert_eq!(request.tries.len(), 2, "the first node takes no connection");
            assert!(matches!(request.tries[0].end, TryEnd::Failed(fault) if fault.cause == Cause::Connect));
        }
    }
}

// Shows (gRPC).
#[tokio::test]
async fn a_server_stream_passes_message_by_message_with_a_begin_and_an_end() {
    let (pieces, body) = fed(1);
    let body = Mutex::new(Some(body));
    let body = Arc::new(body);
    let node = Node::serve(move |_| {
        let body = body.lock().take().unwrap();
        async move { head(body) }
    })
    .await;
    let gateway = Gateway::new(&[&node.url]);
    let response = gateway.send(READ, &[("apikey", KEY)], Full::from(message(b"ask"))).await;
    assert_eq!(response.headers()["x-meta"], "m", "before the first message");
    let mut body = response.into_body();
    for (content, recorded) in [(&b"one"[..], 0), (b"two", 1), (b"three", 1)] {
        pieces.send(data(content)).await.unwrap();
        assert_eq!(next(&mut body).await, message(content));
        assert_eq!(gateway.records().len(), recorded, "before the second message leaves");
    }
    let records = gateway.records();
    assert_eq!((records[0].phase, records[0].lines[0].cu), (Phase::Begin, 5));
    assert_eq!(gateway.counts.open(), 1);
    pieces.send(trailers("0")).await.unwrap();
    let last = body.frame().await.unwrap().unwrap().into_trailers().unwrap();
    assert_eq!(last["grpc-status"], "0");
    let records = gateway.records();
    let end = &records[1];
    let line = &records[1].lines[0];
    assert_eq!((records.len(), end.phase, end.request), (2, Phase::End, records[0].request));
    assert_eq!((line.outcome, line.cu, line.bytes_in, line.bytes_out), (Outcome::Answered, 0, 8, 26));
    drop(body);
    assert_eq!(gateway.counts.open(), 0);
    gateway.quiet().await;
}

#[tokio::test]
async fn the_messages_of_a_client_stream_reach_the_node_as_they_come() {
    let (seen, mut arrived) = mpsc::channel(9);
    let node = Node::serve(move |mut request: Request<Incoming>| {
        let seen = seen.clone();
        async move {
            let mut all = Vec::new();
            while let Some(Ok(frame)) = request.body_mut().frame().await {
                let data = frame.into_data().unwrap_or_default();
                all.extend_from_slice(&data);
                seen.send(data.len()).await.unwrap();
            }
            unary(&all)
        }
    })
    .await;
    let gateway = Gateway::new(&[&node.url]);
    let (pieces, body) = fed(1);
    let feeding = async {
        for content in [&b"one"[..], b"two"] {
            pieces.send(data(content)).await.unwrap();
            assert_eq!(arrived.recv().await, Some(8), "before the next is sent");
        }
        drop(pieces);
    };
    let (answer, ()) = tokio::join!(gateway.ask(READ, &[("apikey", KEY)], body), feeding);
    let sent = [message(b"one"), message(b"two")].concat();
    assert_eq!((answer.status(), &answer.body[..]), ("0", &message(&sent)[..]));
    let records = gateway.records();
    assert_eq!((records.len(), records[0].lines[0].bytes_in), (1, 16), "one answer, which came whole");
}

// Shows (gRPC).
#[tokio::test]
async fn messages_of_a_bidirectional_stream_take_turns() {
    let node = Node::serve(|request: Request<Incoming>| async move {
        let (pieces, body) = fed(1);
        let mut asked = request.into_body();
        tokio::spawn(async move {
            while let Some(Ok(frame)) = asked.frame().await {
                if let Ok(piece) = frame.into_data() {
                    pieces.send(Frame::data(piece)).await.unwrap();
                }
            }
            pieces.send(trailers("0")).await.unwrap();
        });
        head(body)
    })
    .await;
    let gateway = Gateway::new(&[&node.url]);
    let (pieces, body) = fed(1);
    // The client waits for the head of the answer before it sends anything.
    let mut echoed = gateway.send(READ, &[("apikey", KEY)], body).await.into_body();
    for content in [&b"a"[..], b"bc", b"def"] {
        pieces.send(data(content)).await.unwrap();
        assert_eq!(next(&mut echoed).await, message(content));
    }
    drop(pieces);
    let last = echoed.frame().await.unwrap().unwrap().into_trailers().unwrap();
    assert_eq!(last["grpc-status"], "0");
    let records = gateway.records();
    let line = &records[1].lines[0];
    assert_eq!((records.len(), line.bytes_in, line.bytes_out), (2, 21, 21));
    gateway.quiet().await;
}

// Shows (gRPC): gRPC refusals are statuses 16, 7, 8 and 12 with headers only; lists match both names; a backend failure
// is 14; an unknown package and reflection are 12.
#[tokio::test]
async fn a_refused_call_is_answered_by_headers_alone_and_reaches_no_node() {
    let node = Node::saying(b"never").await;
    let url = [&*node.url];
    let none = |_: &mut Caller| ();
    let same = |fixture: Fixture| fixture;
    let off = |fixture: Fixture| {
        let chain = Chain::new(toy(Vec::new()), ChainOverrides::default(), false, Arc::default());
        Fixture { chain: Arc::new(chain), ..fixture }
    };
    let blocked = |fixture: Fixture| {
        let changes = ChainOverrides::default().with_blocked("toy_read");
        Fixture { chain: Arc::new(Chain::new(toy(Vec::new()), changes, true, Arc::default())), ..fixture }
    };
    let listed = |caller: &mut Caller| {
        caller.lists.blocked.insert(Box::from(&b"toy_read"[..]));
    };
    let listed_as_sent = |caller: &mut Caller| {
        caller.lists.blocked.insert(Box::from(&b"Toy_Read"[..]));
    };
    let other = |caller: &mut Caller| caller.scope = Scope::Only(["other".into()].into());
    let cases: [(&str, Gateway, &str, &str, &str, &str); 13] = [
        ("no key", Gateway::with(&url, none, &same), READ, "", "16", "No API key found in request"),
        (
            "wrong key",
            Gateway::with(&url, none, &same),
            READ,
            "guess",
            "16",
            "Invalid authentication credentials",
        ),
        (
            "suspended",
            Gateway::with(&url, |c| c.suspended = true, &same),
            READ,
            KEY,
            "7",
            "account suspended %E2%80%94 contact your administrator",
        ),
        ("scope", Gateway::with(&url, other, &same), READ, KEY, "7", "API key not permitted for this chain"),
        ("list", Gateway::with(&url, listed, &same), READ, KEY, "7", "method not permitted for this project"),
        (
            "list",
            Gateway::with(&url, listed_as_sent, &same),
            READ,
            KEY,
            "7",
            "method not permitted for this project",
        ),
        (
            "blocked",
            Gateway::with(&url, none, &blocked),
            READ,
            KEY,
            "7",
            "method not permitted for this project",
        ),
        (
            "window",
            Gateway::with(&url, |c| c.plan.per_minute = 0, &same),
            READ,
            KEY,
            "8",
            "API rate limit exceeded",
        ),
        (
            "heavy",
            Gateway::with(&url, |c| c.plan.heavy_per_minute = 0, &same),
            "/toy.Query/Toy_Scan",
            KEY,
            "8",
            "heavy method rate limit exceeded for your plan, retry later",
        ),
        (
            "quota",
            Gateway::with(&url, |c| c.quota.cu_per_day = 0, &same),
            READ,
            KEY,
            "8",
            "compute unit quota exceeded",
        ),
        (
            "closed",
            Gateway::with(&url, none, &same),
            "/toy.Query/Admin_Stop",
            KEY,
            "12",
            "method not available",
        ),
        (
            "package",
            Gateway::with(&url, none, &same),
            "/toyx.Query/Toy_Read",
            KEY,
            "12",
            "no Route matched with those values",
        ),
        ("off", Gateway::with(&url, none, &off), READ, KEY, "12", "chain not available at this location"),
    ];
    for (name, gateway, path, key, status, text) in cases {
        let answer = gateway.ask(path, &[("apikey", key)], Full::from(message(b"ask"))).await;
        let found = (answer.status(), answer.headers["grpc-message"].to_str().unwrap());
        assert_eq!(found, (status, text), "{name}");
        assert!(answer.body.is_empty() && answer.trailers.is_none(), "{name}");
        assert_eq!(answer.headers["content-type"], "application/grpc", "{name}");
        let is_known = status != "16" && name != "package";
        assert_eq!(answer.headers.contains_key("x-ratelimit-limit-minute"), is_known, "{name}");
        let has_wait = matches!(name, "window" | "heavy");
        assert_eq!(answer.headers.contains_key("retry-after"), has_wait, "{name}");
        let records = gateway.records();
        assert_eq!(records.len(), usize::from(is_known), "{name}");
        let is_right = |record: &OwnedRecord| {
            record.transport == Transport::Grpc && record.lines[0].outcome == Outcome::Refused
        };
        assert!(records.iter().all(is_right), "{name}");
    }
    assert_eq!(node.calls(), 0);
}

#[tokio::test]
async fn grpc_web_is_not_served() {
    let node = Node::saying(b"never").await;
    let gateway = Gateway::new(&[&node.url]);
    let web = [("apikey", KEY), ("content-type", "application/grpc-web+proto")];
    assert_eq!(gateway.ask(READ, &web, Full::from(message(b"ask"))).await.status(), "12");
    assert_eq!((node.calls(), gateway.records().len()), (0, 0));
}

// Shows (Streams): A unary gRPC read is tried at another node; a broadcast only if nothing was sent.
#[tokio::test]
async fn a_read_is_tried_at_another_node_and_a_broadcast_only_while_nothing_was_sent() {
    let dead = Refusing::new();
    let dead = dead.url().replace("http", "grpc");
    let sick = Node::serve(|_| async { status_alone("14") }).await;
    let well = Node::saying(b"answer").await;
    for _ in 0..4 {
        let gateway = Gateway::new(&[&dead, &well.url]);
        assert_eq!(gateway.unary("Toy_Send").await.status(), "0", "no connection, nothing sent");
        let gateway = Gateway::new(&[&sick.url, &well.url]);
        for _ in 0..4 {
            assert_eq!(gateway.unary("Toy_Read").await.status(), "0");
        }
    }
    assert!(sick.calls() > 0);
    let before = sick.calls();
    let gateway = Gateway::new(&[&sick.url, &well.url]);
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let answer = gateway.unary("Toy_Send").await;
        statuses.push(answer.status().to_owned());
    }
    let failed = statuses.iter().filter(|status| *status == "14").count();
    assert_eq!(failed, sick.calls() - before, "one that has it fails");
    let lines = gateway.records().into_iter().map(|record| (record.lines[0].outcome, record.lines[0].cu));
    assert_eq!(lines.filter(|line| *line == (Outcome::NodeError, 0)).count(), failed, "and is not charged");
    let alone = Gateway::new(&[&dead]);
    let answer = alone.unary("Toy_Read").await;
    assert_eq!(
        (answer.status(), &answer.headers["grpc-message"]),
        ("14", &"backend request failed".parse().unwrap())
    );
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_call_that_every_node_limit_refuses_ends_with_14_and_counts_at_no_node() {
    let node = Node::saying(b"answer").await;
    let allowance = NodeAllowance { monthly_calls: Some(2), ..NodeAllowance::default() };
    let limited = |parts: &mut Parts| {
        let config = NodeConfig::new(NodeUrl::parse(&node.url, Transport::Grpc).unwrap());
        let config = config.with_allowance(allowance, NodeSpending::default());
        let pool = Pool::new(Toy.facts(), vec![config], limits(5_000), parts.accounting.clock.clone());
        parts.pools.store(Arc::new([pool].into_iter().collect()));
    };
    let gateway = Gateway::built(&[&node.url], |_| (), &|fixture| Fixture { ..fixture }, limited);
    for _ in 0..2 {
        assert_eq!(gateway.unary("Toy_Read").await.status(), "0");
    }
    let refused = gateway.unary("Toy_Read").await;
    assert_eq!(
        (refused.status(), &refused.headers["grpc-message"], &refused.headers["retry-after"]),
        ("14", &"all nodes are at their limits, retry later".parse().unwrap(), &"1".parse().unwrap())
    );
    assert_eq!(node.calls(), 2);
    let last = gateway.records().pop().unwrap();
    assert_eq!((last.lines[0].outcome, last.lines[0].cu), (Outcome::Refused, 0));
}

#[tokio::test]
async fn statuses_of_a_node_pass_and_are_charged_but_not_those_about_the_gateway() {
    for (status, expected, cu) in
        [("3", "3", 5), ("5", "5", 5), ("8", "8", 0), ("12", "12", 0), ("16", "14", 0), ("14", "14", 0)]
    {
        let node = Node::serve(move |_| async move { status_alone(status) }).await;
        let gateway = Gateway::new(&[&node.url]);
        let answer = gateway.unary("Toy_Read").await;
        assert_eq!((answer.status(), answer.body.len()), (expected, 0), "{status}");
        let line = gateway.records()[0].lines[0].clone();
        let outcome = if status == "16" { Outcome::Failed } else { Outcome::NodeError };
        assert_eq!((line.cu, line.outcome), (cu, outcome), "{status}");
    }
    let late = Node::serve(|_| async { frames(vec![data(b"some"), trailers("13")]) }).await;
    let gateway = Gateway::new(&[&late.url]);
    assert_eq!(gateway.unary("Toy_Read").await.status(), "13", "in trailers, after a message");
    assert_eq!(gateway.records()[0].lines[0].outcome, Outcome::NodeError);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_call_that_no_node_can_serve_gets_the_nodes_message_and_trailers_uncharged() {
    let sick = Node::serve(|_| async {
        let mut all = trailers("14");
        if let Some(trailers) = all.trailers_mut() {
            trailers.insert("grpc-message", "the node is syncing".parse().unwrap());
            trailers.insert("retry-pushback", "20".parse().unwrap());
        }
        frames(vec![all])
    })
    .await;
    let gateway = Gateway::new(&[&sick.url, &sick.url]);
    let answer = gateway.unary("Toy_Read").await;
    let trailers = answer.trailers.as_ref().unwrap();
    assert_eq!((answer.status(), &trailers["grpc-message"]), ("14", &"the node is syncing".parse().unwrap()));
    assert_eq!(trailers["retry-pushback"], "20");
    assert_eq!(sick.calls(), 2, "another node was asked");
    let line = gateway.records()[0].lines[0].clone();
    assert_eq!((line.cu, line.outcome), (0, Outcome::NodeError));
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_read_that_a_node_does_not_answer_for_a_time_is_answered_by_another_one() {
    let (hung, _dropped) = silent().await;
    let well = Node::saying(b"answer").await;
    let slow = Node::serve(|_| async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        unary(b"answer")
    })
    .await;
    let soon = |urls: &[&str]| {
        let retry = RetryPolicy::default().with_next_node_after(Some(Duration::from_millis(30)));
        let nodes: Vec<_> =
            urls.iter().map(|url| NodeConfig::new(NodeUrl::parse(url, Transport::Grpc).unwrap())).collect();
        Gateway::built(
            urls,
            |_| (),
            &|fixture| fixture,
            move |parts: &mut Parts| {
                let limits = PoolLimits::default().with_retry(retry);
                let pool = Pool::new(Toy.facts(), nodes, limits, parts.accounting.clock.clone());
                parts.pools.store(Arc::new([pool].into_iter().collect()));
            },
        )
    };
    let gateway = soon(&[&hung.url, &well.url]);
    for _ in 0..4 {
        assert_eq!(gateway.unary("Toy_Read").await.status(), "0");
    }
    assert!(hung.calls() > 0, "it was asked first");
    let gateway = soon(&[&slow.url, &slow.url]);
    for _ in 0..4 {
        assert_eq!(gateway.unary("Toy_Read").await.status(), "0", "the first try goes on");
    }
}

#[tokio::test]
async fn an_invalid_answer_is_a_failure_of_the_node() {
    type Answer = fn() -> Response<NodeBody>;
    let cases: [(&str, Answer); 4] = [
        ("status", || {
            Response::builder().status(502).body(Box::pin(Full::from("bad gateway")) as NodeBody).unwrap()
        }),
        ("type", || Response::builder().body(Box::pin(Full::from("{}")) as NodeBody).unwrap()),
        ("no trailers", || frames(vec![data(b"some")])),
        ("cut message", || frames(vec![Frame::data(Bytes::from_static(&[0, 0, 0, 0, 9, 1])), trailers("0")])),
    ];
    for (name, answer) in cases {
        let node = Node::serve(move |_| async move { answer() }).await;
        let gateway = Gateway::new(&[&node.url]);
        assert_eq!(gateway.unary("Toy_Send").await.status(), "14", "{name}");
        assert_eq!(gateway.records()[0].lines[0].outcome, Outcome::Failed, "{name}");
    }
}

/// Creates a node that never answers, and a channel that reports when a call of it is over.
async fn silent() -> (Node, mpsc::UnboundedReceiver<()>) {
    struct Tells(mpsc::UnboundedSender<()>);
    impl Drop for Tells {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (over, told) = mpsc::unbounded_channel();
    let node = Node::serve(move |_| {
        let tells = Tells(over.clone());
        async move {
            let _tells = tells;
            std::future::pending().await
        }
    })
    .await;
    (node, told)
}

// Shows (Streams): gRPC deadlines and cancellation pass in both directions; a client cannot remove a node from the pool
// by them.
#[tokio::test]
async fn a_deadline_is_passed_on_and_ends_the_call_at_the_node_too() {
    let (node, mut over) = silent().await;
    let gateway = Gateway::new(&[&node.url]);
    let metadata = [("apikey", KEY), ("grpc-timeout", "100m")];
    let answer = gateway.ask(READ, &metadata, Full::from(message(b"ask"))).await;
    assert_eq!(
        (answer.status(), &answer.headers["grpc-message"]),
        ("4", &"deadline exceeded".parse().unwrap())
    );
    over.recv().await.unwrap();
    let told = node.heads.lock()[0].1["grpc-timeout"].to_str().unwrap().to_owned();
    assert_eq!(told, "100000u", "the clock of the test stands still");
    let line = gateway.records()[0].lines[0].clone();
    assert_eq!(
        (line.outcome, line.cu),
        (Outcome::Abandoned, 5),
        "its client gave it up while the node worked for it"
    );
    assert!(gateway.pool.nodes().all(|node| node.health.left().is_zero()));
    for _ in 0..6 {
        gateway.ask(READ, &metadata, Full::from(message(b"ask"))).await;
    }
    assert!(gateway.pool.nodes().all(|node| node.health.left().is_zero()), "no client drives a node out");
    for bad in ["", "1", "123456789S", "1s"] {
        let metadata = [("apikey", KEY), ("grpc-timeout", bad)];
        let answer = gateway.ask(READ, &metadata, Full::from(message(b"ask"))).await;
        assert_eq!(answer.status(), "3", "{bad}");
    }
}

#[tokio::test]
async fn a_stream_ends_at_its_deadline_with_trailers() {
    let (pieces, body) = fed(1);
    let body = Arc::new(Mutex::new(Some(body)));
    let node = Node::serve(move |_| {
        let body = body.lock().take().unwrap();
        async move { head(body) }
    })
    .await;
    let gateway = Gateway::new(&[&node.url]);
    let metadata = [("apikey", KEY), ("grpc-timeout", "1500m")];
    pieces.send(data(b"one")).await.unwrap();
    let answer = gateway.ask(READ, &metadata, Full::from(message(b"ask"))).await;
    assert_eq!((answer.status(), &answer.body), ("4", &message(b"one")));
    pieces.closed().await;
    let line = gateway.records()[0].lines[0].clone();
    assert_eq!((line.outcome, line.cu), (Outcome::Abandoned, 5), "its client chose the deadline");
}

#[tokio::test]
async fn the_chains_timeout_bounds_the_wait_for_an_answer() {
    let (node, mut over) = silent().await;
    let quick = |fixture: Fixture| {
        let changes =
            ChainOverrides { timeout: Some(Duration::from_millis(500)), ..ChainOverrides::default() };
        Fixture { chain: Arc::new(Chain::new(toy(Vec::new()), changes, true, Arc::default())), ..fixture }
    };
    let gateway = Gateway::with(&[&node.url], |_| (), &quick);
    let answer = gateway.unary("Toy_Read").await;
    assert_eq!(
        (answer.status(), &answer.headers["grpc-message"]),
        ("14", &"backend request failed".parse().unwrap())
    );
    over.recv().await.unwrap();
    // A client that has not sent all of its messages has no time limit.
    let (pieces, body) = fed(1);
    let waiting = gateway.ask(READ, &[("apikey", KEY)], body);
    let slow = async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert!(over.try_recv().is_err());
        drop(pieces);
    };
    let (answer, ()) = tokio::join!(waiting, slow);
    assert_eq!(answer.status(), "14");
}

// Shows (Streams).
#[tokio::test]
async fn a_client_that_leaves_ends_the_call_at_the_node() {
    let (node, mut over) = silent().await;
    let gateway = Gateway::new(&[&node.url]);
    // Before the answer: with all messages sent, and with more to come.
    for is_whole in [true, false] {
        let (pieces, body) = fed(1);
        pieces.send(data(b"ask")).await.unwrap();
        let pieces = (!is_whole).then_some(pieces);
        let calls = node.calls();
        let asking = gateway.ask(READ, &[("apikey", KEY)], body);
        tokio::select! {
            _ = asking => panic!("no answer"),
            () = until(|| node.calls() > calls) => {}
        }
        over.recv().await.unwrap();
        drop(pieces);
    }
    let lines: Vec<_> = gateway.records().iter().map(|r| (r.lines[0].outcome, r.lines[0].cu)).collect();
    assert_eq!(lines, [(Outcome::Abandoned, 5); 2], "the node has worked for it");
    gateway.quiet().await;
    assert_eq!(gateway.memory_budget.held(), 0);
    let cancelled = |calls| vec![(ChainName::new("toy"), "CANCELLED", calls)];
    assert_eq!(gateway.counts.ended(), cancelled(2));
    // In the middle of a stream whose client has more to send.
    let (pieces, body) = fed(1);
    let body = Arc::new(Mutex::new(Some(body)));
    let (gone, mut left) = mpsc::channel(1);
    let node = Node::serve(move |mut request: Request<Incoming>| {
        let body = body.lock().take().unwrap();
        let gone = gone.clone();
        tokio::spawn(async move {
            while let Some(Ok(_)) = request.body_mut().frame().await {}
            gone.send(()).await.unwrap();
        });
        async move { head(body) }
    })
    .await;
    let gateway = Gateway::new(&[&node.url]);
    let (mine, asked) = fed(1);
    let mut answer = gateway.send(READ, &[("apikey", KEY)], asked).await.into_body();
    pieces.send(data(b"one")).await.unwrap();
    next(&mut answer).await;
    drop(answer);
    pieces.closed().await;
    left.recv().await.unwrap();
    drop(mine);
    let records = gateway.records();
    let line = &records[0].lines[0];
    assert_eq!((records.len(), records[0].phase), (1, Phase::Complete));
    assert_eq!((line.outcome, line.cu, line.bytes_out), (Outcome::Abandoned, 5, 8));
    assert_eq!(gateway.counts.ended(), cancelled(1));
    gateway.quiet().await;
}

// Shows (Streams).
#[tokio::test]
async fn a_node_that_disconnects_ends_the_stream_with_a_status_or_resets_a_message() {
    for (begun, is_broken) in [(message(b"one"), false), (message(b"one")[..6].to_vec(), true)] {
        let (pieces, body) = fed(1);
        let body = Arc::new(Mutex::new(Some(body)));
        let node = Node::serve(move |_| {
            let body = body.lock().take().unwrap();
            async move { head(body) }
        })
        .await;
        let gateway = Gateway::new(&[&node.url]);
        let response = gateway.send(READ, &[("apikey", KEY)], Full::from(message(b"ask"))).await;
        pieces.send(Frame::data(begun.clone().into())).await.unwrap();
        let mut body = response.into_body();
        assert_eq!(next(&mut body).await, begun);
        drop(pieces);
        let answer = complete(Response::new(body)).await;
        assert_eq!((answer.is_broken, answer.trailers.is_some()), (is_broken, !is_broken));
        if !is_broken {
            assert_eq!(answer.status(), "14");
        }
        assert_eq!(gateway.records()[0].lines[0].outcome, Outcome::Failed);
    }
}

// Shows (Streams): A slow gRPC side is buffered within a bound and delays no other call.
#[tokio::test]
async fn a_slow_reader_holds_back_its_node_and_no_other_call() {
    let sent = Arc::new(AtomicUsize::new(0));
    let produced = sent.clone();
    let node = Node::serve(move |request: Request<Incoming>| {
        let produced = produced.clone();
        async move {
            if request.uri().path().ends_with("Toy_Id") {
                return unary(b"quick");
            }
            let (pieces, body) = fed(1);
            tokio::spawn(async move {
                while pieces.send(data(&[7; 16 << 10])).await.is_ok() {
                    produced.fetch_add(16 << 10, SeqCst);
                }
            });
            head(body)
        }
    })
    .await;
    let gateway = Gateway::new(&[&node.url]);
    let mut bodies = Vec::new();
    for _ in 0..4 {
        let response = gateway.send(READ, &[("apikey", KEY)], Full::from(message(b"ask"))).await;
        bodies.push(response.into_body());
    }
    let mut before = usize::MAX;
    while before != sent.load(SeqCst) {
        before = sent.load(SeqCst);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(before < 4 * (256 << 10), "{before} bytes wait");
    assert_eq!(gateway.unary("Toy_Id").await.status(), "0", "on the same connection");
    assert_eq!(node.connections.load(SeqCst), 1);
    let mut read = 0;
    while read < 1 << 20 {
        read += bodies[0].frame().await.unwrap().unwrap().into_data().unwrap().len();
    }
    assert!(sent.load(SeqCst) > 512 << 10, "and goes on when it is read");
}

// Shows (Streams).
#[tokio::test]
async fn a_client_that_sends_ahead_is_held_back() {
    let node = Node::serve(|request: Request<Incoming>| async move {
        // The node answers and reads none of the messages.
        let (pieces, body) = fed(1);
        tokio::spawn(async move {
            let _request = request;
            pieces.closed().await;
        });
        head(body)
    })
    .await;
    let gateway = Gateway::new(&[&node.url]);
    let (pieces, body) = fed(1);
    let answer = gateway.send(READ, &[("apikey", KEY)], body).await;
    let mut taken = 0;
    let feeding = async {
        loop {
            pieces.send(data(&[7; 16 << 10])).await.unwrap();
            taken += 16 << 10;
        }
    };
    assert!(tokio::time::timeout(Duration::from_millis(500), feeding).await.is_err());
    assert!(taken <= 256 << 10, "{taken}");
    drop(answer);
    gateway.quiet().await;
    assert_eq!(gateway.memory_budget.held(), 0);
}

#[tokio::test]
async fn more_calls_than_a_connection_has_streams_open_further_connections() {
    let (node, mut over) = silent().await;
    let gateway = Arc::new(Gateway::new(&[&node.url]));
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let gateway = gateway.clone();
            tokio::spawn(async move { gateway.unary("Toy_Read").await })
        })
        .collect();
    // The node allows eight streams per connection, which it announces after connecting.
    until(|| node.calls() >= 8).await;
    let connections = node.connections.load(SeqCst);
    assert!(connections <= 8, "{connections}");
    calls.iter().for_each(JoinHandle::abort);
    over.recv().await.unwrap();
    gateway.quiet().await;
}

#[tokio::test]
async fn a_connection_that_the_node_closed_is_replaced_unnoticed() {
    let node = Node::saying(b"answer").await;
    let gateway = Gateway::new(&[&node.url]);
    assert_eq!(gateway.unary("Toy_Send").await.status(), "0");
    let address = node.url.strip_prefix("grpc://").unwrap().to_owned();
    drop(node);
    let listener = loop {
        match TcpListener::bind(&address).await {
            Ok(listener) => break listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let service = service_fn(async |_: Request<Incoming>| Ok::<_, Infallible>(unary(b"again")));
            tokio::spawn(
                http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(tcp), service),
            );
        }
    });
    let answer = gateway.unary("Toy_Read").await;
    assert_eq!((answer.status(), &answer.body), ("0", &message(b"again")));
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused_and_a_nodes_is_a_failure() {
    let short = |parts: &mut Parts| parts.grpc = GrpcLimits::default().with_message(100);
    let node = Node::serve(|request: Request<Incoming>| async move {
        let _ = request.into_body().collect().await;
        unary(&[7; 101])
    })
    .await;
    let gateway = Gateway::built(&[&node.url], |_| (), &|fixture| fixture, short);
    assert_eq!(gateway.unary("Toy_Send").await.status(), "14");
    let long = Full::from(message(&[7; 101]));
    let answer = gateway.ask(READ, &[("apikey", KEY)], long).await;
    assert_eq!(
        (answer.status(), &answer.headers["grpc-message"]),
        ("8", &"request too large".parse().unwrap())
    );
    let line = gateway.records()[1].lines[0].clone();
    assert_eq!((line.outcome, line.cu), (Outcome::Refused, 0));
}

#[tokio::test]
async fn a_method_that_is_decided_by_its_message_waits_for_it() {
    let node = Node::saying(b"answer").await;
    let commands = |fixture: Fixture| {
        let run = Method::new("toy_run", 3).marked(Flags::COMMANDS);
        Fixture { chain: Arc::new(Chain::deployed(toy(vec![run]))), ..fixture }
    };
    let limits = |parts: &mut Parts| {
        parts.grpc = GrpcLimits::default().with_message(100).with_first(Duration::from_secs(1));
    };
    let gateway = Gateway::built(&[&node.url], |_| (), &commands, limits);
    let run = "/toy.Query/Toy_Run";
    let mut compressed = message(b"ask");
    compressed[0] = 1;
    for (body, status) in [
        (message(b"ask"), "0"),
        ([message(b"ask"), message(b"more")].concat(), "0"),
        (Vec::new(), "3"),
        (message(b"ask")[..6].to_vec(), "3"),
        (compressed, "12"),
        (message(&[7; 101]), "8"),
    ] {
        let answer = gateway.ask(run, &[("apikey", KEY)], Full::from(body.clone())).await;
        assert_eq!(answer.status(), status, "{body:?}");
    }
    let (_pieces, never) = fed(1);
    assert_eq!(gateway.ask(run, &[("apikey", KEY)], never).await.status(), "3", "in time");
    assert_eq!(node.calls(), 2);
    assert_eq!(
        gateway.records().iter().map(|record| record.lines[0].bytes_in).take(2).collect::<Vec<_>>(),
        [8, 17]
    );
    gateway.quiet().await;
    assert_eq!(gateway.memory_budget.held(), 0);
}
