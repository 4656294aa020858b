use super::*;
use crate::nodes::HedgePolicy;
use rpcgate_core::node_try::{NodeChoice, TryEnd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A node that answers its first `good` requests, and then none.
async fn lasting(good: usize) -> ScriptedNode {
    let answered = Arc::new(AtomicUsize::new(0));
    ScriptedNode::serve(move |_, mut wire: Wire| {
        let answered = answered.clone();
        async move {
            while let Some(request) = wire.request().await {
                if answered.fetch_add(1, Relaxed) >= good {
                    return std::future::pending().await;
                }
                wire.write(answer(&echoed(request.split_once("\r\n\r\n").unwrap().1, 0))).await;
            }
        }
    })
    .await
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_hedged_call_is_metered_once_and_both_its_tries_are_explained() {
    let slow = lasting(32).await;
    let good = echo().await;
    let hedge = HedgePolicy::default().with_at_least(Duration::from_millis(20));
    let limits = PoolLimits::default().with_hedge(Some(hedge));
    let nodes = [&slow, &good].map(|node| NodeConfig::new(node.url().parse().unwrap()));
    let site = Site::of(Fixture::new(), PoolFixture::of(nodes.into(), limits));
    for _ in 0..64 {
        site.states_of(r#"{"id":1,"method":"toy_scan"}"#).await;
    }
    let mut hedged = None;
    for _ in 0..4 {
        let calls = site.settle(r#"{"id":1,"method":"toy_scan"}"#).await;
        assert_eq!(states(&calls), [r#"whole {"id":0,"result":["toy_scan","none"],"jsonrpc":"2.0"}"#]);
        let tries = calls.tally().tries.as_slice().to_vec();
        if tries.len() == 2 {
            hedged = Some(tries);
        }
    }
    let hedged = hedged.unwrap();
    assert_eq!((hedged[0].node, hedged[0].end), (0, TryEnd::Stopped));
    assert_eq!((hedged[1].node, hedged[1].end, hedged[1].choice), (1, TryEnd::Answered, NodeChoice::Hedge));
    assert!(hedged[1].calls.has(0));
    assert_eq!(site.lines().len(), 68, "each call has one line");
    assert!(site.lines().iter().all(|line| *line == (75, 200, Outcome::Answered)));
}
