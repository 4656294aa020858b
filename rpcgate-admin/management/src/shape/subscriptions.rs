//! JSON shapes of subscriptions of webhook endpoints.

use crate::shape::moment::Moment;
use rpcgate_core::event::EventType;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

macro_rules! types {
    ($($(#[$text:meta])* $type:ident $name:literal $summary:literal,)*) => {
        /// The type of an event.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        #[schema(as = EventType)]
        pub enum EventTypeJson {
            $($(#[$text])* $type,)*
        }

        impl From<EventType> for EventTypeJson {
            fn from(kind: EventType) -> Self {
                match kind {
                    $(EventType::$type => EventTypeJson::$type,)*
                }
            }
        }

        impl From<EventTypeJson> for EventType {
            fn from(kind: EventTypeJson) -> Self {
                EventType::ALL[kind as usize]
            }
        }
    };
}

rpcgate_core::event_types!(types);

/// A subscription of a webhook endpoint to events of a chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Subscription)]
pub struct SubscriptionJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The endpoint that receives the events.
    #[schema(format = "uuid")]
    pub webhook_id: String,
    /// The path of the chain.
    #[schema(example = "eth")]
    pub chain: String,
    /// The type of the events.
    pub event_type: EventTypeJson,
    /// The values that the data of an event must have, or null.
    #[schema(value_type = Option<Object>)]
    pub filter: Option<Map<String, Value>>,
    /// The number of later blocks that must exist before an event is delivered.
    pub confirmations: u32,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl From<rpcgate_store::WebhookSubscription> for SubscriptionJson {
    fn from(subscription: rpcgate_store::WebhookSubscription) -> Self {
        SubscriptionJson {
            id: subscription.id.to_string(),
            webhook_id: subscription.webhook.to_string(),
            chain: subscription.chain,
            event_type: subscription.kind.into(),
            filter: subscription.filter,
            confirmations: subscription.confirmations,
            created_at: subscription.created_at.into(),
        }
    }
}

/// The properties of a new subscription.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSubscription)]
pub struct NewSubscriptionJson {
    /// The chain, by its path or an alias.
    #[schema(example = "eth")]
    pub chain: String,
    /// The type of the events.
    pub event_type: EventTypeJson,
    /// The values that the data of an event must have. Each member of this object must equal the member of the same
    /// name in the event's innermost `data`, or else in the `data` around it. At most 16 members, which are texts,
    /// numbers or booleans. By default all events of the type match.
    #[schema(value_type = Option<Object>, example = json!({"address": "0x00000000219ab540356cbb839cbe05303d7705fa"}))]
    pub filter: Option<Map<String, Value>>,
    /// The number of later blocks that must exist before an event is delivered; 0 by default.
    #[schema(maximum = 1000)]
    pub confirmations: Option<u32>,
}
