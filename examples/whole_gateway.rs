//! What is a gateway made of, from its socket to its node?
//!
//! `stack::stack` is one tower service from an HTTP request to an HTTP response. It knows no configuration file and no
//! database: it is handed *values* (limits) and *backends*, traits behind which things are kept. This example hands it
//! the in-memory twin of every backend, puts it on a socket with hyper, and gives it a simulated Ethereum node.
//!
//! Read `start` from top to bottom. To grow this into a service of yours, put another implementation behind a backend:
//! a `Directory` that looks keys up in your database, a `UsageSink` that writes your invoices.
//!
//! Run it with `cargo run -p rpcgate-examples --example whole_gateway`.
#![expect(clippy::print_stdout, reason = "it tells what to try")]

use arc_swap::ArcSwap;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rpcgate_core::backend::counters::MemoryCounters;
use rpcgate_core::backend::directory::MemoryDirectory;
use rpcgate_core::backend::usage_sink::MemoryUsageSink;
use rpcgate_core::caller::{Caller, KeyId, ProjectId, TenantId};
use rpcgate_core::chain::Chain;
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_core::envelope::Limits;
use rpcgate_core::memory::MemoryBudget;
use rpcgate_core::plan::{BatchCounts, Plan, Tier};
use rpcgate_core::secret::{KeyForge, KeyHash};
use rpcgate_core::tally::Accounting;
use rpcgate_examples::{Problem, node};
use rpcgate_layers::call::body::BodyLimits;
use rpcgate_layers::call::cache::BoundedReplies;
use rpcgate_layers::call::heavy::Heavy;
use rpcgate_layers::call::pace::Pace;
use rpcgate_layers::nodes::{NodeConfig, Pool, PoolLimits, watch_head};
use rpcgate_layers::request::route::HeadLimits;
use rpcgate_layers::spawn::TokioSpawn;
use rpcgate_layers::stack::{HttpStack, Parts, http_stack};
use rpcgate_layers::upstream::ReplyLimits;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// A gateway that has started.
struct Running {
    addr: SocketAddr,
    key: String,
    sink: Arc<MemoryUsageSink>,
}

async fn start(clock: Arc<dyn Clock>) -> Result<Running, Problem> {
    // A chain is what we know of its API (the adapter), as this operator changed it: here, not at all.
    let chain = Arc::new(Chain::deployed(rpcgate_chains::eth::adapter()));
    let url = node::simulated("eth", clock.clone()).await?;
    let nodes = vec![NodeConfig::new(url.parse()?)];
    let pool = Pool::new(chain.facts(), nodes, PoolLimits::default(), clock.clone());
    // The cache may keep for good what is final, and for that it must know how high the chain is.
    tokio::spawn(watch_head(pool.clone(), chain.clone(), Duration::from_secs(5)));

    // A key belongs to a project, a project to a tenant, and the tenant has a plan. Only the key's hash is kept.
    let key = KeyForge::new(b"one secret for all gateways of a deployment").make()?;
    let caller = Caller::new(KeyId(1), ProjectId(1), TenantId(1), Plan::of(Tier::Free));
    let directory = MemoryDirectory::new([(KeyHash::of(&key), Arc::new(caller))]);

    let counters = Arc::new(MemoryCounters::default());
    let sink = Arc::new(MemoryUsageSink::bounded(1_000));
    let (heavy, pace) = (Arc::new(Heavy::default()), Arc::new(Pace::default()));
    let stack = http_stack(Parts {
        // Both may be replaced while requests are under way; a request keeps those it started with.
        chains: Arc::new(ArcSwap::from_pointee([chain].into_iter().collect())),
        pools: Arc::new(ArcSwap::from_pointee([pool].into_iter().collect())),
        directory: Arc::new(directory),
        accounting: Arc::new(Accounting {
            clock: clock.clone(),
            counters: counters.clone(),
            sink: sink.clone(),
        }),
        replies: Arc::new(BoundedReplies::new(64 << 20)),
        spawn: Arc::new(TokioSpawn),
        room: MemoryBudget::new(256 << 20),
        head: HeadLimits::default(),
        body: BodyLimits::default(),
        envelope: Limits::default(),
        batch: BatchCounts::Request,
        reply: ReplyLimits::default(),
        heavy: heavy.clone(),
        pace: pace.clone(),
        safeguard: Arc::default(),
    });

    // What is counted in memory must be forgotten again, or keys long gone would fill it.
    tokio::spawn(async move {
        let mut minutes = tokio::time::interval(Duration::from_secs(60));
        loop {
            minutes.tick().await;
            let now = clock.now();
            counters.sweep(now);
            heavy.sweep(now);
            pace.sweep(now);
        }
    });

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    tokio::spawn(serve(listener, stack));
    Ok(Running { addr, key, sink })
}

