use crate::*;

const CALL: &str = r#"{"jsonrpc":"2.0","id":9,"method":"m"}"#;

fn head(extra: &str) -> String {
    format!("POST /eth HTTP/1.1\r\nhost: h\r\napikey: {}\r\n{extra}\r\n", key("default"))
}

/// Returns the answer to these bytes on a new connection.
async fn raw(gateway: &TestGateway, bytes: &[u8]) -> TestReply {
    let mut connection = Connection::open(gateway.addr()).await.unwrap();
    // The server may answer and close before it has read everything.
    let _ = connection.write(bytes).await;
    connection.read(false).await.unwrap()
}

fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = head("transfer-encoding: chunked\r\n").into_bytes();
    for chunk in body.chunks(size) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

fn sized(bytes: usize) -> String {
    let call = r#"{"jsonrpc":"2.0","id":9,"method":"m","params":[""]}"#;
    call.replace("\"\"", &format!("\"{}\"", "a".repeat(bytes - call.len())))
}

// Shows (Other limits): Bodies have at most 5 MiB; a larger one gets 413, -32600.
#[tokio::test]
async fn a_body_may_have_5_mib_and_not_a_byte_more() {
    let (node, gateway, client) = evm().await;
    let limit = 5 << 20;
    assert_eq!(client.post("eth", sized(limit)).await.json()["result"], "ok");
    let reply = client.post("eth", sized(limit + 1)).await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (413, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"request too large"}}"#)
    );
    assert_eq!((reply.number("x-ratelimit-remaining-minute"), reply.cu()), (999, 0));
    assert_eq!(node.requests(), 1);
    let line = gateway.lines().pop().unwrap();
    assert_eq!((line.method.as_str(), line.status, line.outcome), ("-", 413, Outcome::Refused));
}

// Shows (Other limits).
#[tokio::test]
async fn the_limit_applies_to_bodies_without_a_stated_length() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url()).set("gateway.limits", "body = \"64KiB\"").start().await;
    assert_eq!(raw(&gateway, &chunked(sized(65_536).as_bytes(), 1_000)).await.json()["result"], "ok");
    assert_eq!(raw(&gateway, &chunked(sized(65_537).as_bytes(), 1_000)).await.status, 413);
    assert_eq!(
        raw(&gateway, head("content-length: 99999999999\r\n").as_bytes()).await.status,
        413,
        "refused unread"
    );
    assert_eq!(node.requests(), 1);
}

// Shows (Hostile and odd traffic): All bodies in memory together are bounded; a request beyond the bound gets 503 with
// `Retry-After`.
// Shows (Reliability): Huge bodies and batches are refused (promise 12).
#[tokio::test]
async fn many_large_bodies_at_once_share_one_limit_and_the_others_get_503() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url())
        .set("gateway.limits", "body = \"1MiB\"\nbodies_total = \"4MiB\"")
        .start()
        .await;
    node.hold();
    let body = sized(1 << 20);
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let client = gateway.client();
            let body = body.clone();
            tokio::spawn(async move { client.post("eth", body).await })
        })
        .collect();
    until("half of them are refused", || gateway.records().len() >= 4).await;
    node.release();
    let mut statuses = Vec::new();
    for call in calls {
        let reply = call.await.unwrap();
        assert!(reply.status == 200 || reply.number("retry-after") >= 1, "{reply:?}");
        statuses.push(reply.status);
    }
    let refused = statuses.iter().filter(|status| **status == 503).count();
    assert!(
        (4..8).contains(&refused) && statuses.iter().all(|status| matches!(status, 200 | 503)),
        "{statuses:?}"
    );
    assert_eq!(gateway.client().post("eth", body).await.status, 200, "held memory is released");
}

