//! The weights of methods in Compute Units.

use super::recent_days;
use crate::action::actor::Actor;
use crate::action::text;
use crate::action::usage::if_readable;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_config::{ChainSettings, Config};
use rpcgate_core::adapter::{Adapter, method_table};
use rpcgate_core::chain::{Chain, Flags, Method};
use rpcgate_store::{MethodTotal, Versioned};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum number of called methods in a list in addition to those of the chain's table.
const MAX_LISTED: u64 = 200;

/// The weight of a method.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weight {
    /// The chain.
    pub chain: &'static str,
    /// The method.
    pub method: String,
    /// The Compute Units of a call in force.
    pub cu: u32,
    /// True if an operator has set it.
    pub is_set: bool,
}

fn adapter(chain: &str) -> Result<Arc<dyn Adapter>, ActionError> {
    rpcgate_chains::by_path(chain).ok_or(ActionError::NotFound("chain"))
}

/// Returns the weight of a chain's method in force: that of operators, or else of the configuration, or else of the
/// chain's table.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown chain, [`ActionError::Invalid`] for a text that cannot be a method's name.
pub async fn get(app: &AppState, chain: &str, method: &str) -> Result<Weight, ActionError> {
    let adapter = adapter(chain)?;
    text::method("method", method)?;
    let overlay = app.store.overlay().await?;
    let name = adapter.facts().name.as_str();
    let is_set = overlay.weights.get(name).is_some_and(|weights| weights.contains_key(method));
    let config = app.settings.overridden_by(&overlay);
    let changes = config.chains.get(name).map(ChainSettings::changes).unwrap_or_default();
    let chain = Chain::new(adapter, changes, true, Arc::default());
    Ok(Weight { chain: name, method: method.to_owned(), cu: chain.look_up(method).rule.cu, is_set })
}

/// A method of a chain, its weight and its calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MethodWeight {
    /// The method's metered name.
    pub method: String,
    /// The Compute Units of a call in force.
    pub cu: u32,
    /// The Compute Units of a call without operators' settings.
    pub deployed: u32,
    /// True if an operator has set it.
    pub is_set: bool,
    /// The calls in the last 30 UTC days, including today; `None` while usage cannot be read.
    pub calls: Option<u64>,
}

/// Returns the path of a chain.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown chain.
pub fn path(chain: &str) -> Result<&'static str, ActionError> {
    Ok(adapter(chain)?.facts().name.as_str())
}

/// Returns the weight of a method by its metered name, which may differ from the name in requests.
fn metered_weight(chain: &Chain, method: &str) -> u32 {
    let row = method_table(chain.adapter()).into_iter().find(|row| row.metered == method);
    chain.look_up(row.map_or(method, |row| row.name)).rule.cu
}

/// Returns the weight of a method in this configuration, by its metered name.
pub(super) fn weight_by(config: &Config, adapter: Arc<dyn Adapter>, method: &str) -> u32 {
    let name = adapter.facts().name.as_str();
    let changes = config.chains.get(name).map(ChainSettings::changes).unwrap_or_default();
    metered_weight(&Chain::new(adapter, changes, true, Arc::default()), method)
}

/// Lists the methods of a chain with their weights, the most called first: the methods of its table that clients may
/// call, those with a weight set by an operator, and those that were called most. The last group is omitted while usage
/// cannot be read, or while other large queries run.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown chain, [`ActionError::Unavailable`].
pub async fn of_chain(app: &AppState, chain: &str) -> Result<Vec<MethodWeight>, ActionError> {
    let adapter = adapter(chain)?;
    let name = adapter.facts().name.as_str();
    let overlay = app.store.overlay().await?;
    let with = |config: &Config| {
        let changes = config.chains.get(name).map(ChainSettings::changes).unwrap_or_default();
        Chain::new(adapter.clone(), changes, true, Arc::default())
    };
    let deployed = with(&app.settings.config);
    let present = with(&app.settings.overridden_by(&overlay));
    let called = app.usage.method_totals(name, recent_days::hours(app.now()), MAX_LISTED).await;
    let called = if_readable(called.map_err(ActionError::from))?;
    let is_use_known = called.is_some();
    let called = called.unwrap_or_default();
    let set = overlay.weights.get(name);
    let is_open =
        |method: &&Method| !method.rule.flags.has(Flags::CLOSED) && !method.rule.flags.has(Flags::FORBIDDEN);
    let table = method_table(&*adapter);
    let mut methods: BTreeMap<String, u64> =
        table.iter().filter(is_open).map(|method| (method.metered.to_owned(), 0)).collect();
    methods.extend(set.into_iter().flatten().map(|(method, _)| (method.clone(), 0)));
    // Handshakes and similar entries have no weight.
    let is_method =
        |one: &&MethodTotal| text::method("method", &one.method).is_ok() && !one.method.starts_with("WS:");
    methods.extend(called.iter().filter(is_method).map(|one| (one.method.clone(), one.calls)));
    let weight = |(method, calls): (String, u64)| MethodWeight {
        cu: metered_weight(&present, &method),
        deployed: metered_weight(&deployed, &method),
        is_set: set.is_some_and(|set| set.contains_key(&method)),
        method,
        calls: is_use_known.then_some(calls),
    };
    let mut weights: Vec<_> = methods.into_iter().map(weight).collect();
    weights.sort_by(|one, other| other.calls.cmp(&one.calls).then_with(|| one.method.cmp(&other.method)));
    Ok(weights)
}

/// Returns the object that a weight's version belongs to.
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

/// Sets the weights of several methods of a chain, all or none. The expected version is that of all weights of the
/// chain. Gateways are notified.
///
/// # Errors
/// Those of [`get`].
pub async fn put_all(
    app: &AppState,
    actor: &Actor,
    chain: &str,
    weights: &[(&str, u32)],
) -> Result<(), ActionError> {
    let name = path(chain)?;
    for (method, _) in weights {
        text::method("method", method)?;
    }
    let of = Versioned::Weights(name.to_owned());
    if weights.is_empty() {
        return actor.check_version(&app.store, &of).await;
    }
    let now = app.now();
    let entry =
        |method: &str, cu: u32| actor.entry(None, ("weight.set", format!("{name}/{method}"), cu), now);
    let weights: Vec<_> = weights.iter().map(|(method, cu)| (*method, *cu, entry(method, *cu))).collect();
    Ok(actor.expecting(&actor.store(&app.store), of).put_weights(name, &weights, now).await?)
}

/// Removes a weight that was set.
///
/// # Errors
/// Those of [`get`], and [`ActionError::NotFound`] if no weight was set.
pub async fn delete(app: &AppState, actor: &Actor, chain: &str, method: &str) -> Result<(), ActionError> {
    let name = adapter(chain)?.facts().name.as_str();
    text::method("method", method)?;
    let now = app.now();
    let store =
        actor.audited_store(&app.store, None, ("weight.deleted", format!("{name}/{method}"), ""), now);
    let store = actor.expecting(&store, versioned(chain, method)?);
    Ok(store.delete_weight(name, method, now).await?)
}
