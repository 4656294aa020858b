use crate::*;
use rpcgate_core::clock::ManualClock;
use rpcgate_tests::client::TestClient;
use rpcgate_tests::gateway::{START, Setup, key};
use rpcgate_tests::node::Node;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

fn contents(files: &[PathBuf]) -> Vec<(PathBuf, Vec<u8>)> {
    files.iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

fn put_back(files: &[(PathBuf, Vec<u8>)]) {
    for (file, bytes) in files {
        fs::write(file, bytes).unwrap();
    }
}

/// Returns a site whose gateway was killed under load, and the content of its journal, which is not shipped completely.
async fn killed(nodes: &Nodes, seed: &TestSeed) -> (Site, Vec<(PathBuf, Vec<u8>)>) {
    let site = Site::new(nodes.setup());
    let process = site.start().await;
    let numbers = Arc::<AtomicU64>::default();
    let load = Load::start(process.addr(), 8, seed, &numbers);
    rpcgate_tests::until("some answers", || load.answered() > 400).await;
    process.kill();
    load.end().await;
    let segments = contents(&site.segments());
    assert!(!segments.is_empty());
    (site, segments)
}

// Shows (Reliability): Replay changes nothing (promise 3).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_is_replayed_three_times_changes_nothing() {
    let seed = TestSeed::new();
    let nodes = Nodes::start().await;
    let (site, segments) = killed(&nodes, &seed).await;
    let process = site.start().await;
    let stored = StoredUsage::open(&site).await;
    let sums = stored.by_method(now()).await;
    let events = stored.events().await;
    assert!(charged(&events) > 1_000);
    rollups_agree(&stored, &events).await;
    let (status, log) = process.stop().await;
    assert!(status.success(), "{}", log.text());
    for _ in 0..3 {
        put_back(&segments);
        let process = site.start().await;
        assert_eq!(
            (stored.by_method(now()).await, stored.events().await.len()),
            (sums.clone(), events.len())
        );
        process.kill();
    }
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_two_gateways_replay_at_once_is_billed_once() {
    let seed = TestSeed::new();
    let nodes = Nodes::start().await;
    let (site, _) = killed(&nodes, &seed).await;
    // Both have the journal of the same gateway, as after a copy of its disk, and the same database.
    let twin = Site::beside(&site);
    site.copy_journal(&twin);
    let one = site.spawn();
    let other = twin.spawn();
    let (one, other) = tokio::join!(one.listening(), other.listening());
    tokio::join!(one.ready(), other.ready());
    let stored = StoredUsage::open(&site).await;
    let events = stored.events().await;
    let ids: std::collections::HashSet<_> = events.iter().map(|event| event.request).collect();
    assert_eq!(ids.len(), events.len(), "each request once");
    rollups_agree(&stored, &events).await;
    let mut own = 0;
    for (process, method) in [(&one, "of_one"), (&other, "of_other")] {
        let reply = process.client().call("eth", method, "[]").await;
        assert_eq!(reply.cu(), 1);
        stored.hold(reply.header("x-request-id").unwrap().parse().unwrap()).await;
        own += 1;
    }
    assert_eq!(charged(&stored.events().await), charged(&events) + own, "and both go on");
}

#[tokio::test]
async fn a_segment_that_comes_back_after_it_was_removed_is_not_billed_again() {
    let node = Node::evm().await;
    let site = Site::new(Setup::of("eth", &node.url()));
    let clock = Arc::new(ManualClock::at(START));
    let start = async || site.within(clock.clone()).await;
    let gateway = start().await;
    let client = TestClient::new(gateway.addr(), Some(&key("default")));
    assert_eq!(client.call("eth", "eth_call", "[]").await.cu(), 15);
    let segments = contents(&site.segments());
    assert_eq!(segments.len(), 1);
    // It is sealed after a minute, and removed a minute later.
    let look = async {
        while !site.segments().is_empty() {
            clock.advance(Duration::from_secs(10));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(rpcgate_tests::TIMEOUT, look).await.is_ok(), "it is never removed");
    gateway.drain().await;
    drop(gateway);
    let stored = StoredUsage::open(&site).await;
    assert_eq!(charged(&stored.events().await), 15);
    for _ in 0..3 {
        put_back(&segments);
        let gateway = start().await;
        assert_eq!(charged(&stored.events().await), 15, "billed again");
        rollups_agree(&stored, &stored.events().await).await;
        gateway.drain().await;
    }
}
