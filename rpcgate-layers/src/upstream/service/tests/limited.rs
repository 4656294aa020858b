//! Nodes with limits.

use super::*;
use crate::nodes::NodeSpending;
use rpcgate_core::chain::NodeAllowance;

/// A node at this address with a hard limit of `calls` calls per month.
fn budgeted(node: &ScriptedNode, calls: u64) -> NodeConfig {
    let allowance = NodeAllowance { monthly_calls: Some(calls), ..NodeAllowance::default() };
    NodeConfig::new(node.url().parse().unwrap()).with_allowance(allowance, NodeSpending::default())
}

fn site(nodes: Vec<NodeConfig>) -> Site {
    Site::of(Fixture::new(), PoolFixture::of(nodes, PoolLimits::default()))
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_call_that_every_node_limit_refuses_gets_503_and_costs_nothing() {
    let node = echo().await;
    let site = site(vec![budgeted(&node, 1)]);
    assert_eq!(site.send(r#"{"jsonrpc":"2.0","id":1,"method":"toy_scan"}"#).await.0, 200);
    let refused = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"all nodes are at their limits, retry later"}}"#;
    for _ in 0..2 {
        assert_eq!(
            site.send(r#"{"jsonrpc":"2.0","id":1,"method":"toy_scan"}"#).await,
            (503, refused.to_owned())
        );
    }
    assert_eq!(Refusal::NodesAtLimit.retry_after(), Some(1));
    assert_eq!(node.seen().len(), 1);
    let refusals = site.lines().into_iter().filter(|line| line.2 == Outcome::Refused);
    assert_eq!(refusals.collect::<Vec<_>>(), [(0, 503, Outcome::Refused); 2]);
}

#[tokio::test]
async fn each_call_of_a_batch_counts_and_is_refused_in_position() {
    let node = echo().await;
    let site = site(vec![budgeted(&node, 3)]);
    let batch = r#"[{"id":1,"method":"toy_scan","params":[1]},{"id":2,"method":"toy_scan","params":[2]}]"#;
    let answered = [r#"["toy_scan",[1]]"#, r#"["toy_scan",[2]]"#];
    assert_eq!(site.states_of(batch).await, answered);
    assert_eq!(site.states_of(batch).await, ["Refused(NodesAtLimit)"; 2], "one is left");
    assert_eq!((bodies(&node).len(), site.pool.pool.nodes().next().unwrap().spending.month_calls), (1, 2));
}
