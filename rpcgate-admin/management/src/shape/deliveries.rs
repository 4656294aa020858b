//! JSON shapes of deliveries to webhook endpoints.

use crate::shape::moment::Moment;
use crate::shape::subscriptions::EventTypeJson;
use crate::webhook::AGENT;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The state of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DeliveryStatus)]
pub enum DeliveryStatusJson {
    /// It waits for the confirmations of its block.
    Held,
    /// It waits for its next attempt, or an attempt is in progress.
    Pending,
    /// The receiver acknowledged it.
    Delivered,
    /// All attempts failed.
    Failed,
    /// It was not sent because too many deliveries of the endpoint were waiting. A replay sends it.
    Withheld,
}

impl From<rpcgate_store::DeliveryStatus> for DeliveryStatusJson {
    fn from(status: rpcgate_store::DeliveryStatus) -> Self {
        match status {
            rpcgate_store::DeliveryStatus::Held => DeliveryStatusJson::Held,
            rpcgate_store::DeliveryStatus::Pending => DeliveryStatusJson::Pending,
            rpcgate_store::DeliveryStatus::Delivered => DeliveryStatusJson::Delivered,
            rpcgate_store::DeliveryStatus::Failed => DeliveryStatusJson::Failed,
            rpcgate_store::DeliveryStatus::Withheld => DeliveryStatusJson::Withheld,
        }
    }
}

impl From<DeliveryStatusJson> for rpcgate_store::DeliveryStatus {
    fn from(status: DeliveryStatusJson) -> Self {
        match status {
            DeliveryStatusJson::Held => rpcgate_store::DeliveryStatus::Held,
            DeliveryStatusJson::Pending => rpcgate_store::DeliveryStatus::Pending,
            DeliveryStatusJson::Delivered => rpcgate_store::DeliveryStatus::Delivered,
            DeliveryStatusJson::Failed => rpcgate_store::DeliveryStatus::Failed,
            DeliveryStatusJson::Withheld => rpcgate_store::DeliveryStatus::Withheld,
        }
    }
}

/// A delivery of an event to a webhook endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Delivery)]
pub struct DeliveryJson {
    /// Its identifier, the value of `X-Delivery-Id`.
    #[schema(format = "uuid")]
    pub id: String,
    /// The endpoint.
    #[schema(format = "uuid")]
    pub webhook_id: String,
    /// The subscription that it was created for; null for a test.
    #[schema(format = "uuid")]
    pub subscription_id: Option<String>,
    /// The event.
    #[schema(format = "uuid")]
    pub event_id: String,
    /// The path of the event's chain.
    pub chain: String,
    /// The type of the event.
    pub event_type: EventTypeJson,
    /// Its state.
    pub status: DeliveryStatusJson,
    /// True if it repeats an earlier delivery of the event.
    pub replay: bool,
    /// The number of finished attempts.
    pub attempts: u32,
    /// The due time of the next attempt; null if no attempt follows.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub due_at: Option<Moment>,
    /// The block height at which it stops being held, or null.
    pub held_until: Option<u64>,
    /// The HTTP status of the last response, or null.
    pub last_status: Option<u16>,
    /// The error of the last attempt, or null.
    pub last_error: Option<String>,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// The end of its last attempt; null while more attempts follow.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Moment>,
}

impl From<rpcgate_store::Delivery> for DeliveryJson {
    fn from(delivery: rpcgate_store::Delivery) -> Self {
        let is_pending = delivery.status == rpcgate_store::DeliveryStatus::Pending;
        DeliveryJson {
            id: delivery.id.to_string(),
            webhook_id: delivery.webhook.to_string(),
            subscription_id: delivery.subscription.map(|id| id.to_string()),
            event_id: delivery.event.to_string(),
            chain: delivery.chain,
            event_type: delivery.kind.into(),
            status: delivery.status.into(),
            replay: delivery.replay,
            attempts: delivery.attempts,
            due_at: Some(delivery.due_at).filter(|_| is_pending).map(Moment),
            held_until: delivery.held_until,
            last_status: delivery.last_status,
            last_error: delivery.last_error,
            created_at: delivery.created_at.into(),
            finished_at: delivery.finished_at.map(Moment),
        }
    }
}

/// An attempt of a delivery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = DeliveryAttempt)]
pub struct DeliveryAttemptJson {
    /// Its number, from 1: the value of `X-Delivery-Attempt`.
    pub number: u32,
    /// The start time.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Moment,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The HTTP status of the response; null without a response.
    pub status: Option<u16>,
    /// The reason for the failure, or null.
    pub error: Option<String>,
    /// The beginning of the response body, or null.
    pub answer: Option<String>,
}

impl From<rpcgate_store::DeliveryAttempt> for DeliveryAttemptJson {
    fn from(attempt: rpcgate_store::DeliveryAttempt) -> Self {
        DeliveryAttemptJson {
            number: attempt.number,
            started_at: attempt.started_at.into(),
            duration_ms: u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
            status: attempt.status,
            error: attempt.error,
            answer: attempt.answer.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        }
    }
}

/// The request of a delivery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct DeliveryRequest {
    /// Its method.
    #[schema(example = "POST")]
    pub method: &'static str,
    /// The current URL of the endpoint.
    pub url: String,
    /// Its headers without the signatures: those of the last attempt, or of the next one if one follows.
    pub headers: BTreeMap<&'static str, String>,
    /// The exact body that is signed.
    pub body: String,
}

/// A delivery with its request and its attempts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = WholeDelivery)]
pub struct WholeDeliveryJson {
    /// The delivery.
    #[serde(flatten)]
    pub delivery: DeliveryJson,
    /// Its request.
    pub request: DeliveryRequest,
    /// Its finished attempts, the oldest first.
    pub history: Vec<DeliveryAttemptJson>,
}

impl From<rpcgate_store::WholeDelivery> for WholeDeliveryJson {
    fn from(whole: rpcgate_store::WholeDelivery) -> Self {
        let rpcgate_store::WholeDelivery { delivery, event, webhook, attempts } = whole;
        let is_over = delivery.status.is_final();
        let attempt = if is_over { delivery.attempts.max(1) } else { delivery.attempts + 1 };
        let mut headers = BTreeMap::from([
            ("content-type", "application/json".to_owned()),
            ("user-agent", AGENT.to_owned()),
            ("x-delivery-id", delivery.id.to_string()),
            ("x-delivery-attempt", attempt.to_string()),
        ]);
        if delivery.replay {
            headers.insert("x-replay", "true".into());
        }
        if webhook.standard_headers {
            headers.insert("webhook-id", delivery.id.to_string());
            // The time of the next attempt is not known.
            if let Some(last) = attempts.last().filter(|_| is_over) {
                headers.insert("webhook-timestamp", last.started_at.secs().to_string());
            }
        }
        let body = String::from_utf8_lossy(&event.body).into_owned();
        WholeDeliveryJson {
            delivery: delivery.into(),
            request: DeliveryRequest { method: "POST", url: webhook.url, headers, body },
            history: attempts.into_iter().map(DeliveryAttemptJson::from).collect(),
        }
    }
}
