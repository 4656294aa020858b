use crate::*;

#[tokio::test]
async fn a_path_outside_the_catalog_is_answered_404_before_authentication() {
    let (node, gateway, client) = evm().await;
    for path in [
        "/",
        "/nochain",
        "/ETH",
        "/ethereum",
        "/eth//",
        "//eth",
        "/eth/x",
        "/eth/..",
        "/x/../eth",
        "/%65th",
        "/eth;a",
        "/eth%2f",
        "/xlm",
        "/tron/walletsolidity/getnowblock",
        "/tron/event/x",
        "/ws",
        "/wsx/eth",
    ] {
        for client in [&client, &gateway.anonymous()] {
            let reply = client.send("POST", path, &[], br#"{"id":9,"method":"eth_chainId"}"#).await;
            assert_eq!((reply.status, reply.text().as_str()), (404, NO_ROUTE), "{path}");
            assert!(unrated(&reply) && reply.header("x-compute-units").is_none(), "{path}");
        }
    }
    assert_eq!((node.requests(), gateway.records().len()), (0, 0), "no node asked, no usage row");
}

const NO_ROUTE: &str = r#"{"message":"no Route matched with those values"}"#;

#[tokio::test]
async fn a_stream_that_is_not_served_is_answered_404_in_its_own_words() {
    let (_node, gateway, client) = evm().await;
    for path in ["/ws/btc", "/ws/nochain", "/ws/", "/ws/btc?apikey=x"] {
        for verb in ["GET", "POST"] {
            let reply = client.send(verb, path, &[], b"").await;
            let text = r#"{"message":"chain not available at this location"}"#;
            assert_eq!((reply.status, reply.text().as_str()), (404, text), "{verb} {path}");
        }
    }
    assert!(gateway.records().is_empty());
}

#[tokio::test]
async fn a_slash_at_the_end_of_a_chains_path_changes_nothing() {
    let (_node, _gateway, client) = evm().await;
    for path in ["/eth", "/eth/", "/eth?", "/eth/?a=b"] {
        let reply = client.send("POST", path, &[], br#"{"jsonrpc":"2.0","id":9,"method":"m"}"#).await;
        assert_eq!(reply.json()["result"], "ok", "{path}");
    }
}

#[tokio::test]
async fn json_rpc_chains_accept_post_and_say_so() {
    let (_node, gateway, client) = evm().await;
    for verb in ["GET", "HEAD", "PUT", "DELETE", "PATCH", "TRACE", "BREW"] {
        for client in [&client, &gateway.anonymous()] {
            let reply = client.send(verb, "/eth", &[], b"").await;
            assert_eq!(reply.status, 405, "{verb}");
            assert!(reply.header("allow").unwrap().split(", ").any(|method| method == "POST"), "{verb}");
            assert!(unrated(&reply), "{verb}");
        }
    }
    assert!(gateway.records().is_empty(), "no usage row");
}

#[tokio::test]
async fn any_content_type_is_accepted_and_none_is_required() {
    let (node, _gateway, client) = evm().await;
    let body = br#"{"jsonrpc":"2.0","id":9,"method":"m"}"#;
    for kind in [
        "application/json",
        "text/plain",
        "application/x-www-form-urlencoded",
        "garbage",
        "application/json; charset=latin1",
    ] {
        let reply = client.send("POST", "/eth", &[("content-type", kind)], body).await;
        assert_eq!(reply.json()["result"], "ok", "{kind}");
    }
    assert_eq!(client.post("eth", body).await.json()["result"], "ok", "none");
    assert!(node.seen().iter().all(|seen| seen.header("content-type") == Some("application/json")));
}

#[tokio::test]
async fn unknown_query_parameters_are_ignored_and_not_forwarded() {
    let (node, _gateway, client) = evm().await;
    let reply = client
        .send("POST", "/eth?a=b&%00&&=&chainId=5", &[], br#"{"jsonrpc":"2.0","id":9,"method":"m"}"#)
        .await;
    assert_eq!(reply.json()["result"], "ok");
    assert_eq!(node.seen()[0].target, "/");
}