// Shows (Hostile and odd traffic): One project leaves memory and slots for the others: beyond its share it gets 503
// with `Retry-After: 1` (promise 60).
#[tokio::test]
async fn slow_uploads_of_one_project_leave_memory_for_the_others() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url())
        .set("gateway.limits", "body = \"1MiB\"\nbodies_total = \"4MiB\"")
        .set("projects.other", "tenant = \"default\"")
        .key("other", "project = \"other\"")
        .start()
        .await;
    let begun = head("content-length: 700000\r\n") + &" ".repeat(600_000);
    let mut uploads: Vec<_> = (0..12)
        .map(|_| {
            let addr = gateway.addr();
            let begun = begun.clone();
            tokio::spawn(async move {
                let mut upload = Connection::open(addr).await.unwrap();
                // The request may be refused before it is written completely.
                let _ = upload.write(begun.as_bytes()).await;
                upload.read(false).await
            })
        })
        .collect();
    until("most of them are refused", || gateway.records().len() >= 10).await;
    let body = sized(200_000);
    let other = gateway.client_of("other");
    for _ in 0..20 {
        assert_eq!(other.post("eth", body.clone()).await.status, 200);
    }
    let mut waiting = 0;
    for upload in uploads.drain(..) {
        if !upload.is_finished() {
            waiting += 1;
            upload.abort();
        } else if let Ok(reply) = upload.await.unwrap() {
            assert_eq!((reply.status, reply.number("retry-after")), (503, 1));
        }
    }
    assert_eq!(waiting, 2, "three quarters of the memory are not more");
    let client = gateway.client();
    until("their clients are gone", || gateway.server.connections() == 1).await;
    assert_eq!(client.post("eth", body).await.status, 200, "held memory is released");
}

// Shows (Hostile and odd traffic).
#[tokio::test]
async fn answers_of_nodes_count_in_the_same_limit() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url())
        .set("gateway.limits", "body = \"64KiB\"\nbodies_total = \"256KiB\"")
        .start()
        .await;
    node.result("eth_call", &format!("\"{}\"", "a".repeat(300 << 10)));
    let client = gateway.client();
    let reply = client.call("eth", "eth_call", "[]").await;
    assert_eq!((reply.status, reply.cu()), (503, 0));
    assert!(reply.number("retry-after") >= 1);
    assert_eq!(client.call("eth", "m", "[]").await.status, 200);
}

// Shows (Other limits): More than 100 headers, or more than 16 KiB of them, get 431.
// Shows (Order of decisions).
// Shows (Reliability): Huge heads are refused (promise 13).
#[tokio::test]
async fn more_than_100_headers_or_16_kib_of_them_are_refused_before_authentication() {
    let (node, gateway, client) = evm().await;
    let many = |count: usize| (0..count).map(|n| format!("x-{n}: a\r\n")).collect::<String>();
    // Host, key and length are three of them.
    let with = |extra: &str| format!("{}{CALL}", head(&format!("{extra}content-length: {}\r\n", CALL.len())));
    assert_eq!(raw(&gateway, with(&many(97)).as_bytes()).await.status, 200);
    for extra in [
        many(98),
        many(200),
        many(1_000),
        format!("x-large: {}\r\n", "a".repeat(16 << 10)),
        format!("x-large: {}\r\n", "a".repeat(300_000)),
    ] {
        let reply = raw(&gateway, with(&extra).as_bytes()).await;
        assert_eq!(reply.status, 431, "{extra:.40}");
        assert!(unrated(&reply), "no rate headers");
    }
    assert_eq!(
        raw(&gateway, with(&format!("x-large: {}\r\n", "a".repeat(15 << 10))).as_bytes()).await.status,
        200
    );
    assert_eq!((node.requests(), gateway.records().len()), (2, 2));
    assert_eq!(client.call("eth", "m", "[]").await.status, 200);
}

// Shows (Order of decisions).
// Shows (Routes and bodies): A URI of more than 8 KiB gets 414.
#[tokio::test]
async fn a_uri_of_more_than_8_kib_is_refused_before_authentication() {
    let (node, gateway, client) = evm().await;
    let of = |bytes: usize| format!("/eth?{}", "a".repeat(bytes - 5));
    assert_eq!(client.send("POST", &of(8_192), &[], CALL.as_bytes()).await.status, 200);
    for bytes in [8_193, 20_000, 60_000, 100_000] {
        for client in [client.another(), gateway.anonymous()] {
            let reply = client.send("POST", &of(bytes), &[], CALL.as_bytes()).await;
            // Far beyond the limit the head is rejected before it is known which part is too long.
            assert!(
                reply.status == 414 || bytes > 32 << 10 && reply.status == 431,
                "{bytes}: {}",
                reply.status
            );
            assert!(unrated(&reply));
        }
    }
    assert_eq!((node.requests(), gateway.records().len()), (1, 1));
}

