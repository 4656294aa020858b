use crate::*;

// Shows (Routes and bodies): CORS admits any origin, the headers of known clients and the requested ones; it exposes
// limits and the chain's own headers, on refusals too, is cached for a day, and needs no key.
#[tokio::test]
async fn a_preflight_needs_no_key_and_may_be_cached_for_a_day() {
    let (node, gateway, _) = evm().await;
    let asks = [
        ("origin", "https://dapp.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "apikey, content-type"),
    ];
    let reply = gateway.anonymous().send("OPTIONS", "/eth", &asks, b"").await;
    assert!(matches!(reply.status, 200 | 204), "{reply:?}");
    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
    assert_eq!(reply.header("access-control-max-age"), Some("86400"));
    assert!(reply.header("access-control-allow-methods").unwrap().contains("POST"));
    assert_eq!((node.requests(), gateway.records().len()), (0, 0));
}

// Shows (Routes and bodies).
#[tokio::test]
async fn a_preflight_allows_what_known_clients_send_and_what_it_requests() {
    let (_node, gateway, _) = evm().await;
    for requested in ["", "apikey", "baggage, sentry-trace,tron-pro-api-key", "TraceParent"] {
        let asks = [("access-control-request-headers", requested)];
        let reply = gateway.anonymous().send("OPTIONS", "/btc", &asks, b"").await;
        let allowed = reply.header("access-control-allow-headers").unwrap().to_lowercase();
        let always = [
            "apikey",
            "x-api-key",
            "authorization",
            "content-type",
            "x-ton-client-version",
            "client-sdk-type",
            "client-sdk-version",
            "client-target-api-version",
            "client-request-method",
            "x-aptos-client",
            "x-aptos-typescript-sdk-origin-method",
            "x-cosmos-block-height",
            "traceparent",
            "tracestate",
        ];
        let requested = requested.to_lowercase();
        let requested = requested.split(',').map(str::trim).filter(|name| !name.is_empty());
        for name in always.into_iter().chain(requested) {
            assert!(allowed.split(", ").any(|header| header == name), "{name}");
        }
        assert!(reply.header("access-control-allow-credentials").is_none());
    }
}

// Shows (Routes and bodies).
#[tokio::test]
async fn a_script_may_read_the_headers_that_a_chains_api_defines() {
    let node = Node::evm().await;
    node.always(Raw {
        status: 200,
        headers: vec![
            ("content-type", "application/json"),
            ("x-aptos-cursor", "0xabc"),
            ("x-cosmos-block-height", "77"),
            ("grpc-metadata-x-cosmos-block-height", "77"),
        ],
        body: b"{}".to_vec(),
    });
    let gateway = Setup::of("aptos", &node.url()).node("cosmos", &node.url()).start().await;
    for (path, names) in [
        ("/aptos/v1/accounts/0x1/modules", &["x-aptos-cursor"][..]),
        (
            "/cosmos/cosmos/bank/v1beta1/params",
            &["x-cosmos-block-height", "grpc-metadata-x-cosmos-block-height"],
        ),
    ] {
        let reply = gateway.client().send("GET", path, &[("origin", "https://a.example")], b"").await;
        let exposed = reply.header("access-control-expose-headers").unwrap();
        for name in names.iter().chain(&RATE) {
            assert!(exposed.split(", ").any(|header| header == *name), "{path}: {name}");
        }
        let all = ["x-aptos-cursor", "x-cosmos-block-height", "grpc-metadata-x-cosmos-block-height"];
        for name in all {
            assert_eq!(reply.header(name).is_some(), names.contains(&name), "{path}: {name}");
        }
    }
}

// Shows (Routes and bodies).
#[tokio::test]
async fn answers_and_refusals_may_be_read_by_any_origin_with_their_limits() {
    let (_node, gateway, client) = evm().await;
    let answered = client.call("eth", "m", "[]").await;
    let anonymous = gateway.anonymous().call("eth", "m", "[]").await;
    let nowhere = client.call("nochain", "m", "[]").await;
    let unread = client.post("eth", "{").await;
    let forbidden = client.call("eth", "debug_x", "[]").await;
    for reply in [answered, anonymous, nowhere, unread, forbidden] {
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"), "{reply:?}");
        let exposed = reply.header("access-control-expose-headers").unwrap().to_lowercase();
        for name in RATE.iter().chain(&["retry-after", "x-request-id", "x-compute-units", "x-cache"]) {
            assert!(exposed.split(", ").any(|header| header == *name), "{name}");
        }
    }
}
