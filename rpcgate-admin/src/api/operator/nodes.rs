//! Routes of nodes, as each gateway sees them, and of their drains.

use axum::Json;
use axum::extract::State;
use rpcgate_core::caller::RequestId;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, PathParams};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::operator::nodes::{
    NodeDrainJson, NodeJson, NodeSwitch, ReportPosition, nodes,
};
use std::sync::Arc;

/// Parses a cursor.
fn position(cursor: &str) -> Option<ReportPosition> {
    let (gateway, number) = cursor.rsplit_once('-')?;
    Some((gateway.parse::<RequestId>().ok()?.0, number.parse().ok()?))
}

/// List nodes
///
/// The nodes as the running gateways see them. Gateways report every 5 seconds.
#[utoipa::path(get, path = "/operator/nodes", operation_id = "operator_list_nodes", tag = "operator",
    params(Page),
    responses((status = 200, description = "The nodes, by gateway.", body = [NodeJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
) -> Result<ListPage<NodeJson>, ActionError> {
    let after = page.read(position)?;
    let reports = action::operator::nodes::list(&app).await?;
    let drained = action::operator::nodes::drained(&app).await?;
    let all = reports.into_iter().flat_map(|report| nodes(report, &drained));
    let mut following = all.filter(|(position, _)| after.is_none_or(|after| *position > after));
    let shown: Vec<_> = following.by_ref().take(usize::try_from(page.limit).unwrap_or(usize::MAX)).collect();
    let last = shown.last().filter(|_| following.next().is_some());
    let next = last.map(|((gateway, number), _)| format!("{}-{number}", RequestId(*gateway)));
    Ok(page.page(shown, next).map(|(_, node)| node))
}

/// Drain a node, or end its drain
///
/// A drained node gets no new call and no new stream. Gateways apply it within a second. Calls in flight end at the
/// node, and its WebSocket streams are closed with 1012, spread over the time between two pings. Nodes of a chain that
/// have the same name are drained together. A drain lasts until it is ended, even across restarts.
#[utoipa::path(put, path = "/operator/chains/{chain}/nodes", operation_id = "operator_drain_node", tag = "operator",
    request_body = NodeSwitch,
    responses((status = 200, description = "The node as it is now.", body = NodeDrainJson),
        (status = 409, description = "It is the last usable node of the chain, and `force` is not set.")))]
pub async fn drain(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    PathParams(chain): PathParams<String>,
    Body(NodeSwitch { node, drained, force }): Body<NodeSwitch>,
) -> Result<Json<NodeDrainJson>, ActionError> {
    let done = action::operator::nodes::drain(&app, &actor, &chain, &node, drained, force).await?;
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
