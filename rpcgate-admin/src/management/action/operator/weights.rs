//! Weights of methods in Compute Units.

use crate::management::action::actor::Actor;
use crate::management::action::text;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::Versioned;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::Chain;
use rpcgate_core::config;
use std::sync::Arc;

/// The weight of a method.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weight {
    /// The chain.
    pub chain: &'static str,
    /// The method.
    pub method: String,
    /// Compute Units of a call, as in force.
    pub cu: u32,
    /// Whether an operator has set it.
    pub is_set: bool,
}

fn adapter(chain: &str) -> Result<Arc<dyn Adapter>, ActionError> {
    rpcgate_chains::by_path(chain).ok_or(ActionError::NotFound("chain"))
}

/// The weight of a chain's method in force: the settings of operators, or else the configuration, or else the chain's own
/// table.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown chain, [`ActionError::Invalid`] for a text that cannot be a method's
/// name.
pub async fn get(app: &AppState, chain: &str, method: &str) -> Result<Weight, ActionError> {
    let adapter = adapter(chain)?;
    text::method("method", method)?;
    let overlay = app.store.overlay().await?;
    let name = adapter.facts().name.as_str();
    let is_set = overlay.weights.get(name).is_some_and(|weights| weights.contains_key(method));
    let config = app.settings.overridden_by(&overlay);
    let changes = config.chains.get(name).map(config::ChainSettings::changes).unwrap_or_default();
    let chain = Chain::new(adapter, changes, true, Arc::default());
    Ok(Weight { chain: name, method: method.to_owned(), cu: chain.look_up(method).rule.cu, is_set })
}

/// What the version of a weight belongs to.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown chain.
pub fn versioned(chain: &str, method: &str) -> Result<Versioned, ActionError> {
    let name = adapter(chain)?.facts().name.as_str();
    Ok(Versioned::Weight(name.to_owned(), method.to_owned()))
}

/// Sets the weight of a chain's method. Gateways are notified.
///
/// # Errors
/// Those of [`get`].
pub async fn put(
    app: &AppState,
    actor: &Actor,
    chain: &str,
    method: &str,
    cu: u32,
) -> Result<Weight, ActionError> {
    let name = adapter(chain)?.facts().name.as_str();
    text::method("method", method)?;
    let now = app.now();
    let store = actor.audited_store(&app.store, None, ("weight.set", format!("{name}/{method}"), cu), now);
    let store = actor.expecting(&store, versioned(chain, method)?);
    store.put_weight(name, method, cu, now).await?;
    Ok(Weight { chain: name, method: method.to_owned(), cu, is_set: true })
}

/// Removes a weight that was set.
///
/// # Errors
/// Those of [`get`], and [`ActionError::NotFound`] if none was set.
pub async fn delete(app: &AppState, actor: &Actor, chain: &str, method: &str) -> Result<(), ActionError> {
    let name = adapter(chain)?.facts().name.as_str();
    text::method("method", method)?;
    let now = app.now();
    let store =
        actor.audited_store(&app.store, None, ("weight.deleted", format!("{name}/{method}"), ""), now);
    let store = actor.expecting(&store, versioned(chain, method)?);
    Ok(store.delete_weight(name, method, now).await?)
}
