//! Chains, switched on and off.

use crate::action::actor::Actor;
use crate::action::chains::{Entry, chains};
use crate::error::ActionError;
use crate::house::House;

const UNKNOWN: ActionError = ActionError::NotFound("chain");

/// Switches a chain on or off: how it stands then. Gateways hear of it. One that the configuration switches off stays off.
///
/// # Errors
/// [`ActionError::NotFound`] for what is no path of a chain.
pub async fn switch(house: &House, actor: &Actor, chain: &str, on: bool) -> Result<Entry, ActionError> {
    let adapter = rpcgate_chains::by_path(chain).ok_or(UNKNOWN)?;
    let (name, now) = (adapter.facts().name, house.now());
    let told = ("chain.switched", name, if on { "on" } else { "off" });
    actor.noting(&house.store, None, told, now).switch_chain(name.as_str(), on, now).await?;
    chains(house).await?.into_iter().find(|entry| entry.facts.name == name).ok_or(UNKNOWN)
}
