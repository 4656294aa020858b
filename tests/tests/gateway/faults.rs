//! Broken nodes and broken connections to them: promises 8, 10 and 18 on a small scale. `tests/promises.py` measures
//! them at full size.

use crate::*;
use bytes::Bytes;
use rpcgate_tests::fault::{FaultProxy, Mode};
use std::time::Duration;

/// The expected outcome of calls through a fault mode.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Answered,
    Failed,
    /// Too large for the buffer: streamed if no other call waits for it, otherwise failed.
    Streamed,
}

impl Fate {
    /// Returns the fate of a single call that is not cached.
    fn alone(self) -> Fate {
        if self == Fate::Streamed { Fate::Answered } else { self }
    }

    /// Returns the fate of a call whose answer must be buffered.
    fn held(self) -> Fate {
        if self == Fate::Streamed { Fate::Failed } else { self }
    }
}

fn modes() -> Vec<(Mode, Fate)> {
    use Fate::{Answered, Failed, Streamed};
    vec![
        (Mode::Pass, Answered),
        (Mode::Delay(Duration::from_millis(20)), Answered),
        (Mode::CutAfter(0), Failed),
        (Mode::CutAfter(20), Failed),
        (Mode::CutBodyAfter(0), Failed),
        (Mode::CutBodyAfter(40), Failed),
        (Mode::ResetAfter(0), Failed),
        (Mode::ResetAfter(30), Failed),
        (Mode::HalfClose, Answered),
        (Mode::BlackHole, Failed),
        (Mode::RefuseNew, Failed),
        (Mode::ResetNew, Failed),
        (Mode::Slow { bytes: 16, every: Duration::from_millis(1) }, Answered),
        (Mode::Garbage, Failed),
        (Mode::GarbageBody, Failed),
        (Mode::Oversize(100_000), Streamed),
        (Mode::Oversize(20_000), Answered),
        (Mode::BadLength, Failed),
        (Mode::ExcessBody(Bytes::from_static(b"HTTP/1.1 200 OK\r\ncontent-length: 43\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"planted\"}")), Answered),
        (Mode::EarlyAnswer(Bytes::from_static(b"no json")), Failed),
        (Mode::Informational, Answered),
    ]
}

struct Stand {
    node: Node,
    _other: Node,
    proxy: FaultProxy,
    gateway: TestGateway,
    client: TestClient,
}

async fn stand() -> Stand {
    let node = Node::evm().await;
    let other = Node::evm().await;
    let proxy = FaultProxy::start(node.addr()).await.unwrap();
    let gateway = Setup::of("eth", &proxy.url())
        .node("bsc", &other.url())
        .set("chains.eth", "timeout = \"3s\"")
        .set("gateway", "reply_buffer = \"1KiB\"\nreply_max = \"64KiB\"")
        .start()
        .await;
    let client = gateway.client();
    assert_eq!(client.call("eth", "warm", "[]").await.code(), 0);
    Stand { node, _other: other, proxy, gateway, client }
}

impl Stand {
    /// Applies `mode` to all further calls; if it concerns new connections, closes the open ones.
    fn set(&self, mode: &Mode) {
        self.proxy.set(mode.clone());
        if matches!(mode, Mode::RefuseNew | Mode::ResetNew) {
            self.proxy.reset_open();
        }
    }

    async fn recovers(&self, mode: &Mode) {
        self.proxy.set(Mode::Pass);
        self.gateway.pass(60);
        assert_eq!(self.client.call("eth", "after", "[]").await.json()["result"], "ok", "{mode:?}");
        assert_eq!(
            self.client.batch("eth", &[("after", "[]"), ("after", "[]")]).await.codes(),
            [0, 0],
            "{mode:?}"
        );
    }
}

