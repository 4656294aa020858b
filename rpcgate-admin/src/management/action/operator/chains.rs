//! Switches of chains.

use crate::management::action::actor::Actor;
use crate::management::action::chains::{CatalogEntry, chains};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;

const UNKNOWN: ActionError = ActionError::NotFound("chain");

/// Switches a chain on or off and returns its state then. Gateways are notified. A chain that the configuration
/// disables stays off.
///
/// # Errors
/// [`ActionError::NotFound`] for a path that is not a chain's.
pub async fn switch(
    app: &AppState,
    actor: &Actor,
    chain: &str,
    on: bool,
) -> Result<CatalogEntry, ActionError> {
    let adapter = rpcgate_chains::by_path(chain).ok_or(UNKNOWN)?;
    let (name, now) = (adapter.facts().name, app.now());
    let event = ("chain.switched", name, if on { "on" } else { "off" });
    actor.audited_store(&app.store, None, event, now).switch_chain(name.as_str(), on, now).await?;
    chains(app).await?.into_iter().find(|entry| entry.facts.name == name).ok_or(UNKNOWN)
}
