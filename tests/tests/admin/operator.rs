//! Changes by operators take effect at every gateway within a second.

use crate::watch::Pair;
use rpcgate_tests::admin::PASSWORD;
use rpcgate_tests::client::{TestClient, TestReply};
use serde_json::{Value, json};

const CALL: (&str, &str) = ("eth", "eth_getBalance");

fn is_served(reply: &TestReply) -> bool {
    (reply.status, reply.code()) == (200, 0)
}

/// Starts two gateways and returns a project and the text of a key.
async fn pair() -> (Pair, String, String) {
    let pair = Pair::start().await;
    let project = pair.owner.project("one").await;
    let (_, text) = pair.owner.key(&project).await;
    (pair, project, text)
}

// Shows (Management): Suspension, plans, tiers, weights, quotas and switched chains take effect at every gateway within
// 1 s.
// Shows (Reliability): Suspension and reactivation take effect within 1 s and leave keys unchanged (promise 20).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_tenant_is_refused_everywhere_and_served_again_with_the_same_key() {
    let (pair, _, text) = pair().await;
    let call = (text.as_str(), CALL.0, CALL.1);
    let path = format!("/operator/tenants/{}", pair.owner.tenant().await);
    let status = async |status| drop(pair.operator.put(&path, &json!({ "status": status })).await);
    for _ in 0..3 {
        let is_suspended = |reply: &TestReply| {
            reply.status == 402 && reply.text().contains("account suspended — contact your administrator")
        };
        pair.change("a tenant is suspended", call, status("suspended"), is_suspended).await;
        pair.change("it is active again", call, status("active"), is_served).await;
    }
}

// Shows (Management): A tenant is deleted with its users, projects, keys and tickets, by the API or the command line,
// unless it owes a billed or unbilled amount; its keys are refused within 1 s; invoices, audit and usage stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_of_a_deleted_tenant_are_refused_at_every_gateway_within_a_second() {
    let (pair, _, text) = pair().await;
    // It costs nothing: a tenant with debts is not deleted.
    let call = (text.as_str(), "eth", "eth_chainId");
    let path = format!("/operator/tenants/{}", pair.owner.tenant().await);
    let is_unknown = |reply: &TestReply| reply.status == 401;
    let alone = pair.operator.ask("DELETE", &path, None).await;
    assert_eq!((alone.status, &alone.json()["code"]), (401, &json!("proof_required")), "{alone:?}");
    let proof = json!({ "current_password": PASSWORD });
    assert_eq!(pair.operator.ask("POST", "/auth/proof", Some(&proof)).await.status, 204);
    pair.change("a tenant is deleted", call, pair.operator.delete(&path), is_unknown).await;
    assert_eq!(pair.operator.ask("GET", &path, None).await.status, 404);
    assert_eq!(pair.owner.ask("GET", "/auth/me", None).await.status, 401, "its members are gone");
}

// Shows (Management).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_weights_plans_and_tiers_take_effect_at_every_gateway() {
    let (pair, _, text) = pair().await;
    let call = (text.as_str(), CALL.0, CALL.1);
    let put = async |path: &str, body| drop(pair.operator.put(path, &body).await);
    let weight = "/operator/cu-weights/eth/eth_getBalance";
    let costs = |cu| move |reply: &TestReply| is_served(reply) && reply.cu() == cu;
    pair.change("a method costs more", call, put(weight, json!({ "cu": 9 })), costs(9)).await;
    pair.change("it has the deployed weight", call, pair.operator.delete(weight), costs(5)).await;

    let limit = |limit| move |reply: &TestReply| reply.number("x-ratelimit-limit-minute") == limit;
    let plan = put("/operator/plans/enterprise", json!({ "per_minute": 800_000 }));
    pair.change("a plan has fewer requests", call, plan, limit(800_000)).await;
    let path = format!("/operator/tenants/{}", pair.owner.tenant().await);
    pair.change("a tenant moves", call, put(&path, json!({ "tier": "premium" })), limit(900_000)).await;
}

