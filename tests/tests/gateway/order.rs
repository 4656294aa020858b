use crate::*;

/// A request that every layer up to the quota would refuse; each row removes one reason.
// Shows (Order of decisions): The layers decide in this order: route, authentication, suspension, scope, body, lists,
// overload, windows, served, pace, heavy, closed, quota, cache, node.
#[tokio::test]
async fn layers_refuse_in_the_order_of_the_stack() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .plan("free")
        .set("plans.free", "per_minute = 1\nheavy_per_minute = 1")
        .set("projects.default", "cu_per_day = 1\nblocked_methods = [\"no\"]")
        .key("narrow", r#"chains = ["btc"]"#)
        .key("gone", "revoked = true");
    let gateway = setup.start().await;
    let client = gateway.client();
    let narrow = gateway.client_of("narrow");
    let call = |method: &str| format!(r#"{{"jsonrpc":"2.0","id":9,"method":"{method}"}}"#);
    // Uses up the window and the units.
    assert_eq!(client.post("eth", call("m")).await.code(), 0);
    assert_eq!(
        gateway.client_of("gone").post("nochain", "{").await.status,
        404,
        "route before authentication"
    );
    assert_eq!(
        gateway.client_of("gone").post("eth", "{").await.status,
        401,
        "authentication before the body"
    );
    assert_eq!(narrow.post("eth", "{").await.status, 403, "scope before the body");
    assert_eq!(client.post("eth", "{").await.status, 400, "the body before the windows");
    assert_eq!(client.post("polygon", call("no")).await.code(), -32004, "lists before the windows");
    assert_eq!(client.post("eth", call("debug_x")).await.status, 403, "debug on /eth before the windows");
    assert_eq!(
        client.post("polygon", call("m")).await.status,
        429,
        "the windows before whether the chain is on"
    );
    gateway.pass(45);
    assert_eq!(client.post("polygon", call("trace_x")).await.code(), -32601);
    gateway.pass(60);
    assert_eq!(
        client.post("eth", call("trace_x")).await.code(),
        -32601,
        "a chain that is off used no heavy budget"
    );
    gateway.pass(60);
    let reply = client
        .batch(
            "eth",
            &[("trace_a", "[]"), ("trace_b", "[]"), ("eth_getLogs", "[]"), ("admin_x", "[]"), ("m", "[]")],
        )
        .await;
    assert_eq!(reply.codes(), [-32601, -32029, -32029, -32601, -32005], "heavy, then closed, then quota");
    assert_eq!(node.requests(), 1);
}

// Shows (Order of decisions): A call that an earlier layer refuses is not counted or charged by a later one.
#[tokio::test]
async fn a_call_refused_by_an_earlier_layer_is_not_counted_by_a_later_one() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .plan("free")
        .set("projects.default", "cu_per_day = 100\nblocked_methods = [\"eth_getLogs\"]");
    let gateway = setup.start().await;
    let client = gateway.client();
    for _ in 0..20 {
        assert_eq!(client.call("eth", "eth_getLogs", "[]").await.status, 403);
        assert_eq!(client.post("eth", "[").await.status, 400);
        assert_eq!(client.batch("eth", &[("eth_getLogs", "[]"); 101]).await.status, 413);
    }
    let reply = client.call("eth", "m", "[]").await;
    assert_eq!((reply.status, reply.number("x-ratelimit-remaining-minute")), (200, 9));
    assert_eq!(client.call("eth", "eth_getFilterLogs", "[]").await.status, 200, "nor by the pace");
    assert_eq!(gateway.charged(), 1, "no node has that filter");
}

// Shows (Order of decisions).
#[tokio::test]
async fn a_request_refused_by_the_windows_uses_neither_pace_nor_heavy_budget_nor_units() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .plan("free")
        .set("plans.free", "per_minute = 1")
        .set("projects.default", "cu_per_day = 75");
    let gateway = setup.start().await;
    let client = gateway.client();
    assert_eq!(client.call("eth", "eth_chainId", "[]").await.status, 200);
    for _ in 0..10 {
        assert_eq!(
            client.call("eth", "eth_getLogs", "[]").await.text(),
            r#"{"message":"API rate limit exceeded"}"#
        );
    }
    gateway.pass(45);
    assert_eq!(client.call("eth", "eth_getLogs", "[]").await.cu(), 75);
}

// Shows (Order of decisions).
#[tokio::test]
async fn a_call_refused_by_the_quota_reaches_neither_cache_nor_node() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url()).set("projects.default", "cu_per_day = 16").start().await;
    let client = gateway.client();
    assert_eq!(client.call("eth", "eth_call", "[]").await.cache(), "MISS");
    assert_eq!(client.call("eth", "eth_call", "[]").await.cache(), "HIT");
    let reply = client.call("eth", "eth_call", "[]").await;
    assert_eq!((reply.code(), reply.cache()), (-32005, "MISS"), "although it is stored");
    assert_eq!(node.requests(), 1);
}
