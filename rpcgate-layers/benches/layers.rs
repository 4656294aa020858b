//! Benchmarks of each layer over an inner service that answers immediately, of the whole stack, and of an ordinary
//! service called per call instead of iterating over the set. Also benchmarks concurrent reads at a node, as single
//! requests and in arrays.
#![expect(clippy::unwrap_used, reason = "the input of a benchmark is its own")]

use arc_swap::ArcSwap;
use bytes::Bytes;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime,
};
use futures_util::FutureExt;
use futures_util::future::join_all;
use http_body_util::Full;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::backend::counters::MemoryCounters;
use rpcgate_core::backend::directory::{Directory, MemoryDirectory};
use rpcgate_core::backend::suite;
use rpcgate_core::backend::usage_sink::MemoryUsageSink;
use rpcgate_core::call::{
    Before, Budgeted, Call, Calls, Entry, Listed, Opened, Paced, Parsed, Payload, Reserved,
};
use rpcgate_core::call::{CallState, Served, Settled, Windowed};
use rpcgate_core::caller::{Caller, RequestId};
use rpcgate_core::chain::{Chain, ChainName};
use rpcgate_core::clock::{Clock, SystemClock, Time};
use rpcgate_core::envelope::{self, Limits};
use rpcgate_core::overload::{ChainLoads, LoadRules};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{Form, Reply, Source};
use rpcgate_core::secret::KeyHash;
use rpcgate_core::tally::{Accounting, Tally, Transport};
use rpcgate_core::toy::Toy;
use rpcgate_layers::call::batch::BatchLayer;
use rpcgate_layers::call::cache::{BoundedReplies, CacheLayer};
use rpcgate_layers::call::closed::ClosedLayer;
use rpcgate_layers::call::each::{EachLayer, OwnedCall};
use rpcgate_layers::call::heavy::HeavyLayer;
use rpcgate_layers::call::lists::ListsLayer;
use rpcgate_layers::call::overload::OverloadLayer;
use rpcgate_layers::call::pace::PaceLayer;
use rpcgate_layers::call::quota::QuotaLayer;
use rpcgate_layers::call::served::ServedLayer;
use rpcgate_layers::call::window::WindowLayer;
use rpcgate_layers::nodes::{BatchingPolicy, NodeConfig, Pool, PoolLimits, Pools};
use rpcgate_layers::request::authenticate::AuthenticateLayer;
use rpcgate_layers::request::message::{Authenticated, PendingResponse, Received, Routed, Target};
use rpcgate_layers::request::route::RouteLayer;
use rpcgate_layers::request::scope::ScopeLayer;
use rpcgate_layers::request::suspend::SuspendLayer;
use rpcgate_layers::respond::RespondLayer;
use rpcgate_layers::upstream::Upstream;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::service_fn;
use tower_layer::Layer;
use tower_service::Service;

/// Answers every open call immediately.
#[derive(Clone)]
struct Null;

impl<A: Before<Settled>> Service<Calls<A>> for Null {
    type Response = Calls<Settled>;
    type Error = Infallible;
    type Future = Ready<Result<Calls<Settled>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut calls: Calls<A>) -> Self::Future {
        for entry in &mut calls.tally_mut().entries {
            if entry.is_open() {
                let form = Form::Result(Bytes::from_static(b"\"0x10d4f\""));
                entry.state = CallState::Answered(Reply { form, from: Source::Node });
            }
        }
        ready(Ok(calls.at()))
    }
}

/// Answers a request with an empty pending response that owns its tally.
#[derive(Clone)]
struct Gone;

impl<B> Service<Authenticated<B>> for Gone {
    type Response = PendingResponse;
    type Error = Infallible;
    type Future = Ready<Result<PendingResponse, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, known: Authenticated<B>) -> Self::Future {
        let pending = PendingResponse::refused_unread(known.tally, Refusal::Closed);
        ready(Ok(pending))
    }
}

struct Fixture {
    clock: Arc<SystemClock>,
    counters: Arc<MemoryCounters>,
    accounting: Arc<Accounting>,
    chain: Arc<Chain>,
    caller: Arc<Caller>,
}

