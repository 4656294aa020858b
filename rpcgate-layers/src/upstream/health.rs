//! What the nodes know of the chain's head.

use super::answer::AnswerBody;
use super::ask::Ask;
use super::node::NodeIndex;
use super::pool::Pool;
use futures_util::future::join_all;
use rpcgate_core::chain::Chain;
use rpcgate_core::envelope::{Replies, replies};
use rpcgate_core::json::DEEPEST;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// How long a node may take to tell its height.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks each node for its newest height, at once and then every `every`, and sets the chain's
/// [`head`](Chain::head) by what they say. Runs until it is dropped.
///
/// The head is the highest height that a node shows; with three nodes or more that answer, the second highest, so that
/// one node alone cannot make the cache take for final what is not. While no node answers, the head stays as it is.
/// Height 0 is that of a node that knows nothing yet.
pub async fn watch_head(pool: Arc<Pool>, chain: Arc<Chain>, every: Duration) {
    let ask = question(&chain);
    // What was last logged of each node: whether it answers.
    let mut logged: Vec<Option<bool>> = vec![None; pool.nodes().len()];
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        pool.sweep();
        let indexes = (0..logged.len()).map(NodeIndex);
        let heights = join_all(indexes.map(|index| height(&pool, &chain, index, &ask))).await;
        for (view, (height, logged)) in pool.nodes().zip(heights.iter().zip(&mut logged)) {
            if let Some(height) = height {
                pool.saw(view.index, *height);
            }
            if logged.replace(height.is_some()) != Some(height.is_some()) {
                match height {
                    Some(height) => {
                        tracing::debug!(chain = %chain.name(), node = %view.name, height, "node answers");
                    }
                    None => {
                        tracing::debug!(chain = %chain.name(), node = %view.name, "node does not tell its height");
                    }
                }
            }
        }
        if let Some(head) = head(heights.into_iter().flatten().collect()) {
            chain.head().set(head);
        }
    }
}

fn question(chain: &Chain) -> Ask {
    let probe = chain.adapter().probe();
    let version = chain.facts().dialect.version();
    let (method, params) = (probe.method, probe.params);
    let call = format!(r#"{{"jsonrpc":{version},"id":1,"method":"{method}","params":{params}}}"#);
    Ask::json_rpc(call.into())
}

async fn height(pool: &Pool, chain: &Chain, index: NodeIndex, ask: &Ask) -> Option<u64> {
    let answer = pool.probe(index, ask, PATIENCE).await.ok()?;
    let AnswerBody::Whole(body) = answer.body else {
        return None;
    };
    let Ok(Replies::Single(reply)) = replies(&body, DEEPEST) else {
        return None;
    };
    let result = reply.result.filter(|_| reply.error.is_none())?;
    chain.adapter().height(result.of(&body)).filter(|height| *height > 0)
}

fn head(mut heights: Vec<u64>) -> Option<u64> {
    heights.sort_unstable_by(|a, b| b.cmp(a));
    match heights[..] {
        [_, second, _, ..] => Some(second),
        [highest, ..] => Some(highest),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::script::{Desk, Script, answer};
    use rpcgate_core::toy::Toy;

    async fn node(result: &str) -> Script {
        Script::always(answer(&format!(r#"{{"jsonrpc":"2.0","id":1,{result}}}"#))).await
    }

    /// Watches until every node was asked `rounds` times; gives back the head.
    async fn watched(results: &[&str], before: u64) -> (Option<u64>, Vec<Option<u64>>) {
        let mut nodes = Vec::new();
        for result in results {
            nodes.push(node(result).await);
        }
        let desk = Desk::new(&nodes.iter().collect::<Vec<_>>());
        let chain = Arc::new(Chain::deployed(Arc::new(Toy)));
        chain.head().set(before);
        let watch = watch_head(desk.pool.clone(), chain.clone(), Duration::from_millis(1));
        // A second round begins only when the first has set the head.
        let second_round = desk.until(|_| nodes.iter().all(|node| node.seen().len() > 1));
        tokio::select! { () = watch => panic!("it runs until it is dropped"), () = second_round => {} }
        let heights = desk.pool.nodes().map(|node| node.height).collect();
        assert!(nodes.iter().all(|node| {
            node.seen()[0].ends_with(r#"{"jsonrpc":"2.0","id":1,"method":"toy_height","params":[]}"#)
        }));
        (chain.head().height(), heights)
    }

    #[tokio::test]
    async fn a_nodes_height_becomes_the_head() {
        assert_eq!(watched(&[r#""result":7"#], 0).await, (Some(7), vec![Some(7)]));
    }

    #[tokio::test]
    async fn of_two_nodes_the_higher_counts_and_of_three_the_second() {
        let (seven, nine, lie) = (r#""result":7"#, r#""result":9"#, r#""result":1000000"#);
        assert_eq!(watched(&[seven, nine], 0).await.0, Some(9));
        assert_eq!(watched(&[lie, seven, nine], 0).await.0, Some(9));
    }

    #[tokio::test]
    async fn a_node_that_knows_nothing_changes_nothing() {
        for result in [
            r#""result":0"#,
            r#""error":{"code":-1}"#,
            r#""result":8,"error":{"code":-1}"#,
            r#""result":"x""#,
        ] {
            assert_eq!(watched(&[result], 5).await, (Some(5), vec![None]), "{result}");
        }
    }

    #[test]
    fn a_head_needs_two_witnesses_where_three_speak() {
        assert_eq!(head(vec![]), None);
        assert_eq!(head(vec![4]), Some(4));
        assert_eq!(head(vec![4, 6]), Some(6));
        assert_eq!(head(vec![4, 6, 9, 5]), Some(6));
    }
}