// Shows (Management).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_quotas_and_switched_chains_take_effect_at_every_gateway() {
    let (pair, project, text) = pair().await;
    let call = (text.as_str(), CALL.0, CALL.1);
    let put = async |path: &str, body| drop(pair.operator.put(path, &body).await);
    let quota = format!("/operator/projects/{project}/quota");
    let has = |code: i64, words: &'static str| {
        move |reply: &TestReply| (reply.status, reply.code()) == (200, code) && reply.text().contains(words)
    };
    let over = has(-32005, "compute unit quota exceeded");
    pair.change("a quota is used up", call, put(&quota, json!({ "cu_per_day": 0 })), over).await;
    pair.change("the default holds again", call, pair.operator.delete(&quota), is_served).await;

    let chain = "/operator/chains/eth";
    let off = has(-32601, "chain not available at this location");
    pair.change("a chain is switched off", call, put(chain, json!({ "enabled": false })), off).await;
    pair.change("it is switched on", call, put(chain, json!({ "enabled": true })), is_served).await;
}

/// Waits until both gateways have reported the nodes with their heights, and returns the nodes.
async fn reported(pair: &Pair) -> Vec<Value> {
    let deadline = tokio::time::Instant::now() + rpcgate_tests::TIMEOUT;
    loop {
        let nodes = pair.operator.shown("/operator/nodes").await;
        let nodes = nodes.as_array().unwrap().clone();
        let gateways: std::collections::BTreeSet<_> =
            nodes.iter().map(|node| node["gateway"].to_string()).collect();
        if gateways.len() == 2 && nodes.iter().all(|node| node["height"].is_u64()) {
            return nodes;
        }
        assert!(tokio::time::Instant::now() < deadline, "{nodes:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

// Shows (Nodes and cache).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_node_gets_no_call_from_any_gateway_until_it_is_resumed() {
    let (pair, _, text) = pair().await;
    let call = (text.as_str(), CALL.0, CALL.1);
    let nodes = reported(&pair).await.into_iter().filter(|node| node["chain"] == "eth");
    let names: std::collections::BTreeSet<_> =
        nodes.map(|node| node["node"].as_str().unwrap().to_owned()).collect();
    let path = "/operator/chains/eth/nodes";
    let last = json!({ "node": names.first(), "drained": true });
    if names.len() == 1 {
        assert_eq!(pair.operator.ask("PUT", path, Some(&last)).await.status, 409, "it is the last one");
    }
    let set = async |drained: bool| {
        for node in &names {
            let body = json!({ "node": node, "drained": drained, "force": true });
            pair.operator.put(path, &body).await;
        }
    };
    let is_failed = |reply: &TestReply| {
        (reply.status, reply.code()) == (200, -32603) && reply.text().contains("backend request failed")
    };
    pair.change("all nodes are drained", call, set(true), is_failed).await;
    pair.change("they are resumed", call, set(false), is_served).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_see_the_health_of_each_gateways_nodes_with_the_reason() {
    let (pair, _, _) = pair().await;
    for node in reported(&pair).await {
        assert_eq!(
            (&node["health"], &node["reason"], &node["lag"]),
            (&json!("well"), &json!("answers"), &json!(0))
        );
        assert!(node["latency_ms"].as_f64().is_some_and(|millis| millis > 0.0), "{node}");
        assert!(node["node"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{node}");
    }
}

// Shows (Nodes and cache).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cache_of_a_chain_is_emptied_at_every_gateway_within_a_second() {
    let (pair, _, text) = pair().await;
    let clients: Vec<_> =
        pair.gateways.iter().map(|gateway| TestClient::new(gateway.addr(), Some(&text))).collect();
    // Waits until a gateway answers with this cache status.
    let until = async |client: &TestClient, cache: &str| {
        let found = async {
            while client.call("eth", "eth_chainId", "[]").await.cache() != cache {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(rpcgate_tests::TIMEOUT, found).await.expect(cache);
    };
    for client in &clients {
        until(client, "HIT").await;
        assert_eq!(client.call("eth", "eth_chainId", "[]").await.cache(), "HIT", "and stays there");
    }
    pair.operator.delete("/operator/chains/eth/cache").await;
    for client in &clients {
        until(client, "MISS").await;
        until(client, "HIT").await;
    }
    assert_eq!(pair.operator.ask("DELETE", "/operator/chains/gold/cache", None).await.status, 404);
}
