//! Nodes as each gateway sees them, and their drains.

use crate::management::action::operator::nodes::NodeUse;
use crate::management::shape::moment::Moment;
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
    /// The node's URL, secrets masked.
    #[schema(example = "https://node.example:8545/")]
    pub node: String,
    /// Its priority: nodes with a lower number are asked first, others as a fallback.
    pub priority: u32,
    /// Its health: `well`; `doubtful` if it failed lately and is tried out by single calls; `wrong_network`, `drained` or `spent` if it is
    /// asked for nothing; or else it is asked only if no other node is left.
    #[schema(
        example = "behind",
        pattern = "^(well|doubtful|syncing|behind|silent|ejected|unreachable|wrong_network|drained|spent)$"
    )]
    pub health: String,
    /// The reason, for people.
    #[schema(example = "7 blocks behind; 3 are allowed")]
    pub reason: String,
    /// Whether an operator has drained it. Gateways apply that within a second, and report it with their next report.
    pub drained: bool,
    /// The newest height it has reported.
    pub height: Option<u64>,
    /// How many blocks it is behind the height that the gateway trusts.
    pub lag: Option<u64>,
    /// Its mean latency in milliseconds, in which newer answers weigh more.
    pub latency_ms: Option<f64>,
    /// Calls in flight to it.
    pub in_flight: u64,
    /// Tries that failed through the node or the network to it, since the gateway has it: no connection, no usable answer in
    /// time, a status of 500 or above, or one that rejects the gateway. What clients are refused is not among them.
    pub faults: u64,
    /// Calls a second that it gets from each gateway, if that is limited.
    pub rate_limit: Option<u32>,
    /// Calls that it gets in a month of the UTC calendar, if that is limited.
    pub monthly_calls: Option<u64>,
    /// Calls that it has got this month, those of other gateways included as far as the gateway knows them, if it has a limit
    /// or a price.
    pub month_calls: Option<u64>,
    /// What a million calls cost, in the unit of the configuration.
    #[schema(example = 2.5)]
    pub price_per_million: Option<f64>,
    /// What the calls of this month cost, in the same unit.
    #[schema(example = 10.0)]
    pub month_cost: Option<f64>,
    /// How often the gateway passed it over because it had got as many calls as it gets in a second.
    pub over_rate: u64,
    /// How often the gateway passed it over because it had got as many calls as it gets in a month.
    pub over_budget: u64,
    /// When the gateway reported it.
    #[schema(value_type = String, format = DateTime)]
    pub at: Moment,
}

/// The drain of a node.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSwitch {
    /// The node, as the list of nodes names it.
    #[schema(example = "https://node.example:8545/", min_length = 1, max_length = 2048)]
    pub node: String,
    /// Whether it is drained.
    pub drained: bool,
    /// Whether it is drained even if a gateway has no other node of the chain that it can use.
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
    /// The node's URL, secrets masked.
    #[schema(example = "https://node.example:8545/")]
    pub node: String,
    /// Whether it is drained.
    pub drained: bool,
}

impl From<NodeUse> for NodeDrainJson {
    fn from(node: NodeUse) -> Self {
        NodeDrainJson { chain: node.chain.to_owned(), node: node.node, drained: node.is_drained }
    }
}

/// The place of a node in the list: the identifier of its gateway, and its number in the report of that gateway.
pub(crate) type ReportPosition = (u128, usize);

/// The nodes of a report; `drained` are the drained nodes of all chains.
pub(crate) fn nodes(
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
        let (gateway, at) = (RequestId(id).to_string(), at.into());
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
