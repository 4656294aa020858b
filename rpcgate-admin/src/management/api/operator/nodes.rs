//! Nodes as each gateway sees them, and their drains.

use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::action::operator::nodes::NodeUse;
use crate::management::api::list::{ListPage, Page, PageRequest};
use crate::management::api::moment::Moment;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Body, PathParams};
use axum::Json;
use axum::extract::State;
use rpcgate_core::caller::RequestId;
use rpcgate_core::chain::NodePrice;
use rpcgate_store::{GatewayReport, NodeState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
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

/// The place of a node in the list: the identifier of its gateway, and its number in the report of that gateway.
type Place = (u128, usize);

/// The place that a cursor names.
fn place(cursor: &str) -> Option<Place> {
    let (gateway, number) = cursor.rsplit_once('-')?;
    Some((gateway.parse::<RequestId>().ok()?.0, number.parse().ok()?))
}

/// The nodes of a report; `drained` are the drained nodes of all chains.
pub(crate) fn nodes(
    report: GatewayReport,
    drained: &BTreeSet<(String, String)>,
) -> impl Iterator<Item = (Place, NodeJson)> {
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

/// List nodes
///
/// As the running gateways see them. They report every 5 seconds.
#[utoipa::path(get, path = "/operator/nodes", operation_id = "operator_list_nodes", tag = "operator",
    params(Page),
    responses((status = 200, description = "The nodes, by gateway.", body = [NodeJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
) -> Result<ListPage<NodeJson>, ActionError> {
    let after = page.read(place)?;
    let reports = action::operator::nodes::list(&app).await?;
    let drained = action::operator::nodes::drained(&app).await?;
    let all = reports.into_iter().flat_map(|report| nodes(report, &drained));
    let mut following = all.filter(|(place, _)| after.is_none_or(|after| *place > after));
    let shown: Vec<_> = following.by_ref().take(usize::try_from(page.limit).unwrap_or(usize::MAX)).collect();
    let last = shown.last().filter(|_| following.next().is_some());
    let next = last.map(|((gateway, number), _)| format!("{}-{number}", RequestId(*gateway)));
    Ok(page.page(shown, next).map(|(_, node)| node))
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

/// Drain a node, or end its drain
///
/// A drained node gets no new call and no new stream: gateways apply it within a second. Calls in flight end at the node, and its
/// WebSocket streams are closed with 1012, spread over the time between two pings. Nodes of a chain that have the same name are
/// drained together. A drain lasts until it is ended, also over restarts.
#[utoipa::path(put, path = "/operator/chains/{chain}/nodes", operation_id = "operator_drain_node", tag = "operator",
    params(("chain" = String, Path, description = "The chain's path.")),
    request_body = NodeSwitch,
    responses((status = 200, description = "The node as it is now.", body = NodeDrainJson),
        (status = 409, description = "It is the last usable node of the chain, and `force` is not set.")))]
pub async fn drain(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    PathParams(chain): PathParams<String>,
    Body(NodeSwitch { node, drained, force }): Body<NodeSwitch>,
) -> Result<Json<NodeDrainJson>, ActionError> {
    let done = action::operator::nodes::drain(&app, &actor, (&chain, &node), (drained, force)).await?;
    Ok(Json(done.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_layers::nodes::NodeHealth;
    use utoipa::PartialSchema;

    #[test]
    fn the_document_has_every_health_that_a_gateway_reports() {
        let schema = serde_json::to_value(NodeJson::schema()).unwrap();
        let names = NodeHealth::ALL.map(NodeHealth::name).join("|");
        assert_eq!(schema["properties"]["health"]["pattern"], format!("^({names})$"));
    }
}
