use crate::*;

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

#[tokio::test]
async fn the_allowed_headers_are_one_fixed_list() {
    let (_node, gateway, _) = evm().await;
    let mut lists = Vec::new();
    for asked in ["apikey", "x-something-else", ""] {
        let reply = gateway
            .anonymous()
            .send("OPTIONS", "/btc", &[("access-control-request-headers", asked)], b"")
            .await;
        lists.push(reply.header("access-control-allow-headers").unwrap().to_owned());
    }
    assert!(lists[0] == lists[1] && lists[1] == lists[2]);
    for name in [
        "apikey",
        "x-api-key",
        "content-type",
        "x-ton-client-version",
        "client-sdk-type",
        "client-sdk-version",
        "client-target-api-version",
        "client-request-method",
        "x-aptos-client",
        "x-aptos-typescript-sdk-origin-method",
        "x-cosmos-block-height",
    ] {
        assert!(lists[0].split(", ").any(|header| header == name), "{name}");
    }
}

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
