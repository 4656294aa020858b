use crate::*;

const NOT_PERMITTED: &str = "method not permitted for this project";

async fn listed(list: &str) -> (Node, TestGateway, TestClient) {
    let node = Node::evm().await;
    let gateway =
        Setup::of("eth", &node.url()).node("bsc", &node.url()).set("projects.default", list).start().await;
    let client = gateway.client();
    (node, gateway, client)
}

// Shows (Keys): A blocked method gets 403 and -32004 as a single call, and an error of its item in a batch.
#[tokio::test]
async fn a_blocked_method_is_refused_with_403_and_uses_nothing() {
    let (node, gateway, client) = listed(r#"blocked_methods = ["eth_call", "trace_block"]"#).await;
    for (chain, method) in
        [("eth", "eth_call"), ("bsc", "eth_call"), ("bsc", "trace_block"), ("eth", r"eth_c\u0061ll")]
    {
        let reply = client.call(chain, method, "[]").await;
        assert_eq!((reply.status, reply.code()), (403, -32004), "{method}");
        assert_eq!(reply.json()["error"]["message"], NOT_PERMITTED);
        assert!(reply.json()["id"].is_u64(), "the id is echoed");
        assert_eq!((reply.cu(), reply.number("x-ratelimit-remaining-minute")), (0, 1_000));
    }
    assert_eq!(client.call("eth", "eth_Call", "[]").await.status, 200, "another method");
    assert_eq!(client.call("eth", "eth_call2", "[]").await.status, 200);
    assert_eq!(node.requests(), 2);
    assert!(gateway.lines()[..4].iter().all(|line| line.status == 403 && line.outcome == Outcome::Refused));
    assert_eq!(gateway.lines()[0].method, "eth_call", "a method that is refused is counted by its name");
}

// Shows (Keys): A non-empty allow list admits only its methods.
#[tokio::test]
async fn a_non_empty_allow_list_admits_only_its_methods() {
    let (node, _gateway, client) = listed(r#"allowed_methods = ["eth_chainId", "eth_call"]"#).await;
    for (method, status) in [
        ("eth_chainId", 200),
        ("eth_call", 200),
        ("eth_getBalance", 403),
        ("eth_chainid", 403),
        ("debug_x", 403),
    ] {
        assert_eq!(client.call("eth", method, "[]").await.status, status, "{method}");
    }
    assert_eq!(node.requests(), 2);
}

// Shows (Keys).
#[tokio::test]
async fn a_method_on_both_lists_is_blocked() {
    let (_node, _gateway, client) =
        listed("allowed_methods = [\"m\", \"n\"]\nblocked_methods = [\"m\"]").await;
    assert_eq!(client.call("eth", "m", "[]").await.status, 403);
    assert_eq!(client.call("eth", "n", "[]").await.status, 200);
}

// Shows (Order of decisions): A batch is HTTP 200 unless it is refused as a whole.
// Shows (Keys).
#[tokio::test]
async fn in_a_batch_only_the_blocked_item_is_refused() {
    let (node, _gateway, client) = listed(r#"blocked_methods = ["eth_call"]"#).await;
    let reply =
        client.batch("eth", &[("eth_chainId", "[]"), ("eth_call", "[]"), ("eth_getBalance", "[]")]).await;
    assert_eq!((reply.status, reply.codes()), (200, vec![0, -32004, 0]));
    assert_eq!(reply.json()[1]["error"]["message"], NOT_PERMITTED);
    assert_eq!(reply.cu(), 5);
    assert_eq!(node.calls().len(), 2);
}

// Shows (Order of decisions): A set without an open entry is counted in no window.
#[tokio::test]
async fn a_set_without_an_open_entry_is_counted_in_no_window() {
    let (node, _gateway, client) = listed(r#"blocked_methods = ["a", "b"]"#).await;
    let reply = client.batch("eth", &[("a", "[]"), ("b", "[]"), ("debug_x", "[]")]).await;
    assert_eq!((reply.status, reply.codes()), (200, vec![-32004, -32004, -32601]));
    assert_eq!(reply.number("x-ratelimit-remaining-minute"), 1_000);
    assert_eq!(node.requests(), 0);
}

#[tokio::test]
async fn a_method_that_the_operator_blocks_on_a_chain_is_refused_for_every_key() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .node("bsc", &node.url())
        .set("chains.eth", r#"blocked_methods = ["eth_newFilter"]"#);
    let gateway = setup.start().await;
    let client = gateway.client();
    let reply = client.call("eth", "eth_newFilter", "[]").await;
    assert_eq!((reply.status, reply.code()), (403, -32004));
    assert_eq!(client.call("bsc", "eth_newFilter", "[]").await.status, 200);
}

// Shows (Errors): Debugging on /eth gets 403, before any budget.
// Shows (Limits, budget and quota): A debugging item of a batch on /eth gets -32601 with the specified message.
#[tokio::test]
async fn debugging_on_eth_is_forbidden_before_any_budget_is_consulted() {
    let (node, gateway, client) = evm().await;
    for method in ["debug_traceTransaction", "debug_getRawBlock", "debug_", r"d\u0065bug_x"] {
        let reply = client.call("eth", method, "[]").await;
        assert_eq!(
            (reply.status, reply.text().as_str()),
            (403, r#"{"error":"debug methods not permitted"}"#),
            "{method}"
        );
        assert_eq!((reply.cu(), reply.number("x-ratelimit-remaining-minute")), (0, 1_000));
    }
    let reply = client.batch("eth", &[("debug_x", "[]"), ("eth_chainId", "[]")]).await;
    assert_eq!((reply.status, reply.codes()), (200, vec![-32601, 0]));
    assert_eq!(reply.json()[0]["error"]["message"], "debug methods not permitted");
    assert_eq!(node.calls().len(), 1);
    drop(gateway);
}
