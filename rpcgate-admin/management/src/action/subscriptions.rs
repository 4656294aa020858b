//! Subscriptions of webhook endpoints of the caller's tenant.

use super::actor::Actor;
use super::{event_filter, webhooks};
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::clock::Time;
use rpcgate_core::event::{BlockReader, EventType};
use rpcgate_store::{SubscriptionId, WebhookId, WebhookSubscription, fresh_id};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The maximum number of confirmations of a subscription.
pub const MAX_CONFIRMATIONS: u32 = 1_000;

/// The properties of a new subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewSubscription {
    /// The chain, by its path or an alias.
    pub chain: String,
    /// The type of the events.
    pub kind: EventType,
    /// The values that the data of an event must have.
    pub filter: Option<Map<String, Value>>,
    /// The number of blocks that must follow an event's block before its delivery.
    pub confirmations: u32,
}

/// Finds the chain with this path or alias.
///
/// # Errors
/// [`ActionError::Invalid`] for an unknown chain.
pub(super) fn known_chain(name: &str) -> Result<Arc<dyn Adapter>, ActionError> {
    let found = rpcgate_chains::scoped(name).and_then(|name| rpcgate_chains::by_path(name.as_str()));
    found.ok_or_else(|| ActionError::named("chain", "is unknown"))
}

/// Refuses events that `chain` does not have. Every chain reports its health.
fn expect_kind(chain: &str, reader: Option<&dyn BlockReader>, kind: EventType) -> Result<(), ActionError> {
    if kind == EventType::Health || reader.is_some_and(|reader| reader.kinds().contains(&kind)) {
        return Ok(());
    }
    Err(ActionError::named("event_type", format!("{kind} is not one that {chain} has")))
}

/// Adds a subscription to an endpoint.
///
/// # Errors
/// [`ActionError::NotFound`] for an endpoint that is not the tenant's; [`ActionError::Invalid`] and
/// [`ActionError::Invalid`] for an unknown chain, a type of events that it does not have, too many confirmations,
/// or a filter that nothing can match; [`ActionError::Full`] if the plan allows no more.
pub async fn create(
    app: &AppState,
    actor: &Actor,
    webhook: WebhookId,
    new: NewSubscription,
) -> Result<WebhookSubscription, ActionError> {
    let webhook = webhooks::get(app, actor, webhook).await?;
    let NewSubscription { chain, kind, filter, confirmations } = new;
    let adapter = known_chain(&chain)?;
    let chain = adapter.facts().name.as_str();
    let reader = adapter.block_reader();
    expect_kind(chain, reader, kind)?;
    if let Some(filter) = &filter {
        event_filter::expect_possible(chain, reader, kind, filter)?;
    }
    if confirmations > MAX_CONFIRMATIONS {
        return Err(ActionError::named("confirmations", format!("must be at most {MAX_CONFIRMATIONS}")));
    }
    if kind == EventType::Health && confirmations > 0 {
        return Err(ActionError::named("confirmations", "must be 0 for events of no block"));
    }
    let tenant = actor.tenant()?;
    let now = app.now();
    let subscription = WebhookSubscription {
        id: SubscriptionId(fresh_id(now)),
        webhook: webhook.id,
        chain: chain.to_owned(),
        kind,
        filter,
        confirmations,
        created_at: now,
    };
    let event = ("subscription.created", subscription.id, format!("{kind} on {chain} to {}", webhook.id));
    let store = actor.audited_store(&app.store, Some(tenant), event, now);
    store.create_subscription(tenant, &subscription, now).await?;
    Ok(subscription)
}

/// Lists at most `limit` subscriptions of an endpoint, the oldest first, after the position `after`.
///
/// # Errors
/// [`ActionError::NotFound`] for an endpoint that is not the tenant's.
pub async fn list(
    app: &AppState,
    actor: &Actor,
    webhook: WebhookId,
    after: Option<(Time, SubscriptionId)>,
    limit: u64,
) -> Result<Vec<WebhookSubscription>, ActionError> {
    let webhook = webhooks::get(app, actor, webhook).await?;
    Ok(app.store.subscriptions(actor.tenant()?, webhook.id, after, limit).await?)
}

/// Returns a subscription of an endpoint of the caller's tenant.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn get(
    app: &AppState,
    actor: &Actor,
    webhook: WebhookId,
    id: SubscriptionId,
) -> Result<WebhookSubscription, ActionError> {
    let found = app.store.subscription(actor.tenant()?, id).await?;
    found.filter(|found| found.webhook == webhook).ok_or(ActionError::NotFound("subscription"))
}

/// Deletes a subscription. Its existing deliveries are still made.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn delete(app: &AppState, actor: &Actor, id: SubscriptionId) -> Result<(), ActionError> {
    let tenant = actor.tenant()?;
    let now = app.now();
    let store = actor.audited_store(&app.store, Some(tenant), ("subscription.deleted", id, ""), now);
    Ok(store.delete_subscription(tenant, id, now).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Webhooks).
    #[test]
    fn a_chain_has_the_types_of_its_reader_and_health() {
        let adapter = known_chain("xlm").unwrap();
        for kind in EventType::ALL {
            let is_read = kind == EventType::NewBlock;
            let is_health = kind == EventType::Health;
            let reader = adapter.block_reader();
            assert_eq!(expect_kind("xlm", reader, kind).is_ok(), is_read || is_health, "{kind}");
            assert_eq!(expect_kind("xlm", None, kind).is_ok(), is_health, "{kind}");
        }
        let error = expect_kind("xlm", None, EventType::NewBlock).unwrap_err();
        assert_eq!(error.to_string(), "`event_type` new_block is not one that xlm has");
    }
}
