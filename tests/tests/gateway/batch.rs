use crate::*;
use rpcgate_tests::client::batch;

// Shows (Other limits): A batch has at most 100 items.
#[tokio::test]
async fn a_batch_may_have_100_items() {
    let (node, gateway, client) = evm().await;
    let calls = vec![("eth_getBalance", "[]"); 100];
    let reply = client.batch("eth", &calls).await;
    assert_eq!((reply.status, reply.codes(), reply.cu()), (200, vec![0; 100], 500));
    assert_eq!(node.calls().len(), 100);
    assert_eq!(gateway.lines().len(), 100);
}

// Shows (Errors): A batch of more than 100 items gets 413, -32600, and nothing is executed.
// Shows (Order of decisions).
// Shows (Reliability).
#[tokio::test]
async fn a_larger_batch_is_refused_and_no_item_is_executed() {
    for count in [101, 1_000, 50_000] {
        let (node, gateway, client) = evm().await;
        let reply = client.batch("eth", &vec![("eth_sendRawTransaction", "[]"); count]).await;
        assert_eq!(
            (reply.status, reply.text().as_str()),
            (413, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch too large"}}"#)
        );
        assert_eq!(reply.number("x-ratelimit-remaining-minute"), 1_000, "no window");
        assert_eq!(only_line(&gateway), ("-".into(), Outcome::Refused, 0, 413), "one usage call");
        assert_eq!(node.requests(), 0);
    }
}

// Shows (Errors).
#[tokio::test]
async fn bad_items_count_as_items() {
    let (node, _gateway, client) = evm().await;
    assert_eq!(client.post("eth", format!("[{}]", ["1"; 100].join(","))).await.codes(), [-32600; 100]);
    assert_eq!(client.post("eth", format!("[{}]", ["1"; 101].join(","))).await.status, 413);
    assert_eq!(node.requests(), 0);
}

// Shows (Gateway addressing): The answers of a batch are matched by id.
#[tokio::test]
async fn answers_are_matched_by_id_for_any_numbering_and_order() {
    let (node, _gateway, client) = evm().await;
    for method in ["a", "b", "c"] {
        node.result(method, &format!("\"{method}!\""));
    }
    let body = r#"[{"jsonrpc":"2.0","id":2,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"},{"jsonrpc":"2.0","id":0,"method":"c"},{"jsonrpc":"2.0","id":"0","method":"a"},{"jsonrpc":"2.0","id":null,"method":"b"}]"#;
    let reply = client.post("eth", body).await;
    let expected = r#"[{"jsonrpc":"2.0","id":2,"result":"a!"},{"jsonrpc":"2.0","id":2,"result":"b!"},{"jsonrpc":"2.0","id":0,"result":"c!"},{"jsonrpc":"2.0","id":"0","result":"a!"},{"jsonrpc":"2.0","id":null,"result":"b!"}]"#;
    assert_eq!(reply.text(), expected);
    assert_eq!(node.requests(), 1, "they travelled together");
}

#[tokio::test]
async fn a_batch_of_one_is_answered_with_an_array() {
    let (node, _gateway, client) = evm().await;
    assert_eq!(
        client.post("eth", r#"[{"jsonrpc":"2.0","id":5,"method":"m"}]"#).await.text(),
        r#"[{"jsonrpc":"2.0","id":5,"result":"ok"}]"#
    );
    assert!(node.seen()[0].body.starts_with('{'), "the node is asked alone");
}

// Shows (Routes and bodies): /bch accepts batches, like every chain of both families.
#[tokio::test]
async fn every_chain_of_both_families_accepts_batches_including_bch() {
    let (_evm, _utxo, gateway) = ten(Setup::new()).await;
    let client = gateway.client();
    for chain in EVM {
        assert_eq!(
            client.batch(chain, &[("a", "[]"), ("b", "[]")]).await.text(),
            r#"[{"jsonrpc":"2.0","id":0,"result":"ok"},{"jsonrpc":"2.0","id":1,"result":"ok"}]"#,
            "{chain}"
        );
    }
    for chain in UTXO {
        assert_eq!(
            client.batch(chain, &[("a", "[]"), ("b", "[]")]).await.text(),
            r#"[{"result":"ok","error":null,"id":0},{"result":"ok","error":null,"id":1}]"#,
            "{chain}"
        );
    }
}

// Shows (Limits, budget and quota): A batch is one request of the windows, and each of its items is a call.
#[tokio::test]
async fn a_batch_is_one_request_in_the_windows_and_each_item_a_call() {
    let (_node, gateway, client) = evm().await;
    let reply =
        client.batch("eth", &[("eth_chainId", "[]"), ("eth_getBalance", "[]"), ("eth_call", "[]")]).await;
    assert_eq!((reply.number("x-ratelimit-remaining-minute"), reply.cu()), (999, 20));
    let lines: Vec<_> = gateway.lines().into_iter().map(|line| (line.method, line.cu)).collect();
    assert_eq!(lines, [("eth_chainId".into(), 0), ("eth_getBalance".into(), 5), ("eth_call".into(), 15)]);
}

// Shows (Limits, budget and quota): An operator may count items instead.
#[tokio::test]
async fn an_operator_may_count_a_batch_by_its_items() {
    let node = Node::evm().await;
    let gateway =
        Setup::of("eth", &node.url()).plan("free").set("plans", "batch_counts = \"items\"").start().await;
    let client = gateway.client();
    assert_eq!(client.batch("eth", &[("m", "[]"); 4]).await.number("x-ratelimit-remaining-minute"), 6);
    assert_eq!(
        client.batch("eth", &[("m", "[]"), ("debug_x", "[]")]).await.number("x-ratelimit-remaining-minute"),
        5,
        "open items alone"
    );
    assert_eq!(client.batch("eth", &[("m", "[]"); 6]).await.status, 429, "all or nothing");
    assert_eq!(client.batch("eth", &[("m", "[]"); 5]).await.number("x-ratelimit-remaining-minute"), 0);
}

#[tokio::test]
async fn a_node_with_a_smaller_batch_limit_gets_smaller_batches() {
    let node = Node::evm().await;
    for (most, requests) in [(1, 7), (3, 3), (100, 1)] {
        let gateway =
            Setup::new().node_with("eth", &node.url(), &format!("max_batch = {most}")).start().await;
        let before = node.requests();
        assert_eq!(gateway.client().batch("eth", &[("m", "[]"); 7]).await.codes(), [0; 7]);
        assert_eq!(node.requests() - before, requests, "{most}");
    }
}

// Shows (Gateway addressing).
#[tokio::test]
async fn an_item_that_a_node_omits_or_answers_twice_fails_alone() {
    let (node, gateway, client) = evm().await;
    let item = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"ok"}}"#);
    // `@1` is replaced by the id of the second call of the set.
    let a = item("@0");
    let b = item("@1");
    let c = item("@2");
    let rows = [
        (format!("[{a},{c}]"), [0, -32603, 0]),
        (format!("[{b},{c},{b},{a}]"), [0, -32603, 0]),
        (format!("[{c},{b},{a},{}]", item("@3")), [0, 0, 0]),
        (format!("[{a},{},{c}]", item("\"@1\"")), [0; 3]),
        (format!("[{a},{},{c}]", item("@1.0")), [0; 3]),
        (format!("[{a},{},{c}]", item("7")), [-32603; 3]),
        (format!("[{a},{b},5]"), [-32603; 3]),
        ("[]".into(), [-32603; 3]),
        (a.clone(), [-32603; 3]),
        (format!("[{a},{b},{c}"), [-32603; 3]),
        (format!(r#"[{a},{{"jsonrpc":"2.0","id":@1}},{c}]"#), [0, -32603, 0]),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no batches"}}"#.into(), [-32000; 3]),
    ];
    for (answer, codes) in rows {
        let template = answer.clone();
        node.whole(move |seen| {
            let base: u64 = seen.calls[0].id.clone()?.parse().ok()?;
            let numbered = |text: String, n: u64| text.replace(&format!("@{n}"), &(base + n).to_string());
            Some(Raw::json(200, (0..4).fold(template.clone(), numbered)))
        });
        let reply = client.batch("eth", &[("eth_getBalance", "[]"); 3]).await;
        assert_eq!((reply.status, reply.codes()), (200, codes.to_vec()), "{answer}");
        let answered = codes.iter().filter(|code| **code != -32603).count() as u64;
        assert_eq!(reply.cu(), 5 * answered, "{answer}: failures are not charged");
    }
    let failed =
        gateway.lines().iter().filter(|line| line.outcome == Outcome::Failed && line.cu == 0).count();
    assert!(failed > 0);
}

// Shows (Nodes and cache): A broadcast is never sent together with other calls.
#[tokio::test]
async fn a_broadcast_is_sent_in_a_request_of_its_own() {
    let (node, _gateway, client) = evm().await;
    let reply = client
        .batch(
            "eth",
            &[
                ("a", "[]"),
                ("eth_sendRawTransaction", "[\"0x01\"]"),
                ("b", "[]"),
                ("eth_sendRawTransaction", "[\"0x02\"]"),
            ],
        )
        .await;
    assert_eq!(reply.codes(), [0; 4]);
    let sizes: Vec<_> =
        node.seen().iter().map(|seen| (seen.body.contains("send"), seen.calls.len())).collect();
    assert_eq!(sizes.iter().filter(|(broadcast, calls)| *broadcast && *calls == 1).count(), 2);
    assert_eq!(sizes.iter().filter(|(broadcast, calls)| !*broadcast && *calls == 2).count(), 1);
    let (node, _gateway, client) = utxo().await;
    assert_eq!(
        client
            .batch(
                "btc",
                &[("getdifficulty", "[]"), ("sendrawtransaction", "[\"01\"]"), ("getdifficulty", "[]")]
            )
            .await
            .codes(),
        [0; 3]
    );
    assert!(node.seen().iter().all(|seen| !seen.body.contains("sendraw") || seen.calls.len() == 1));
}

#[tokio::test]
async fn white_space_around_items_is_ignored() {
    let (_node, _gateway, client) = evm().await;
    let spaced = batch(&[("a", "[]"), ("b", "[]")]).replace("},{", "} \r\n,\t {").replace('[', "[ ");
    assert_eq!(client.post("eth", format!("\n {spaced} \n")).await.codes(), [0, 0]);
}

// Shows (Hostile and odd traffic): The joined answer of a batch is bounded and counts in the memory of all bodies;
// items beyond it are refused in position and not charged (promise 57).
#[tokio::test]
async fn an_answer_shared_by_many_items_is_joined_as_often_as_it_fits() {
    for (setup, refused) in [
        (Setup::new().set("gateway", "reply_max = \"1MiB\""), 97),
        (Setup::new().set("gateway.limits", "body = \"1MiB\"\nbodies_total = \"1400KiB\""), 97),
    ] {
        let node = Node::evm().await;
        let gateway = setup.node("eth", &node.url()).start().await;
        node.result("eth_call", &format!("\"0x{}\"", "a".repeat(300 << 10)));
        for _ in 0..3 {
            let reply = gateway.client().batch("eth", &[("eth_call", "[1]"); 100]).await;
            let codes = reply.codes();
            assert_eq!((codes.len(), codes[2..4].to_vec()), (100, vec![0, -32005]));
            assert_eq!(codes.iter().filter(|code| **code == -32005).count(), refused);
            assert!(reply.text().contains(r#""error":{"code":-32005,"message":"batch response too large"}"#));
            assert_eq!(reply.cu(), 45, "what has no room is not charged");
        }
        assert_eq!((node.requests(), gateway.charged()), (1, 135));
    }
}
