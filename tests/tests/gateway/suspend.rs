use crate::*;

// Shows (Errors): A suspended tenant gets 402.
// Shows (Order of decisions): A request refused after authentication and before its body is read is one usage call `-`.
#[tokio::test]
async fn every_request_of_a_suspended_tenant_is_answered_402() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .set("tenants.default", "suspended = true")
        .key("narrow", r#"chains = ["btc"]"#);
    let gateway = setup.start().await;
    let text = r#"{"message":"account suspended — contact your administrator"}"#;
    let long = format!("[{}]", vec![r#"{"id":1,"method":"a"}"#; 101].join(","));
    for (name, chain, body) in [
        ("default", "eth", r#"{"id":9,"method":"eth_chainId"}"#),
        ("default", "eth", "{"),
        ("default", "eth", &long),
        ("default", "bsc", r#"{"id":9,"method":"eth_chainId"}"#),
        ("narrow", "eth", r#"{"id":9,"method":"debug_x"}"#),
    ] {
        let reply = gateway.client_of(name).post(chain, body).await;
        assert_eq!((reply.status, reply.text().as_str()), (402, text), "{name} {chain} {body}");
        assert!(rated(&reply));
        assert_eq!(reply.number("x-ratelimit-remaining-minute"), 1_000, "no window is used");
        assert_eq!(reply.cu(), 0);
    }
    let lines = gateway.lines();
    assert!(
        lines.len() == 5
            && lines.iter().all(|line| (line.method.as_str(), line.status, line.cu) == ("-", 402, 0))
    );
    assert_eq!(node.requests(), 0);
}

// Shows (Management).
#[tokio::test]
async fn a_tenant_that_is_reactivated_is_served_at_once_by_the_same_keys() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url());
    let suspended = setup.clone().set("tenants.default", "suspended = true");
    let gateway = suspended.start().await;
    let client = gateway.client();
    assert_eq!(client.call("eth", "m", "[]").await.status, 402);
    for (config, status) in [(setup.config(), 200), (suspended.config(), 402), (setup.config(), 200)] {
        assert!(gateway.server.reload(config).is_ok());
        assert_eq!(client.call("eth", "m", "[]").await.status, status);
    }
}
