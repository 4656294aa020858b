//! How do I put a step of my own between the layers?
//!
//! Write it as an ordinary tower service of *one call*, and `EachLayer` makes a layer of it, which handles single calls and
//! batches, ids and errors. The service returns `Ok(None)` to pass the call on, `Ok(Some(result))` to answer it, or
//! `Err(refusal)`.
//!
//! The step here screens addresses and answers one method by itself. It comes behind the quota: a call that it answers has
//! been reserved there and costs its method's weight, the units of a call that it refuses are returned. Before the quota its answers
//! would be free.
//!
//! `stack::http_stack` has all layers in a fixed order, so here the layers that this service wants are put together by hand.
//! A layer that is left out does not decide: without `ClosedLayer`, for one, any caller could send `admin_addPeer` to the
//! node. In a wrong order they do not compile.
//!
//! Run it with `cargo run -p rpcgate-examples --example own_layer`.
#![expect(clippy::print_stdout, reason = "it prints what to try")]

use arc_swap::ArcSwap;
use axum::Router;
use bytes::Bytes;
use rpcgate_core::backend::counters::MemoryCounters;
use rpcgate_core::backend::usage_sink::MemoryUsageSink;
use rpcgate_core::chain::{Chain, ChainOverrides};
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Accounting;
use rpcgate_examples::{Problem, key, node};
use rpcgate_layers::call::batch::BatchLayer;
use rpcgate_layers::call::closed::ClosedLayer;
use rpcgate_layers::call::each::{EachLayer, OwnedCall};
use rpcgate_layers::call::quota::QuotaLayer;
use rpcgate_layers::call::window::WindowLayer;
use rpcgate_layers::nodes::{NodeConfig, Pool, PoolLimits};
use rpcgate_layers::request::authenticate::AuthenticateLayer;
use rpcgate_layers::request::route::RouteLayer;
use rpcgate_layers::respond::RespondLayer;
use rpcgate_layers::upstream::Upstream;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tower::{Layer, service_fn};

const SHUNNED: &str = "0x00000000000000000000000000000000deadbeef";

/// The step. It may wait for anything, and is called for all calls of a batch at the same time.
async fn screen(call: OwnedCall) -> Result<Option<Bytes>, Refusal> {
    if call.method == "desk_whoami" {
        return Ok(Some(format!("{{\"project\":\"{}\"}}", call.caller.project).into()));
    }
    // Parameters are the client's own bytes: compare their meaning, not their spelling.
    let params: serde_json::Value = serde_json::from_slice(&call.params).unwrap_or_default();
    let shunned = params
        .as_array()
        .into_iter()
        .flatten()
        .any(|param| param.as_str().is_some_and(|address| address.eq_ignore_ascii_case(SHUNNED)));
    if shunned { Err(Refusal::NotPermitted) } else { Ok(None) }
}

async fn start(clock: Arc<dyn Clock>) -> Result<(SocketAddr, String), Problem> {
    // Our own method has a weight like any other, in Compute Units.
    let changes = ChainOverrides { cu: vec![("desk_whoami".into(), 3)], ..ChainOverrides::default() };
    let chain = Arc::new(Chain::new(rpcgate_chains::eth::adapter(), changes, true, Arc::default()));
    let url = node::simulated("eth", clock.clone()).await?;
    let pool =
        Pool::new(chain.facts(), vec![NodeConfig::new(url.parse()?)], PoolLimits::default(), clock.clone());
    let (key, directory) = key::fresh()?;
    let counters = Arc::new(MemoryCounters::default());
    let accounting = Accounting {
        clock: clock.clone(),
        counters: counters.clone(),
        sink: Arc::<MemoryUsageSink>::default(),
    };

    let layers = (
        RespondLayer::new(clock),
        RouteLayer::new(Arc::new(ArcSwap::from_pointee([chain].into_iter().collect()))),
        AuthenticateLayer::new(directory, Arc::new(accounting)),
        BatchLayer::new(),
        WindowLayer::new(counters.clone()),
        ClosedLayer::new(),
        QuotaLayer::new(counters),
        EachLayer::new(service_fn(screen)),
    );
    let stack = layers.layer(Upstream::new(Arc::new(ArcSwap::from_pointee([pool].into_iter().collect()))));

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    // The whole is a tower service, so it may stand inside an axum application, beside routes of your own.
    tokio::spawn(axum::serve(listener, Router::new().fallback_service(stack)).into_future());
    Ok((addr, key))
}

#[tokio::main]
async fn main() -> Result<(), Problem> {
    let (addr, key) = start(Arc::new(SystemClock::new())).await?;
    let call = |body: &str| println!("    curl -i http://{addr}/eth -H 'apikey: {key}' -d '{body}'");
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
    use rpcgate_core::clock::{ManualClock, Time};
    use rpcgate_examples::client::post;
    use serde_json::json;

    #[tokio::test]
    async fn the_step_answers_refuses_and_passes_on_inside_one_batch() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let (addr, key) = start(clock).await.unwrap();
        let batch = json!([
            {"jsonrpc": "2.0", "id": 1, "method": "desk_whoami"},
            {"jsonrpc": "2.0", "id": 2, "method": "eth_getBalance", "params": [SHUNNED, "latest"]},
            {"jsonrpc": "2.0", "id": 3, "method": "eth_chainId", "params": []},
            {"jsonrpc": "2.0", "id": 4, "method": "admin_addPeer", "params": ["enode://"]},
        ]);
        let answer = post(addr, "/eth", ("apikey", &key), &batch).await.unwrap();
        assert_eq!(answer.json[0]["result"]["project"], "00000000-0000-0000-0000-000000000001");
        assert_eq!(answer.json[1]["error"]["message"], Refusal::NotPermitted.message());
        assert_eq!(answer.json[2]["result"], "0x1");
        assert_eq!(answer.json[3]["error"]["message"], Refusal::Closed.message());
        assert_eq!(answer.header("x-ratelimit-remaining-minute"), "49", "a batch is one request");
    }

    #[tokio::test]
    async fn what_the_step_answers_costs_its_weight_and_what_it_refuses_only_a_request() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let (addr, key) = start(clock).await.unwrap();
        let whoami = json!({"jsonrpc": "2.0", "id": 1, "method": "desk_whoami"});
        let answer = post(addr, "/eth", ("apikey", &key), &whoami).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.header("x-compute-units")), (200, "3"));
        let shouted = SHUNNED.replace("deadbeef", "DEADBEEF");
        let balance =
            json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getBalance", "params": [shouted, "latest"]});
        let answer = post(addr, "/eth", ("apikey", &key), &balance).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.header("x-compute-units")), (403, "0"));
        assert_eq!(answer.header("x-ratelimit-remaining-minute"), "48");
    }
}
