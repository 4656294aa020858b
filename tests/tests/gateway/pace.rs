use crate::*;

const TEXT: &str = "Heavy method rate limit: 1/min for eth_getLogs";

// Shows (Errors): Log queries on /eth more than once a minute get 429 with the specified message.
// Shows (Limits, budget and quota): The two log queries on /eth share one call per key and minute.
#[tokio::test]
async fn on_eth_a_key_has_one_log_query_a_minute_on_every_plan() {
    for plan in ["free", "enterprise"] {
        let node = Node::evm().await;
        let gateway = Setup::of("eth", &node.url()).plan(plan).start().await;
        let client = gateway.client();
        assert_eq!(client.call("eth", "eth_getLogs", "[{}]").await.status, 200);
        for method in ["eth_getLogs", "eth_getFilterLogs"] {
            let reply = client.call("eth", method, "[{}]").await;
            assert_eq!(
                (reply.status, reply.text()),
                (429, format!("{{\"message\":\"{TEXT}\"}}")),
                "{plan} {method}"
            );
            assert_eq!((reply.number("retry-after"), reply.cu()), (45, 0));
        }
        gateway.pass(44);
        assert_eq!(client.call("eth", "eth_getLogs", "[{}]").await.number("retry-after"), 1);
        gateway.pass(1);
        assert_eq!(client.call("eth", "eth_getFilterLogs", "[]").await.status, 200, "the next minute");
        assert_eq!(client.call("eth", "eth_getLogs", "[{}]").await.status, 429, "one for both");
        assert_eq!(node.requests(), 1, "no node has that filter");
    }
}

// Shows (Errors).
#[tokio::test]
async fn the_pace_does_not_limit_other_chains_and_keys() {
    let (_evm, _utxo, gateway) = ten(Setup::new().key("second", "")).await;
    let client = gateway.client();
    let second = gateway.client_of("second");
    for chain in ["eth", "bsc", "bsc", "polygon", "polygon", "avax", "avax"] {
        assert_eq!(client.call(chain, "eth_getLogs", "[{}]").await.status, 200, "{chain}");
    }
    assert_eq!(second.call("eth", "eth_getLogs", "[{}]").await.status, 200);
    assert_eq!(second.call("eth", "eth_getLogs", "[{}]").await.status, 429);
}

// Shows (Limits, budget and quota): The paced item of a batch gets -32029 with its text.
#[tokio::test]
async fn in_a_batch_only_the_paced_item_is_refused() {
    let (node, _gateway, client) = evm().await;
    let reply = client
        .batch(
            "eth",
            &[
                ("eth_getLogs", "[{}]"),
                ("eth_getFilterLogs", "[]"),
                ("eth_chainId", "[]"),
                ("eth_getLogs", "[{}]"),
            ],
        )
        .await;
    assert_eq!((reply.status, reply.codes(), reply.cu()), (200, vec![0, -32029, 0, -32029], 75));
    assert_eq!(reply.json()[1]["error"]["message"], TEXT);
    assert!(reply.header("retry-after").is_none(), "the batch itself was served");
    assert_eq!(node.calls().len(), 2);
}

// Shows (Order of decisions).
#[tokio::test]
async fn a_call_refused_by_the_pace_uses_no_heavy_budget() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url()).node("bsc", &node.url()).plan("free").start().await;
    let client = gateway.client();
    for status in [200, 429, 429, 429] {
        assert_eq!(client.call("eth", "eth_getLogs", "[{}]").await.status, status);
    }
    for status in [200, 200, 200, 200, 200, 429] {
        assert_eq!(client.call("bsc", "eth_getLogs", "[{}]").await.status, status);
    }
}
