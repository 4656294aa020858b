use crate::*;
use rpcgate_tests::fault::{FaultProxy, Mode};

const FAILED: &str = r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32603,"message":"backend request failed"}}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":9,"method":"m"}"#;

// Shows (Errors): A backend failure gets -32603.
// Shows (Nodes and cache): A backend failure is HTTP 200 with -32603.
#[tokio::test]
async fn an_invalid_answer_is_a_backend_failure_at_http_200() {
    let (node, gateway, client) = evm().await;
    let html = || Raw { status: 200, headers: vec![("content-type", "text/html")], body: b"<html>".to_vec() };
    let rows = [
        html(),
        Raw { status: 502, ..html() },
        Raw { status: 503, ..Raw::default() },
        Raw { status: 504, ..html() },
        Raw { status: 500, ..Raw::default() },
        Raw { status: 301, headers: vec![("location", "http://127.0.0.1:1/")], ..Raw::default() },
        Raw::default(),
        Raw { status: 204, ..Raw::default() },
        Raw::json(200, r#"{"jsonrpc":"2.0","id":9,"result":1"#),
        Raw::json(200, r#"{"jsonrpc":"2.0","id":9,"result":1}}"#),
        Raw::json(200, r#"{"jsonrpc":"2.0","id":9}"#),
        Raw::json(200, "5"),
        Raw::json(200, "null"),
        Raw::json(200, "[]"),
        Raw::json(200, "\"ok\""),
        Raw::json(200, b"{\"id\":9,\"result\":\"\xff\"}".to_vec()),
        Raw::json(200, "\u{feff}{\"id\":9,\"result\":1}"),
    ];
    for raw in rows {
        node.always(raw.clone());
        let reply = client.post("eth", CALL).await;
        assert_eq!((reply.status, reply.text().as_str()), (200, FAILED), "{raw:?}");
        assert_eq!((reply.cu(), reply.cache()), (0, "MISS"), "{raw:?}");
    }
    assert!(gateway.lines().iter().all(|line| line.outcome == Outcome::Failed && line.cu == 0));
}

// Shows (Routes and bodies).
#[tokio::test]
async fn on_utxo_chains_a_backend_failure_has_the_chains_shape() {
    let (node, _gateway, client) = utxo().await;
    node.always(Raw { status: 503, body: b"Work queue depth exceeded".to_vec(), ..Raw::default() });
    let reply = client.post("btc", r#"{"jsonrpc":"1.0","id":"x","method":"getdifficulty"}"#).await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (200, r#"{"result":null,"error":{"code":-32603,"message":"backend request failed"},"id":"x"}"#)
    );
}

// Shows (Nodes and cache): A JSON answer is the node's answer at any status; except on single UTXO calls the client
// gets 200.
#[tokio::test]
async fn a_nodes_json_answer_is_its_answer_at_any_status() {
    let (node, gateway, client) = evm().await;
    for status in [200, 201, 400, 404, 405, 422, 500, 502, 503] {
        let body = r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32000,"message":"nonce too low"}}"#;
        node.always(Raw::json(status, body));
        let reply = client.post("eth", CALL).await;
        assert_eq!((reply.status, reply.text().as_str(), reply.cu()), (200, body, 1), "{status}");
    }
    assert!(gateway.lines().iter().all(|line| line.outcome == Outcome::NodeError));
}

// Shows (Nodes and cache): The status of a UTXO node is forwarded for single calls.
#[tokio::test]
async fn the_status_of_a_utxo_node_is_forwarded_for_single_calls() {
    let (node, gateway, client) = utxo().await;
    for status in [404, 500] {
        let body = r#"{"result":null,"error":{"code":-5,"message":"No such mempool transaction"},"id":9}"#;
        node.always(Raw::json(status, body));
        let reply = client.post("btc", r#"{"id":9,"method":"getmempoolentry"}"#).await;
        assert_eq!((reply.status, reply.text().as_str(), reply.cu()), (status, body, 1));
        assert_eq!(gateway.lines().last().unwrap().status, status);
    }
    node.whole(|_| None);
    node.answer("bad", ScriptedAnswer::Error(r#"{"code":-8,"message":"x"}"#.into()));
    let reply = client.batch("btc", &[("bad", "[]"), ("good", "[]")]).await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (
            200,
            r#"[{"result":null,"error":{"code":-8,"message":"x"},"id":0},{"result":"ok","error":null,"id":1}]"#
        )
    );
}

// Shows (Nodes and cache): A node's own 401, 403 or 429 is a backend failure.
#[tokio::test]
async fn a_401_403_or_429_of_a_node_is_not_forwarded() {
    for chain in ["eth", "btc"] {
        let node = Node::evm().await;
        let gateway = Setup::of(chain, &node.url()).start().await;
        let client = gateway.client();
        for status in [401, 403, 429] {
            node.always(Raw::json(
                status,
                r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32000,"message":"node's own limit"}}"#,
            ));
            let reply = client.post(chain, CALL).await;
            assert_eq!((reply.status, reply.code(), reply.cu()), (200, -32603, 0), "{chain} {status}");
            assert!(!reply.text().contains("own limit") && reply.header("www-authenticate").is_none());
        }
    }
}

// Shows (Nodes and cache): A read is sent to another node before it fails.
// Shows (Reliability): A failed node causes one failover for a read, and no broadcast is sent twice (promise 8).
#[tokio::test]
async fn a_read_that_fails_at_one_node_is_sent_to_another() {
    let bad = Node::evm().await;
    let good = Node::evm().await;
    let gateway = Setup::of("eth", &bad.url()).node("eth", &good.url()).start().await;
    let client = gateway.client();
    for raw in [
        Raw { status: 502, ..Raw::default() },
        Raw::json(200, "{"),
        Raw::json(429, "{}"),
        Raw::json(401, "{}"),
    ] {
        bad.always(raw.clone());
        for _ in 0..4 {
            assert_eq!(client.call("eth", "m", "[]").await.json()["result"], "ok", "{raw:?}");
            assert_eq!(client.batch("eth", &[("m", "[]"), ("n", "[]")]).await.codes(), [0, 0], "{raw:?}");
        }
    }
    assert!(bad.requests() > 0, "it was asked");
    assert_eq!(gateway.lines().iter().filter(|line| line.outcome != Outcome::Answered).count(), 0);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn an_error_of_a_node_is_an_answer_and_not_retried() {
    let one = Node::evm().await;
    let two = Node::evm().await;
    let gateway = Setup::of("eth", &one.url()).node("eth", &two.url()).start().await;
    for node in [&one, &two] {
        node.answer("m", ScriptedAnswer::Error(r#"{"code":-32000,"message":"x"}"#.into()));
    }
    for _ in 0..4 {
        assert_eq!(gateway.client().call("eth", "m", "[]").await.code(), -32000);
    }
    assert_eq!(one.requests() + two.requests(), 4);
}

// Shows (Nodes and cache): A broadcast is sent to another node only if the connection failed before a byte was sent.
// Shows (Reliability).
#[tokio::test]
async fn a_broadcast_is_sent_to_one_node_and_never_retried() {
    let one = Node::evm().await;
    let two = Node::evm().await;
    let gateway = Setup::of("eth", &one.url()).node("eth", &two.url()).start().await;
    let client = gateway.client();
    for raw in [
        Some(Raw { status: 502, ..Raw::default() }),
        Some(Raw::json(200, "{")),
        Some(Raw::json(429, "{}")),
        None,
    ] {
        for node in [&one, &two] {
            let raw = raw.clone();
            node.answer("eth_sendRawTransaction", ScriptedAnswer::Cut);
            node.whole(move |_| raw.clone());
        }
        let before = one.requests() + two.requests();
        let reply = client.call("eth", "eth_sendRawTransaction", "[\"0x01\"]").await;
        assert_eq!((reply.code(), reply.cu()), (-32603, 0), "{raw:?}");
        assert_eq!(one.requests() + two.requests(), before + 1, "{raw:?}");
        let reply = client
            .batch("eth", &[("eth_sendRawTransaction", "[\"0x02\"]"), ("eth_sendTransaction", "[\"0x03\"]")])
            .await;
        assert_eq!(one.requests() + two.requests(), before + 3, "{raw:?} {}", reply.text());
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_broadcast_whose_connection_is_refused_goes_to_another_node() {
    let behind = Node::evm().await;
    let good = Node::evm().await;
    let proxy = FaultProxy::start(behind.addr()).await.unwrap();
    proxy.set(Mode::RefuseNew);
    let gateway = Setup::of("eth", &proxy.url()).node("eth", &good.url()).start().await;
    let client = gateway.client();
    for _ in 0..6 {
        assert_eq!(client.call("eth", "eth_sendRawTransaction", "[\"0x01\"]").await.json()["result"], "ok");
    }
    assert_eq!((behind.requests(), good.requests()), (0, 6));
}

// Shows (Hostile and odd traffic): Node calls end at their deadline, and are not charged (promises 61, 79).
#[tokio::test]
async fn a_call_that_takes_too_long_fails_and_is_not_charged() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url()).set("chains.eth", "timeout = \"1s\"").start().await;
    node.hold();
    let client = gateway.client();
    let reply = client.call("eth", "eth_getBalance", "[]").await;
    assert_eq!((reply.status, reply.code(), reply.cu()), (200, -32603, 0));
    let batch = client.batch("eth", &[("m", "[]"), ("eth_sendRawTransaction", "[]")]).await;
    assert_eq!((batch.codes(), batch.cu()), (vec![-32603, -32603], 0));
    assert_eq!(node.requests(), 3, "and is not asked again");
    let second = gateway.client();
    let (one, other) = tokio::join!(
        client.call("eth", "eth_call", r#"["shared"]"#),
        second.call("eth", "eth_call", r#"["shared"]"#)
    );
    assert_eq!((one.code(), other.code(), node.requests()), (-32603, -32603, 4));
    assert_eq!(gateway.lines().iter().map(|line| line.cu).sum::<u32>(), 0);
    node.release();
}

// Shows (Nodes and cache).
#[tokio::test]
async fn without_a_listening_node_the_call_fails_at_once() {
    let node = Node::evm().await;
    let proxy = FaultProxy::start(node.addr()).await.unwrap();
    proxy.set(Mode::RefuseNew);
    let gateway = Setup::of("eth", &proxy.url()).node("bsc", &node.url()).start().await;
    let client = gateway.client();
    for _ in 0..3 {
        let reply = client.post("eth", CALL).await;
        assert_eq!((reply.status, reply.text().as_str()), (200, FAILED));
        assert_eq!(client.call("bsc", "m", "[]").await.code(), 0, "other chains are not touched");
    }
}

// Shows (Nodes and cache): UTXO calls are spread over the nodes.
#[tokio::test]
async fn calls_are_spread_over_the_nodes_of_a_chain() {
    let nodes = [Node::utxo().await, Node::utxo().await, Node::utxo().await];
    let gateway = nodes.iter().fold(Setup::new(), |setup, node| setup.node("btc", &node.url())).start().await;
    let client = gateway.client();
    for _ in 0..30 {
        client.call("btc", "getdifficulty", "[]").await;
    }
    let counts: Vec<_> = nodes.iter().map(Node::requests).collect();
    assert!(counts.iter().all(|count| *count >= 5), "{counts:?}");
}

// Shows (Hostile and odd traffic): Node calls in flight are bounded per chain; a call beyond the bound gets 503 with
// `Retry-After`.
#[tokio::test]
async fn calls_beyond_max_in_flight_are_refused_and_other_chains_are_not_affected() {
    let node = Node::utxo().await;
    let other = Node::evm().await;
    let gateway = Setup::of("btc", &node.url())
        .node("eth", &other.url())
        .set("chains.btc", "max_in_flight = 4")
        .start()
        .await;
    node.hold();
    let held: Vec<_> = (0..4)
        .map(|_| {
            let client = gateway.client();
            tokio::spawn(async move { client.call("btc", "getdifficulty", "[]").await.code() })
        })
        .collect();
    node.got(4).await;
    let client = gateway.client();
    let reply = client.call("btc", "getdifficulty", "[]").await;
    assert_eq!((reply.status, reply.cu()), (503, 0), "{}", reply.text());
    assert!(reply.number("retry-after") >= 1);
    for _ in 0..20 {
        assert_eq!(client.call("eth", "m", "[]").await.code(), 0);
    }
    node.release();
    for call in held {
        assert_eq!(call.await.unwrap(), 0);
    }
    assert_eq!(client.call("btc", "getdifficulty", "[]").await.code(), 0);
}

// Shows (Hostile and odd traffic).
#[tokio::test]
async fn calls_in_flight_of_one_project_leave_slots_for_the_others() {
    let node = Node::utxo().await;
    let gateway = Setup::of("btc", &node.url())
        .set("chains.btc", "max_in_flight = 32")
        .set("projects.other", "tenant = \"default\"")
        .key("other", "project = \"other\"")
        .start()
        .await;
    node.hold();
    let call = |name: &str| {
        let client = gateway.client_of(name);
        tokio::spawn(async move { client.call("btc", "getdifficulty", "[]").await.status })
    };
    let mut calls: Vec<_> = (0..30).map(|_| call("default")).collect();
    node.got(30).await;
    let refused = gateway.client().call("btc", "getdifficulty", "[]").await;
    assert_eq!((refused.status, refused.number("retry-after"), refused.cu()), (503, 1, 0));
    calls.extend([call("other"), call("other")]);
    node.got(32).await;
    assert_eq!(gateway.client_of("other").call("btc", "getdifficulty", "[]").await.status, 503);
    node.release();
    for call in calls {
        assert_eq!(call.await.unwrap(), 200);
    }
    assert_eq!(gateway.client().call("btc", "getdifficulty", "[]").await.status, 200);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn an_answer_larger_than_the_limit_is_a_backend_failure() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url())
        .set("gateway", "reply_buffer = \"1KiB\"\nreply_max = \"64KiB\"")
        .start()
        .await;
    let client = gateway.client();
    node.result("small", &format!("\"{}\"", "a".repeat(60_000)));
    node.result("eth_chainId", &format!("\"{}\"", "a".repeat(70_000)));
    assert_eq!(
        client.call("eth", "small", "[]").await.body.len(),
        60_000 + r#"{"jsonrpc":"2.0","id":1000,"result":""}"#.len()
    );
    for _ in 0..2 {
        let reply = client.call("eth", "eth_chainId", "[]").await;
        assert_eq!((reply.code(), reply.cu(), reply.cache()), (-32603, 0, "MISS"));
    }
    assert_eq!(
        client.batch("eth", &[("small", "[1]"), ("small", "[2]")]).await.codes(),
        [-32603; 2],
        "a set's answers count together"
    );
}

// Shows (Nodes and cache).
#[tokio::test]
async fn the_answer_of_a_node_is_forwarded_byte_for_byte() {
    let (node, _gateway, client) = evm().await;
    let body = "{\"id\" : 9 ,\"result\": {\"z\":1.50,\"a\":12345678901234567890123,\"e\":\"\\u00e9\u{e9}\"}, \"jsonrpc\":\"2.0\"}\n";
    node.always(Raw::json(200, body));
    assert_eq!(client.post("eth", CALL).await.text(), body);
}

#[tokio::test]
async fn an_answer_with_error_null_is_a_result() {
    let (node, _gateway, client) = evm().await;
    node.always(Raw::json(200, r#"{"jsonrpc":"2.0","id":9,"result":"ok","error":null}"#));
    assert_eq!(client.post("eth", CALL).await.json()["result"], "ok");
    node.always(Raw::json(200, r#"{"jsonrpc":"2.0","id":9,"result":null,"error":{"code":1,"message":"x"}}"#));
    assert_eq!(client.post("eth", CALL).await.code(), 1);
}

/// Starts a gateway that streams answers of more than 1 KiB, behind a proxy, and a node with an answer of 200,000
/// bytes.
async fn streaming() -> (Node, FaultProxy, TestGateway) {
    let node = Node::evm().await;
    let proxy = FaultProxy::start(node.addr()).await.unwrap();
    let gateway = Setup::of("eth", &proxy.url()).set("gateway", "reply_buffer = \"1KiB\"").start().await;
    node.result("eth_getCode", &format!("\"0x{}\"", "ab".repeat(100_000)));
    (node, proxy, gateway)
}

async fn ask(gateway: &TestGateway) -> Connection {
    let call = r#"{"jsonrpc":"2.0","id":9,"method":"eth_getCode"}"#;
    let mut connection = Connection::open(gateway.addr()).await.unwrap();
    let head = format!(
        "POST /eth HTTP/1.1\r\nhost: h\r\napikey: {}\r\ncontent-length: {}\r\n\r\n",
        key("default"),
        call.len()
    );
    connection.write(format!("{head}{call}").as_bytes()).await.unwrap();
    connection
}

// Shows (Nodes and cache): A long answer is streamed unchanged.
#[tokio::test]
async fn a_long_answer_is_streamed_unchanged_and_charged() {
    let (node, proxy, gateway) = streaming().await;
    for mode in [
        Mode::Pass,
        Mode::Slow { bytes: 5_000, every: std::time::Duration::from_millis(1) },
        Mode::Informational,
    ] {
        proxy.set(mode.clone());
        let reply = gateway.client().call("eth", "eth_getCode", "[]").await;
        let expected = format!(r#"{{"jsonrpc":"2.0","id":1000,"result":"0x{}"}}"#, "ab".repeat(100_000));
        assert!(reply.status == 200 && reply.text() == expected, "{mode:?}: {} bytes", reply.body.len());
        assert_eq!((reply.cu(), reply.cache(), rated(&reply)), (10, "MISS", true));
    }
    until("all is recorded", || gateway.charged() == 30).await;
    assert!(gateway.lines().iter().all(|line| line.outcome == Outcome::Answered && line.bytes_out > 200_000));
    assert_eq!(node.requests(), 3);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_truncated_long_answer_never_ends_cleanly_and_is_never_charged() {
    for mode in [Mode::CutBodyAfter(100_000), Mode::ResetAfter(150_000), Mode::BadLength] {
        let (_node, proxy, gateway) = streaming().await;
        proxy.set(mode.clone());
        let read = ask(&gateway).await.read(false).await;
        assert!(!read.as_ref().is_ok_and(|reply| reply.code() == 0), "{mode:?}: a cut 200");
        until("it is recorded", || !gateway.records().is_empty()).await;
        assert_eq!((gateway.lines()[0].outcome, gateway.charged()), (Outcome::Failed, 0), "{mode:?}");
        proxy.set(Mode::Pass);
        assert_eq!(ask(&gateway).await.read(false).await.unwrap().code(), 0, "{mode:?}");
    }
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn a_client_that_disconnects_during_a_streamed_answer_is_charged() {
    let (node, proxy, gateway) = streaming().await;
    proxy.set(Mode::Slow { bytes: 20_000, every: std::time::Duration::from_millis(20) });
    let asking = ask(&gateway).await;
    node.got(1).await;
    drop(asking);
    until("it is recorded", || !gateway.records().is_empty()).await;
    assert_eq!(gateway.charged(), 10);
}

#[tokio::test]
async fn a_long_error_counts_as_an_error_of_the_node() {
    let (node, _proxy, gateway) = streaming().await;
    node.answer(
        "eth_getCode",
        ScriptedAnswer::Error(format!(r#"{{"code":3,"message":"{}"}}"#, "x".repeat(100_000))),
    );
    assert_eq!(ask(&gateway).await.read(false).await.unwrap().code(), 3);
    until("it is recorded", || !gateway.records().is_empty()).await;
    assert_eq!(only_line(&gateway), ("eth_getCode".into(), Outcome::NodeError, 10, 200));
}

// Shows (Routes and bodies): A NEAR result that reports a failed query stays a result, in batches too.
#[tokio::test]
async fn a_near_result_that_reports_a_failed_query_stays_a_result_in_batches_too() {
    let node = Node::evm().await;
    let failed = r#"{"error":"wasm execution failed","logs":[],"block_height":1}"#;
    node.result("query", failed);
    let gateway = Setup::new().node("near", &node.url()).start().await;
    let client = gateway.client();
    let call = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"query","params":{{"n":{id}}}}}"#);
    let answer = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{failed}}}"#);
    assert_eq!(client.post("near", call(1)).await.text(), answer(1));
    let batch = client.post("near", format!("[{},{}]", call(2), call(3))).await;
    assert_eq!(batch.text(), format!("[{},{}]", answer(2), answer(3)));
    // It is still an error: counted as one, and not cached.
    assert_eq!(client.post("near", call(1)).await.text(), answer(1));
    assert_eq!(node.count("query"), 4);
}

// Shows (Routes and bodies): An id that nodes refuse (an object, an array, true, false) is sent as a number and
// returned unchanged.
#[tokio::test]
async fn an_id_that_nodes_refuse_is_sent_as_a_number_and_returned_unchanged() {
    let node = Node::evm().await;
    let gateway = Setup::new().node("eth", &node.url()).start().await;
    let client = gateway.client();
    for id in ["{}", "[1]", "true", r#"{"a":["b"]}"#] {
        for method in ["eth_getBalance", "eth_gasPrice"] {
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":[]}}"#);
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"ok"}}"#);
            assert_eq!(client.post("eth", call.clone()).await.text(), answer);
            let sent: serde_json::Value = serde_json::from_str(&node.seen().last().unwrap().body).unwrap();
            assert!(sent["id"].is_u64(), "{sent}");
            assert_eq!(client.post("eth", format!("[{call}]")).await.text(), format!("[{answer}]"));
        }
    }
}

// Shows (Nodes and cache): A node that fails at once in JSON, for all methods or for one, is not preferred, and another
// node answers its reads (promise 74).
#[tokio::test]
async fn a_node_whose_quota_is_used_up_loses_its_reads_to_another_one() {
    let bad = Node::evm().await;
    let good = Node::evm().await;
    let error = r#"{"code":-32005,"message":"daily request count exceeded, request rate limited"}"#;
    bad.answer("eth_getBalance", ScriptedAnswer::Error(error.into()));
    let gateway = Setup::of("eth", &bad.url()).node("eth", &good.url()).start().await;
    let client = gateway.client();
    for n in 0..60 {
        let reply = client.call("eth", "eth_getBalance", &format!("[{n}]")).await;
        assert_eq!((reply.code(), reply.cu()), (0, 5), "{n}");
    }
    assert!(bad.count("eth_getBalance") < 10, "{}", bad.count("eth_getBalance"));
}

// Shows (Nodes and cache): A call that fails for its client, or that no node could serve, is not charged (promise 79).
#[tokio::test]
async fn if_no_node_can_serve_a_call_its_client_gets_the_error_of_the_node_uncharged() {
    let (node, gateway, client) = evm().await;
    for error in [
        r#"{"code":-32005,"message":"request rate limited"}"#,
        r#"{"code":-32000,"message":"database closed"}"#,
        r#"{"code":-32000,"message":"missing trie node 1a"}"#,
    ] {
        node.answer("eth_getBalance", ScriptedAnswer::Error(error.into()));
        let reply = client.call("eth", "eth_getBalance", &format!("[{error:?}]")).await;
        assert!(reply.text().contains(error), "{}", reply.text());
        assert_eq!(reply.cu(), 0, "{error}");
    }
    assert!(gateway.lines().iter().all(|line| (line.cu, line.outcome) == (0, Outcome::NodeError)));
}
