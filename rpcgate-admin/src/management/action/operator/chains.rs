//! Chains, switched on and off.

use crate::management::action::actor::Actor;
use crate::management::action::chains::{CatalogEntry, chains};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;

const UNKNOWN: ActionError = ActionError::NotFound("chain");

/// Switches a chain on or off: how it stands then. Gateways hear of it. One that the configuration switches off stays off.
///
/// # Errors
/// [`ActionError::NotFound`] for what is no path of a chain.
pub async fn switch(
    app: &AppState,
    actor: &Actor,
    chain: &str,
    on: bool,
) -> Result<CatalogEntry, ActionError> {
    let adapter = rpcgate_chains::by_path(chain).ok_or(UNKNOWN)?;
    let (name, now) = (adapter.facts().name, app.now());
    let told = ("chain.switched", name, if on { "on" } else { "off" });
    actor.noting(&app.store, None, told, now).switch_chain(name.as_str(), on, now).await?;
    chains(app).await?.into_iter().find(|entry| entry.facts.name == name).ok_or(UNKNOWN)
}
