//! Switches of chains, and their caches.

use crate::management::action::actor::Actor;
use crate::management::action::chains::{CatalogEntry, chains};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use rpcgate_core::chain::ChainName;
use rpcgate_store::{ChainUse, StoreError, Versioned};

/// The hours whose calls are counted: the current one and those before it.
const HOURS: u64 = 24;

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

/// A chain as operators see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperatedChain {
    /// The chain with its current state.
    pub entry: CatalogEntry,
    /// Whether the configuration enables it. Otherwise a switch has no effect.
    pub is_configured: bool,
    /// The number of its nodes.
    pub nodes: usize,
    /// What all tenants called on it in the last 24 hours, unless that cannot be read at the moment.
    pub called: Option<ChainUse>,
}

/// The chains, in the order of the catalog.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState) -> Result<Vec<OperatedChain>, ActionError> {
    let hour = app.now().hour();
    let called = match app.usage.chain_use(hour.saturating_sub(HOURS - 1)..hour + 1).await {
        Ok(called) => Some(called),
        // Nodes and switches matter most when much else is busy.
        Err(StoreError::Busy | StoreError::Unavailable(_) | StoreError::TooWide(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let of = |entry: CatalogEntry| {
        let name = entry.facts.name.as_str();
        let configured = app.settings.config.chains.get(name);
        OperatedChain {
            entry,
            is_configured: configured.is_some_and(|chain| chain.enabled),
            nodes: configured.map_or(0, |chain| chain.nodes.len()),
            called: called.as_ref().map(|called| called.get(name).copied().unwrap_or_default()),
        }
    };
    Ok(chains(app).await?.into_iter().map(of).collect())
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

/// Has every gateway empty its cache of a chain, within a second: none of the answers that are stored then is given again, and neither
/// are those of calls that are at a node at that time. Returns the chain's path.
///
/// # Errors
/// [`ActionError::NotFound`] for a path that is not a chain's.
pub async fn clear_cache(app: &AppState, actor: &Actor, chain: &str) -> Result<&'static str, ActionError> {
    let (name, now) = (name(chain)?, app.now());
    let store = actor.audited_store(&app.store, None, ("cache.cleared", name, ""), now);
    store.clear_cache(name.as_str(), now).await?;
    Ok(name.as_str())
}
