use crate::*;
use std::sync::Arc;

// Shows (Commands and configuration): A drain finishes calls, accepts no new ones, and cuts those that outlast the
// grace period.
// Shows (Commands and configuration): A drain loses no call, closes streams with 1001, and ends with 0 (promise 26).
#[tokio::test]
async fn a_drain_finishes_calls_in_flight_and_accepts_no_new_connection() {
    let (node, gateway, client) = evm().await;
    assert!(gateway.server.ready());
    let mut idle = Connection::open(gateway.addr()).await.unwrap();
    until("both are connected", || gateway.server.connections() >= 1).await;
    node.hold();
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let client = gateway.client();
            tokio::spawn(async move { client.call("eth", "eth_getBalance", "[]").await })
        })
        .collect();
    node.got(5).await;
    let gateway = Arc::new(gateway);
    let draining = tokio::spawn({
        let gateway = gateway.clone();
        async move { gateway.server.drain().await }
    });
    until("it is not ready any more", || !gateway.server.ready()).await;
    assert!(idle.closed().await.is_empty(), "idle connections are not waited for");
    until("nothing is accepted", || std::net::TcpStream::connect(gateway.addr()).is_err()).await;
    node.release();
    for call in calls {
        let reply = call.await.unwrap();
        assert_eq!((reply.json()["result"].as_str(), reply.cu()), (Some("ok"), 5));
    }
    assert_eq!(draining.await.unwrap().cut, 0);
    assert_eq!(gateway.charged(), 25, "every record is in the ledger");
    drop(client);
}

// Shows (Commands and configuration).
#[tokio::test]
async fn calls_that_outlast_the_grace_period_are_cut_and_recorded() {
    let node = Node::evm().await;
    let gateway = Setup::of("eth", &node.url()).set("shutdown", "grace = \"100ms\"").start().await;
    node.hold();
    let mut connection = Connection::open(gateway.addr()).await.unwrap();
    let call = r#"{"jsonrpc":"2.0","id":9,"method":"eth_getBalance"}"#;
    let head = format!(
        "POST /eth HTTP/1.1\r\nhost: h\r\napikey: {}\r\ncontent-length: {}\r\n\r\n",
        key("default"),
        call.len()
    );
    connection.write(format!("{head}{call}").as_bytes()).await.unwrap();
    node.got(1).await;
    assert_eq!(gateway.server.drain().await.cut, 1);
    assert!(connection.closed().await.is_empty(), "cut, and not a cut answer");
    assert_eq!(only_line(&gateway), ("eth_getBalance".into(), Outcome::Abandoned, 5, 499));
    node.release();
}

// Shows (Traces, logs and metrics): Health of the gateway needs no key.
#[tokio::test]
async fn health_needs_no_key() {
    let (_node, gateway, _) = evm().await;
    for path in ["/healthz", "/readyz"] {
        let reply = gateway.anonymous().send("GET", path, &[], b"").await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(unrated(&reply), "{path}");
    }
    assert!(gateway.records().is_empty());
}

// Shows (Commands and configuration): A reload drops no call.
#[tokio::test]
async fn a_reload_drops_no_call_and_no_connection() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url());
    let gateway = setup.start().await;
    let client = gateway.client();
    let tuned = setup.clone().set("chains.eth", "cu = { m = 7 }");
    for round in 0..20 {
        let config = if round % 2 == 0 { &tuned } else { &setup };
        node.hold();
        let late = gateway.client();
        let late = tokio::spawn(async move { late.call("eth", "m", "[]").await.cu() });
        node.got(2 * round + 1).await;
        assert!(gateway.server.reload(config.config()).is_ok());
        node.release();
        let (before, after) = if round % 2 == 0 { (1, 7) } else { (7, 1) };
        assert_eq!(late.await.unwrap(), before, "a call is charged by the weights at its arrival");
        assert_eq!(client.call("eth", "m", "[]").await.cu(), after);
    }
    assert_eq!(gateway.charged(), 20 * 8);
}
