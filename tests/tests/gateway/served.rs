use crate::*;

const TEXT: &str = "chain not available at this location";

// Shows (Errors): A chain that is not served gets -32601, and 404 on WebSocket paths.
// Shows (Routes and bodies): A chain that is switched off or has no node gets -32601 under the id, with rate headers.
#[tokio::test]
async fn a_chain_without_a_node_answers_under_the_callers_id() {
    let (_node, gateway, client) = evm().await;
    for id in ["7", "\"a\"", "null", "[1]"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_chainId"}}"#);
        let reply = client.post("polygon", body).await;
        let expected =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"{TEXT}"}}}}"#);
        assert_eq!((reply.status, reply.text()), (200, expected));
        assert!(rated(&reply));
        assert_eq!(reply.cu(), 0);
    }
    let reply = client.post("ltc", r#"{"jsonrpc":"1.0","id":"a","method":"getblockcount"}"#).await;
    let expected = format!(r#"{{"result":null,"error":{{"code":-32601,"message":"{TEXT}"}},"id":"a"}}"#);
    assert_eq!((reply.status, reply.text()), (200, expected), "in the chain's own shape");
    assert_eq!(reply.number("x-ratelimit-remaining-minute"), 995, "each is a request");
    assert!(gateway.lines().iter().all(|line| line.outcome == Outcome::Refused && line.cu == 0));
}

// Shows (Routes and bodies).
#[tokio::test]
async fn in_a_batch_each_item_gets_the_error() {
    let (_node, _gateway, client) = evm().await;
    let reply = client
        .batch("avax", &[("eth_chainId", "[]"), ("debug_x", "[]"), ("admin_x", "[]"), ("eth_getLogs", "[]")])
        .await;
    assert_eq!((reply.status, reply.codes()), (200, vec![-32601; 4]));
    assert!(
        reply
            .json()
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .all(|(id, item)| item["id"] == id && item["error"]["message"] == TEXT)
    );
}

// Shows (Management).
#[tokio::test]
async fn a_chain_is_served_only_while_it_is_switched_on() {
    let node = Node::evm().await;
    let on = Setup::of("eth", &node.url());
    let off = on.clone().set("chains.eth", "enabled = false");
    let gateway = off.start().await;
    let client = gateway.client();
    assert_eq!(client.call("eth", "m", "[]").await.code(), -32601);
    assert!(gateway.server.reload(on.config()).is_ok());
    assert_eq!(client.call("eth", "m", "[]").await.json()["result"], "ok");
    assert!(gateway.server.reload(off.config()).is_ok());
    assert_eq!(client.call("eth", "m", "[]").await.code(), -32601);
    assert_eq!(node.requests(), 1);
}

// Shows (Routes and bodies).
#[tokio::test]
async fn a_chain_whose_nodes_have_no_http_is_not_served_over_it() {
    let nodes = |chain: &str, url: &str| (format!("chains.{chain}"), format!("nodes = [\"{url}\"]"));
    let rows = [nodes("eth", "ws://127.0.0.1:1"), nodes("solana", "ws://127.0.0.1:1")];
    let setup = rows.iter().fold(Setup::new(), |setup, (table, line)| setup.set(table, line));
    let (rest, _) = nodes("cosmos", "");
    let gateway = setup.set(&rest, "nodes = [\"grpc://127.0.0.1:1\"]").start().await;
    let client = gateway.client();
    for chain in ["eth", "solana"] {
        let reply = client.call(chain, "m", "[]").await;
        assert_eq!(
            (reply.status, reply.code(), reply.json()["error"]["message"].as_str()),
            (200, -32601, Some(TEXT))
        );
    }
    let reply = client.send("GET", "/cosmos/cosmos/base/tendermint/v1beta1/blocks/latest", &[], b"").await;
    assert_eq!((reply.status, reply.json()["message"].as_str()), (404, Some(TEXT)));
}

// Shows (Routes and bodies): A node without an HTTP address gets no call, and a chain with only such nodes is not
// served over HTTPS.
#[tokio::test]
async fn a_node_that_has_only_streams_takes_no_call_of_its_chain() {
    let node = Node::evm().await;
    let streams = "{ ws = \"ws://127.0.0.1:1\", priority = 0 }";
    let nodes = format!("nodes = [{streams}, {{ url = \"{}\", priority = 5 }}]", node.url());
    let gateway = Setup::new().set("chains.eth", &nodes).start().await;
    let client = gateway.client();
    for _ in 0..10 {
        assert_eq!(client.call("eth", "m", "[]").await.json()["result"], "ok");
    }
    assert_eq!(node.requests(), 10);
}
