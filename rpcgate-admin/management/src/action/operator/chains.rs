//! Switches of chains, and their caches.

use crate::action::actor::Actor;
use crate::action::chains::{CatalogEntry, chains};
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::chain::ChainName;
use rpcgate_store::{ChainUse, StoreError, Versioned};

/// The hours whose calls are counted: the current one and those before it.
const HOURS: u64 = 24;

const UNKNOWN: ActionError = ActionError::NotFound("chain");

fn name(chain: &str) -> Result<ChainName, ActionError> {
    Ok(rpcgate_chains::by_path(chain).ok_or(UNKNOWN)?.facts().name)
}

/// Returns a chain with its current state.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown path.
pub async fn get(app: &AppState, chain: &str) -> Result<CatalogEntry, ActionError> {
    let name = name(chain)?;
    chains(app).await?.into_iter().find(|entry| entry.facts.name == name).ok_or(UNKNOWN)
}

/// A chain as operators see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperatedChain {
    /// The chain with its current state.
    pub entry: CatalogEntry,
    /// True if the configuration enables it. Otherwise a switch has no effect.
    pub is_configured: bool,
    /// The number of its nodes.
    pub nodes: usize,
    /// The calls of all tenants in the last 24 hours; `None` while usage cannot be read.
    pub called: Option<ChainUse>,
}

/// Lists the chains, in the order of the catalog.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState) -> Result<Vec<OperatedChain>, ActionError> {
    let hour = app.now().hour();
    let called = match app.usage.chain_use(hour.saturating_sub(HOURS - 1)..hour + 1).await {
        Ok(called) => Some(called),
        // Nodes and switches matter most under high load.
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

/// Returns the object that a switch's version belongs to.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown path.
pub fn versioned(chain: &str) -> Result<Versioned, ActionError> {
    Ok(Versioned::Chain(name(chain)?.as_str().to_owned()))
}

/// Switches a chain on or off and returns its new state. Gateways are notified. A chain that the configuration disables
/// stays off.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown path.
pub async fn switch(
    app: &AppState,
    actor: &Actor,
    chain: &str,
    on: bool,
) -> Result<CatalogEntry, ActionError> {
    let name = name(chain)?;
    let now = app.now();
    let event = ("chain.switched", name, if on { "on" } else { "off" });
    let store = actor.audited_store(&app.store, None, event, now);
    actor.expecting(&store, versioned(chain)?).switch_chain(name.as_str(), on, now).await?;
    get(app, chain).await
}

/// Makes every gateway empty its cache of a chain within a second. No answer stored at that time is returned again, and
/// neither are the answers of calls then in progress. Returns the chain's path.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown path.
pub async fn clear_cache(app: &AppState, actor: &Actor, chain: &str) -> Result<&'static str, ActionError> {
    let name = name(chain)?;
    let now = app.now();
    let store = actor.audited_store(&app.store, None, ("cache.cleared", name, ""), now);
    store.clear_cache(name.as_str(), now).await?;
    Ok(name.as_str())
}
