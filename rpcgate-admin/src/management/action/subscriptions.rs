//! Subscriptions of webhook endpoints of the caller's tenant.

use super::actor::Actor;
use super::webhooks;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::{SubscriptionId, WebhookId, WebhookSubscription, fresh_id};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::clock::Time;
use rpcgate_core::event::{BlockReader, EventType, HealthPhase};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Members of a filter, at most.
pub const MAX_FILTER: usize = 16;
/// Bytes of the name of a member, at most.
const MAX_KEY: usize = 64;
/// Bytes of a text in a filter, at most.
const MAX_VALUE: usize = 1_024;
/// Confirmations that a subscription may wait for, at most.
pub const MAX_CONFIRMATIONS: u32 = 1_000;

/// The properties of a new subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewSubscription {
    /// The chain, by its path or an alias.
    pub chain: String,
    /// The type of the events.
    pub kind: EventType,
    /// What the data of an event must have.
    pub filter: Option<Map<String, Value>>,
    /// The number of blocks above an event's own that must be there before it is delivered.
    pub confirmations: u32,
}

/// The chain with this path or alias.
///
/// # Errors
/// [`ActionError::Invalid`] if there is none.
pub(super) fn known_chain(name: &str) -> Result<Arc<dyn Adapter>, ActionError> {
    let found = rpcgate_chains::scoped(name).and_then(|name| rpcgate_chains::by_path(name.as_str()));
    found.ok_or_else(|| ActionError::Invalid("`chain` is unknown".into()))
}

/// Refuses events that `chain` does not have. Every chain tells of its health.
fn expect_kind(chain: &str, reader: Option<&dyn BlockReader>, kind: EventType) -> Result<(), ActionError> {
    if kind == EventType::Health || reader.is_some_and(|reader| reader.kinds().contains(&kind)) {
        return Ok(());
    }
    Err(ActionError::Invalid(format!("`event_type` {kind} is not one that {chain} has")))
}

fn wrong(why: String) -> ActionError {
    ActionError::field("filter", why)
}

/// Refuses a filter that is too large, or that no event can match.
fn expect_filter(
    chain: &str,
    reader: Option<&dyn BlockReader>,
    kind: EventType,
    filter: &Map<String, Value>,
) -> Result<(), ActionError> {
    if filter.len() > MAX_FILTER {
        return Err(wrong(format!("`filter` has more than {MAX_FILTER} members")));
    }
    for (key, value) in filter {
        if key.is_empty() || key.len() > MAX_KEY || key.chars().any(char::is_control) {
            return Err(wrong(format!(
                "a member of `filter` has a name that no event has: {MAX_KEY} bytes at most"
            )));
        }
        let is_scalar = match value {
            Value::String(text) if text.len() > MAX_VALUE => {
                return Err(wrong(format!("`{key}` must be at most {MAX_VALUE} bytes long")));
            }
            Value::String(_) | Value::Number(_) | Value::Bool(_) => true,
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        };
        if !is_scalar {
            return Err(wrong(format!("`{key}` must be a text, a number or a boolean")));
        }
        if !can_match(chain, reader, kind, (key, value)) {
            return Err(wrong(format!("no event of the type {kind} on {chain} has this value of `{key}`")));
        }
    }
    Ok(())
}

/// Whether an event can have this member in its data: in the inner part, whose texts have the chain's own forms, or in
/// the outer one.
fn can_match(
    chain: &str,
    reader: Option<&dyn BlockReader>,
    kind: EventType,
    (key, value): (&str, &Value),
) -> bool {
    match key {
        "chain" => value == chain,
        "event_type" => value == kind.name(),
        "block_num" => value.is_u64(),
        "timestamp" => value.is_i64() || value.is_u64(),
        "phase" if kind == EventType::Health => {
            [HealthPhase::Healthy, HealthPhase::Degraded].iter().any(|phase| value == phase.name())
        }
        "block_hash" if !value.is_string() => false,
        "block_hash" if kind == EventType::Health => true,
        _ if kind == EventType::Health => false,
        _ => match (reader, value.as_str()) {
            (Some(reader), Some(text)) => reader.canonical(key, text).is_some(),
            _ => true,
        },
    }
}

