use crate::*;
use std::time::Duration;
use tokio::task::JoinHandle;

/// A number of concurrent calls that counts as load.
const MANY: usize = 40;

async fn start(node: &Node) -> TestGateway {
    let setup = Setup::of("btc", &node.url())
        .set("telemetry", "listen = \"127.0.0.1:0\"")
        .set("projects.other", "tenant = \"default\"")
        .key("other", "project = \"other\"");
    setup.start().await
}

/// Sends `calls` calls at once, and waits until each is at the node or answered.
async fn send(node: &Node, gateway: &TestGateway, name: &str, calls: usize) -> Vec<JoinHandle<TestReply>> {
    let before = node.requests();
    let sent: Vec<_> = (0..calls)
        .map(|_| {
            let client = gateway.client_of(name);
            tokio::spawn(async move { client.call("btc", "getdifficulty", "[]").await })
        })
        .collect();
    until("every call is at the node or answered", || {
        let answered = sent.iter().filter(|call| call.is_finished()).count();
        node.requests() - before + answered >= calls
    })
    .await;
    sent
}

/// Sends `MANY` calls, which the node answers after this time. Returns the number of refused ones.
async fn round(node: &Node, gateway: &TestGateway, millis: u64) -> usize {
    node.hold();
    let sent = send(node, gateway, "default", MANY).await;
    gateway.clock.advance(Duration::from_millis(millis));
    node.release();
    let mut refused = 0;
    for call in sent {
        refused += usize::from(call.await.unwrap().status == 503);
    }
    refused
}

/// Makes the node answer much later than usual until its chain has a low limit.
async fn overload(node: &Node, gateway: &TestGateway) {
    for _ in 0..2 {
        assert_eq!(round(node, gateway, 1_000).await, 0);
    }
    let mut refused = 0;
    for _ in 0..5 {
        refused = round(node, gateway, 10_000).await;
    }
    assert!(refused > MANY / 2, "{refused}");
}

async fn metric(gateway: &TestGateway, series: &str) -> Option<u64> {
    let metrics = TestClient::new(gateway.server.metrics_addr().unwrap(), None);
    let page = metrics.send("GET", "/metrics", &[], b"").await.text();
    page.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

// Shows (Hostile and odd traffic): A chain whose answers come much later than usual refuses the excess at once with 503
// and `Retry-After`, uncounted and unbilled, fairly by project and plan, and for at most five seconds after the load
// (promise 15).
#[tokio::test]
async fn an_overloaded_chain_refuses_at_once_without_counting_and_answers_what_it_admits() {
    let node = Node::utxo().await;
    let gateway = start(&node).await;
    overload(&node, &gateway).await;
    let charged = gateway.charged();
    let before = gateway.records().len();
    node.hold();
    let sent = send(&node, &gateway, "default", MANY).await;
    let refused: Vec<_> = sent.iter().map(JoinHandle::is_finished).collect();
    // The refusals arrive while the admitted calls wait for the node.
    assert!(refused.iter().filter(|refused| **refused).count() > MANY / 2);
    node.release();
    let mut admitted = 0;
    let mut units = 0;
    for (call, is_refused) in sent.into_iter().zip(refused) {
        let reply = call.await.unwrap();
        assert_eq!(reply.status == 503, is_refused);
        if !is_refused {
            (admitted, units) = (admitted + 1, units + reply.cu());
            assert_eq!((reply.status, reply.code()), (200, 0));
            continue;
        }
        assert_eq!((reply.code(), reply.cu(), reply.number("retry-after")), (-32603, 0, 1));
        assert!(reply.text().contains("chain overloaded, retry later"), "{}", reply.text());
        assert!(rated(&reply), "it has the state of the windows");
    }
    assert!(admitted >= 4, "{admitted}");
    let records = gateway.records().split_off(before);
    assert_eq!(records.len(), MANY);
    assert_eq!(records.iter().map(|record| record.windowed as usize).sum::<usize>(), admitted);
    assert!(units > 0 && gateway.charged() - charged == units, "{units}");
    let shed = metric(&gateway, "rpcgate_chain_shed_total{chain=\"btc\",reason=\"share\"}").await;
    assert!(shed.is_some_and(|shed| shed as usize >= MANY - admitted), "{shed:?}");
    assert!(metric(&gateway, "rpcgate_chain_limit{chain=\"btc\"}").await.is_some());
}

// Shows (Hostile and odd traffic).
#[tokio::test]
async fn an_overloaded_chain_serves_a_modest_project_and_refuses_a_greedy_one() {
    let node = Node::utxo().await;
    let gateway = start(&node).await;
    overload(&node, &gateway).await;
    node.hold();
    let greedy = send(&node, &gateway, "default", MANY).await;
    let modest = send(&node, &gateway, "other", 1).await;
    assert!(!modest[0].is_finished(), "it is at the node");
    let again = gateway.client().call("btc", "getdifficulty", "[]").await;
    assert_eq!((again.status, again.number("retry-after")), (503, 1));
    // Other chains are not affected.
    assert_ne!(gateway.client().call("eth", "m", "[]").await.status, 503);
    node.release();
    for call in modest {
        assert_eq!(call.await.unwrap().status, 200);
    }
    for call in greedy {
        call.await.unwrap();
    }
    assert_eq!(metric(&gateway, "rpcgate_chain_under_way{chain=\"btc\"}").await, Some(0));
}

// Shows (Hostile and odd traffic).
#[tokio::test]
async fn a_project_is_served_while_the_calls_of_another_one_are_slow() {
    let node = Node::utxo().await;
    let gateway = start(&node).await;
    overload(&node, &gateway).await;
    node.hold();
    let slow = send(&node, &gateway, "default", MANY).await;
    assert!(metric(&gateway, "rpcgate_chain_limit{chain=\"btc\"}").await.is_some());
    // The slow project uses all that the limit allows, and the other one makes a dozen calls at a time.
    let quick = send(&node, &gateway, "other", 12).await;
    assert!(!quick.iter().any(JoinHandle::is_finished), "each is at the node");
    node.release();
    for call in quick {
        assert_eq!(call.await.unwrap().status, 200);
    }
    for call in slow {
        call.await.unwrap();
    }
}

// Shows (Hostile and odd traffic).
#[tokio::test]
async fn everything_is_admitted_and_every_slot_free_five_seconds_after_an_overload() {
    let node = Node::utxo().await;
    let gateway = start(&node).await;
    overload(&node, &gateway).await;
    let client = gateway.client();
    for _ in 0..50 {
        gateway.clock.advance(Duration::from_millis(100));
        assert_eq!(client.call("btc", "getdifficulty", "[]").await.status, 200);
    }
    assert_eq!(round(&node, &gateway, 0).await, 0);
    assert_eq!(metric(&gateway, "rpcgate_chain_under_way{chain=\"btc\"}").await, Some(0));
}

#[tokio::test]
async fn a_disabled_limiter_limits_no_chain() {
    let node = Node::utxo().await;
    let setup = Setup::of("btc", &node.url()).set("gateway.overload", "enabled = false");
    let gateway = setup.start().await;
    for millis in [1_000, 1_000, 10_000, 10_000, 10_000, 10_000, 10_000] {
        assert_eq!(round(&node, &gateway, millis).await, 0);
    }
}
