use crate::*;

async fn watched(chain: &str, node: &Node, lines: &str) -> (TestGateway, TestClient) {
    let gateway = Setup::of(chain, &node.url())
        .set(&format!("chains.{chain}"), &format!("probe_interval = \"100ms\"\n{lines}"))
        .start()
        .await;
    node.known().await;
    let client = gateway.client();
    (gateway, client)
}

async fn hits(client: &TestClient, chain: &str, method: &str, params: &str, count: usize) -> Vec<bool> {
    let mut hits = Vec::new();
    for _ in 0..count {
        hits.push(client.call(chain, method, params).await.cache() == "HIT");
    }
    hits
}

// Shows (Caching): Short answers are cached for 2 s, 5 s or 10 s; eth_call for 2 s by its data.
#[tokio::test]
async fn short_lived_answers_are_cached_for_their_time_and_not_longer() {
    let (_evm, _utxo, gateway) = ten(Setup::new()).await;
    let client = gateway.client();
    for (chain, method, millis) in [
        ("eth", "eth_blockNumber", 2_000),
        ("bsc", "eth_blockNumber", 2_000),
        ("avax", "eth_gasPrice", 5_000),
        ("eth", "eth_call", 2_000),
        ("btc", "getblockcount", 10_000),
        ("doge", "getblockcount", 10_000),
    ] {
        assert_eq!(hits(&client, chain, method, "[1]", 2).await, [false, true], "{chain} {method}");
        gateway.clock.advance(std::time::Duration::from_millis(millis - 1));
        assert_eq!(hits(&client, chain, method, "[1]", 1).await, [true], "{chain} {method}");
        gateway.clock.advance(std::time::Duration::from_millis(1));
        assert_eq!(hits(&client, chain, method, "[1]", 2).await, [false, true], "{chain} {method}");
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn white_space_between_the_tokens_of_params_does_not_change_the_cache_key() {
    let (node, gateway, client) = evm().await;
    let spaced = "[ {\"to\" : \"0x00\",\r\n\"data\":\t\"a  b\"} , \"latest\" ]";
    for (params, is_kept) in [
        (spaced, false),
        (r#"[{"to":"0x00","data":"a  b"},"latest"]"#, true),
        (r#" [{"to":"0x00", "data":"a  b"},"latest" ] "#, true),
        (r#"[{"to":"0x00","data":"a b"},"latest"]"#, false),
        (r#"[{"data":"a  b","to":"0x00"},"latest"]"#, false),
    ] {
        assert_eq!(hits(&client, "eth", "eth_call", params, 1).await, [is_kept], "{params}");
    }
    assert_eq!(node.calls()[0].params, r#"[{"to":"0x00","data":"a  b"},"latest"]"#);
    let in_batch =
        client.batch("eth", &[("eth_chainId", " [ ] "), ("eth_call", spaced), ("m", "[ 1 ]")]).await;
    assert_eq!(in_batch.codes(), [0, 0, 0]);
    let seen: Vec<_> = node.calls().into_iter().skip(3).map(|call| call.params).collect();
    assert_eq!(seen, ["[]", "[ 1 ]"], "calls that are not cached are sent unchanged");
    let body = r#"{"jsonrpc":"2.0","id":{ "a" : 1 },"method":"eth_chainId","params":[ ]}"#;
    let reply = client.post("eth", body).await;
    assert_eq!(
        (reply.cache(), reply.text().contains(r#""id":{ "a" : 1 }"#)),
        ("HIT", true),
        "an id is echoed as sent"
    );
    assert_eq!(gateway.lines().last().unwrap().bytes_in as usize, body.len());
}

// Shows (Caching): Chain ids are cached as static.
#[tokio::test]
async fn static_answers_are_cached_forever() {
    let (node, gateway, client) = evm().await;
    for method in ["eth_chainId", "net_version"] {
        assert_eq!(hits(&client, "eth", method, "[]", 2).await, [false, true]);
    }
    gateway.pass(400 * 86_400);
    for method in ["eth_chainId", "net_version"] {
        assert_eq!(hits(&client, "eth", method, "[]", 1).await, [true]);
    }
    assert_eq!(node.requests(), 2);
}

// Shows (Caching): Submits and estimates are never cached.
// Shows (Nodes and cache): A method without a cache class is not cached.
#[tokio::test]
async fn submissions_estimates_and_methods_without_a_class_are_never_cached() {
    let (_evm, _utxo, gateway) = ten(Setup::new()).await;
    let client = gateway.client();
    for (chain, method) in [
        ("eth", "eth_sendRawTransaction"),
        ("eth", "eth_sendTransaction"),
        ("eth", "eth_estimateGas"),
        ("bsc", "eth_getLogs"),
        ("eth", "eth_getBalance"),
        ("eth", "unheard_of"),
        ("eth", "web3_clientVersion"),
        ("eth", "eth_feeHistory"),
        ("btc", "sendrawtransaction"),
        ("btc", "getmininginfo"),
        ("btc", "getbestblockhash"),
        ("dash", "gobject"),
        ("btc", "unheard"),
    ] {
        assert_eq!(hits(&client, chain, method, "[]", 3).await, [false; 3], "{chain} {method}");
    }
}

// Shows (Caching): Receipts, raw transactions and confirmed blocks by hash are cached as immutable.
// Shows (Nodes and cache): Answers that are not final are cached briefly; the depth of finality can be configured.
#[tokio::test]
async fn receipts_transactions_and_blocks_by_hash_are_cached_forever_once_final() {
    let node = Node::evm().await;
    let (gateway, client) = watched("eth", &node, "").await;
    let rows = [
        ("eth_getTransactionReceipt", "blockNumber"),
        ("eth_getTransactionByHash", "blockNumber"),
        ("eth_getBlockByHash", "number"),
    ];
    // It has 64 confirmations.
    for (method, member) in rows {
        node.result(method, &format!(r#"{{"hash":"0x1","{member}":"{:#x}"}}"#, 1_000_000 - 64));
        assert_eq!(hits(&client, "eth", method, "[1]", 2).await, [false, true], "{method}");
    }
    gateway.pass(400 * 86_400);
    for (method, _) in rows {
        assert_eq!(hits(&client, "eth", method, "[1]", 1).await, [true], "{method}");
    }
    // It has 63 confirmations, so it is cached for 2 s.
    for (method, member) in rows {
        node.result(method, &format!(r#"{{"hash":"0x2","{member}":"{:#x}"}}"#, 1_000_000 - 63));
        assert_eq!(hits(&client, "eth", method, "[2]", 2).await, [false, true], "{method}");
    }
    gateway.pass(2);
    node.height(1_000_001);
    node.known().await;
    for (method, _) in rows {
        assert_eq!(hits(&client, "eth", method, "[2]", 2).await, [false, true], "{method}");
    }
    gateway.pass(3);
    for (method, _) in rows {
        assert_eq!(hits(&client, "eth", method, "[2]", 1).await, [true], "{method}: final by now");
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn the_operator_chooses_the_depth_of_finality() {
    let node = Node::evm().await;
    let (gateway, client) = watched("eth", &node, "final_depth = 2").await;
    node.result("eth_getTransactionReceipt", &format!(r#"{{"blockNumber":"{:#x}"}}"#, 1_000_000 - 2));
    client.call("eth", "eth_getTransactionReceipt", "[1]").await;
    gateway.pass(1_000);
    assert_eq!(hits(&client, "eth", "eth_getTransactionReceipt", "[1]", 1).await, [true]);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn answers_that_a_node_does_not_know_yet_are_never_cached() {
    let node = Node::evm().await;
    let (_gateway, client) = watched("eth", &node, "").await;
    for method in ["eth_getTransactionReceipt", "eth_getTransactionByHash", "eth_getBlockByHash"] {
        node.result(method, "null");
        assert_eq!(hits(&client, "eth", method, "[1]", 3).await, [false; 3], "{method}");
        // A pending transaction has no block.
        node.result(method, r#"{"hash":"0x1","blockNumber":null,"number":null}"#);
        assert_eq!(hits(&client, "eth", method, "[1]", 3).await, [false; 3], "{method}");
        node.result(method, r#"{"hash":"0x1","blockNumber":"0x1","number":"0x1"}"#);
        assert_eq!(hits(&client, "eth", method, "[1]", 2).await, [false, true], "{method}");
    }
}

// Shows (Nodes and cache): Errors and answers that a node cannot give yet are never cached.
#[tokio::test]
async fn errors_are_never_cached() {
    let (node, _gateway, client) = evm().await;
    for method in ["eth_chainId", "eth_blockNumber", "eth_call", "eth_getTransactionReceipt"] {
        node.answer(method, ScriptedAnswer::Error(r#"{"code":-32000,"message":"busy"}"#.into()));
        assert_eq!(hits(&client, "eth", method, "[]", 2).await, [false; 2], "{method}");
    }
    let (node, _gateway, client) = utxo().await;
    node.answer(
        "getblockcount",
        ScriptedAnswer::Error(r#"{"code":-28,"message":"Loading block index..."}"#.into()),
    );
    assert_eq!(hits(&client, "btc", "getblockcount", "[]", 2).await, [false; 2]);
    assert_eq!(node.requests(), 2);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn failures_are_never_cached() {
    let (node, _gateway, client) = evm().await;
    for raw in [
        Raw { status: 502, ..Raw::default() },
        Raw::json(200, "{"),
        Raw::json(200, r#"{"jsonrpc":"2.0","id":9}"#),
    ] {
        node.always(raw);
        let reply = client.call("eth", "eth_chainId", "[]").await;
        assert_eq!((reply.code(), reply.cache()), (-32603, "MISS"));
    }
    node.whole(|_| None);
    assert_eq!(hits(&client, "eth", "eth_chainId", "[]", 2).await, [false, true]);
}

// Shows (Caching).
// Shows (Nodes and cache): Verbose UTXO answers have the short lifetime; a raw transaction is immutable only with a
// block hash.
#[tokio::test]
async fn verbose_utxo_answers_are_cached_briefly_and_serialised_ones_forever() {
    let node = Node::utxo().await;
    let (gateway, client) = watched("btc", &node, "").await;
    let hash = "a".repeat(64);
    let rows = [
        ("getblock", format!("[\"{hash}\",0]"), "\"00ff\"", true),
        ("getblock", format!("[\"{hash}\",1]"), r#"{"confirmations":9}"#, false),
        ("getblockheader", format!("[\"{hash}\",false]"), "\"00ff\"", true),
        ("getrawtransaction", format!("[\"{hash}\",false,\"{hash}\"]"), "\"00ff\"", true),
        ("getrawtransaction", format!("[\"{hash}\"]"), "\"00ff\"", false),
        ("getrawtransaction", format!("[\"{hash}\",true,\"{hash}\"]"), r#"{"confirmations":9}"#, false),
        ("getblockhash", "[999994]".into(), "\"00ff\"", true),
        ("getblockhash", "[999995]".into(), "\"00ff\"", false),
    ];
    for (method, params, result, _) in &rows {
        node.result(method, result);
        assert_eq!(hits(&client, "btc", method, params, 2).await, [false, true], "{method} {params}");
    }
    gateway.pass(10);
    for (method, params, _, immutable) in &rows {
        assert_eq!(hits(&client, "btc", method, params, 1).await, [*immutable], "{method} {params}");
    }
}

// Shows (Caching).
// Shows (Nodes and cache): The cache key is chain, method and params token by token; white space between tokens makes
// no difference to it or to the node.
#[tokio::test]
async fn the_key_is_chain_method_and_the_tokens_of_the_params() {
    let (_evm, _utxo, gateway) = ten(Setup::new()).await;
    let client = gateway.client();
    assert_eq!(hits(&client, "eth", "eth_call", r#"[{"to":"0xAa"},"latest"]"#, 2).await, [false, true]);
    for (chain, method, params) in [
        ("bsc", "eth_call", r#"[{"to":"0xAa"},"latest"]"#),
        ("eth", "eth_gasPrice", r#"[{"to":"0xAa"},"latest"]"#),
        ("eth", "eth_call", r#"[{"to":"0xaa"},"latest"]"#),
        ("eth", "eth_call", r#"[{"to":"0xAa "},"latest"]"#),
        ("eth", "eth_call", r#"[{"to":"0x\u0041a"},"latest"]"#),
        ("eth", "eth_call", r#"[{"to":"0xAa"},"earliest"]"#),
        ("eth", "eth_call", "[]"),
        ("eth", "eth_call", "null"),
        ("eth", "eth_call", "{}"),
        ("eth", "eth_call", "[1.0]"),
        ("eth", "eth_call", "[1]"),
        ("eth", "eth_call", "[10e-1]"),
    ] {
        assert_eq!(hits(&client, chain, method, params, 1).await, [false], "{chain} {method} {params}");
    }
    let absent = client.post("eth", r#"{"jsonrpc":"2.0","id":9,"method":"eth_call"}"#).await;
    assert_eq!(absent.cache(), "MISS", "nor is nothing the same as an empty list");
}

// Shows (Nodes and cache): The cache key never contains the id or the caller.
// Shows (Reliability): No answer contains data of another client (promise 18).
#[tokio::test]
async fn the_key_is_never_the_id_and_never_the_caller() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .set("tenants.other", "plan = \"free\"")
        .set("projects.other", "tenant = \"other\"");
    let gateway = setup.key("other", "project = \"other\"").start().await;
    let one = gateway.client();
    let other = gateway.client_of("other");
    node.result("eth_call", "\"secret-free\"");
    let first = one.post("eth", r#"{"jsonrpc":"2.0","id":"one","method":"eth_call","params":[1]}"#).await;
    let second =
        other.post("eth", r#"{"id":{"two":2},"params":[1],"method":"eth_c\u0061ll","jsonrpc":"2.0"}"#).await;
    assert_eq!((first.cache(), second.cache()), ("MISS", "HIT"));
    assert_eq!(first.text(), r#"{"jsonrpc":"2.0","id":"one","result":"secret-free"}"#);
    assert_eq!(second.text(), r#"{"jsonrpc":"2.0","id":{"two":2},"result":"secret-free"}"#);
    assert_eq!(
        (first.number("x-ratelimit-limit-minute"), second.number("x-ratelimit-limit-minute")),
        (1_000, 10),
        "headers are each caller's own"
    );
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
    assert_eq!(node.requests(), 1);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn headers_of_the_node_neither_pass_nor_are_cached() {
    let (node, _gateway, client) = evm().await;
    node.whole(|seen| {
        let id = seen.calls[0].id.clone()?;
        Some(Raw {
            status: 200,
            headers: vec![("x-secret-of-first", "yes")],
            body: format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1}}"#).into(),
        })
    });
    assert_eq!(client.call("eth", "eth_chainId", "[]").await.header("x-secret-of-first"), None);
    let hit = client.call("eth", "eth_chainId", "[]").await;
    assert_eq!((hit.cache(), hit.header("x-secret-of-first")), ("HIT", None));
}

// Shows (Nodes and cache): `X-Cache` is HIT only if every entry was stored before.
#[tokio::test]
async fn a_batch_is_a_hit_only_if_every_entry_was_stored() {
    let (node, gateway, client) = evm().await;
    client.call("eth", "eth_chainId", "[]").await;
    let rows = [
        (vec![("eth_chainId", "[]"), ("eth_gasPrice", "[]")], "MISS"),
        (vec![("eth_chainId", "[]"), ("eth_gasPrice", "[]")], "HIT"),
        (vec![("eth_chainId", "[]"), ("admin_x", "[]")], "MISS"),
        (vec![("eth_chainId", "[]"), ("m", "[]")], "MISS"),
        (vec![("eth_chainId", "[]"); 3], "HIT"),
    ];
    for (calls, expected) in rows {
        assert_eq!(client.batch("eth", &calls).await.cache(), expected, "{calls:?}");
    }
    assert_eq!(node.calls().len(), 3);
    assert!(gateway.lines().last().unwrap().cached);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn the_same_call_twice_in_a_batch_is_asked_once() {
    let (node, _gateway, client) = evm().await;
    node.result("eth_call", "\"same\"");
    let reply = client.post("eth", r#"[{"jsonrpc":"2.0","id":"a","method":"eth_call","params":[]},{"jsonrpc":"2.0","id":"b","method":"eth_call","params":[]}]"#).await;
    assert_eq!(
        reply.text(),
        r#"[{"jsonrpc":"2.0","id":"a","result":"same"},{"jsonrpc":"2.0","id":"b","result":"same"}]"#
    );
    assert_eq!((reply.cache(), reply.cu(), node.calls().len()), ("MISS", 30, 1));
}

#[tokio::test]
async fn a_notification_neither_fills_the_cache_nor_is_answered_by_it() {
    let (node, _gateway, client) = evm().await;
    client.call("eth", "eth_chainId", "[]").await;
    assert_eq!(
        client.post("eth", r#"{"jsonrpc":"2.0","method":"eth_chainId","params":[]}"#).await.text(),
        ""
    );
    assert_eq!(
        client.post("eth", r#"{"jsonrpc":"2.0","method":"net_version","params":[]}"#).await.text(),
        ""
    );
    assert_eq!(hits(&client, "eth", "net_version", "[]", 1).await, [false]);
    assert_eq!(node.requests(), 4);
}

// Shows (Caching): Operators may set other cache classes.
#[tokio::test]
async fn an_operator_may_set_other_classes() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url())
        .set(
            "chains.eth",
            r#"ttl = { eth_call = "never", eth_getBalance = "7s", web3_clientVersion = "forever" }"#,
        )
        .start()
        .await;
    let client = gateway.client();
    for (method, hit) in [("eth_call", false), ("eth_getBalance", true), ("web3_clientVersion", true)] {
        assert_eq!(hits(&client, "eth", method, "[]", 2).await, [false, hit], "{method}");
    }
    gateway.pass(7);
    assert_eq!(hits(&client, "eth", "eth_getBalance", "[]", 1).await, [false]);
    assert_eq!(hits(&client, "eth", "web3_clientVersion", "[]", 1).await, [true]);
}

// Shows (Caching).
#[tokio::test]
async fn a_block_by_number_is_cached_and_a_block_by_tag_is_not() {
    let node = Node::evm().await;
    let (gateway, client) = watched("eth", &node, "").await;
    node.result("eth_getBlockByNumber", r#"{"number":"0x10"}"#);
    assert_eq!(hits(&client, "eth", "eth_getBlockByNumber", r#"["0x10",false]"#, 2).await, [false, true]);
    gateway.pass(100);
    assert_eq!(hits(&client, "eth", "eth_getBlockByNumber", r#"["0x10",false]"#, 1).await, [true]);
    for tag in ["latest", "safe", "finalized", "pending", "earliest"] {
        assert_eq!(
            hits(&client, "eth", "eth_getBlockByNumber", &format!("[\"{tag}\",false]"), 2).await,
            [false; 2],
            "{tag}"
        );
    }
}

// Shows (Nodes and cache): The cache is bounded in bytes.
// Shows (Nodes and cache): The cache is bounded and keeps hot entries (promise 17).
#[tokio::test]
async fn the_cache_is_bounded_in_bytes_and_a_flood_does_not_evict_hot_entries() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url())
        .set("cache", "bytes = \"1MiB\"")
        .set("projects.default", "cu_per_day = 1000000000")
        .set("plans.enterprise", "per_minute = 100000\nper_hour = 1000000")
        .start()
        .await;
    let client = gateway.client();
    node.result("eth_call", &format!("\"{}\"", "f".repeat(500)));
    let mut hot = 0;
    let mut asked = 0;
    for round in 0..100 {
        let params: Vec<_> = (0..100).map(|n| format!("[{}]", round * 100 + n)).collect();
        client
            .batch("eth", &params.iter().map(|params| ("eth_call", params.as_str())).collect::<Vec<_>>())
            .await;
        for _ in 0..10 {
            asked += 1;
            hot += usize::from(client.call("eth", "eth_chainId", "[]").await.cache() == "HIT");
        }
    }
    assert!(hot * 10 >= asked * 9, "{hot} of {asked}");
    // 10,000 answers of 500 bytes exceed one MiB: the first ones must have been evicted.
    let mut kept = 0;
    for round in 0..100 {
        let params: Vec<_> = (0..100).map(|n| format!("[{}]", round * 100 + n)).collect();
        let before = node.calls().len();
        client
            .batch("eth", &params.iter().map(|params| ("eth_call", params.as_str())).collect::<Vec<_>>())
            .await;
        kept += 100 - (node.calls().len() - before);
    }
    assert!(kept <= 2_000, "{kept} are still kept");
}