/// Adds a subscription to an endpoint.
///
/// # Errors
/// [`ActionError::NotFound`] for an endpoint that is not the tenant's; [`ActionError::Invalid`] and
/// [`ActionError::InvalidField`] for an unknown chain, a type of events that it does not have, too many confirmations,
/// or a filter that nothing can match; [`ActionError::Full`] if there are as many as the plan allows.
pub async fn create(
    app: &AppState,
    actor: &Actor,
    webhook: WebhookId,
    new: NewSubscription,
) -> Result<WebhookSubscription, ActionError> {
    let webhook = webhooks::get(app, actor, webhook).await?;
    let NewSubscription { chain, kind, filter, confirmations } = new;
    let adapter = known_chain(&chain)?;
    let (chain, reader) = (adapter.facts().name.as_str(), adapter.block_reader());
    expect_kind(chain, reader, kind)?;
    if let Some(filter) = &filter {
        expect_filter(chain, reader, kind, filter)?;
    }
    if confirmations > MAX_CONFIRMATIONS {
        return Err(ActionError::Invalid(format!("`confirmations` must be at most {MAX_CONFIRMATIONS}")));
    }
    if kind == EventType::Health && confirmations > 0 {
        return Err(ActionError::Invalid("`confirmations` must be 0 for events of no block".into()));
    }
    let (tenant, now) = (actor.tenant()?, app.now());
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

/// The subscriptions of an endpoint, the oldest first, behind `after`: at most `limit`.
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

/// A subscription of an endpoint of the caller's tenant.
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

/// Deletes a subscription. Deliveries that it has caused are still made.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn delete(app: &AppState, actor: &Actor, id: SubscriptionId) -> Result<(), ActionError> {
    let (tenant, now) = (actor.tenant()?, app.now());
    let store = actor.audited_store(&app.store, Some(tenant), ("subscription.deleted", id, ""), now);
    Ok(store.delete_subscription(tenant, id, now).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::BoxFuture;
    use rpcgate_core::event::{BlockEvents, BlockRef, NodeCalls, ReadError, Wanted};
    use serde_json::json;

    /// A reader of blocks and of activity of addresses, which begin with `a` and are compared in lower case.
    #[derive(Debug)]
    struct Reader;

    impl BlockReader for Reader {
        fn kinds(&self) -> &'static [EventType] {
            &[EventType::NewBlock, EventType::AddressActivity]
        }

        fn head<'a>(&'a self, _: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
            Box::pin(async { Err(ReadError::Unreadable("nothing is read here")) })
        }

        fn at<'a>(
            &'a self,
            _: &'a dyn NodeCalls,
            _: &'a BlockRef,
        ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
            Box::pin(async { Ok(None) })
        }

        fn after<'a>(
            &'a self,
            _: &'a dyn NodeCalls,
            _: &'a BlockRef,
            _: &'a Wanted,
        ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
            Box::pin(async { Ok(None) })
        }

        fn canonical(&self, key: &str, value: &str) -> Option<String> {
            let value = value.to_lowercase();
            (key != "address" || value.starts_with('a')).then_some(value)
        }
    }

    fn check(kind: EventType, filter: &Value) -> Result<(), String> {
        let done = expect_filter("toy", Some(&Reader), kind, filter.as_object().unwrap());
        done.map_err(|error| {
            let ActionError::InvalidField { field, text } = error else { panic!("{error}") };
            assert_eq!(field, "filter");
            text
        })
    }

    #[test]
    fn a_chain_has_the_types_of_its_reader_and_health() {
        for kind in EventType::ALL {
            let is_read = matches!(kind, EventType::NewBlock | EventType::AddressActivity);
            let is_health = kind == EventType::Health;
            assert_eq!(expect_kind("toy", Some(&Reader), kind).is_ok(), is_read || is_health, "{kind}");
            assert_eq!(expect_kind("toy", None, kind).is_ok(), is_health, "{kind}");
        }
        let error = expect_kind("toy", None, EventType::NewBlock).unwrap_err();
        assert_eq!(error.to_string(), "`event_type` new_block is not one that toy has");
    }

    #[test]
    fn a_filter_that_an_event_can_match_is_accepted() {
        let many: Map<_, _> = (0..MAX_FILTER).map(|n| (format!("key{n}"), json!(n))).collect();
        for (kind, filter) in [
            (EventType::AddressActivity, json!({"address": "A1"})),
            (EventType::AddressActivity, json!({"address": "a1", "direction": "in", "value": "5"})),
            (EventType::NewBlock, json!({})),
            (EventType::NewBlock, json!({"transactions": 5, "odd": true})),
            (EventType::NewBlock, json!({"chain": "toy", "event_type": "new_block", "block_num": 7})),
            (EventType::NewBlock, json!({"block_hash": "0xb7", "timestamp": 1_700_000_000})),
            (EventType::NewBlock, Value::Object(many)),
            (EventType::NewBlock, json!({"text": "x".repeat(MAX_VALUE)})),
            (EventType::Health, json!({"phase": "Degraded", "chain": "toy", "block_hash": ""})),
        ] {
            assert_eq!(check(kind, &filter), Ok(()), "{filter}");
        }
    }

    #[test]
    fn a_filter_that_is_too_large_or_that_nothing_can_match_is_refused() {
        let many: Map<_, _> = (0..=MAX_FILTER).map(|n| (format!("key{n}"), json!(n))).collect();
        assert_eq!(
            check(EventType::NewBlock, &Value::Object(many)),
            Err("`filter` has more than 16 members".into())
        );
        let long = json!({"a": "x".repeat(MAX_VALUE + 1)});
        assert_eq!(check(EventType::NewBlock, &long), Err("`a` must be at most 1024 bytes long".into()));
        for value in [json!(null), json!([]), json!([1]), json!({"b": 1})] {
            let text = "`a` must be a text, a number or a boolean";
            assert_eq!(check(EventType::NewBlock, &json!({"a": value})), Err(text.into()));
        }
        for name in ["", "a\nb", "x".repeat(MAX_KEY + 1).as_str()] {
            let text = "a member of `filter` has a name that no event has: 64 bytes at most";
            assert_eq!(check(EventType::NewBlock, &json!({name: 1})), Err(text.into()));
        }
        for (kind, key, value) in [
            (EventType::AddressActivity, "address", json!("b1")),
            (EventType::NewBlock, "chain", json!("eth")),
            (EventType::NewBlock, "event_type", json!("health")),
            (EventType::NewBlock, "block_num", json!("7")),
            (EventType::NewBlock, "block_num", json!(-7)),
            (EventType::NewBlock, "timestamp", json!("now")),
            (EventType::NewBlock, "block_hash", json!(7)),
            (EventType::Health, "phase", json!("Sick")),
            (EventType::Health, "phase", json!(1)),
            (EventType::Health, "address", json!("a1")),
        ] {
            let text = format!("no event of the type {kind} on toy has this value of `{key}`");
            assert_eq!(check(kind, &json!({key: value})), Err(text), "{value}");
        }
    }
}
