//! Many identical calls at the same time.

use crate::*;
use rpcgate_tests::fault::{FaultProxy, Mode};
use tokio::task::JoinHandle;

fn start_calls(gateway: &TestGateway, count: usize, method: &'static str) -> Vec<JoinHandle<TestReply>> {
    let ask = |_| {
        let client = gateway.client();
        tokio::spawn(async move { client.call("eth", method, "[7]").await })
    };
    (0..count).map(ask).collect()
}

async fn all(calls: Vec<JoinHandle<TestReply>>) -> Vec<TestReply> {
    let mut replies = Vec::new();
    for one in calls {
        replies.push(one.await.unwrap());
    }
    replies
}

/// Waits until this number of requests is inside the gateway, each on an open connection.
async fn inside(gateway: &TestGateway, count: usize) {
    until("all clients are connected", || gateway.server.connections() >= count).await;
    // A connection is not yet a request: a few turns of the runtime let the gateway read every request.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

// Shows (Nodes and cache): A cache miss causes one call; if the leading call fails, its followers get the failure.
// Shows (Nodes and cache): Many identical calls are sent once, and the failure of the leading call is not cached
// (promise 16).
#[tokio::test]
async fn simultaneous_identical_calls_ask_the_node_once_and_each_is_charged() {
    let (node, gateway, _) = evm().await;
    node.hold();
    let calls = start_calls(&gateway, 200, "eth_call");
    node.got(1).await;
    inside(&gateway, 200).await;
    node.release();
    let replies = all(calls).await;
    assert_eq!(node.requests(), 1);
    assert!(replies.iter().all(|reply| reply.json()["result"] == "ok" && reply.cu() == 15));
    let missed = replies.iter().filter(|reply| reply.cache() == "MISS").count();
    assert!(missed >= 150, "followers of a miss are answered with MISS: {missed}");
    assert_eq!(gateway.charged(), 3_000);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn the_failure_of_the_leading_call_fails_its_followers_and_is_not_cached() {
    for raw in [
        Raw { status: 500, ..Raw::default() },
        Raw::json(200, "{"),
        Raw::json(429, "{}"),
        Raw::json(200, r#"{"jsonrpc":"2.0"}"#),
    ] {
        let (node, gateway, client) = evm().await;
        node.hold();
        node.always(raw);
        let calls = start_calls(&gateway, 50, "eth_call");
        node.got(1).await;
        inside(&gateway, 50).await;
        node.release();
        let replies = all(calls).await;
        assert!(replies.iter().all(|reply| (reply.code(), reply.cu()) == (-32603, 0)));
        // A single request may arrive late and lead again; that is not a stampede.
        assert!(node.requests() <= 5, "{}", node.requests());
        node.whole(|_| None);
        let reply = client.call("eth", "eth_call", "[7]").await;
        assert_eq!((reply.code(), reply.cache()), (0, "MISS"));
        assert_eq!(gateway.charged(), 15);
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_leading_call_that_is_reset_or_hangs_fails_with_its_followers() {
    for mode in [Mode::ResetAfter(0), Mode::BlackHole, Mode::CutBodyAfter(3)] {
        let node = Node::evm().await;
        let proxy = FaultProxy::start(node.addr()).await.unwrap();
        let gateway = Setup::of("eth", &proxy.url()).set("chains.eth", "timeout = \"4s\"").start().await;
        until("the first question about its height", || proxy.stats().requests >= 1).await;
        proxy.set(mode.clone());
        proxy.reset_open();
        let replies = all(start_calls(&gateway, 50, "eth_call")).await;
        assert!(replies.iter().all(|reply| (reply.code(), reply.cache()) == (-32603, "MISS")), "{mode:?}");
        assert_eq!(replies.iter().map(TestReply::cu).sum::<u64>(), 0, "{mode:?}");
        proxy.set(Mode::Pass);
        let client = gateway.client();
        gateway.pass(60);
        assert_eq!(client.call("eth", "eth_call", "[7]").await.code(), 0, "{mode:?}");
        assert_eq!(client.call("eth", "eth_call", "[7]").await.cache(), "HIT", "{mode:?}");
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn an_answer_that_is_not_final_goes_to_all_followers_and_is_not_cached() {
    let (node, gateway, client) = evm().await;
    node.hold();
    node.result("eth_getTransactionReceipt", "null");
    let calls = start_calls(&gateway, 50, "eth_getTransactionReceipt");
    node.got(1).await;
    inside(&gateway, 50).await;
    node.release();
    assert!(all(calls).await.iter().all(|reply| reply.json()["result"].is_null() && reply.cu() == 5));
    let before = node.requests();
    client.call("eth", "eth_getTransactionReceipt", "[7]").await;
    assert_eq!(node.requests(), before + 1);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn when_the_leading_client_disconnects_its_followers_still_get_their_answer() {
    let (node, gateway, _) = evm().await;
    node.hold();
    let leader = gateway.client();
    let leading = tokio::spawn(async move { leader.call("eth", "eth_call", "[7]").await });
    node.got(1).await;
    let calls = start_calls(&gateway, 20, "eth_call");
    inside(&gateway, 21).await;
    leading.abort();
    until("the leader is gone", || gateway.server.connections() == 20).await;
    node.release();
    assert!(all(calls).await.iter().all(|reply| reply.json()["result"] == "ok"));
    assert_eq!(node.requests(), 1);
    until("the leader's record", || gateway.lines().len() == 21).await;
    assert_eq!(gateway.charged(), 21 * 15, "its call was at the node");
}

// Shows (Nodes and cache).
#[tokio::test]
async fn batches_that_follow_each_others_calls_do_not_deadlock() {
    let (node, gateway, _) = evm().await;
    node.hold();
    let ask = |calls: Vec<(&'static str, &'static str)>| {
        let client = gateway.client();
        tokio::spawn(async move { client.batch("eth", &calls).await })
    };
    let one = ask(vec![("eth_call", "[1]"), ("eth_gasPrice", "[2]"), ("eth_call", "[1]")]);
    let two = ask(vec![("eth_gasPrice", "[2]"), ("eth_call", "[1]"), ("eth_blockNumber", "[3]")]);
    let three = ask(vec![("eth_blockNumber", "[3]"), ("eth_gasPrice", "[2]")]);
    node.got(1).await;
    inside(&gateway, 3).await;
    node.release();
    for reply in [one, two, three] {
        assert!(reply.await.unwrap().codes().iter().all(|code| *code == 0));
    }
    assert_eq!(node.calls().len(), 3);
}
