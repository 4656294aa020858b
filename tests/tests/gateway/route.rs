use crate::*;

// Shows (Errors): A POST to /xlm gets 404.
// Shows (Order of decisions): A refusal of the route precedes authentication: no rate headers, no usage row.
// Shows (Routes and bodies): A path outside the catalog gets 404 with the specified message.
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

// Shows (Errors).
// Shows (Routes and bodies): A stream that is not served gets 404 with the specified message.
#[tokio::test]
async fn a_stream_that_is_not_served_is_answered_404_with_its_own_message() {
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

// Shows (Routes and bodies): A trailing slash changes nothing.
#[tokio::test]
async fn a_slash_at_the_end_of_a_chains_path_changes_nothing() {
    let (_node, _gateway, client) = evm().await;
    for path in ["/eth", "/eth/", "/eth?", "/eth/?a=b"] {
        let reply = client.send("POST", path, &[], br#"{"jsonrpc":"2.0","id":9,"method":"m"}"#).await;
        assert_eq!(reply.json()["result"], "ok", "{path}");
    }
}

// Shows (Order of decisions).
// Shows (Routes and bodies): JSON-RPC chains accept only POST; other methods get 405 with `Allow`.
#[tokio::test]
async fn json_rpc_chains_accept_only_post_and_name_it_in_allow() {
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

// Shows (Routes and bodies): Requests may have any content type or none.
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

// Shows (Routes and bodies): Unknown query parameters are ignored.
#[tokio::test]
async fn unknown_query_parameters_are_ignored_and_not_forwarded() {
    let (node, _gateway, client) = evm().await;
    let reply = client
        .send("POST", "/eth?a=b&%00&&=&chainId=5", &[], br#"{"jsonrpc":"2.0","id":9,"method":"m"}"#)
        .await;
    assert_eq!(reply.json()["result"], "ok");
    assert_eq!(node.seen()[0].target, "/");
}

/// Starts a gateway whose chains have their own hosts, with one node.
async fn hosted() -> (Node, TestGateway) {
    let node = Node::evm().await;
    node.always(Raw::json(200, r#"{"ok":true,"result":"ok","error":null,"jsonrpc":"2.0","id":9}"#));
    let chains = [("eth", "ETH.example.com"), ("tron", "tron.example.com"), ("cosmos", "cosmos.example.com")];
    let setup = chains.iter().fold(Setup::new(), |setup, (chain, host)| {
        let table = format!("chains.{chain}");
        setup.node(chain, &node.url()).set(&table, &format!("hosts = [\"{host}\", \"{chain}.internal\"]"))
    });
    let stream = node.url().replace("http://", "ws://");
    let gateway = setup
        .node("bsc", &node.url())
        .node_with("eth", &node.url(), &format!("ws = \"{stream}\""))
        .start()
        .await;
    // The gateway probes the heights of TRON and Cosmos by paths, which look like calls.
    node.got(2).await;
    (node, gateway)
}

// Shows (Routes and bodies): A chain is at the root of its own hosts over every listener, and at its path everywhere.
#[tokio::test]
async fn a_chain_is_at_the_root_of_its_own_hosts_and_at_its_path_everywhere() {
    let (node, gateway) = hosted().await;
    let client = gateway.client();
    for (verb, host, target, chain, seen) in [
        ("POST", "eth.example.com", "/", "eth", "/"),
        ("POST", "Eth.Example.COM:8443", "/?x=1", "eth", "/"),
        ("POST", "eth.internal", "/eth", "eth", "/"),
        ("POST", "eth.example.com", "/bsc", "bsc", "/"),
        ("POST", "gateway", "/eth", "eth", "/"),
        ("POST", "eth.example.com", "http://other.example/eth", "eth", "/"),
        ("POST", "other.example", "http://eth.example.com/", "eth", "/"),
        ("POST", "tron.example.com", "/wallet/getnowblock", "tron", "/wallet/getnowblock"),
        ("POST", "tron.example.com", "/tron/wallet/getnowblock", "tron", "/wallet/getnowblock"),
        ("GET", "cosmos.example.com", "/cosmos/bank/v1beta1/params", "cosmos", "/cosmos/bank/v1beta1/params"),
        (
            "GET",
            "cosmos.example.com",
            "/cosmos/cosmos/bank/v1beta1/params",
            "cosmos",
            "/cosmos/bank/v1beta1/params",
        ),
    ] {
        let body = br#"{"jsonrpc":"2.0","id":9,"method":"m"}"#;
        let reply = client.send(verb, target, &[("host", host)], body).await;
        assert_eq!(reply.status, 200, "{host} {target}: {reply:?}");
        assert_eq!(gateway.records().last().unwrap().chain.as_str(), chain, "{host} {target}");
        assert_eq!(node.seen().last().unwrap().target, seen, "{host} {target}");
    }
    for (host, target) in [
        ("gateway", "/"),
        ("example.com", "/"),
        ("x.eth.example.com", "/"),
        ("eth.example.com", "/x"),
        ("eth.example.com", "//"),
        ("tron.example.com", "/"),
        ("tron.example.com", "/walletsolidity/getnowblock"),
        ("eth.example.com", "http://other.example/"),
    ] {
        let reply = client.send("POST", target, &[("host", host)], b"{}").await;
        assert_eq!((reply.status, reply.text().as_str()), (404, NO_ROUTE), "{host} {target}");
    }
    let reply = client.send("GET", "/", &[("host", "eth.example.com")], b"").await;
    assert_eq!((reply.status, reply.header("allow")), (405, Some("POST, OPTIONS")));
}

// Shows (Routes and bodies).
#[tokio::test]
async fn a_stream_is_opened_at_the_root_of_its_chains_host() {
    let (_node, gateway) = hosted().await;
    let client = gateway.client();
    // The node does not support WebSocket, so a handshake that reaches it ends there.
    let handshake = |host: &'static str| {
        [
            ("host", host),
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ]
    };
    for (host, target, status) in [
        ("eth.example.com", "/", 502),
        ("gateway", "/ws/eth", 502),
        ("eth.example.com", "/ws/eth", 502),
        ("tron.example.com", "/", 404),
        ("gateway", "/", 404),
        ("eth.example.com", "/x", 404),
    ] {
        let reply = client.send("GET", target, &handshake(host), b"").await;
        assert_eq!(reply.status, status, "{host} {target}: {reply:?}");
    }
}