impl Fixture {
    /// Creates a fixture whose caller is never refused, and whose sink stores nothing.
    fn new() -> Self {
        let clock = Arc::new(SystemClock::new());
        let counters = Arc::new(MemoryCounters::default());
        let mut caller = suite::caller(1);
        let plan = &mut caller.plan;
        (plan.per_minute, plan.per_hour, plan.per_day) = (u64::MAX / 4, u64::MAX / 4, u64::MAX / 4);
        (plan.heavy_per_minute, caller.quota.cu_per_day) = (u64::MAX / 4, u64::MAX / 4);
        let sink = Arc::new(MemoryUsageSink::bounded(0));
        Fixture {
            accounting: Arc::new(Accounting::new(clock.clone(), counters.clone(), sink)),
            chain: Arc::new(Chain::deployed(Arc::new(Toy))),
            caller: Arc::new(caller),
            clock,
            counters,
        }
    }

    fn tally(&self) -> Box<Tally> {
        let arrival = Time::from_secs(1_700_000_000);
        let chain = self.chain.clone();
        let caller = self.caller.clone();
        Box::new(Tally::new(
            RequestId(1),
            Transport::Http,
            chain,
            caller,
            arrival,
            Duration::ZERO,
            self.accounting.clone(),
        ))
    }

    fn calls(&self, body: &Bytes) -> Calls<Parsed> {
        let mut tally = self.tally();
        tally.body = body.clone();
        let items = match envelope::parse(body, &Limits::default()).unwrap() {
            envelope::ParsedBody::Single(item) => vec![item],
            envelope::ParsedBody::Batch(items) => {
                tally.batch = true;
                items
            }
        };
        tally.entries.extend(items.into_iter().map(|item| match item {
            Ok(envelope) => {
                let found = self.chain.look_up(envelope.method.text(body));
                Entry::open(Call::json_rpc(envelope, found))
            }
            Err(bad) => Entry::refused(Call::unread(Payload::Bad(bad)), Refusal::InvalidRequest),
        }));
        Calls::new(tally)
    }

    fn request(&self, body: &Bytes) -> http::Request<Full<Bytes>> {
        http::Request::post("/toy").header("apikey", "key").body(Full::new(body.clone())).unwrap()
    }

    fn received(&self, body: &Bytes) -> Received<Full<Bytes>> {
        Received {
            request: Box::new(self.request(body)),
            id: RequestId(1),
            arrival: self.clock.now(),
            started: self.clock.elapsed(),
        }
    }

    fn directory(&self) -> Arc<dyn Directory> {
        Arc::new(MemoryDirectory::new([(KeyHash::of("key"), self.caller.clone())]))
    }
}

