//! A test chain: a tree of blocks, and nodes that each show the branch of one block.

use crate::services::watcher::follow::ReadNode;
use crate::services::watcher::pool_nodes::{ChainNodes, UsableNode};
use bytes::Bytes;
use http::Method;
use parking_lot::Mutex;
use rpcgate_core::adapter::{Adapter, NodeStatus, Permanence, Probe};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Facts, Finality, Method as ChainMethod};
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventFilter, EventType, NodeCalls, ReadError,
};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const FIRST: u64 = 100;

#[derive(Clone, Debug)]
struct TreeBlock {
    height: u64,
    parent: Option<usize>,
}

/// All blocks that ever existed, of all branches.
#[derive(Clone, Debug)]
pub(crate) struct Tree(Arc<Mutex<Vec<TreeBlock>>>);

impl Tree {
    pub(crate) fn new() -> Self {
        Tree(Arc::new(Mutex::new(vec![TreeBlock { height: FIRST, parent: None }])))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Adds a block above `on`, skipping `gap` heights.
    pub(crate) fn grow(&self, on: usize, gap: u64) -> usize {
        let mut blocks = self.0.lock();
        let height = blocks[on].height + 1 + gap;
        blocks.push(TreeBlock { height, parent: Some(on) });
        blocks.len() - 1
    }

    /// Returns the block `depth` below `block`, or the first one.
    pub(crate) fn below(&self, mut block: usize, depth: usize) -> usize {
        let blocks = self.0.lock();
        for _ in 0..depth {
            block = blocks[block].parent.unwrap_or(block);
        }
        block
    }

    pub(crate) fn block(&self, number: usize) -> BlockRef {
        let blocks = self.0.lock();
        let TreeBlock { height, parent } = blocks[number];
        let parent = parent.map_or(String::new(), |parent| format!("b{parent}"));
        BlockRef::new(height, format!("b{number}"), parent, 1_700_000_000 + height as i64)
    }

    pub(crate) fn branch(&self, mut block: usize) -> Vec<BlockRef> {
        let mut branch = vec![self.block(block)];
        loop {
            let parent = self.0.lock()[block].parent;
            let Some(parent) = parent else { break };
            branch.push(self.block(parent));
            block = parent;
        }
        branch.reverse();
        branch
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pruning {
    /// An error that names the lowest height, like CometBFT.
    Refuses,
    /// No result, like nodes of EVM chains.
    Nothing,
    /// The first block that it has, like Solana.
    Jumps,
    /// The header without the block, like nodes of UTXO chains.
    KeepsHeaders,
}

impl Pruning {
    pub(crate) const ALL: [Pruning; 4] =
        [Pruning::Refuses, Pruning::Nothing, Pruning::Jumps, Pruning::KeepsHeaders];
}

#[derive(Clone, Debug)]
pub(crate) struct TreeNode {
    pub(crate) tree: Tree,
    head: Arc<Mutex<usize>>,
    is_down: Arc<AtomicBool>,
    /// The heights of blocks whose events it does not show.
    hidden: Arc<Mutex<HashSet<u64>>>,
    /// The heights of blocks that it has lost.
    lost: Arc<Mutex<HashSet<u64>>>,
    /// The lowest height that it has, and its answer about blocks below.
    pruned: Arc<Mutex<Option<(u64, Pruning)>>>,
}

impl TreeNode {
    pub(crate) fn new(tree: &Tree) -> Self {
        TreeNode {
            tree: tree.clone(),
            head: Arc::default(),
            is_down: Arc::default(),
            hidden: Arc::default(),
            lost: Arc::default(),
            pruned: Arc::default(),
        }
    }

    pub(crate) fn head(&self) -> usize {
        *self.head.lock()
    }

    pub(crate) fn set_head(&self, block: usize) {
        *self.head.lock() = block;
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    pub(crate) fn lose(&self, height: u64) {
        self.lost.lock().insert(height);
    }

    pub(crate) fn prune(&self, lowest: u64, pruning: Pruning) {
        *self.pruned.lock() = Some((lowest, pruning));
    }

    fn of_pruned(&self, method: &str, params: &str) -> Option<Result<Bytes, ReadError>> {
        let (lowest, pruning) = (*self.pruned.lock())?;
        let height = params.parse::<u64>().ok()? + u64::from(method == "test_after");
        let message = format!("height {height} is not available, lowest height is {lowest}");
        let refusal = || Some(Err(ReadError::Refused { code: -32_603, message }));
        match (method, pruning) {
            ("test_at" | "test_after", _) if height >= lowest => None,
            ("test_at" | "test_after", Pruning::Refuses) | ("test_after", Pruning::KeepsHeaders) => refusal(),
            ("test_at", Pruning::Nothing | Pruning::Jumps) | ("test_after", Pruning::Nothing) => {
                Some(Ok(Value::Null.to_string().into()))
            }
            ("test_after", Pruning::Jumps) => {
                let lowest = lowest.saturating_sub(1).to_string();
                Some(Ok(self.answer("test_after", &lowest).to_string().into()))
            }
            _ => None,
        }
    }

    pub(crate) fn hide_events(&self, height: u64) {
        self.hidden.lock().insert(height);
    }

    pub(crate) fn height(&self) -> u64 {
        self.tree.block(self.head()).height
    }

    pub(crate) fn answer(&self, method: &str, params: &str) -> Value {
        let mut branch = self.tree.branch(self.head());
        branch.retain(|block| !self.lost.lock().contains(&block.height));
        let height: u64 = serde_json::from_str(params).unwrap_or_default();
        let found = match method {
            "test_head" => branch.last(),
            "test_at" => branch.iter().find(|block| block.height == height),
            "test_after" => branch.iter().find(|block| block.height > height),
            _ => None,
        };
        found.map_or(Value::Null, |block| {
            json!({
                "height": block.height, "hash": block.hash, "parent": block.parent, "timestamp": block.timestamp,
            })
        })
    }
}

impl NodeCalls for TreeNode {
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async move {
            if self.is_down.load(Ordering::Relaxed) {
                return Err(ReadError::Unreachable("it is down".into()));
            }
            let is_hidden = params.parse().is_ok_and(|height: u64| self.hidden.lock().contains(&height));
            if method == "test_events" && is_hidden {
                return Err(ReadError::Unreadable("no events"));
            }
            let of_pruned = self.of_pruned(method, &params);
            of_pruned.unwrap_or_else(|| Ok(self.answer(method, &params).to_string().into()))
        })
    }

    fn request<'a>(&'a self, _: Method, _: String, _: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async { Err(ReadError::Unreadable("not called")) })
    }

