//! How do I put my own step between the layers, and take keys from my own database?
//!
//! Write it as an ordinary tower service of *one call*. `EachLayer` turns it into a layer that handles single calls and
//! batches, ids and errors. The service returns `Ok(None)` to pass the call on, `Ok(Some(result))` to answer it, or
//! `Err(refusal)`.
//!
//! The step of this example screens addresses and answers one method by itself. It comes after the quota, which has
//! already reserved the units of a call: a call that the step answers costs its method's weight, and the units of a
//! call that it refuses are returned. Before the quota its answers would be free.
//!
//! Keys come from a [`Directory`]. It returns the keys that it has in memory at once, and queries the database for all
//! others, which may wait and may fail.
//!
//! `stack::http_stack` has all layers in a fixed order, so this example composes the layers that it needs itself. The
//! checks of an omitted layer do not happen: without `ClosedLayer`, for example, any caller could send `admin_addPeer`
//! to the node. Layers in a wrong order do not compile.
//!
//! Run it with `cargo run -p rpcgate-examples --example own_layer`.
#![expect(clippy::print_stdout, reason = "it prints what to try")]

use arc_swap::ArcSwap;
use axum::Router;
use bytes::Bytes;
use parking_lot::Mutex;
use rpcgate_core::prelude::*;
use rpcgate_examples::{BoxError, node};
use rpcgate_layers::prelude::*;
use std::{collections::HashMap, net::SocketAddr, sync::Arc, sync::atomic::*};
use tower::{Layer, service_fn};

const KEY: &str = "a secret of our first customer";
const SHUNNED: &str = "0x00000000000000000000000000000000deadbeef";

/// The step. It may be asynchronous, and is called for all calls of a batch concurrently.
async fn screen(call: OwnedCall) -> Result<Option<Bytes>, Refusal> {
    if call.method == "desk_whoami" {
        return Ok(Some(format!("{{\"project\":\"{}\"}}", call.caller.project).into()));
    }
    // Parameters are the client's bytes: compare their parsed values, since the spelling may vary.
    let params: serde_json::Value = serde_json::from_slice(&call.params).unwrap_or_default();
    let shunned = params
        .as_array()
        .into_iter()
        .flatten()
        .any(|param| param.as_str().is_some_and(|address| address.eq_ignore_ascii_case(SHUNNED)));
    if shunned { Err(Refusal::NotPermitted) } else { Ok(None) }
}

/// Our key database, which stores only hashes of keys. A real one is reached over a socket.
#[derive(Debug, Default)]
struct KeyDatabase {
    rows: HashMap<KeyHash, Arc<Caller>>,
    queries: AtomicU32,
    is_down: AtomicBool,
}

impl KeyDatabase {
    async fn find(&self, hash: KeyHash) -> Result<Option<Arc<Caller>>, Unavailable> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        if self.is_down.load(Ordering::Relaxed) {
            return Err(Unavailable);
        }
        Ok(self.rows.get(&hash).cloned())
    }
}

/// The directory in front of it, which remembers used keys. A real one also forgets a key when it is revoked.
#[derive(Debug)]
struct Keys {
    database: Arc<KeyDatabase>,
    used: Mutex<HashMap<KeyHash, Arc<Caller>>>,
}

impl Directory for Keys {
    fn peek(&self, key: &str) -> KeyLookup {
        let caller = self.used.lock().get(&KeyHash::of(key)).cloned();
        caller.map_or(KeyLookup::Miss, KeyLookup::Known)
    }

    fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<KeyLookup, Unavailable>> {
        Box::pin(async move {
            let hash = KeyHash::of(key);
            let Some(caller) = self.database.find(hash).await? else { return Ok(KeyLookup::Unknown) };
            self.used.lock().insert(hash, caller.clone());
            Ok(KeyLookup::Known(caller))
        })
    }
}

/// Returns a database with one key, of a customer on the standard plan.
fn database() -> Arc<KeyDatabase> {
    let customer = Caller::new(KeyId(1), ProjectId(1), TenantId(1), Plan::of(Tier::Standard));
    let rows = HashMap::from([(KeyHash::of(KEY), Arc::new(customer))]);
    Arc::new(KeyDatabase { rows, ..KeyDatabase::default() })
}