// Shows (Hostile and odd traffic): Slow heads, slow bodies and idle connections are closed.
#[tokio::test]
async fn slow_heads_are_cut() {
    let node = Node::evm().await;
    let gateway =
        Setup::of("eth", &node.url()).set("gateway.limits", "header_timeout = \"500ms\"").start().await;
    let mut slow = Connection::open(gateway.addr()).await.unwrap();
    slow.write(b"POST /eth HTTP/1.1\r\nhost: h\r\nx-slow: ").await.unwrap();
    slow.closed().await;
    let mut second = Connection::open(gateway.addr()).await.unwrap();
    let whole = format!("{}{CALL}", head(&format!("content-length: {}\r\n", CALL.len())));
    second.write(whole.as_bytes()).await.unwrap();
    assert_eq!(second.read(false).await.unwrap().status, 200);
    second.write(b"POST /eth HT").await.unwrap();
    second.closed().await;
    assert_eq!(node.requests(), 1);
}

// Shows (Hostile and odd traffic).
#[tokio::test]
async fn slow_bodies_are_refused() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url()).set("gateway.limits", "body_grace = \"1s\"").start().await;
    let mut slow = Connection::open(gateway.addr()).await.unwrap();
    slow.write(head("content-length: 4096\r\n").as_bytes()).await.unwrap();
    slow.write(b"{\"id\":").await.unwrap();
    let reply = slow.read(false).await.unwrap();
    assert_eq!((reply.status, reply.header("connection")), (408, Some("close")));
    assert!(rated(&reply));
    slow.closed().await;
    assert_eq!(only_line(&gateway), ("-".into(), Outcome::Refused, 0, 408));
    assert_eq!(node.requests(), 0);
}

// Shows (Hostile and odd traffic).
#[tokio::test]
async fn idle_connections_are_closed() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url()).set("gateway.limits", "idle_timeout = \"1s\"").start().await;
    let mut never_used = Connection::open(gateway.addr()).await.unwrap();
    let mut used = Connection::open(gateway.addr()).await.unwrap();
    used.write(format!("{}{CALL}", head(&format!("content-length: {}\r\n", CALL.len()))).as_bytes())
        .await
        .unwrap();
    assert_eq!(used.read(false).await.unwrap().status, 200);
    assert!(never_used.closed().await.is_empty());
    assert!(used.closed().await.is_empty());
    until("all connections have ended", || gateway.server.connections() == 0).await;
}

// Shows (Hostile and odd traffic).
#[tokio::test]
async fn a_connection_with_a_call_at_a_node_is_not_idle() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url())
        .set("gateway.limits", "idle_timeout = \"500ms\"\nheader_timeout = \"500ms\"")
        .start()
        .await;
    node.always(Raw::json(200, r#"{"jsonrpc":"2.0","id":9,"result":"late"}"#));
    node.hold();
    let client = gateway.client();
    let call = tokio::spawn(async move { client.post("eth", CALL).await });
    node.got(1).await;
    let mut other = Connection::open(gateway.addr()).await.unwrap();
    other.closed().await;
    node.release();
    assert_eq!(call.await.unwrap().json()["result"], "late");
}

// Shows (Hostile and odd traffic): Ambiguous framing smuggles no request (promise 42).
#[tokio::test]
async fn ambiguous_framing_smuggles_no_request() {
    let (node, gateway, client) = evm().await;
    let inner = format!(
        "POST /eth HTTP/1.1\r\nhost: h\r\napikey: {}\r\ncontent-length: 42\r\n\r\n{}",
        key("default"),
        r#"{"jsonrpc":"2.0","id":8,"method":"hidden"}"#
    );
    for framing in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5, 6\r\n",
        "content-length: -1\r\n",
        "content-length: +5\r\n",
        "content-length: 0x5\r\n",
        "content-length: 5 5\r\n",
        "content-length: 18446744073709551616\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: identity\r\n",
        "transfer-encoding : chunked\r\n",
        "transfer-encoding: chunked\r\n folded\r\n",
        "content-length : 5\r\n",
    ] {
        let bytes = format!("{}{}", head(framing), inner);
        let mut connection = Connection::open(gateway.addr()).await.unwrap();
        let _ = connection.write(bytes.as_bytes()).await;
        let reply = connection.read(false).await;
        assert!(reply.as_ref().is_ok_and(|reply| reply.status >= 400), "{framing:?}: {reply:?}");
        connection.closed().await;
    }
    for chunk in [
        "5;a\r\nx\r\n",
        "g\r\n",
        "-1\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\n",
        "0x1\r\na\r\n0\r\n\r\n",
    ] {
        let bytes = format!("{}{chunk}{inner}", head("transfer-encoding: chunked\r\n"));
        let mut connection = Connection::open(gateway.addr()).await.unwrap();
        let _ = connection.write(bytes.as_bytes()).await;
        drop(connection);
    }
    client.call("eth", "m", "[]").await;
    assert_eq!(node.count("hidden"), 0, "{:?}", node.seen());
}