    fn stream_call<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async { Err(ReadError::Unreadable("not called")) })
    }
}

/// The nodes of a chain, each with its own height.
#[derive(Clone, Debug)]
pub(crate) struct TreeNodes(pub(crate) Vec<TreeNode>);

impl TreeNodes {
    pub(crate) fn read(&self) -> Vec<ReadNode<'_>> {
        let mut read = Vec::new();
        for (index, node) in self.0.iter().enumerate() {
            read.push(ReadNode { index, height: Some(node.height()), calls: node });
        }
        read
    }
}

impl ChainNodes for TreeNodes {
    fn usable(&self) -> Vec<UsableNode> {
        let node = |(index, node): (usize, &TreeNode)| UsableNode {
            index,
            height: Some(node.height()),
            calls: Arc::new(node.clone()),
        };
        self.0.iter().enumerate().map(node).collect()
    }

    fn head(&self) -> Option<u64> {
        self.0.iter().map(TreeNode::height).max()
    }

    fn reset(&self) {}
}

/// Reads the blocks of a tree. The blocks are their own events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeReader {
    /// True if blocks name the block before them.
    pub(crate) names_parents: bool,
}

impl TreeReader {
    async fn block(
        &self,
        node: &dyn NodeCalls,
        method: &str,
        height: u64,
    ) -> Result<Option<BlockRef>, ReadError> {
        let bytes = node.call(method, height.to_string()).await?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| ReadError::Unreadable("no JSON"))?;
        if value.is_null() {
            return Ok(None);
        }
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let parent = if self.names_parents { text("parent") } else { String::new() };
        let height = value["height"].as_u64().unwrap_or_default();
        Ok(Some(BlockRef::new(height, text("hash"), parent, value["timestamp"].as_i64().unwrap_or_default())))
    }
}

impl BlockReader for TreeReader {
    fn kinds(&self) -> &'static [EventType] {
        &[EventType::NewBlock]
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(async move {
            self.block(node, "test_head", 0).await?.ok_or(ReadError::Unreadable("there is no head"))
        })
    }

    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(self.block(node, "test_at", known.height))
    }

    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        wanted: &'a EventFilter,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
        Box::pin(async move {
            let Some(block) = self.block(node, "test_after", known.height).await? else { return Ok(None) };
            if wanted.wants(EventType::AddressActivity) {
                node.call("test_events", block.height.to_string()).await?;
            }
            let event = ChainEvent::new(EventType::NewBlock).with("parent_hash", block.parent.clone());
            let is_wanted = wanted.wants(EventType::NewBlock);
            Ok(Some(BlockEvents { block, events: is_wanted.then_some(event).into_iter().collect() }))
        })
    }
}

/// A chain at `/eth` whose blocks are those of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeChain(pub(crate) TreeReader);

impl Adapter for TreeChain {
    fn facts(&self) -> &Facts {
        static FACTS: Facts = Facts::json_rpc("eth", "A tree").with_ws(true);
        &FACTS
    }

    fn methods(&self) -> Vec<ChainMethod> {
        Vec::new()
    }

    fn settled(&self, _: CallView<'_>, _: &[u8], _: &Finality) -> Permanence {
        Permanence::NotYet
    }

    fn probe(&self) -> Probe {
        Probe::Rpc { method: "test_head", params: "0" }
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        let block: Value = serde_json::from_slice(answer).ok()?;
        Some(NodeStatus::at(block["height"].as_u64()?))
    }

    fn block_reader(&self) -> Option<&dyn BlockReader> {
        Some(&self.0)
    }
}
