//! The number of allocations in the stack for each kind of call, so that it cannot grow unnoticed.
//!
//! The stack is called without a server in front of it; its node runs on a socket in another thread. Allocations of
//! hyper's client count; those of hyper's server do not. A lower number than expected fails as well: then change it
//! here.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

use allocation_counter::measure;
use arc_swap::ArcSwap;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use rpcgate_core::backend::call_observer::{CallObserver, CallTracing, SettledCalls};
use rpcgate_core::backend::counters::MemoryCounters;
use rpcgate_core::backend::directory::MemoryDirectory;
use rpcgate_core::backend::usage_sink::{Record, UsageSink};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::Chain;
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_core::plan::{Plan, Tier};
use rpcgate_core::secret::KeyHash;
use rpcgate_core::tally::Accounting;
use rpcgate_core::trace::TraceSampling;
use rpcgate_layers::nodes::{NodeConfig, Pool, PoolLimits};
use rpcgate_layers::stack::{HttpStack, Parts, http_stack};
use rpcgate_tests::node::Node;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tower::Service;

const KEY: &str = "rpcg_allocations";

/// A sink that stores nothing: the allocations of sinks are not measured here.
#[derive(Debug)]
struct NoSink;

impl UsageSink for NoSink {
    fn append(&self, _: &Record<'_>) {}
}

#[derive(Debug)]
struct NoObserver;

impl CallObserver for NoObserver {
    fn see(&self, _: &SettledCalls<'_>) {}
}

struct Fixture {
    stack: HttpStack,
    runtime: Runtime,
    /// The node, and the runtime on which it runs.
    _node: (Node, Runtime),
}

impl Fixture {
    fn new() -> Self {
        Fixture::tracing(None)
    }

    /// Creates a stack that traces this number of a million calls, or none.
    fn tracing(millionths: Option<u32>) -> Self {
        let beside = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let node = beside.block_on(Node::evm());
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let chain = Arc::new(Chain::deployed(rpcgate_chains::eth::adapter()));
        let config = NodeConfig::new(node.url().parse().unwrap());
        let pool = Pool::new(chain.facts(), vec![config], PoolLimits::default(), clock.clone());
        let plan = Plan::of(Tier::Enterprise);
        let caller = Caller::of(1, plan);
        let directory = MemoryDirectory::new([(KeyHash::of(KEY), Arc::new(caller))]);
        let counters = Arc::new(MemoryCounters::default());
        let mut accounting = Accounting::new(clock, counters, Arc::new(NoSink));
        accounting.tracing = millionths.map(|millionths| {
            let sampling = TraceSampling::of_millionths(millionths);
            let observer = Arc::new(NoObserver);
            CallTracing { sampling, observer }
        });
        let stack = http_stack(&Parts::new(
            Arc::new(ArcSwap::from_pointee([chain].into_iter().collect())),
            Arc::new(ArcSwap::from_pointee([pool].into_iter().collect())),
            Arc::new(directory),
            Arc::new(accounting),
        ));
        Fixture { stack, runtime, _node: (node, beside) }
    }

    /// Returns the allocations of one call, after everything that is created once exists.
    fn count(&mut self, body: impl Into<Bytes>) -> u64 {
        let body = body.into();
        let mut once = || {
            let request = Request::post("/eth").header("apikey", KEY).body(Full::new(body.clone()));
            let request = request.unwrap();
            let stack = &mut self.stack;
            let runtime = &self.runtime;
            let info = measure(|| {
                let served = runtime
                    .block_on(async { stack.call(request).await.unwrap().into_body().collect().await });
                assert!(served.unwrap().to_bytes().windows(9).any(|part| part == b"\"result\":"));
            });
            info.count_total
        };
        for _ in 0..20 {
            once();
        }
        // Background work may happen during some calls.
        (0..50).map(|_| once()).min().unwrap()
    }
}

#[test]
fn a_call_allocates_as_often_as_expected() {
    let mut fixture = Fixture::new();
    let single =
        fixture.count(r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x00","latest"]}"#);
    let cached = fixture.count(r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#);
    assert_eq!((single, cached), (SINGLE, CACHED), "a single call, and one that the cache answers");
    let batch = |calls: u32| {
        // Unknown to the node, so each is fetched, and others could follow.
        let call = |n: u32| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{n},"method":"eth_getTransactionReceipt","params":["0x{n:064x}"]}}"#
            )
        };
        format!("[{}]", (0..calls).map(call).collect::<Vec<_>>().join(","))
    };
    let small = fixture.count(batch(50));
    let large = fixture.count(batch(100));
    assert_eq!((small, large), (BATCH, BATCH + 1), "batches of calls that the cache could answer");
}

#[test]
fn a_trace_costs_a_call_a_few_allocations_and_one_that_is_not_recorded_none() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x00","latest"]}"#;
    assert_eq!(Fixture::tracing(Some(0)).count(call), SINGLE);
    let recorded = Fixture::tracing(Some(1_000_000)).count(call);
    assert!((SINGLE + 1..=SINGLE + TRACE).contains(&recorded), "{recorded}");
}

/// The maximum allocations of a trace in addition to its spans: its context, and the header for the node.
const TRACE: u64 = 5;
/// A call that a node answers. Two allocations hold the answer: as it came, and with the client's id instead of its
/// number.
const SINGLE: u64 = 19;
/// A call that is answered from the cache.
const CACHED: u64 = 10;
/// A batch of 50 calls that a node answers. A batch of 100 has one more: the text of a length of 10,000 or more.
const BATCH: u64 = 31;
