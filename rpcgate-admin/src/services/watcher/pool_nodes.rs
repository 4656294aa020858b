//! The nodes of a chain as the block watcher needs them.

use super::node_calls::NodeSession;
use parking_lot::Mutex;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::ChainHead;
use rpcgate_core::event::NodeCalls;
use rpcgate_layers::nodes::{NodeHealth, Pool};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct UsableNode {
    pub(super) index: usize,
    pub(super) height: Option<u64>,
    pub(super) calls: Arc<dyn NodeCalls>,
}

pub(super) trait ChainNodes: Send + Sync + Debug {
    /// Returns the healthy nodes, or all nodes of the chain's network if none is healthy.
    fn usable(&self) -> Vec<UsableNode>;

    fn head(&self) -> Option<u64>;

    /// Marks that a node failed, so that its session is set up again.
    fn reset(&self);
}

/// The nodes of a pool. A session with each lasts over several rounds.
#[derive(Debug)]
pub(super) struct PoolNodes {
    pool: Arc<Pool>,
    adapter: Arc<dyn Adapter>,
    head: Arc<ChainHead>,
    limit: Duration,
    sessions: Mutex<HashMap<usize, Arc<NodeSession>>>,
}

impl PoolNodes {
    pub(super) fn new(
        pool: Arc<Pool>,
        adapter: Arc<dyn Adapter>,
        head: Arc<ChainHead>,
        limit: Duration,
    ) -> Self {
        PoolNodes { pool, adapter, head, limit, sessions: Mutex::default() }
    }
}

impl ChainNodes for PoolNodes {
    fn usable(&self) -> Vec<UsableNode> {
        let mut sessions = self.sessions.lock();
        // Another session reopens a lost stream.
        sessions.retain(|_, session| !session.is_lost());
        let any_fit = self.pool.nodes().any(|node| node.health.is_fit());
        let is_usable =
            |health: NodeHealth| health.is_fit() || (!any_fit && health != NodeHealth::WrongNetwork);
        let usable = self.pool.nodes().filter(|node| is_usable(node.health));
        usable
            .map(|node| {
                let pool = &self.pool;
                let adapter = &self.adapter;
                let session =
                    || Arc::new(NodeSession::new(pool.clone(), node.index, adapter.clone(), self.limit));
                let calls = sessions.entry(node.index.get()).or_insert_with(session).clone();
                UsableNode { index: node.index.get(), height: node.height, calls }
            })
            .collect()
    }

    fn head(&self) -> Option<u64> {
        self.head.height()
    }

    fn reset(&self) {
        self.sessions.lock().clear();
    }
}
