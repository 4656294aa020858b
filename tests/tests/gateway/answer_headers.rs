use crate::*;
use std::collections::HashSet;

/// Returns one answer of every kind to an authenticated key.
async fn kinds() -> Vec<TestReply> {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .plan("free")
        .set("plans.free", "per_minute = 100\nheavy_per_minute = 1")
        .set("projects.default", "cu_per_day = 200\nblocked_methods = [\"no\"]")
        .key("narrow", r#"chains = ["btc"]"#);
    let gateway = setup.start().await;
    let client = gateway.client();
    node.answer("fails", ScriptedAnswer::Cut);
    node.answer("errs", ScriptedAnswer::Error(r#"{"code":1,"message":"x"}"#.into()));
    let mut replies = vec![
        client.call("eth", "eth_chainId", "[]").await,
        client.call("eth", "eth_chainId", "[]").await,
        client.call("eth", "errs", "[]").await,
        client.call("eth", "fails", "[]").await,
        client.post("eth", r#"{"jsonrpc":"2.0","method":"m"}"#).await,
        client.batch("eth", &[("m", "[]"), ("admin_x", "[]")]).await,
        client.post("eth", "{").await,
        client.post("eth", "[]").await,
        client.batch("eth", &[("m", "[]"); 101]).await,
        client.call("eth", "no", "[]").await,
        client.call("eth", "debug_x", "[]").await,
        client.call("bsc", "m", "[]").await,
        client.call("eth", "trace_x", "[]").await,
        client.call("eth", "trace_x", "[]").await,
        client.call("eth", "eth_getFilterLogs", "[]").await,
        client.call("eth", "eth_getFilterLogs", "[]").await,
        gateway.client_of("narrow").call("eth", "m", "[]").await,
        client.post("eth", vec![b' '; (5 << 20) + 1]).await,
    ];
    for _ in 0..10 {
        replies.push(client.call("eth", "eth_sendRawTransaction", "[]").await);
    }
    for _ in 0..100 {
        replies.push(client.call("eth", "eth_chainId", "[]").await);
    }
    let statuses: HashSet<_> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses, HashSet::from([200, 400, 403, 413, 429]));
    replies
}

// Shows (Limits, budget and quota): Every answer to a known key has all nine rate headers, including refusals; an
// answer without a key has none.
#[tokio::test]
async fn every_answer_to_a_known_key_has_all_nine_rate_headers_including_refusals() {
    for reply in kinds().await {
        assert!(rated(&reply), "{reply:?}");
        assert_eq!(
            (reply.number("x-ratelimit-limit-minute"), reply.number("x-ratelimit-limit-day")),
            (100, 10_000)
        );
        assert!(reply.number("ratelimit-reset") >= 1);
    }
}

// Shows (Nodes and cache): Every answer carries `x-request-id`.
#[tokio::test]
async fn every_answer_has_its_own_id() {
    let replies = kinds().await;
    let ids: HashSet<_> =
        replies.iter().map(|reply| reply.header("x-request-id").unwrap().to_owned()).collect();
    assert_eq!(ids.len(), replies.len());
    assert!(ids.iter().all(|id| id.len() == 36 && id.as_bytes()[14] == b'7'), "UUIDs of version 7");
    let (_node, gateway, _) = evm().await;
    for (verb, path) in [("POST", "/nochain"), ("POST", "/eth"), ("GET", "/eth"), ("OPTIONS", "/eth")] {
        let reply = gateway.anonymous().send(verb, path, &[("x-request-id", "mine")], b"").await;
        assert_eq!(reply.header("x-request-id").map(str::len), Some(36), "{verb} {path}");
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn an_id_names_its_record() {
    let (_node, gateway, client) = evm().await;
    for method in ["m", "admin_x", "debug_x"] {
        let reply = client.call("eth", method, "[]").await;
        let record = gateway.records().pop().unwrap();
        assert_eq!(reply.header("x-request-id"), Some(record.request.to_string().as_str()));
    }
}

// Shows (Nodes and cache): Metered answers carry `x-compute-units`, the sum charged.
#[tokio::test]
async fn metered_answers_carry_their_cost_and_whether_they_came_from_the_cache() {
    let mut sum = 0;
    for reply in kinds().await {
        sum += reply.cu();
        assert!(matches!(reply.cache(), "HIT" | "MISS"), "{reply:?}");
        if reply.status != 200 {
            assert_eq!((reply.cu(), reply.cache()), (0, "MISS"), "{reply:?}");
        }
    }
    assert_eq!(sum, 203, "1 + 1 + 1, and ten broadcasts of 20; the last of them crosses the ceiling");
}

// Shows (Errors): Refusals that may be retried state when.
#[tokio::test]
async fn refusals_that_may_be_retried_state_when() {
    for reply in kinds().await {
        assert_eq!(reply.header("retry-after").is_some(), matches!(reply.status, 429 | 503), "{reply:?}");
    }
}

#[tokio::test]
async fn bodies_are_json_and_have_its_content_type() {
    for reply in kinds().await {
        if reply.body.is_empty() {
            continue;
        }
        assert_eq!(reply.header("content-type"), Some("application/json"), "{reply:?}");
        reply.json();
    }
}

// Shows (Routes and bodies): UTXO answers keep `"error":null` and the plain content type.
#[tokio::test]
async fn utxo_answers_keep_error_null_and_the_plain_content_type() {
    let (node, _gateway, client) = utxo().await;
    node.always(Raw {
        status: 200,
        headers: vec![("content-type", "application/json; charset=utf-8")],
        body: br#"{"result":5,"error":null,"id":9}"#.to_vec(),
    });
    let reply = client.post("btc", r#"{"jsonrpc":"1.0","id":"x","method":"getdifficulty"}"#).await;
    assert_eq!(reply.text(), r#"{"result":5,"error":null,"id":"x"}"#);
    assert_eq!(reply.header("content-type"), Some("application/json"));
}

// Shows (Nodes and cache): Only those headers of a node pass that the chain's API defines.
#[tokio::test]
async fn only_node_headers_that_the_chains_api_defines_are_forwarded() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url()).node("aptos", &node.url()).start().await;
    let client = gateway.client();
    let headers = vec![
        ("content-type", "application/json"),
        ("x-aptos-cursor", "hello"),
        ("x-aptos-multi", "1"),
        ("x-aptos-multi", "2"),
        ("etag", "planted"),
        ("x-node-says", "planted"),
        ("strict-transport-security", "planted"),
        ("alt-svc", "planted"),
        ("clear-site-data", "planted"),
        ("cache-control", "planted"),
        ("location", "planted"),
        ("refresh", "planted"),
        ("nel", "planted"),
        ("report-to", "planted"),
        ("link", "planted"),
        ("connection", "x-named"),
        ("x-named", "planted"),
        ("keep-alive", "timeout=5"),
        ("proxy-authenticate", "planted"),
        ("upgrade", "h2c"),
        ("set-cookie", "planted=1"),
        ("server", "planted"),
        ("access-control-allow-origin", "https://planted"),
        ("access-control-allow-credentials", "true"),
        ("x-request-id", "planted"),
        ("x-compute-units", "777"),
        ("x-cache", "HIT"),
        ("x-ratelimit-limit-minute", "777"),
        ("ratelimit-reset", "777"),
        ("retry-after", "777"),
        ("www-authenticate", "planted"),
    ];
    node.whole(move |seen| {
        let body = match seen.calls.first().and_then(|call| call.id.clone()) {
            Some(id) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1}}"#),
            None => "{}".to_owned(),
        };
        Some(Raw { status: 200, headers: headers.clone(), body: body.into() })
    });
    let rest = client.send("GET", "/aptos/v1/accounts/0x1", &[], b"").await;
    assert_eq!(rest.header("x-aptos-cursor"), Some("hello"));
    assert_eq!(rest.headers.iter().filter(|(name, _)| name == "x-aptos-multi").count(), 2);
    let reply = client.call("eth", "m", "[]").await;
    assert!(reply.header("x-aptos-cursor").is_none(), "it belongs to another chain");
    for (name, value) in &rest.headers {
        assert!(!value.contains("planted") && value != "777", "{name}: {value}");
    }
    for (name, value) in &reply.headers {
        assert!(!value.contains("planted") && value != "777", "{name}: {value}");
    }
    for name in [
        "set-cookie",
        "server",
        "x-named",
        "keep-alive",
        "upgrade",
        "retry-after",
        "access-control-allow-credentials",
    ] {
        assert!(reply.header(name).is_none(), "{name}");
    }
    assert_eq!(
        (reply.header("access-control-allow-origin"), reply.cu(), reply.cache()),
        (Some("*"), 1, "MISS")
    );
}

/// `{"jsonrpc":"2.0","result":"squeezed"}` compressed with gzip by another program.
const SQUEEZED: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\xca\x2a\xce\xcf\x2b\x2a\x48\x56\xb2\x52\x32\xd2\x33\x50\xd2\x51\x2a\x4a\x2d\x2e\xcd\x29\x01\x72\x8b\x0b\x4b\x53\x53\xab\x52\x53\x94\x6a\x01\xdb\xdf\x64\x07\x25\x00\x00\x00";

// Shows (Routes and bodies): Answers are decoded from the node.
#[tokio::test]
async fn answers_are_decoded_from_the_node() {
    let (node, _gateway, client) = evm().await;
    node.always(Raw {
        status: 200,
        headers: vec![("content-type", "application/json"), ("content-encoding", "gzip")],
        body: SQUEEZED.to_vec(),
    });
    let reply = client.post("eth", r#"{"jsonrpc":"2.0","id":9,"method":"m"}"#).await;
    assert_eq!(
        (reply.text().as_str(), reply.header("content-encoding")),
        (r#"{"jsonrpc":"2.0","id":9,"result":"squeezed"}"#, None)
    );
    let cut = Raw {
        status: 200,
        headers: vec![("content-encoding", "gzip")],
        body: SQUEEZED[..SQUEEZED.len() - 9].to_vec(),
    };
    for bad in [
        cut,
        Raw { status: 200, headers: vec![("content-encoding", "gzip")], body: b"plain".to_vec() },
        Raw { status: 200, headers: vec![("content-encoding", "rot13")], body: b"{}".to_vec() },
    ] {
        node.always(bad);
        assert_eq!(client.post("eth", r#"{"jsonrpc":"2.0","id":9,"method":"m"}"#).await.code(), -32603);
    }
}

// Shows (Routes and bodies): Answers to clients are compressed only on request.
#[tokio::test]
async fn answers_are_compressed_to_the_client_only_on_request() {
    let (node, _gateway, client) = evm().await;
    node.result("m", &format!("\"{}\"", "a".repeat(100_000)));
    let body = br#"{"jsonrpc":"2.0","id":9,"method":"m"}"#;
    let plain = client.send("POST", "/eth", &[], body).await;
    assert_eq!((plain.header("content-encoding"), plain.body.len() > 100_000), (None, true));
    let squeezed = client.send("POST", "/eth", &[("accept-encoding", "gzip")], body).await;
    assert_eq!(squeezed.header("content-encoding"), Some("gzip"));
    assert!(squeezed.body.starts_with(&[0x1f, 0x8b]) && squeezed.body.len() < 10_000);
    let refused = client.send("POST", "/eth", &[("accept-encoding", "gzip;q=0")], body).await;
    assert_eq!(refused.header("content-encoding"), None);
}
