//! JSON shapes of nodes, as each gateway sees them, and of their drains.

use crate::action::operator::nodes::NodeUse;
use crate::shape::moment::Moment;
use rpcgate_core::caller::RequestId;
use rpcgate_core::chain::NodePrice;
use rpcgate_store::{GatewayReport, NodeState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// The state of a node as one gateway sees it.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = Node)]
pub struct NodeJson {
    /// The gateway.
    #[schema(format = "uuid")]
    pub gateway: String,
    /// The chain's path.
    #[schema(example = "eth")]
    pub chain: String,
    /// The node's URL with secrets masked.
    #[schema(example = "https://node.example:8545/")]
    pub node: String,
    /// Its priority: nodes with a lower number are asked first, others are fallbacks.
    pub priority: u32,
    /// Its health: `well`; `doubtful` if it failed recently and is tested with single calls; `wrong_network`, `drained`
    /// or `spent` if it gets no calls. In every other state it gets calls only if no other node is left.
    #[schema(
        example = "behind",
        pattern = "^(well|doubtful|syncing|behind|silent|ejected|unreachable|wrong_network|drained|spent)$"
    )]
    pub health: String,
    /// The reason, as a text.
    #[schema(example = "7 blocks behind; 3 are allowed")]
    pub reason: String,
    /// True if an operator has drained it. Gateways apply a drain within a second, and include it in their next report.
    pub drained: bool,
    /// The newest height that it has reported.
    pub height: Option<u64>,
    /// The number of blocks that it is behind the height that the gateway trusts.
    pub lag: Option<u64>,
    /// Its mean latency in milliseconds, weighted towards newer answers.
    pub latency_ms: Option<f64>,
    /// Calls in flight to it.
    pub in_flight: u64,
    /// Failed tries for which the node or the network to it is responsible, since the gateway has it: no connection, no
    /// usable answer in time, a status of 500 or above, or one that rejects the gateway. Refusals to clients, for
    /// instance by their limits, are not counted.
    pub faults: u64,
    /// The maximum number of calls per second from each gateway, if limited.
    pub rate_limit: Option<u32>,
    /// The maximum number of calls per UTC calendar month, if limited.
    pub monthly_calls: Option<u64>,
    /// The number of calls this month, including those of other gateways that this one knows about, if the node has a
    /// limit or a price.
    pub month_calls: Option<u64>,
    /// The price of a million calls, in the unit of the configuration.
    #[schema(example = 2.5)]
    pub price_per_million: Option<f64>,
    /// The cost of this month's calls, in the same unit.
    #[schema(example = 10.0)]
    pub month_cost: Option<f64>,
    /// The number of times that the gateway skipped it because it had reached its limit per second.
    pub over_rate: u64,
    /// The number of times that the gateway skipped it because it had reached its limit per month.
    pub over_budget: u64,
    /// The time of the gateway's report.
    #[schema(value_type = String, format = DateTime)]
    pub at: Moment,
}

/// A request to drain a node or to end its drain.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSwitch {
    /// The node, as the list of nodes names it.
    #[schema(example = "https://node.example:8545/", min_length = 1, max_length = 2048)]
    pub node: String,
    /// True to drain it.
    pub drained: bool,
    /// True to drain it even if a gateway has no other usable node of the chain.
    #[serde(default)]
    pub force: bool,
}

/// A node and its drain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = NodeDrain)]
pub struct NodeDrainJson {
    /// The chain's path.
    #[schema(example = "eth")]
    pub chain: String,
    /// The node's URL with secrets masked.
    #[schema(example = "https://node.example:8545/")]
    pub node: String,
    /// True if it is drained.
    pub drained: bool,
}

impl From<NodeUse> for NodeDrainJson {
    fn from(node: NodeUse) -> Self {
        NodeDrainJson { chain: node.chain.to_owned(), node: node.node, drained: node.is_drained }
    }
}

/// The position of a node in the list: its gateway's identifier, and its number in that gateway's report.
pub type ReportPosition = (u128, usize);

/// Returns the nodes of a report. `drained` has the drained nodes of all chains.
pub fn nodes(
    report: GatewayReport,
    drained: &BTreeSet<(String, String)>,
) -> impl Iterator<Item = (ReportPosition, NodeJson)> {
    let GatewayReport { id, at, nodes } = report;
    nodes.into_iter().enumerate().map(move |(number, state)| {
        let NodeState {
            chain,
            node,
            priority,
            standing,
            reason,
            height,
            lag,
            latency_micros,
            in_flight,
            faults,
            rate_limit,
            monthly_calls,
            month_calls,
            price_per_million,
            over_rate,
            over_budget,
        } = state;
        let price = price_per_million.map(NodePrice);
        let latency_ms = (latency_micros > 0).then(|| latency_micros as f64 / 1_000.0);
        let gateway = RequestId(id).to_string();
        let at = at.into();
        let key = (chain, node);
        let is_drained = drained.contains(&key);
        let (chain, node) = key;
        let node = NodeJson {
            gateway,
            chain,
            node,
            priority,
            health: standing,
            reason,
            drained: is_drained,
            height,
            lag,
            latency_ms,
            in_flight,
            faults,
            rate_limit,
            monthly_calls,
            month_calls,
            price_per_million: price.map(NodePrice::units),
            month_cost: price.zip(month_calls).map(|(price, calls)| price.of_calls(calls)),
            over_rate,
            over_budget,
            at,
        };
        ((id, number), node)
    })
}