fn body(method: &str, calls: usize, batch: bool) -> Bytes {
    let call = |n: usize| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{n},"method":"{method}","params":["0x52908400098527886e0f7030069857d2e4169ee7",{n}]}}"#
        )
    };
    let calls: Vec<_> = (0..calls).map(call).collect();
    if batch { format!("[{}]", calls.join(",")).into() } else { calls.join("").into() }
}

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// Measures `service` from a prepared request to an answer whose tally is settled. The difference to `null` is the cost
/// of the layer. Requests are created in small batches, so that waiting ones do not evict each other from the CPU
/// caches.
fn measure<R, S>(group: &mut Group<'_>, name: &str, mut service: S, mut make: impl FnMut() -> R)
where
    S: Service<R, Error = Infallible>,
{
    group.bench_function(name, |bench| {
        bench.iter_batched(
            &mut make,
            |request| drop(black_box(service.call(request).now_or_never())),
            BatchSize::NumIterations(32),
        );
    });
}

/// Returns loads that limit the toy chain, with nothing in flight.
fn overloaded() -> Arc<ChainLoads> {
    let loads = Arc::new(ChainLoads::new(LoadRules::default()));
    let chain = ChainName::new("toy");
    let caller = suite::caller(1);
    let mut now = Duration::ZERO;
    for millis in [[100; 20].as_slice(), &[2_000; 4]].concat() {
        let places: Vec<_> = (0..100).filter_map(|_| loads.enter(chain, &caller, now).ok()).collect();
        now += Duration::from_millis(millis);
        places.into_iter().flatten().for_each(|place| place.answered(0, now));
    }
    assert!(loads.get(chain).unwrap().limit().is_some());
    loads
}

fn layers_of_calls(criterion: &mut Criterion) {
    let fixture = Fixture::new();
    for (title, calls, batch) in [("a single call", 1, false), ("a set of 100", 100, true)] {
        let mut group = criterion.benchmark_group(title);
        let read = body("toy_read", calls, batch);
        let make = || fixture.calls(&read);
        measure(&mut group, "null", Null, make);
        measure(&mut group, "lists", ListsLayer::new().layer(Null), make);
        let overload = OverloadLayer::new(fixture.clock.clone()).layer(Null);
        measure(&mut group, "overload, open", overload, || make().at::<Listed>());
        let overload = OverloadLayer::by(overloaded(), fixture.clock.clone());
        measure(&mut group, "overload, limited", overload.layer(Null), || make().at::<Listed>());
        let window = WindowLayer::new(fixture.counters.clone()).layer(Null);
        measure(&mut group, "window", window, || make().at::<Listed>());
        measure(&mut group, "served", ServedLayer::new().layer(Null), || make().at::<Windowed>());
        measure(&mut group, "pace", PaceLayer::new().layer(Null), || make().at::<Served>());
        let scan = body("toy_scan", calls, batch);
        let scans = || fixture.calls(&scan).at::<Paced>();
        measure(&mut group, "heavy", HeavyLayer::new().layer(Null), scans);
        measure(&mut group, "closed", ClosedLayer::new().layer(Null), || make().at::<Budgeted>());
        let quota = QuotaLayer::new(fixture.counters.clone()).layer(Null);
        measure(&mut group, "quota", quota, || make().at::<Opened>());
        let store = Arc::new(BoundedReplies::new(1 << 24));
        let mut cache = CacheLayer::new(store, fixture.clock.clone()).layer(Null);
        let block = body("toy_block", calls, batch);
        let blocks = || fixture.calls(&block).at::<Reserved>();
        cache.call(blocks()).now_or_never().unwrap().unwrap();
        measure(&mut group, "cache, hit", cache.clone(), blocks);
        let mut turn = 0;
        let fresh = || {
            turn += 1;
            let text = String::from_utf8(block.to_vec()).unwrap().replace("0x5290", &format!("0x{turn:08}"));
            fixture.calls(&text.into()).at::<Reserved>()
        };
        measure(&mut group, "cache, miss", cache, fresh);
        let ask = service_fn(async |one: OwnedCall| {
            black_box(&one.method);
            Ok::<Option<Bytes>, Refusal>(None)
        });
        measure(&mut group, "each", EachLayer::new(ask).layer(Null), make);
        let known = || Authenticated {
            request: Box::new(fixture.request(&read)),
            target: Target::JsonRpc,
            tally: fixture.tally(),
        };
        measure(&mut group, "batch and join", BatchLayer::new().layer(Null), known);
        group.finish();
    }
}

fn layers_of_requests(criterion: &mut Criterion) {
    let fixture = Fixture::new();
    let read = body("toy_read", 1, false);
    let mut group = criterion.benchmark_group("a request");
    let known = || Authenticated {
        request: Box::new(fixture.request(&read)),
        target: Target::JsonRpc,
        tally: fixture.tally(),
    };
    measure(&mut group, "null", Gone, known);
    measure(&mut group, "suspend", SuspendLayer::new().layer(Gone), known);
    measure(&mut group, "scope", ScopeLayer::new().layer(Gone), known);
    let routed = || Routed {
        received: fixture.received(&read),
        chain: fixture.chain.clone(),
        transport: Transport::Http,
        target: Target::JsonRpc,
    };
    let authenticate = AuthenticateLayer::new(fixture.directory(), fixture.accounting.clone()).layer(Gone);
    measure(&mut group, "authenticate", authenticate, routed);
    group.finish();
}

/// The stack of `rpcgate_layers::stack`, with a service that answers immediately instead of nodes.
fn stack(criterion: &mut Criterion) {
    let fixture = Fixture::new();
    let chains = Arc::new(ArcSwap::from_pointee([fixture.chain.clone()].into_iter().collect()));
    let layers = (
        RespondLayer::new(fixture.clock.clone()),
        RouteLayer::new(chains),
        AuthenticateLayer::new(fixture.directory(), fixture.accounting.clone()),
        SuspendLayer::new(),
        ScopeLayer::new(),
        BatchLayer::new(),
        ListsLayer::new(),
        WindowLayer::new(fixture.counters.clone()),
        ServedLayer::new(),
        PaceLayer::new(),
        HeavyLayer::new(),
        ClosedLayer::new(),
        QuotaLayer::new(fixture.counters.clone()),
        CacheLayer::new(Arc::new(BoundedReplies::new(1 << 24)), fixture.clock.clone()),
    );
    let stack = layers.layer(Null);
    let mut group = criterion.benchmark_group("the whole stack");
    for (name, method, calls, batch) in [
        ("a single call", "toy_scan", 1, false),
        ("a single call, cached", "toy_block", 1, false),
        ("a batch of 100", "toy_scan", 100, true),
        ("a batch of 100, cached", "toy_block", 100, true),
    ] {
        let body = body(method, calls, batch);
        let mut stack = stack.clone();
        let first = stack.call(fixture.request(&body)).now_or_never().unwrap().unwrap();
        assert_eq!(first.status(), 200);
        measure(&mut group, name, stack, || fixture.request(&body));
    }
    group.finish();
}

/// Answers every request on a connection: a call or an array of calls whose ids are numbers.
async fn serve(mut stream: TcpStream) {
    let mut read = Vec::new();
    loop {
        let Some(head) = read.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4) else {
            if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                return;
            }
            continue;
        };
        let text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
        let end = head + length.unwrap_or(0);
        if read.len() < end {
            if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                return;
            }
            continue;
        }
        let body = String::from_utf8_lossy(&read[head..end]).into_owned();
        let ids = body.split("\"id\":").skip(1).filter_map(|rest| rest.split(',').next());
        let replies: Vec<_> =
            ids.map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"0x10d4f"}}"#)).collect();
        let said = if body.starts_with('[') { format!("[{}]", replies.join(",")) } else { replies.concat() };
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{said}", said.len());
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        read.drain(..end);
    }
}

