use super::Pool;
use crate::nodes::error::NodeRequestError;
use crate::nodes::node::{Node, NodeIndex};
use crate::nodes::node_set::NodeSet;
use rpcgate_core::caller::ProjectId;
use std::sync::Arc;

impl Pool {
    /// Returns the HTTP nodes, among the first 64, that are known to have reached this height. If `is_enough` rejects
    /// them, the call waits as a call in flight for a round of probes that shows more, for at most a second.
    ///
    /// # Errors
    /// [`NodeRequestError::Busy`] if it has to wait and the chain or the project has reached its limit of calls in
    /// flight.
    pub(crate) async fn nodes_at(
        &self,
        height: u64,
        project: Option<ProjectId>,
        is_enough: impl Fn(NodeSet) -> bool,
    ) -> Result<NodeSet, NodeRequestError> {
        let found = self.known_at(height);
        if is_enough(found) {
            return Ok(found);
        }
        let _permit = self.in_flight.acquire(project).map_err(|_| NodeRequestError::Busy)?;
        let reached = || Some(self.known_at(height)).filter(|found| is_enough(*found));
        let found = self.head_requests.wait(reached).await;
        Ok(found.unwrap_or_else(|| self.known_at(height)))
    }

    /// Returns the HTTP nodes, among the first 64, that are known to have reached this height.
    pub(crate) fn known_at(&self, height: u64) -> NodeSet {
        let nodes = self.http.iter().map(AsRef::<Node>::as_ref);
        let has_reached = |node: &&Node| {
            !node.is_out() && (height == 0 || node.health.height().is_some_and(|known| known >= height))
        };
        nodes.filter(has_reached).map(|node| node.index).collect()
    }

    pub(crate) fn height(&self, position: u16) -> Option<u64> {
        self.node_at(position).and_then(|node| node.health.height())
    }

    /// Records that the node at this position has shown this height in an answer to a call.
    pub(crate) fn raise_height(&self, position: u16, height: u64) {
        if let Some(node) = self.node_at(position) {
            node.health.raise_height(height);
        }
    }

    pub(crate) fn at(&self, position: u16) -> NodeIndex {
        NodeIndex(position.into())
    }

    fn node_at(&self, position: u16) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(position))
    }

    /// Completes when calls wait for a height and extra probes are allowed.
    pub(in crate::nodes) async fn head_requested(&self) {
        self.head_requests.requested().await;
    }

    pub(in crate::nodes) fn notify_heads(&self) {
        self.head_requests.notify_probed();
    }
}
