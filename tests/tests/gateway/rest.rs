//! Chains whose calls are paths, and chains that have both.

use crate::*;
use proptest::prelude::*;
use serde_json::json;

const NOT_IMPLEMENTED: &str = r#"{"code":12,"message":"Not Implemented"}"#;
const NO_ROUTE: &str = r#"{"message":"no Route matched with those values"}"#;

/// Starts a gateway for every chain outside of the families, with one node that answers every request with JSON.
async fn all() -> (Node, TestGateway, TestClient) {
    let node = Node::evm().await;
    node.always(Raw::json(200, r#"{"result":"ok"}"#));
    let chains = rpcgate_chains::catalog().map(|adapter| adapter.facts().name.as_str());
    let others = chains.filter(|chain| !EVM.contains(chain) && !UTXO.contains(chain));
    let gateway = others.fold(Setup::new(), |setup, chain| setup.node(chain, &node.url())).start().await;
    let client = gateway.client();
    (node, gateway, client)
}

/// The probes of REST nodes; JSON-RPC probes are posted to `/`.
const PROBES: [&str; 5] = [
    "GET /info",
    "POST /wallet/getnowblock",
    "GET /cosmos/base/tendermint/v1beta1/blocks/latest",
    "GET /v1",
    "GET /getMasterchainInfo",
];

fn targets(node: &Node) -> Vec<String> {
    let lines = node.seen().into_iter().map(|seen| format!("{} {}", seen.verb, seen.target));
    lines.filter(|line| line != "POST /" && !PROBES.contains(&line.as_str())).collect()
}

// Shows (Routes and bodies): REST chains have canonical paths with GET and POST, which their nodes see below their own
// URL.
#[tokio::test]
async fn each_chain_has_its_paths_and_the_node_sees_them_below_its_own_url() {
    let (node, gateway, client) = all().await;
    for (verb, path, seen, method) in [
        ("GET", "/xlm/metrics", "/metrics", "metrics"),
        ("GET", "/xlm/quorum?node=x&compact=true", "/quorum?node=x&compact=true", "quorum"),
        ("POST", "/tron/wallet/getblockbynum", "/wallet/getblockbynum", "getblockbynum"),
        ("GET", "/tron/wallet/getchainparameters", "/wallet/getchainparameters", "getchainparameters"),
        (
            "GET",
            "/cosmos/cosmos/bank/v1beta1/supply/by_denom?denom=uatom",
            "/cosmos/bank/v1beta1/supply/by_denom?denom=uatom",
            "by_denom",
        ),
        (
            "GET",
            "/cosmos/cosmos/staking/v1beta1/validators?pagination.limit=2",
            "/cosmos/staking/v1beta1/validators?pagination.limit=2",
            "validators",
        ),
        ("GET", "/cosmos/ibc/core/client/v1/params", "/ibc/core/client/v1/params", "params"),
        ("POST", "/cosmos/cosmos/tx/v1beta1/simulate", "/cosmos/tx/v1beta1/simulate", "simulate"),
        ("GET", "/aptos/v1/accounts/0x1", "/v1/accounts/0x1", "0x1"),
        ("GET", "/aptos/v1/blocks/by_height/7", "/v1/blocks/by_height/7", "7"),
        ("POST", "/aptos/v1/view", "/v1/view", "view"),
        ("GET", "/ton/getTransactions?address=a", "/getTransactions?address=a", "getTransactions"),
        ("POST", "/ton/runGetMethod", "/runGetMethod", "runGetMethod"),
    ] {
        let before = targets(&node).len();
        let reply = client.send(verb, path, &[], b"{}").await;
        assert_eq!((reply.status, reply.text().as_str()), (200, r#"{"result":"ok"}"#), "{path}");
        assert_eq!(targets(&node)[before..], [format!("{verb} {seen}")], "{path}");
        assert!(rated(&reply), "{path}");
        assert_eq!(gateway.lines().last().map(|line| line.method.clone()), Some(method.to_owned()), "{path}");
    }
}

// Shows (Routes and bodies): Other paths of a REST chain get 404 and reach no node.
#[tokio::test]
async fn other_paths_are_404_and_reach_no_node() {
    let (node, _gateway, client) = all().await;
    for (verb, path) in [
        ("POST", "/xlm/info"),
        ("GET", "/xlm"),
        ("GET", "/xlm/accounts/G"),
        ("GET", "/xlm/tx?blob=a"),
        ("GET", "/xlm/setcursor"),
        ("POST", "/tron/walletsolidity/getnowblock"),
        ("GET", "/tron/v1/accounts/T/transactions"),
        ("POST", "/tron/walletpbft/getnowblock"),
        ("POST", "/tron/jsonrpc"),
        ("GET", "/tron"),
        ("GET", "/aptos"),
        ("GET", "/aptos/v2/x"),
        ("POST", "/aptos/graphql"),
        ("POST", "/near/x"),
        ("POST", "/sui/graphql"),
    ] {
        let reply = client.send(verb, path, &[], b"{}").await;
        assert_eq!((reply.status, reply.text().as_str()), (404, NO_ROUTE), "{verb} {path}");
        assert!(!rated(&reply), "{path}");
    }
    assert_eq!(targets(&node), [""; 0]);
}

#[tokio::test]
async fn a_405_lists_the_verbs_that_the_path_accepts() {
    let (_node, _gateway, client) = all().await;
    for (verb, path, allow) in [
        ("DELETE", "/tron/wallet/getnowblock", "GET, POST, OPTIONS"),
        ("PUT", "/aptos/v1/view", "GET, POST, OPTIONS"),
        ("PATCH", "/cosmos/cosmos/tx/v1beta1/txs", "GET, POST, OPTIONS"),
        ("POST", "/ton/getMasterchainInfo", "GET, OPTIONS"),
        ("GET", "/ton/jsonRPC", "POST, OPTIONS"),
        ("GET", "/xrp", "POST, OPTIONS"),
    ] {
        let reply = client.send(verb, path, &[], b"").await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some(allow)), "{verb} {path}");
    }
}

// Shows (Errors): An unknown path of /cosmos, or JSON-RPC to it, gets the 501 of a node that does not implement it.
#[tokio::test]
async fn cosmos_answers_an_unknown_path_like_a_node_that_does_not_implement_it() {
    let (node, gateway, client) = all().await;
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"status","params":[]}"#;
    for (verb, path) in [
        ("POST", "/cosmos"),
        ("POST", "/cosmos/"),
        ("POST", "/cosmos/cosmos/bank/v1beta1/supply"),
        ("GET", "/cosmos/status"),
        ("GET", "/cosmos/abci_query?path=x"),
        ("GET", "/cosmos"),
    ] {
        let reply = client.send(verb, path, &[], call).await;
        assert_eq!((reply.status, reply.text().as_str()), (501, NOT_IMPLEMENTED), "{verb} {path}");
        assert!(rated(&reply) && reply.cu() == 0, "{path}");
    }
    let reply = client.send("POST", "/cosmos", &[], b"[{\"id\":1}]").await;
    assert_eq!((reply.status, reply.code()), (200, -32603));
    assert_eq!(reply.json()["error"]["message"], "unexpected backend response format");
    assert_eq!(targets(&node), [""; 0]);
    assert!(gateway.lines().iter().all(|line| line.method == "-" && line.outcome == Outcome::Refused));
}

#[tokio::test]
async fn a_501_of_a_node_is_forwarded_with_its_body() {
    let (node, gateway, client) = all().await;
    node.always(Raw::json(501, r#"{"code":12, "message":"Not Implemented", "details":[]}"#));
    let reply = client.send("GET", "/cosmos/cosmos/unknown/v1/x", &[], b"").await;
    assert_eq!((reply.status, reply.cu()), (501, 0), "no node knows it, so it costs nothing");
    assert_eq!(reply.text(), r#"{"code":12, "message":"Not Implemented", "details":[]}"#);
    assert_eq!(gateway.lines()[0].outcome, Outcome::NodeError);
}

// Shows (Gateway addressing): /solana is not served over HTTPS.
#[tokio::test]
async fn solana_is_not_served_over_https() {
    let (node, _gateway, client) = all().await;
    let reply = client.call("solana", "getSlot", "[]").await;
    assert_eq!((reply.status, reply.code()), (200, -32601));
    assert_eq!(reply.json()["error"]["message"], "chain not available at this location");
    assert!(rated(&reply));
    assert_eq!(node.count("getSlot"), 0);
}

#[tokio::test]
async fn a_rest_chain_without_a_node_is_404_and_a_json_rpc_call_of_the_same_chain_is_not() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url()).start().await;
    let client = gateway.client();
    for path in ["/xlm/info", "/tron/wallet/getnowblock", "/aptos/v1", "/ton/getMasterchainInfo"] {
        let reply = client.send("GET", path, &[], b"").await;
        let reported = (reply.status, reply.text());
        assert_eq!(
            reported,
            (404, r#"{"message":"chain not available at this location"}"#.to_owned()),
            "{path}"
        );
        assert!(rated(&reply), "{path}");
    }
    let reply =
        client.send("POST", "/ton/jsonRPC", &[], br#"{"id":"1","method":"getMasterchainInfo"}"#).await;
    assert_eq!((reply.status, reply.code()), (200, -32601));
}

// Shows (Keys): TonCenter's clients may send the key where TonCenter reads it, and the node sees none.
#[tokio::test]
async fn ton_accepts_the_key_where_toncenter_does_and_the_node_sees_none() {
    let (node, gateway, _) = all().await;
    let anonymous = gateway.anonymous();
    let own = key("default");
    let target = format!("/ton/getTransactions?api_key={own}&address=a");
    assert_eq!(anonymous.send("GET", &target, &[], b"").await.status, 200);
    let reply = anonymous.send("GET", "/ton/getTransactions?address=b", &[("x-api-key", &own)], b"").await;
    assert_eq!(reply.status, 200);
    let call = br#"{"id":"1","jsonrpc":"2.0","method":"getTransactions","params":{}}"#;
    assert_eq!(anonymous.send("POST", "/ton/jsonRPC", &[("x-api-key", &own)], call).await.status, 200);
    assert_eq!(anonymous.send("GET", "/xlm/metrics?api_key=x", &[], b"").await.status, 401, "for TON alone");
    assert!(node.seen().iter().all(|seen| !seen.whole().contains(&own)));
    let seen = node.seen();
    let call = seen.iter().find(|seen| seen.target == "/jsonRPC").unwrap();
    assert_eq!((call.verb.as_str(), call.header("content-type")), ("POST", Some("application/json")));
}

// Shows (Keys): Neither a key nor a client's own credentials reach a node.
#[tokio::test]
async fn a_key_in_the_query_reaches_no_node_at_any_position() {
    let (node, gateway, client) = all().await;
    let own = key("default");
    for path in ["/xlm/info", "/tron/wallet/getnowblock", "/cosmos/a/b", "/aptos/v1", "/ton/getTransactions"]
    {
        for name in ["apikey", "api_key", "api-key", "X-Api-Key", "api%5Fkey"] {
            let target = format!("{path}?a=1&{name}={own}&b=2");
            assert_eq!(client.send("GET", &target, &[], b"").await.status, 200, "{target}");
        }
    }
    let seen = node.seen();
    assert!(seen.iter().all(|seen| !seen.whole().contains(&own)));
    assert_eq!(seen.iter().filter(|seen| seen.target.ends_with("?a=1&b=2")).count(), 25);
    drop(gateway);
}

// Shows (Limits, budget and quota): Methods that run, schedule or connect to something that their parameters name, or
// that wait for an event, are closed (promise 61).
#[tokio::test]
async fn calls_that_make_a_node_run_connect_or_wait_are_closed() {
    let (node, gateway, client) = all().await;
    for (path, body) in [
        ("/xrp", r#"{"method":"batch","params":[{"method":"stop"},{"method":"server_info"}]}"#),
        ("/xrp", r#"{"method":"b\u0061tch","params":[{"method":"stop"}]}"#),
        ("/xrp", r#"{"method":"subscribe","params":[{"url":"http://10.0.0.1/","streams":["ledger"]}]}"#),
        ("/xrp", r#"{"method":"feature","params":[{"feature":"AB","vetoed":true}]}"#),
        ("/xrp", r#"{"method":"ledger","params":[{"full":true}]}"#),
        ("/cosmos/cosmos/tx/v1beta1/txs", r#"{"tx_bytes":"AA==","mode":"BROADCAST_MODE_BLOCK"}"#),
        ("/tron/wallet/createshieldedtransaction", "{}"),
        ("/tron/wallet/scannotebyivk", "{}"),
        ("/near", r#"{"jsonrpc":"2.0","id":1,"method":"sandbox_patch_state","params":{}}"#),
        ("/cardano", r#"{"jsonrpc":"2.0","id":1,"method":"queryLedgerState/dump","params":{"to":"/x"}}"#),
    ] {
        let reply = client.send("POST", path, &[], body.as_bytes()).await;
        assert_eq!((reply.status, reply.cu()), (200, 0), "{body}");
        assert_eq!(gateway.lines().last().unwrap().outcome, Outcome::Refused, "{body}");
    }
    let asked = ["batch", "stop", "subscribe", "feature", "full", "BLOCK", "sandbox", "dump"];
    assert!(node.seen().iter().all(|seen| asked.iter().all(|text| !seen.body.contains(text))));
    for (path, body) in [
        ("/xrp", r#"{"method":"feature","params":[{"api_version":2}]}"#),
        ("/xrp", r#"{"method":"ledger","params":[{"full":false,"ledger_index":"validated"}]}"#),
        ("/cosmos/cosmos/tx/v1beta1/txs", r#"{"tx_bytes":"AA==","mode":"BROADCAST_MODE_SYNC"}"#),
        ("/near", r#"{"jsonrpc":"2.0","id":1,"method":"broadcast_tx_commit","params":["AA=="]}"#),
        ("/cardano", r#"{"jsonrpc":"2.0","id":1,"method":"nextBlock"}"#),
    ] {
        client.send("POST", path, &[], body.as_bytes()).await;
        assert_ne!(gateway.lines().last().unwrap().outcome, Outcome::Refused, "{body}");
    }
}

// Shows (Routes and bodies): Chains without batches refuse an array with 400, -32600.
#[tokio::test]
async fn an_array_for_ton_or_xrp_is_not_a_batch() {
    let (_node, _gateway, client) = all().await;
    for path in ["/ton", "/ton/jsonRPC", "/xrp"] {
        let reply = client.send("POST", path, &[], b"[{\"id\":1,\"method\":\"m\"}]").await;
        assert_eq!((reply.status, reply.code()), (400, -32600), "{path}");
        assert_eq!(reply.json()["error"]["message"], "batch not supported", "{path}");
    }
}

#[tokio::test]
async fn lists_quota_and_closed_methods_apply_to_rest_chains() {
    let node = Node::evm().await;
    node.always(Raw::json(200, "{}"));
    let gateway = Setup::of("tron", &node.url())
        .set("projects.default", "blocked_methods = [\"getaccount\"]")
        .set("projects.default", "cu_per_day = 20")
        .start()
        .await;
    let client = gateway.client();
    let call = async |method: &str| client.send("POST", &format!("/tron/wallet/{method}"), &[], b"{}").await;
    let reply = call("getaccount").await;
    assert_eq!((reply.status, reply.code()), (403, -32004));
    let reply = call("easytransferbyprivate").await;
    assert_eq!((reply.status, reply.code()), (200, -32601));
    assert_eq!(call("triggersmartcontract").await.cu(), 20);
    let reply = call("getnowblock").await;
    assert_eq!((reply.status, reply.code(), reply.cu()), (200, -32005, 0));
    assert_eq!(call("getnodeinfo").await.status, 200, "what costs nothing passes");
}

#[tokio::test]
async fn the_cache_classes_hold_on_rest_chains() {
    let (node, gateway, client) = all().await;
    for (path, body, secs) in [
        ("/ton/jsonRPC", r#"{"id":"1","jsonrpc":"2.0","method":"getMasterchainInfo","params":{}}"#, Some(2)),
        ("/xrp", r#"{"method":"ledger_current","params":[{}]}"#, Some(3)),
        ("/cardano", r#"{"jsonrpc":"2.0","id":7,"method":"queryLedgerState/protocolParameters"}"#, Some(30)),
        ("/tron/wallet/getnodeinfo", "{}", None),
    ] {
        let send = async || client.send("POST", path, &[], body.as_bytes()).await;
        assert_eq!(send().await.cache(), "MISS", "{path}");
        assert_eq!(send().await.cache(), "HIT", "{path}");
        gateway.pass(secs.unwrap_or(86_400) - 1);
        assert_eq!(send().await.cache(), "HIT", "{path}");
        gateway.pass(1);
        assert_eq!(send().await.cache(), if secs.is_some() { "MISS" } else { "HIT" }, "{path}");
    }
    let get = async || client.send("GET", "/ton/getMasterchainInfo", &[], b"").await;
    assert_eq!(
        (get().await.cache().to_owned(), get().await.cache().to_owned()),
        ("MISS".into(), "HIT".into())
    );
    drop(node);
}

// Shows (Routes and bodies): Ambiguous spellings of REST paths are refused and reach no node.
#[tokio::test]
async fn ambiguous_paths_are_refused_and_reach_no_node() {
    let (node, _gateway, client) = all().await;
    for path in [
        "/aptos/v1/../admin",
        "/aptos/v1/./x",
        "/aptos/v1/%2e%2e/x",
        "/aptos/v1/.%2E/x",
        "/aptos//v1/x",
        "/aptos/v1//x",
        "/aptos/v1/%2f",
        "/aptos/v1/a%2Fb",
        "/aptos/v1/a%5cb",
        "/aptos/v1/a\\b",
        "/aptos/v1/a;b",
        "/aptos/v1/a%3Bb",
        "/aptos/v1/%00",
        "/aptos/v1/%0d%0aX:y",
        "/aptos/v1/%252e%252e/x",
        "/aptos/v1/%c0%ae%c0%ae/x",
        "/aptos/v1/%zz",
        "/aptos/v1/%",
        "/tron/wallet/..%2fwalletsolidity/x",
        "/tron/wallet/../walletsolidity/x",
        "/xlm/info/..;/tx",
        "/cosmos/cosmos/../x/y",
        "/ton/..",
        "/aptos/v1/%ff",
    ] {
        let reply = client.send("GET", path, &[], b"").await;
        assert_eq!((reply.status, reply.text().as_str()), (400, r#"{"message":"invalid path"}"#), "{path}");
    }
    for path in ["/%61ptos/v1", "/aptos%2fv1", "//aptos/v1", "/./aptos/v1", "/eth/../aptos/v1"] {
        let reply = client.send("GET", path, &[], b"").await;
        assert_eq!(reply.status, 404, "{path}");
    }
    assert_eq!(targets(&node), [""; 0]);
}

#[test]
fn for_any_path_the_node_sees_one_of_the_allowed_forms() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (node, _gateway, client) = runtime.block_on(all());
    let piece = prop::sample::select(vec![
        "/",
        "//",
        "%2f",
        "%2F",
        "..",
        ".",
        "%2e",
        "%252e",
        ";",
        "%00",
        "\\",
        "%5C",
        "?",
        "&",
        "=",
        "#",
        "%",
        "v1",
        "wallet",
        "walletsolidity",
        "getnowblock",
        "cosmos",
        "info",
        "tx",
        "%77",
        "%c0%af",
        "a",
        "é",
        "%0a",
        "jsonRPC",
        "sendBoc",
        "~",
    ]);
    let chain = prop::sample::select(vec!["xlm", "tron", "cosmos", "aptos", "ton"]);
    let verb = prop::sample::select(vec!["GET", "POST", "HEAD"]);
    let cases = ProptestConfig { cases: 400, ..ProptestConfig::default() };
    proptest!(cases, |(verb in verb, chain in chain, pieces in prop::collection::vec(piece, 0..8))| {
        let target = format!("/{chain}/{}", pieces.concat());
        prop_assume!(target.parse::<http::uri::PathAndQuery>().is_ok());
        let before = targets(&node).len();
        runtime.block_on(client.send(verb, &target, &[], b"{}"));
        for line in &targets(&node)[before..] {
            let (_, seen) = line.split_once(' ').unwrap();
            let path = seen.split('?').next().unwrap();
            let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let segments: Vec<_> = path.split('/').skip(1).collect();
            prop_assert!(segments.iter().all(|segment| !matches!(*segment, "" | "." | "..")), "{} {}", target, path);
            prop_assert!(!path.contains(';') && !path.contains('\\') && !path.contains("%2F") && !path.contains("%25"));
            let allowed = match chain {
                "xlm" => ["/info", "/metrics", "/quorum"].contains(&path),
                "tron" => path.strip_prefix("/wallet/").is_some_and(is_name),
                "aptos" => segments[0] == "v1",
                "cosmos" => segments.len() >= 2,
                _ => segments.len() == 1 && is_name(segments[0]),
            };
            prop_assert!(allowed, "{} {}", target, path);
        }
    });
}

// Shows (Routes and bodies): A REST body of any type and a height header reach the node unchanged.
#[tokio::test]
async fn a_body_of_any_type_and_a_height_header_reach_the_node() {
    let (node, _gateway, client) = all().await;
    let bcs = [("content-type", "application/x.aptos.view_function+bcs"), ("accept", "application/x-bcs")];
    client.send("POST", "/aptos/v1/view", &bcs, b"\x00\x01~").await;
    client.send("GET", "/cosmos/cosmos/bank/v1beta1/params", &[("x-cosmos-block-height", "7")], b"").await;
    let seen = node.seen();
    let find = |path: &str| seen.iter().find(|seen| seen.target == path).unwrap();
    assert_eq!(find("/v1/view").header("content-type"), Some("application/x.aptos.view_function+bcs"));
    assert_eq!(find("/v1/view").header("accept"), Some("application/x-bcs"));
    assert_eq!(find("/v1/view").body, "\u{0}\u{1}~");
    assert_eq!(find("/cosmos/bank/v1beta1/params").header("x-cosmos-block-height"), Some("7"));
}

#[tokio::test]
async fn xrp_errors_are_those_of_its_server_and_closed_methods_use_the_same_form() {
    let (node, gateway, client) = all().await;
    let error = r#"{"result":{"error":"actNotFound","error_code":19,"error_message":"Account not found.","status":"error"}}"#;
    node.always(Raw::json(200, error));
    let reply = client.post("xrp", r#"{"method":"account_info","params":[{"account":"r"}]}"#).await;
    assert_eq!((reply.status, reply.text().as_str(), reply.cu()), (200, error, 5));
    assert_eq!(gateway.lines()[0].outcome, Outcome::NodeError);
    let reply = client.post("xrp", r#"{"method":"stop","params":[{}]}"#).await;
    assert_eq!((reply.status, reply.cu()), (200, 0));
    let reported = reply.json();
    assert_eq!(reported["result"]["error"], json!("noPermission"));
    assert_eq!(reported["result"]["status"], json!("error"));
    assert_eq!(node.count("stop"), 0);
}

// Shows (Nodes and cache): A 4xx of a REST node passes with its status for any body, and is one try.
#[tokio::test]
async fn a_page_with_status_404_passes_its_status_and_is_asked_of_one_node() {
    let page =
        || Raw { status: 404, headers: vec![("content-type", "text/html")], body: b"<html>proxy".to_vec() };
    let one = Node::evm().await;
    let other = Node::evm().await;
    let gateway = Setup::of("cosmos", &one.url()).node("cosmos", &other.url()).start().await;
    one.always(page());
    other.always(page());
    let client = gateway.client();
    let mut before = targets(&one).len() + targets(&other).len();
    for _ in 0..50 {
        let reply = client.send("GET", "/cosmos/cosmos/nowhere/v1", &[], b"").await;
        assert_eq!((reply.status, reply.text().as_str()), (404, r#"{"message":"not found"}"#));
        let now = targets(&one).len() + targets(&other).len();
        assert_eq!(now, before + 1);
        before = now;
    }
}

// Shows (Per-chain surface): Ogmios' health and TonCenter's own paths are served.
#[tokio::test]
async fn paths_that_official_clients_have_lead_where_they_expect() {
    let (node, gateway, client) = all().await;
    for (verb, path, seen, method) in [
        ("GET", "/cardano/health", "GET /health", "health"),
        ("GET", "/ton/api/v2/getConfigAll", "GET /getConfigAll", "getConfigAll"),
        ("POST", "/ton/api/v2/runGetMethod", "POST /runGetMethod", "runGetMethod"),
    ] {
        let before = targets(&node).len();
        let reply = client.send(verb, path, &[], b"{}").await;
        assert_eq!((reply.status, reply.text().as_str()), (200, r#"{"result":"ok"}"#), "{path}");
        assert_eq!(targets(&node)[before..], [seen], "{path}");
        assert_eq!(gateway.lines().last().map(|line| line.method.clone()), Some(method.to_owned()), "{path}");
    }
    let call = br#"{"jsonrpc":"2.0","id":9,"method":"getMasterchainInfo"}"#;
    for path in ["/ton/api/v2", "/ton/api/v2/jsonRPC"] {
        assert_eq!(client.send("POST", path, &[], call).await.status, 200, "{path}");
    }
    for (verb, path, status) in [
        ("POST", "/cardano/health", 405),
        ("GET", "/cardano/healthy", 404),
        ("GET", "/cardano/health/x", 404),
        ("GET", "/ton/api/v3/getConfigAll", 404),
        ("GET", "/ton/api/v2x/getConfigAll", 404),
    ] {
        assert_eq!(client.send(verb, path, &[], b"").await.status, status, "{path}");
    }
}
