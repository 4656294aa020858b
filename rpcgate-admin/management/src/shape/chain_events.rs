//! JSON shapes of the event log.

use crate::shape::moment::Moment;
use crate::shape::subscriptions::EventTypeJson;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// An event that matched a subscription.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = LoggedEvent)]
pub struct LoggedEventJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The path of its chain.
    pub chain: String,
    /// Its type.
    pub event_type: EventTypeJson,
    /// The number of its block.
    pub block_num: u64,
    /// The hash of its block.
    pub block_hash: String,
    /// True if it reverts an earlier event whose block is no longer part of the chain.
    pub removed: bool,
    /// True if it was withheld from an endpoint because too many of its deliveries were waiting. A replay sends it.
    pub withheld: bool,
    /// The `data` of its deliveries.
    #[schema(value_type = Object)]
    pub data: Value,
    /// The time at which it was stored.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl LoggedEventJson {
    /// Shapes a stored event. The body of a `withheld` event is left out.
    pub fn of(event: rpcgate_store::LoggedEvent, withheld: bool) -> Self {
        // Every body is an object with the member `data`.
        let mut body: Value = serde_json::from_slice(&event.body).unwrap_or_default();
        LoggedEventJson {
            id: event.id.to_string(),
            chain: event.chain,
            event_type: event.kind.into(),
            block_num: event.block_num,
            block_hash: event.block_hash,
            removed: event.removed,
            withheld,
            data: body.get_mut("data").map(Value::take).unwrap_or_default(),
            created_at: event.created_at.into(),
        }
    }
}
