//! Nodes as each gateway sees them.

use crate::management::action;
use crate::management::api::list::{ListPage, Page, PageRequest};
use crate::management::api::moment::Moment;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::{GatewayReport, NodeState};
use axum::extract::State;
use rpcgate_core::caller::RequestId;
use serde::Serialize;
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
    /// Its health: `well`, or else it is asked only if no other node is left.
    #[schema(example = "behind", pattern = "^(well|syncing|behind|silent|ejected|unreachable)$")]
    pub health: String,
    /// The reason, for people.
    #[schema(example = "7 blocks behind; 3 are allowed")]
    pub reason: String,
    /// The newest height it has reported.
    pub height: Option<u64>,
    /// How many blocks it is behind the height that the gateway trusts.
    pub lag: Option<u64>,
    /// Its mean latency in milliseconds, in which newer answers weigh more.
    pub latency_ms: Option<f64>,
    /// Calls in flight to it.
    pub in_flight: u64,
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

fn nodes(report: GatewayReport) -> impl Iterator<Item = (Place, NodeJson)> {
    let GatewayReport { id, at, nodes } = report;
    nodes.into_iter().enumerate().map(move |(number, state)| {
        let NodeState { chain, node, priority, standing, reason, height, lag, latency_micros, in_flight } =
            state;
        let latency_ms = (latency_micros > 0).then(|| latency_micros as f64 / 1_000.0);
        let (gateway, at) = (RequestId(id).to_string(), at.into());
        let node = NodeJson {
            gateway,
            chain,
            node,
            priority,
            health: standing,
            reason,
            height,
            lag,
            latency_ms,
            in_flight,
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
    let mut following =
        reports.into_iter().flat_map(nodes).filter(|(place, _)| after.is_none_or(|after| *place > after));
    let shown: Vec<_> = following.by_ref().take(usize::try_from(page.limit).unwrap_or(usize::MAX)).collect();
    let last = shown.last().filter(|_| following.next().is_some());
    let next = last.map(|((gateway, number), _)| format!("{}-{number}", RequestId(*gateway)));
    Ok(page.page(shown, next).map(|(_, node)| node))
}
