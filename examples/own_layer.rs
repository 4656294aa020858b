//! How do I put my own step between the layers?
//!
//! Write it as an ordinary tower service of *one call*. `EachLayer` turns it into a layer that handles single calls and
//! batches, ids and errors. The service returns `Ok(None)` to pass the call on, `Ok(Some(result))` to answer it, or
//! `Err(refusal)`.
//!
//! The step of this example screens addresses and answers one method by itself. It comes after the quota, which has
//! already reserved the units of a call: a call that the step answers costs its method's weight, and the units of a
//! call that it refuses are returned. Before the quota its answers would be free.
//!
//! `stack::http_stack` has all layers in a fixed order, so this example composes the layers that it needs itself. The
//! checks of an omitted layer do not happen: without `ClosedLayer`, for example, any caller could send `admin_addPeer`
//! to the node. Layers in a wrong order do not compile.
//!
//! Run it with `cargo run -p rpcgate-examples --example own_layer`.

use rpcgate_core::prelude::*;
use rpcgate_examples::{BoxError, key, node, server};
use rpcgate_layers::prelude::*;
use std::{net::SocketAddr, sync::Arc};
use tower::{Layer, service_fn};

const SHUNNED: &str = "0x00000000000000000000000000000000deadbeef";

/// The step. It may be asynchronous, and is called for all calls of a batch concurrently.
async fn screen(call: OwnedCall) -> Result<Option<bytes::Bytes>, Refusal> {
    if call.method == "desk_whoami" {
        return Ok(Some(format!("{{\"project\":\"{}\"}}", call.caller.project).into()));
    }
    // Parameters are the client's bytes: compare their parsed values, since the spelling may vary.
    let params: Vec<serde_json::Value> = serde_json::from_slice(&call.params).unwrap_or_default();
    let is_shunned = params.iter().filter_map(|it| it.as_str()).any(|it| it.eq_ignore_ascii_case(SHUNNED));
    if is_shunned { Err(Refusal::NotPermitted) } else { Ok(None) }
}

async fn start(keys: Arc<dyn Directory>, clock: Arc<dyn Clock>) -> Result<SocketAddr, BoxError> {
    // The method that the step answers has a weight like any other, in Compute Units.
    let changes = ChainOverrides::default().with_cu("desk_whoami", 3);
    let chain = Arc::new(Chain::new(rpcgate_chains::eth::adapter(), changes, true, Arc::default()));
    let node = NodeConfig::new(node::simulated("eth", clock.clone()).await?.parse()?);
    let pool = Pool::new(chain.facts(), vec![node], PoolLimits::default(), clock.clone());
    let counters = Arc::new(MemoryCounters::default());
    let sink = Arc::<MemoryUsageSink>::default();
    let layers = (
        RespondLayer::new(clock.clone()),
        RouteLayer::of([chain]),
        AuthenticateLayer::new(keys, Arc::new(Accounting::new(clock, counters.clone(), sink))),
        BatchLayer::new(),
        WindowLayer::new(counters.clone()),
        ClosedLayer::new(),
        QuotaLayer::new(counters),
        EachLayer::new(service_fn(screen)),
    );
    // The stack is a tower service, so it can be a route of an axum application, next to your own routes.
    Ok(server::serve(axum::Router::new().fallback_service(layers.layer(Upstream::of([pool])))).await?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let (key, keys) = key::fresh()?;
    let addr = start(keys, Arc::new(SystemClock::new())).await?;
    let calls = [("desk_whoami", ""), ("eth_getBalance", SHUNNED), ("eth_chainId", "")];
    Ok(server::show_calls(addr, &key, "/eth", &calls).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_examples::client::post;
    use serde_json::json;

    #[tokio::test]
    async fn the_step_answers_refuses_and_passes_on_inside_one_batch() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let (key, keys) = key::fresh().unwrap();
        let addr = start(keys, clock).await.unwrap();
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
    async fn an_answered_step_costs_its_weight_and_a_refused_one_only_a_request() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let (key, keys) = key::fresh().unwrap();
        let addr = start(keys, clock).await.unwrap();
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