// Shows (Hostile and odd traffic).
#[tokio::test]
async fn a_request_with_both_lengths_is_served_at_most_once_and_closes_the_connection() {
    let (node, gateway, client) = evm().await;
    let hidden = format!(
        "POST /eth HTTP/1.1\r\nhost: h\r\napikey: {}\r\ncontent-length: 42\r\n\r\n{}",
        key("default"),
        r#"{"jsonrpc":"2.0","id":8,"method":"hidden"}"#
    );
    for framing in [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
    ] {
        let body = format!("{:x}\r\n{CALL}\r\n0\r\n\r\n{hidden}", CALL.len());
        let mut connection = Connection::open(gateway.addr()).await.unwrap();
        let _ = connection.write(format!("{}{body}", head(framing)).as_bytes()).await;
        let _ = connection.closed().await;
    }
    client.call("eth", "last", "[]").await;
    assert_eq!(node.count("hidden"), 0);
}

// Shows (Hostile and odd traffic).
#[tokio::test]
async fn several_requests_are_served_on_one_connection() {
    let (node, gateway, _) = evm().await;
    let one = |id: u32| {
        let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        format!("{}{call}", head(&format!("content-length: {}\r\n", call.len())))
    };
    let mut connection = Connection::open(gateway.addr()).await.unwrap();
    let all: String = (10..30).map(one).collect();
    connection.write(all.as_bytes()).await.unwrap();
    for id in 10..30 {
        assert_eq!(connection.read(false).await.unwrap().json()["id"], id);
    }
    assert_eq!(node.requests(), 20);
}

#[tokio::test]
async fn a_client_that_disconnects_while_sending_reaches_no_node() {
    let (node, gateway, client) = evm().await;
    let mut leaving = Connection::open(gateway.addr()).await.unwrap();
    leaving.write(head("content-length: 100\r\n").as_bytes()).await.unwrap();
    leaving.write(CALL.as_bytes()).await.unwrap();
    drop(leaving);
    client.call("eth", "m", "[]").await;
    until("it is gone", || gateway.server.connections() <= 1).await;
    assert_eq!(node.requests(), 1);
    assert_eq!(gateway.charged(), 1);
}

// Shows (Hostile and odd traffic): All these limits have the specified defaults.
#[test]
fn every_limit_has_a_default() {
    let config = Setup::new().config();
    let limits = &config.gateway.limits;
    let secs = std::time::Duration::from_secs;
    assert_eq!((limits.body, limits.bodies_total), (5 << 20, 256 << 20));
    assert_eq!((limits.headers, limits.header_count, limits.uri), (16 << 10, 100, 8 << 10));
    assert_eq!((limits.header_timeout, limits.body_grace, limits.body_rate), (secs(10), secs(10), 1_024));
    assert_eq!(limits.idle_timeout, secs(75));
    assert!(EVM.iter().chain(&UTXO).all(|chain| config.chains[*chain].timeout == secs(30)));
    assert_eq!(config.shutdown.grace, secs(30));
}

// Shows (Routes and bodies): `Expect: 100-continue`, HTTP/1.0 clients and proxy requests are served.
#[tokio::test]
async fn expect_100_continue_is_confirmed_or_refused_at_once() {
    let (node, gateway, _) = evm().await;
    let mut asking = Connection::open(gateway.addr()).await.unwrap();
    let expecting = |length: usize| head(&format!("expect: 100-continue\r\ncontent-length: {length}\r\n"));
    asking.write(expecting(CALL.len()).as_bytes()).await.unwrap();
    assert_eq!(asking.read(true).await.unwrap().status, 100);
    asking.write(CALL.as_bytes()).await.unwrap();
    assert_eq!(asking.read(false).await.unwrap().json()["result"], "ok");
    let mut large = Connection::open(gateway.addr()).await.unwrap();
    large.write(expecting(6 << 20).as_bytes()).await.unwrap();
    assert_eq!(large.read(false).await.unwrap().status, 413);
    assert_eq!(node.requests(), 1);
}