/// 64 reads from 64 clients at one node on the same machine.
fn reads_at_a_node(criterion: &mut Criterion) {
    const READS: usize = 64;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    node.set_nonblocking(true).unwrap();
    let url = format!("http://{}", node.local_addr().unwrap());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let node = TcpListener::from_std(node).unwrap();
            while let Ok((stream, _)) = node.accept().await {
                tokio::spawn(serve(stream));
            }
        });
    });
    let fixture = Fixture::new();
    let read = body("toy_read", 1, false);
    let mut group = criterion.benchmark_group("64 reads at a node");
    for (name, batching) in [("alone", None), ("in arrays", Some(BatchingPolicy::default()))] {
        let nodes = vec![NodeConfig::new(url.parse().unwrap())];
        let limits = PoolLimits::default().with_batching(batching);
        let pools: Pools =
            [Pool::new(Toy.facts(), nodes, limits, fixture.clock.clone())].into_iter().collect();
        let upstream = Upstream::new(Arc::new(ArcSwap::from_pointee(pools)));
        let mut requests = 0;
        let mut sets = || -> Vec<Calls<Parsed>> {
            let set = |_| {
                let mut calls = fixture.calls(&read);
                requests += 1;
                calls.tally_mut().request = RequestId(requests);
                calls
            };
            (0..READS).map(set).collect()
        };
        group.bench_function(name, |bench| {
            bench.iter_batched(
                &mut sets,
                |sets| {
                    let sent = sets.into_iter().map(|calls| upstream.clone().call(calls));
                    runtime.block_on(async { drop(black_box(join_all(sent).await)) });
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, layers_of_calls, layers_of_requests, stack, reads_at_a_node);
criterion_main!(benches);
