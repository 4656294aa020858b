//! Calls of a client that must not see an older head than before.

use super::*;
use crate::nodes::watch_head;
use rpcgate_core::tally::HeadConsistency;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Returns the states of the calls of a client that has seen the height `least`, and the height in the response.
async fn seen(site: &Site, least: u64, body: &'static str) -> (Vec<String>, Option<u64>) {
    let mut calls = site.fixture.calls(body.as_bytes());
    calls.tally_mut().consistency = Some(HeadConsistency { least, shown: None });
    let Ok(calls) = site.upstream.clone().call(calls).await;
    (states(&calls), calls.tally().consistency.unwrap().shown)
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
const ANSWER: &str = r#"whole {"id":0,"result":["a","none"],"jsonrpc":"2.0"}"#;

// Shows (Nodes and cache): A client that sends the height that it has seen is answered only by nodes that have reached
// it, and gets their height.
#[tokio::test]
async fn only_nodes_that_have_reached_the_height_answer_and_their_height_is_returned() {
    let low = echo().await;
    let high = echo().await;
    let unknown = echo().await;
    let site = Site::new(&[&low, &high, &unknown]);
    site.pool.pool.raise_height(0, 90);
    site.pool.pool.raise_height(1, 100);
    for least in [91, 95, 100] {
        for _ in 0..6 {
            assert_eq!(seen(&site, least, CALL).await, (vec![ANSWER.to_owned()], Some(100)));
        }
    }
    assert_eq!((low.seen().len(), high.seen().len(), unknown.seen().len()), (0, 18, 0));
    for _ in 0..12 {
        let (answers, shown) = seen(&site, 90, CALL).await;
        assert!(answers == [ANSWER] && [Some(90), Some(100)].contains(&shown), "{shown:?}");
    }
    assert_eq!(unknown.seen().len(), 0);
    for _ in 0..12 {
        let (_, shown) = seen(&site, 0, CALL).await;
        assert!([None, Some(90), Some(100)].contains(&shown), "{shown:?}");
    }
    assert!(!unknown.seen().is_empty(), "a client that has seen nothing may be shown anything");
}

// Shows (Nodes and cache).
#[tokio::test(start_paused = true)]
async fn a_height_that_no_node_reaches_is_refused_after_a_while_and_nothing_is_sent() {
    let node = echo().await;
    let site = Site::new(&[&node]);
    site.pool.pool.raise_height(0, 90);
    let refused = vec!["Refused(HeadNotReached)".to_owned()];
    assert_eq!(seen(&site, 91, CALL).await, (refused, None));
    assert_eq!((node.seen().len(), site.pool.pool.in_flight()), (0, 0));
    let lines = site.lines();
    assert_eq!(lines, [(0, 503, Outcome::Refused)]);
}

// Shows (Nodes and cache): If no node has reached that height, the call waits for a probe, at most a second, and is
// refused; clients can cause a bounded number of probes.
#[tokio::test]
async fn a_call_waits_for_the_probe_that_shows_its_height() {
    let height = Arc::new(AtomicU64::new(0));
    let node = ScriptedNode::serve(move |_, mut wire: Wire| {
        let height = height.clone();
        async move {
            while let Some(request) = wire.request().await {
                let body = request.split_once("\r\n\r\n").unwrap().1;
                let said = if body.contains("toy_height") {
                    format!(r#"{{"jsonrpc":"2.0","result":{}}}"#, height.fetch_add(1, Relaxed) + 1)
                } else {
                    echoed(body, 0)
                };
                wire.write(answer(&said)).await;
            }
        }
    })
    .await;
    let site = Site::new(&[&node]);
    let watch = watch_head(site.pool.pool.clone(), site.fixture.chain.clone(), Duration::from_secs(3_600));
    tokio::select! {
        () = watch => panic!("it runs until it is dropped"),
        (answers, shown) = seen(&site, 2, CALL) => assert_eq!((answers, shown), (vec![ANSWER.to_owned()], Some(2))),
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_height_that_a_node_returns_to_a_client_is_known_of_it_from_then_on() {
    let told = ScriptedNode::always(answer(r#"{"jsonrpc":"2.0","id":0,"result":120}"#)).await;
    let other = echo().await;
    let mut fallback = NodeConfig::new(other.url().parse().unwrap());
    fallback.priority = 1;
    let nodes = vec![NodeConfig::new(told.url().parse().unwrap()), fallback];
    let site = Site::of(Fixture::new(), PoolFixture::of(nodes, PoolLimits::default()));
    site.pool.pool.raise_height(0, 100);
    site.pool.pool.raise_height(1, 110);
    let height = r#"{"jsonrpc":"2.0","id":1,"method":"toy_height","params":[]}"#;
    assert_eq!(seen(&site, 1, height).await.1, Some(120));
    assert_eq!(seen(&site, 120, height).await.1, Some(120));
    assert_eq!(other.seen().len(), 0);
}

#[tokio::test]
async fn a_call_of_a_batch_that_only_a_node_behind_takes_is_refused_alone() {
    let low = echo().await;
    let high = echo().await;
    let node = |node: &ScriptedNode, only: &[&str], except: &[&str]| {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let methods = rpcgate_core::chain::NodeMethods::new(names(only), names(except));
        NodeConfig::new(node.url().parse().unwrap()).with_methods(methods)
    };
    let nodes = vec![node(&low, &["a"], &[]), node(&high, &[], &["a"])];
    let site = Site::of(Fixture::new(), PoolFixture::of(nodes, PoolLimits::default()));
    site.pool.pool.raise_height(0, 90);
    site.pool.pool.raise_height(1, 100);
    let batch = r#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#;
    let (answers, shown) = seen(&site, 95, batch).await;
    assert_eq!(answers, ["Refused(HeadNotReached)", r#"["b","none"]"#]);
    assert_eq!((shown, low.seen().len()), (Some(100), 0));
    let (answers, shown) = seen(&site, 90, batch).await;
    assert_eq!(answers, [r#"["a","none"]"#, r#"["b","none"]"#]);
    assert_eq!(shown, Some(90), "the lower one of those that answered");
}
