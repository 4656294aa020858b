use crate::*;

const TEXT: &str = "heavy method rate limit exceeded for your plan, retry later";

async fn of(plan: &str) -> (Node, TestGateway, TestClient) {
    let node = Node::evm().await;
    let setup = ["eth", "bsc", "polygon", "avax"]
        .iter()
        .fold(Setup::new(), |setup, chain| setup.node(chain, &node.url()));
    let gateway = setup.plan(plan).key("second", "").set("plans.free", "per_minute = 1000").start().await;
    let client = gateway.client();
    (node, gateway, client)
}

// Shows (Heavy-method budget): The four plans have the specified heavy budgets per minute.
#[tokio::test]
async fn each_plan_has_its_heavy_budget_a_minute() {
    for (plan, budget) in [("free", 6), ("standard", 30), ("premium", 60), ("enterprise", 600)] {
        let (node, gateway, client) = of(plan).await;
        // In batches, because the plan allows too few requests.
        let mut served = 0;
        for _ in 0..13 {
            let reply = client.batch("bsc", &[("txpool_content", "[]"); 50]).await;
            served += reply.codes().iter().filter(|code| **code == 0).count();
        }
        assert_eq!((served, node.calls().len()), (budget, budget), "{plan}");
        let reply = client.call("bsc", "txpool_content", "[]").await;
        assert_eq!((reply.status, reply.code(), reply.number("retry-after")), (429, -32029, 45), "{plan}");
        gateway.pass(45);
        assert_eq!(client.call("bsc", "txpool_content", "[]").await.status, 200);
    }
}

// Shows (Errors): An exceeded heavy budget gets 429 with -32029; in a batch only the items beyond it do.
#[tokio::test]
async fn beyond_the_budget_a_single_call_is_answered_429_with_an_error_under_its_id() {
    let (node, gateway, client) = of("free").await;
    for _ in 0..6 {
        assert_eq!(client.call("bsc", "eth_getLogs", "[]").await.status, 200);
    }
    let reply = client.post("bsc", r#"{"jsonrpc":"2.0","id":"x","method":"eth_getLogs"}"#).await;
    let expected = format!(r#"{{"jsonrpc":"2.0","id":"x","error":{{"code":-32029,"message":"{TEXT}"}}}}"#);
    assert_eq!((reply.status, reply.text(), reply.cu()), (429, expected, 0));
    assert_eq!(reply.number("retry-after"), 45);
    assert_eq!(client.call("bsc", "eth_getBalance", "[]").await.status, 200, "other methods pass");
    assert_eq!(node.requests(), 7);
    assert_eq!(gateway.lines().iter().filter(|line| line.status == 429).count(), 1);
}

// Shows (Heavy-method budget): The heavy budget is per project across chains.
#[tokio::test]
async fn the_heavy_budget_is_counted_per_project_across_chains_and_keys() {
    let (_node, gateway, client) = of("free").await;
    let second = gateway.client_of("second");
    for (client, chain, method) in [
        (&client, "bsc", "eth_getLogs"),
        (&second, "bsc", "eth_getLogs"),
        (&client, "polygon", "eth_simulateV1"),
        (&second, "avax", "txpool_content"),
        (&client, "eth", "alchemy_getTokenBalances"),
        (&second, "eth", "eth_getLogs"),
    ] {
        assert_eq!(client.call(chain, method, "[]").await.status, 200, "{chain} {method}");
    }
    for (client, chain) in [(&client, "eth"), (&second, "polygon"), (&client, "avax")] {
        assert_eq!(client.call(chain, "txpool_content", "[]").await.status, 429);
    }
}

// Shows (Heavy-method budget): The heavy methods are the specified ones.
// Shows (Limits, budget and quota): The token-balances scan is recognised by the end of its name.
#[tokio::test]
async fn every_heavy_method_uses_the_budget() {
    for (chain, method) in [
        ("bsc", "eth_getLogs"),
        ("eth", "eth_simulateV1"),
        ("avax", "txpool_content"),
        ("polygon", "alchemy_getTokenBalances"),
        ("eth", "x_getTokenBalances"),
        ("eth", "trace_block"),
        ("bsc", "trace_anything"),
        ("bsc", "debug_traceCall"),
        ("avax", "debug_x"),
    ] {
        let (_node, _gateway, client) = of("free").await;
        client.batch("bsc", &[("txpool_content", "[]"); 5]).await;
        assert_ne!(client.call(chain, method, "[]").await.status, 429, "{chain} {method} is the sixth");
        assert_eq!(client.call(chain, method, "[]").await.status, 429, "{chain} {method} is the seventh");
    }
    for (chain, method) in [
        ("eth", "debug_x"),
        ("eth", "eth_call"),
        ("eth", "eth_getFilterLogs"),
        ("bsc", "eth_getTokenBalance"),
        ("bsc", "tracer_x"),
    ] {
        let (_node, gateway, client) = of("free").await;
        client.batch("bsc", &[("txpool_content", "[]"); 5]).await;
        client.call(chain, method, "[]").await;
        gateway.clock.advance(std::time::Duration::from_secs(1));
        assert_eq!(
            client.call("bsc", "txpool_content", "[]").await.status,
            200,
            "{chain} {method} uses none"
        );
    }
}

// Shows (Errors).
#[tokio::test]
async fn in_a_batch_only_the_items_beyond_the_heavy_budget_are_refused() {
    let (node, _gateway, client) = of("free").await;
    let mut calls = vec![("eth_getLogs", "[]"); 8];
    calls.insert(3, ("eth_chainId", "[]"));
    let reply = client.batch("bsc", &calls).await;
    assert_eq!((reply.status, reply.codes()), (200, vec![0, 0, 0, 0, 0, 0, 0, -32029, -32029]));
    assert_eq!(reply.json()[8]["error"]["message"], TEXT);
    assert_eq!(reply.cu(), 450);
    assert_eq!(node.calls().len(), 7);
}

// Shows (Limits, budget and quota): Tracing and debugging methods use the heavy budget, are then refused as closed, and
// cost nothing.
#[tokio::test]
async fn closed_methods_consult_the_heavy_budget_first() {
    let (node, _gateway, client) = of("free").await;
    for _ in 0..6 {
        let reply = client.call("eth", "trace_block", "[]").await;
        assert_eq!((reply.status, reply.code(), reply.cu()), (200, -32601, 0));
        assert_eq!(reply.json()["error"]["message"], "method not available");
    }
    assert_eq!(client.call("eth", "trace_block", "[]").await.status, 429);
    assert_eq!(client.call("bsc", "debug_x", "[]").await.status, 429);
    assert_eq!(client.call("bsc", "txpool_content", "[]").await.status, 429);
    assert_eq!(client.call("eth", "debug_x", "[]").await.status, 403, "forbidden before any budget");
    assert_eq!(node.requests(), 0);
}

// Shows (Limits, budget and quota): The heavy budget is per process.
#[tokio::test]
async fn each_gateway_process_has_its_own_heavy_budget() {
    let node = Node::evm().await;
    let setup = Setup::of("bsc", &node.url()).plan("free");
    for gateway in [setup.start().await, setup.start().await] {
        let reply = gateway.client().batch("bsc", &[("txpool_content", "[]"); 7]).await;
        assert_eq!(reply.codes().iter().filter(|code| **code == 0).count(), 6);
    }
}