async fn start(database: Arc<KeyDatabase>, clock: Arc<dyn Clock>) -> Result<SocketAddr, BoxError> {
    // The method that the step answers has a weight like any other, in Compute Units.
    let changes = ChainOverrides::default().with_cu("desk_whoami", 3);
    let chain = Arc::new(Chain::new(rpcgate_chains::eth::adapter(), changes, true, Arc::default()));
    let url = node::simulated("eth", clock.clone()).await?;
    let pool =
        Pool::new(chain.facts(), vec![NodeConfig::new(url.parse()?)], PoolLimits::default(), clock.clone());
    let keys = Keys { database, used: Mutex::default() };
    let counters = Arc::new(MemoryCounters::default());
    let accounting = Accounting::new(clock.clone(), counters.clone(), Arc::<MemoryUsageSink>::default());

    let layers = (
        RespondLayer::new(clock),
        RouteLayer::new(Arc::new(ArcSwap::from_pointee([chain].into_iter().collect()))),
        AuthenticateLayer::new(Arc::new(keys), Arc::new(accounting)),
        BatchLayer::new(),
        WindowLayer::new(counters.clone()),
        ClosedLayer::new(),
        QuotaLayer::new(counters),
        EachLayer::new(service_fn(screen)),
    );
    let stack = layers.layer(Upstream::new(Arc::new(ArcSwap::from_pointee([pool].into_iter().collect()))));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    // The stack is a tower service, so it can be a route of an axum application, next to your own routes.
    tokio::spawn(axum::serve(listener, Router::new().fallback_service(stack)).into_future());
    Ok(addr)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let addr = start(database(), Arc::new(SystemClock::new())).await?;
    let call = |body: &str| println!("    curl -i http://{addr}/eth -H 'apikey: {KEY}' -d '{body}'");
    println!(
        "A gateway with a step of its own, and a simulated Ethereum node behind it.\n\nAnswered by the step:\n"
    );
    call(r#"{"jsonrpc":"2.0","id":1,"method":"desk_whoami"}"#);
    println!("\nRefused by it:\n");
    call(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["{SHUNNED}","latest"]}}"#));
    println!("\nPassed on to the node:\n");
    call(r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#);
    tokio::signal::ctrl_c().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_examples::client::post;
    use serde_json::json;

    #[tokio::test]
    async fn the_step_answers_refuses_and_passes_on_inside_one_batch() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let addr = start(database(), clock).await.unwrap();
        let batch = json!([
            {"jsonrpc": "2.0", "id": 1, "method": "desk_whoami"},
            {"jsonrpc": "2.0", "id": 2, "method": "eth_getBalance", "params": [SHUNNED, "latest"]},
            {"jsonrpc": "2.0", "id": 3, "method": "eth_chainId", "params": []},
            {"jsonrpc": "2.0", "id": 4, "method": "admin_addPeer", "params": ["enode://"]},
        ]);
        let answer = post(addr, "/eth", ("apikey", KEY), &batch).await.unwrap();
        assert_eq!(answer.json[0]["result"]["project"], "00000000-0000-0000-0000-000000000001");
        assert_eq!(answer.json[1]["error"]["message"], Refusal::NotPermitted.message());
        assert_eq!(answer.json[2]["result"], "0x1");
        assert_eq!(answer.json[3]["error"]["message"], Refusal::Closed.message());
        assert_eq!(answer.header("x-ratelimit-remaining-minute"), "49", "a batch is one request");
    }

    #[tokio::test]
    async fn what_the_step_answers_costs_its_weight_and_what_it_refuses_only_a_request() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let addr = start(database(), clock).await.unwrap();
        let whoami = json!({"jsonrpc": "2.0", "id": 1, "method": "desk_whoami"});
        let answer = post(addr, "/eth", ("apikey", KEY), &whoami).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.header("x-compute-units")), (200, "3"));
        let shouted = SHUNNED.replace("deadbeef", "DEADBEEF");
        let balance =
            json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getBalance", "params": [shouted, "latest"]});
        let answer = post(addr, "/eth", ("apikey", KEY), &balance).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.header("x-compute-units")), (403, "0"));
        assert_eq!(answer.header("x-ratelimit-remaining-minute"), "48");
    }

    #[tokio::test]
    async fn a_key_is_asked_for_once_and_goes_on_working_while_its_database_is_down() {
        let database = database();
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let addr = start(database.clone(), clock).await.unwrap();
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"});
        let status = async |key| post(addr, "/eth", ("apikey", key), &call).await.unwrap().status.as_u16();
        assert_eq!((status(KEY).await, status(KEY).await, status("guessed").await), (200, 200, 401));
        assert_eq!(database.queries.load(Ordering::Relaxed), 2);
        database.is_down.store(true, Ordering::Relaxed);
        assert_eq!(
            (status(KEY).await, status("guessed").await),
            (200, 503),
            "an unknown key may be a good one"
        );
    }
}