/// HTTP/1.1 and HTTP/2, one task a connection. A gateway on the open network also bounds connections and drains them
/// before it ends, as `rpcgate-server` does.
async fn serve(listener: TcpListener, stack: HttpStack) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file handles, most likely: some connection will end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let service = TowerToHyperService::new(stack.clone());
        tokio::spawn(async move {
            let mut builder = auto::Builder::new(TokioExecutor::new());
            // Without a timer hyper waits for ever for the rest of a request's head.
            builder.http1().timer(TokioTimer::new());
            // It fails when a client breaks off, which is the client's own affair.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

#[tokio::main]
async fn main() -> Result<(), Problem> {
    let Running { addr, key, sink } = start(Arc::new(SystemClock::new())).await?;
    let call = |body: &str| println!("    curl -i http://{addr}/eth -H 'apikey: {key}' -d '{body}'");
    println!("A gateway with one key of the free plan, and a simulated Ethereum node behind it. Try:\n");
    call(r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#);
    println!("\ntwice within two seconds (`x-cache`), eleven times within a minute (429), or as a batch:\n");
    call(
        r#"[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},{"jsonrpc":"2.0","id":2,"method":"eth_gasPrice"}]"#,
    );
    println!("\nEnd it with Ctrl-C to see what it would bill.");
    tokio::signal::ctrl_c().await?;
    for line in sink.records().iter().flat_map(|record| &record.lines) {
        println!("{:>4} CU  {}", line.cu, line.method);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::usage_sink::Outcome;
    use rpcgate_core::clock::{ManualClock, Time};
    use rpcgate_examples::client::{Answer, post};
    use serde_json::{Value, json};

    /// A clock that stands still, so that no minute ends while a test counts requests.
    async fn running() -> (Running, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        (start(clock.clone()).await.unwrap(), clock)
    }

    async fn ask(gateway: &Running, body: &Value) -> Answer {
        post(gateway.addr, "/eth", ("apikey", &gateway.key), body).await.unwrap()
    }

    #[tokio::test]
    async fn a_call_goes_to_the_node_and_the_same_call_again_to_the_cache() {
        let (gateway, clock) = running().await;
        let call = json!({"jsonrpc": "2.0", "id": "mine", "method": "eth_blockNumber", "params": []});
        let first = ask(&gateway, &call).await;
        assert_eq!((first.status.as_u16(), first.header("x-cache")), (200, "MISS"));
        assert_eq!(first.json["id"], "mine");
        assert!(first.json["result"].as_str().unwrap().starts_with("0x"), "{:?}", first.json);
        assert_eq!((first.header("x-compute-units"), first.rate_headers()), ("1", 9));
        let second = ask(&gateway, &call).await;
        assert_eq!((second.header("x-cache"), &second.json), ("HIT", &first.json));
        clock.advance(Duration::from_secs(12));
        let third = ask(&gateway, &call).await;
        assert_eq!(third.header("x-cache"), "MISS");
        assert_ne!(third.json, first.json, "a block has come");
    }

    #[tokio::test]
    async fn a_batch_is_answered_call_by_call_and_recorded_line_by_line() {
        let (gateway, _) = running().await;
        let batch = json!([
            {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"},
            {"jsonrpc": "2.0", "id": 2, "method": "admin_addPeer", "params": ["enode://"]},
            {"jsonrpc": "2.0", "id": 3, "method": "eth_gasPrice"},
        ]);
        let answer = ask(&gateway, &batch).await;
        assert_eq!(answer.json[0]["result"], "0x1");
        assert!(answer.json[1]["error"]["code"].is_i64(), "nobody may lead a node astray");
        assert!(answer.json[2]["result"].is_string());
        let records = gateway.sink.records();
        let lines: Vec<_> =
            records[0].lines.iter().map(|line| (&*line.method, line.cu, line.outcome)).collect();
        assert_eq!(
            lines,
            [
                ("eth_chainId", 0, Outcome::Answered),
                ("admin_addPeer", 0, Outcome::Refused),
                ("eth_gasPrice", 1, Outcome::Answered)
            ]
        );
    }

    #[tokio::test]
    async fn strangers_are_turned_away_and_the_plan_is_kept() {
        let (gateway, clock) = running().await;
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"});
        let stranger = post(gateway.addr, "/eth", ("apikey", "guessed"), &call).await.unwrap();
        assert_eq!((stranger.status.as_u16(), stranger.rate_headers()), (401, 0));
        for left in (0..10).rev() {
            let answer = ask(&gateway, &call).await;
            assert_eq!(answer.header("x-ratelimit-remaining-minute"), left.to_string());
        }
        let refused = ask(&gateway, &call).await;
        assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, "60"));
        clock.advance(Duration::from_secs(60));
        assert_eq!(ask(&gateway, &call).await.status.as_u16(), 200);
    }
}
