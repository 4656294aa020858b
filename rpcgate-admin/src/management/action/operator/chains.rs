//! Switches of chains.

use crate::management::action::actor::Actor;
use crate::management::action::chains::{CatalogEntry, chains};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::Versioned;
use rpcgate_core::chain::ChainName;

const UNKNOWN: ActionError = ActionError::NotFound("chain");

fn name(chain: &str) -> Result<ChainName, ActionError> {
    Ok(rpcgate_chains::by_path(chain).ok_or(UNKNOWN)?.facts().name)
}

/// A chain with its current state.
///
/// # Errors
/// [`ActionError::NotFound`] for a path that is not a chain's.
pub async fn get(app: &AppState, chain: &str) -> Result<CatalogEntry, ActionError> {
    let name = name(chain)?;
    chains(app).await?.into_iter().find(|entry| entry.facts.name == name).ok_or(UNKNOWN)
}

/// What the version of a switch belongs to.
///
/// # Errors
/// [`ActionError::NotFound`] for a path that is not a chain's.
pub fn versioned(chain: &str) -> Result<Versioned, ActionError> {
    Ok(Versioned::Chain(name(chain)?.as_str().to_owned()))
}

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
    let (name, now) = (name(chain)?, app.now());
    let event = ("chain.switched", name, if on { "on" } else { "off" });
    let store = actor.audited_store(&app.store, None, event, now);
    actor.expecting(&store, versioned(chain)?).switch_chain(name.as_str(), on, now).await?;
    get(app, chain).await
}
