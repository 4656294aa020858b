//! Nodes as each gateway sees them, and their drains.

use crate::action::actor::Actor;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::clock::Time;
use rpcgate_layers::nodes::NodeHealth;
use rpcgate_store::{GatewayReport, StoreError};
use std::collections::BTreeSet;
use std::time::Duration;

/// Gateways report every few seconds. A gateway without a report for this long is not running.
const FRESH: Duration = Duration::from_secs(60);

/// The gateways' word for a node without problems.
pub(super) const WELL: &str = NodeHealth::Well.name();
/// The gateways' word for a node that an operator has drained.
pub const DRAINED: &str = NodeHealth::Drained.name();

/// The maximum bytes of a node's name.
const MAX_NAME: usize = 2_048;

/// Lists the reports of the running gateways on their nodes.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState) -> Result<Vec<GatewayReport>, ActionError> {
    Ok(app.store.reports(at_work(app.now())).await?)
}

/// Returns the time after which running gateways have reported.
pub(crate) fn at_work(now: Time) -> Time {
    Time::from_micros(now.micros().saturating_sub(FRESH.as_micros() as u64))
}

/// Lists the drained nodes, by chain and name.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn drained(app: &AppState) -> Result<BTreeSet<(String, String)>, ActionError> {
    Ok(app.store.drained_nodes().await?)
}

/// A node of a chain, by the name that gateways report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeUse {
    /// The chain's path.
    pub chain: &'static str,
    /// The name.
    pub node: String,
    /// True if it is drained.
    pub is_drained: bool,
    /// True if it is the only usable node of the chain for a running gateway.
    pub is_last: bool,
    /// For each running gateway with the node, the other nodes that are reachable and have caught up.
    remaining: Vec<BTreeSet<String>>,
}

/// Returns a node that a running gateway has, or that is drained.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown chain or node, [`ActionError::Invalid`] for a text that cannot be a
/// node's name.
pub async fn get(app: &AppState, chain: &str, node: &str) -> Result<NodeUse, ActionError> {
    let (known, found) = find(app, chain, node).await?;
    if known || found.is_drained { Ok(found) } else { Err(ActionError::NotFound("node")) }
}

/// Returns whether a running gateway has the node, and its use.
async fn find(app: &AppState, chain: &str, node: &str) -> Result<(bool, NodeUse), ActionError> {
    let adapter = rpcgate_chains::by_path(chain).ok_or(ActionError::NotFound("chain"))?;
    let chain = adapter.facts().name.as_str();
    if node.is_empty() || node.len() > MAX_NAME || node.chars().any(char::is_control) {
        return Err(ActionError::field("node", "must be the name of a node, as the list of nodes shows it"));
    }
    let drained = app.store.drained_nodes().await?;
    let mut remaining = Vec::new();
    for report in list(app).await? {
        let mut others = BTreeSet::new();
        let mut has_it = false;
        for state in report.nodes.into_iter().filter(|state| state.chain == chain) {
            if state.node == node {
                has_it = true;
            } else if NodeHealth::is_fit_name(&state.standing) {
                others.insert(state.node);
            }
        }
        if has_it {
            remaining.push(others);
        }
    }
    let is_usable = |other: &String| !drained.contains(&(chain.to_owned(), other.clone()));
    let found = NodeUse {
        chain,
        node: node.to_owned(),
        is_drained: drained.contains(&(chain.to_owned(), node.to_owned())),
        is_last: !remaining.iter().all(|others| others.iter().any(is_usable)),
        remaining,
    };
    Ok((!found.remaining.is_empty(), found))
}

/// Drains a node, so that gateways send it no new calls and open no new streams, or ends its drain. Gateways are
/// notified. `force` drains even the last node of a chain that a gateway can use.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown chain, and for a node to drain that no running gateway has;
/// [`ActionError::Invalid`] for a text that cannot be a node's name; [`ActionError::Conflict`] for the last usable
/// node without `force`.
pub async fn drain(
    app: &AppState,
    actor: &Actor,
    chain: &str,
    node: &str,
    drained: bool,
    force: bool,
) -> Result<NodeUse, ActionError> {
    let now = app.now();
    let (is_known, found) = find(app, chain, node).await?;
    if found.is_drained == drained {
        return Ok(found);
    }
    if drained && !is_known {
        return Err(ActionError::NotFound("node"));
    }
    let event = if drained { "node.drained" } else { "node.resumed" };
    let store = actor.audited_store(&app.store, None, (event, found.chain, node), now);
    if drained {
        let remaining: &[_] = if force { &[] } else { &found.remaining };
        store.drain_node(found.chain, node, remaining, now).await.map_err(|error| match error {
            StoreError::WrongState(_) => ActionError::Conflict(
                "this is the last usable node of the chain at a gateway: drain it with `force`, or not at all",
            ),
            error => error.into(),
        })?;
    } else {
        store.resume_node(found.chain, node, now).await?;
    }
    Ok(NodeUse { is_drained: drained, ..found })
}