// Shows (Routes and bodies).
#[tokio::test]
async fn http_1_0_and_proxy_requests_are_served() {
    let (_node, gateway, _) = evm().await;
    let length = CALL.len();
    let key = key("default");
    for start in ["POST http://gateway.example/eth HTTP/1.1\r\nhost: gateway.example", "POST /eth HTTP/1.0"] {
        let request = format!("{start}\r\napikey: {key}\r\ncontent-length: {length}\r\n\r\n{CALL}");
        assert_eq!(raw(&gateway, request.as_bytes()).await.json()["result"], "ok", "{start}");
    }
    for start in [
        "POST /eth HTTP/1.1",
        "POST /eth HTTP/9.9\r\nhost: h",
        "POST  /eth HTTP/1.1\r\nhost: h",
        "PRI * HTTP/2.0",
    ] {
        let request = format!("{start}\r\napikey: {key}\r\ncontent-length: {length}\r\n\r\n{CALL}");
        let mut connection = Connection::open(gateway.addr()).await.unwrap();
        let _ = connection.write(request.as_bytes()).await;
        let reply = connection.read(false).await;
        assert!(!reply.as_ref().is_ok_and(|reply| reply.status >= 500), "{start}: {reply:?}");
    }
}

// Shows (Hostile and odd traffic): A request without exactly one valid host, or with a transfer coding other than one
// `chunked`, is refused.
#[tokio::test]
async fn an_invalid_host_or_transfer_coding_is_refused_and_reaches_no_node() {
    let (node, gateway, _) = evm().await;
    let request = |hosts: &str, framing: &str, body: &str| {
        format!("POST /eth HTTP/1.1\r\n{hosts}apikey: {}\r\n{framing}\r\n{body}", key("default")).into_bytes()
    };
    let length = format!("content-length: {}\r\n", CALL.len());
    let chunks = format!("{:x}\r\n{CALL}\r\n0\r\n\r\n", CALL.len());
    let rows = [
        request("", &length, CALL),
        request("host: a\r\nhost: a\r\n", &length, CALL),
        request("host: a b\r\n", &length, CALL),
        request("host: a/b\r\n", &length, CALL),
        request("host: a\r\n", "transfer-encoding: gzip, chunked\r\n", &chunks),
        request("host: a\r\n", "transfer-encoding: chunked, chunked\r\n", &chunks),
        request("host: a\r\n", "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", &chunks),
        request("host: a\r\n", "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n", &chunks),
    ];
    for row in rows {
        let reply = raw(&gateway, &row).await;
        let shown = String::from_utf8_lossy(&row);
        assert_eq!((reply.status, reply.header("connection")), (400, Some("close")), "{shown}");
    }
    assert_eq!(node.requests(), 0);
    let good = [
        request("host: a\r\n", &length, CALL),
        request("host: [::1]:80\r\n", "transfer-encoding: chunked\r\n", &chunks),
    ];
    for row in good {
        assert_eq!(raw(&gateway, &row).await.status, 200);
    }
    assert_eq!(node.requests(), 2);
}

fn packed(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, plain).unwrap();
    encoder.finish().unwrap()
}

// Shows (Hostile and odd traffic): A gzip body is decoded within the limit of a body; other codings, and any on a REST
// chain, get 415 with `Accept-Encoding`.
#[tokio::test]
async fn a_compressed_body_is_decoded_within_the_limit_on_json_rpc_chains_only() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url()).node("aptos", &node.url()).start().await;
    // The gateway probes the height of Aptos by a path, which looks like a call.
    node.got(1).await;
    let client = gateway.client();
    let send = async |path: &str, coding: &str, body: &[u8]| {
        let headers = [("content-encoding", coding), ("content-type", "application/json")];
        client.send("POST", path, &headers, body).await
    };
    let reply = send("/eth", "gzip", &packed(CALL.as_bytes())).await;
    assert_eq!(reply.json()["result"], "ok");
    let seen = node.seen().pop().unwrap();
    assert_eq!((seen.header("content-encoding"), seen.calls.len()), (None, 1));
    assert_eq!(gateway.lines().pop().unwrap().bytes_in as usize, CALL.len());
    assert_eq!(send("/eth", "gzip", &packed(sized(5 << 20).as_bytes())).await.json()["result"], "ok");
    let bomb = send("/eth", "gzip", &packed(sized((5 << 20) + 1).as_bytes())).await;
    assert_eq!((bomb.status, bomb.code()), (413, -32600));
    for (coding, body) in [("br", packed(b"{}")), ("gzip, gzip", packed(&packed(b"{}")))] {
        let refused = send("/eth", coding, &body).await;
        assert_eq!((refused.status, refused.header("accept-encoding")), (415, Some("gzip")), "{coding}");
    }
    let before = node.requests();
    let refused = send("/aptos/v1/transactions", "gzip", &packed(b"{}")).await;
    assert_eq!((refused.status, refused.header("accept-encoding")), (415, Some("identity")));
    assert!(rated(&refused));
    assert_eq!(node.requests(), before);
}
