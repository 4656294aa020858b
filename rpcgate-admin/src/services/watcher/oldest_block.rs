//! Finds the oldest block that a node still has, for a watcher that was stopped for longer than nodes keep blocks.

use super::bounded_calls::BoundedCalls;
use rpcgate_core::event::{BlockReader, BlockRef, EventFilter, NodeCalls, ReadError};

/// Returns the first block above `height` that a node has, or `None` if it has no such block or does not find blocks by
/// height. A pruning node has every block from some height on, which is found by bisection, in at most as many steps as
/// a height has bits.
pub(super) async fn oldest_above(
    reader: &dyn BlockReader,
    node: &dyn NodeCalls,
    height: u64,
) -> Result<Option<BlockRef>, ReadError> {
    let head = reader.head(node).await?.height;
    if head <= height {
        return Ok(None);
    }
    if let Some(block) = first_above(reader, node, height).await? {
        return Ok(Some(block));
    }
    let mut without = height;
    let mut with = head - 1;
    let Some(mut oldest) = first_above(reader, node, with).await? else { return Ok(None) };
    while with.saturating_sub(without) > 1 {
        let middle = without + (with - without) / 2;
        match first_above(reader, node, middle).await? {
            Some(block) => (with, oldest) = (middle, block),
            None => without = middle,
        }
    }
    Ok(Some(oldest))
}

/// Returns the first block above `height`. An error of the node itself means that it has none there.
async fn first_above(
    reader: &dyn BlockReader,
    node: &dyn NodeCalls,
    height: u64,
) -> Result<Option<BlockRef>, ReadError> {
    let below = BlockRef::new(height, "", "", 0);
    match reader.after(&BoundedCalls::new(node), &below, &EventFilter::default()).await {
        Ok(next) => Ok(next.map(|next| next.block).filter(|block| block.height > height)),
        Err(error @ ReadError::Unreachable(_)) => Err(error),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::watcher::tests::test_chain::{FIRST, Pruning, Tree, TreeNode, TreeReader};
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use http::Method;
    use proptest::prelude::*;
    use rpcgate_core::backend::BoxFuture;
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    const READER: TreeReader = TreeReader { names_parents: true };

    #[derive(Debug)]
    struct CountedNode(TreeNode, AtomicUsize);

    impl NodeCalls for CountedNode {
        fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
            self.1.fetch_add(1, Relaxed);
            self.0.call(method, params)
        }

        fn request<'a>(
            &'a self,
            verb: Method,
            path: String,
            body: String,
        ) -> BoxFuture<'a, Result<Bytes, ReadError>> {
            self.0.request(verb, path, body)
        }

        fn stream_call<'a>(
            &'a self,
            method: &'a str,
            params: String,
        ) -> BoxFuture<'a, Result<Bytes, ReadError>> {
            self.0.stream_call(method, params)
        }
    }

    /// A node of the Cosmos Hub that has the blocks from 100 to 100,000.
    #[derive(Debug)]
    struct HubNode;

    impl NodeCalls for HubNode {
        fn call<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
            Box::pin(async { Err(ReadError::Unreadable("it is read over REST")) })
        }

        fn request<'a>(
            &'a self,
            _: Method,
            path: String,
            _: String,
        ) -> BoxFuture<'a, Result<Bytes, ReadError>> {
            let height = path.rsplit('/').next().unwrap().parse::<u64>().unwrap_or(100_000);
            let hash = STANDARD.encode([7; 32]);
            let answer = if height < 100 {
                let why = format!("height {height} is not available, lowest height is 100");
                let message = json!({"code": 2, "message": why, "details": []}).to_string();
                Err(ReadError::Refused { code: 500, message })
            } else {
                let header = json!({"height": height.to_string(), "time": "2026-01-01T00:00:00Z"});
                let block = json!({"header": header, "data": {"txs": []}});
                Ok(json!({"block_id": {"hash": hash}, "block": block}).to_string().into())
            };
            Box::pin(async { answer })
        }

        fn stream_call<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
            self.call("", String::new())
        }
    }

    // Shows (Webhooks).
    #[tokio::test]
    async fn the_oldest_block_of_a_cometbft_node_is_found() {
        let cosmos = rpcgate_chains::by_path("cosmos").unwrap();
        let oldest = oldest_above(cosmos.block_reader().unwrap(), &HubNode, 4).await.unwrap().unwrap();
        assert_eq!(oldest.height, 100);
        let next = oldest_above(cosmos.block_reader().unwrap(), &HubNode, 41_000).await.unwrap().unwrap();
        assert_eq!(next.height, 41_001);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        // Shows (Webhooks).
        #[test]
        fn the_oldest_block_is_found_in_few_steps_with_every_form_of_pruned_answer(
            pruning in prop::sample::select(Pruning::ALL.to_vec()),
            gaps in prop::collection::vec(0..3_u64, 1..60),
            kept in any::<prop::sample::Index>(),
            known in any::<prop::sample::Index>(),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let tree = Tree::new();
            let node = TreeNode::new(&tree);
            let tip = gaps.iter().fold(0, |on, gap| tree.grow(on, *gap));
            node.set_head(tip);
            let branch = tree.branch(tip);
            let lowest = branch[kept.index(branch.len())].height;
            node.prune(lowest, pruning);
            let height = branch[known.index(branch.len())].height;
            let counted = CountedNode(node, AtomicUsize::new(0));
            let found = runtime.block_on(oldest_above(&READER, &counted, height)).unwrap();
            let expected = branch.iter().find(|block| block.height > height && block.height >= lowest);
            prop_assert_eq!(found.as_ref(), expected);
            prop_assert!(counted.1.load(Relaxed) <= 3 + 8, "180 heights take 8 steps");
        }
    }

    #[tokio::test]
    async fn a_node_that_is_behind_or_does_not_answer_has_no_oldest_block() {
        let tree = Tree::new();
        let node = TreeNode::new(&tree);
        assert_eq!(oldest_above(&READER, &node, FIRST).await, Ok(None));
        node.set_head(tree.grow(0, 0));
        node.set_down(true);
        assert!(oldest_above(&READER, &node, FIRST).await.is_err());
    }
}