// Shows (Nodes and cache): A truncated, oversized or undecodable answer never becomes a truncated 200, and is neither
// cached nor charged.
// Shows (Reliability): Broken answers of every kind are backend failures (promise 10).
#[tokio::test]
async fn single_reads_are_answered_completely_or_fail_and_cost_nothing_if_they_fail() {
    for (mode, fate) in modes() {
        let stand = stand().await;
        stand.set(&mode);
        for _ in 0..2 {
            let reply = stand.client.call("eth", "eth_getBalance", "[1]").await;
            assert_eq!(reply.status, 200, "{mode:?}");
            let expected = if fate.alone() == Fate::Answered { (0, 5) } else { (-32603, 0) };
            assert_eq!((reply.code(), reply.cu()), expected, "{mode:?}: {:.200}", reply.text());
            assert!(!reply.text().contains("planted"), "{mode:?}");
        }
        assert_eq!(stand.client.call("bsc", "m", "[]").await.code(), 0, "{mode:?}: another chain");
        stand.recovers(&mode).await;
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn broken_answers_are_never_cached() {
    for (mode, fate) in modes() {
        let stand = stand().await;
        stand.set(&mode);
        let first = stand.client.call("eth", "eth_chainId", "[1]").await;
        let second = stand.client.call("eth", "eth_chainId", "[1]").await;
        match fate.held() {
            Fate::Answered => assert_eq!((first.code(), second.cache()), (0, "HIT"), "{mode:?}"),
            Fate::Failed => {
                assert_eq!(
                    (first.code(), second.code(), second.cache()),
                    (-32603, -32603, "MISS"),
                    "{mode:?}"
                );
                stand.recovers(&mode).await;
                let third = stand.client.call("eth", "eth_chainId", "[1]").await;
                assert_eq!(
                    (third.json()["result"].as_str(), third.cache()),
                    (Some("ok"), "MISS"),
                    "{mode:?}"
                );
            }
            Fate::Streamed => unreachable!("no cached answer streams"),
        }
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn batches_are_answered_completely_or_fail_item_by_item() {
    for (mode, fate) in modes() {
        let stand = stand().await;
        stand.set(&mode);
        let reply = stand
            .client
            .batch("eth", &[("eth_getBalance", "[1]"), ("eth_getBalance", "[2]"), ("admin_x", "[]")])
            .await;
        if fate.held() == Fate::Answered {
            assert_eq!((reply.status, reply.codes(), reply.cu()), (200, vec![0, 0, -32601], 10), "{mode:?}");
        } else {
            assert_eq!(
                (reply.status, reply.codes(), reply.cu()),
                (200, vec![-32603, -32603, -32601], 0),
                "{mode:?}"
            );
        }
        stand.recovers(&mode).await;
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_broadcast_reaches_the_node_at_most_once_and_a_failed_one_is_never_a_success() {
    for (mode, fate) in modes() {
        let stand = stand().await;
        stand.set(&mode);
        for tx in 0..3 {
            let reply = stand.client.call("eth", "eth_sendRawTransaction", &format!("[{tx}]")).await;
            let expected = if fate.alone() == Fate::Answered { (0, 20) } else { (-32603, 0) };
            assert_eq!(
                (reply.status, reply.code(), reply.cu()),
                (200, expected.0, expected.1),
                "{mode:?} {tx}: {} bytes",
                reply.body.len()
            );
        }
        let reply = stand
            .client
            .batch("eth", &[("eth_sendRawTransaction", "[3]"), ("eth_sendRawTransaction", "[4]")])
            .await;
        assert_eq!(reply.status, 200, "{mode:?}");
        stand.recovers(&mode).await;
        for tx in 0..5 {
            let sent = stand
                .node
                .calls()
                .iter()
                .filter(|call| call.method == "eth_sendRawTransaction" && call.params == format!("[{tx}]"))
                .count();
            assert!(sent <= 1, "{mode:?}: {tx} was sent {sent} times");
            assert!(sent == 1 || fate.alone() == Fate::Failed, "{mode:?}: {tx} was never sent");
        }
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_stale_connection_costs_a_read_nothing_and_sends_no_broadcast_twice() {
    let stand = stand().await;
    stand.set(&Mode::StaleKeepAlive);
    for n in 0..5 {
        assert_eq!(stand.client.call("eth", "eth_getBalance", &format!("[{n}]")).await.code(), 0);
    }
    let mut failed = 0;
    for n in 0..5 {
        failed += usize::from(
            stand.client.call("eth", "eth_sendRawTransaction", &format!("[{n}]")).await.code() != 0,
        );
    }
    let sent = stand.node.count("eth_sendRawTransaction");
    assert_eq!(sent + failed, 5, "each was sent once, or said to have failed");
    stand.recovers(&Mode::StaleKeepAlive).await;
}

// Shows (Reliability).
#[tokio::test]
async fn bytes_after_an_answer_never_become_part_of_the_next_one() {
    let stand = stand().await;
    stand.set(&modes().into_iter().find(|(mode, _)| matches!(mode, Mode::ExcessBody(_))).unwrap().0);
    for n in 0..20 {
        let reply = stand.client.call("eth", "eth_getBalance", &format!("[{n}]")).await;
        assert_eq!(reply.json()["result"], "ok");
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn with_one_of_three_nodes_broken_reads_continue() {
    for (mode, _) in
        modes().into_iter().filter(|(mode, fate)| *fate == Fate::Failed && *mode != Mode::BlackHole)
    {
        let nodes = [Node::evm().await, Node::evm().await, Node::evm().await];
        let proxy = FaultProxy::start(nodes[0].addr()).await.unwrap();
        proxy.set(mode.clone());
        let gateway = Setup::of("eth", &proxy.url())
            .node("eth", &nodes[1].url())
            .node("eth", &nodes[2].url())
            .start()
            .await;
        let client = gateway.client();
        for n in 0..12 {
            assert_eq!(client.call("eth", "eth_getBalance", &format!("[{n}]")).await.code(), 0, "{mode:?}");
        }
    }
}

// Shows (Reliability): A hanging chain affects no other chain (promise 9).
#[tokio::test]
async fn a_hanging_chain_uses_only_its_own_slots() {
    let node = Node::utxo().await;
    let other = Node::evm().await;
    let proxy = FaultProxy::start(node.addr()).await.unwrap();
    proxy.set(Mode::BlackHole);
    let setup = Setup::of("btc", &proxy.url()).node("eth", &other.url());
    let gateway = setup.set("chains.btc", "max_in_flight = 8\ntimeout = \"4s\"").start().await;
    let hung: Vec<_> = (0..64)
        .map(|n| {
            let client = gateway.client();
            tokio::spawn(async move { client.call("btc", "getdifficulty", &format!("[{n}]")).await })
        })
        .collect();
    let client = gateway.client();
    for n in 0..100 {
        assert_eq!(client.call("eth", "eth_getBalance", &format!("[{n}]")).await.code(), 0);
    }
    let mut statuses = Vec::new();
    for call in hung {
        let reply = call.await.unwrap();
        assert_eq!(reply.cu(), 0, "neither a call that times out nor one that is refused is charged");
        statuses.push(reply.status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 8, "those time out");
    assert_eq!(statuses.iter().filter(|status| **status == 503).count(), 56, "the rest is refused at once");
}
