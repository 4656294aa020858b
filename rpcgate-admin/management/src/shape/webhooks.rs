//! JSON shapes of webhook endpoints.

use crate::identity::webhook_secret::WebhookSecret;
use crate::shape::moment::Moment;
use rpcgate_core::clock::Time;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// A webhook endpoint, without its secret.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Webhook)]
pub struct WebhookJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// Its project.
    #[schema(format = "uuid")]
    pub project_id: String,
    /// The URL that receives deliveries.
    pub url: String,
    /// True if events are delivered.
    pub active: bool,
    /// True if deliveries also have the headers of Standard Webhooks.
    pub standard_headers: bool,
    /// The time until which the old secret signs in addition to the new one, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub secret_overlap_until: Option<Moment>,
    /// The time since which no delivery has succeeded; null if the last one did.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub failing_since: Option<Moment>,
    /// The time at which it was switched off because its deliveries had failed for too long, or null.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub disabled_at: Option<Moment>,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Moment,
}

impl WebhookJson {
    /// Shapes a webhook without its secret.
    pub fn of(webhook: rpcgate_store::Webhook, now: Time) -> Self {
        let overlap = webhook.next_secret.map(|(_, until)| until).filter(|until| *until > now);
        WebhookJson {
            id: webhook.id.to_string(),
            project_id: webhook.project.to_string(),
            url: webhook.url,
            active: webhook.active,
            standard_headers: webhook.standard_headers,
            secret_overlap_until: overlap.map(Moment),
            failing_since: webhook.failing_since.map(Moment),
            disabled_at: webhook.disabled_at.map(Moment),
            created_at: webhook.created_at.into(),
            updated_at: webhook.updated_at.into(),
        }
    }
}

/// A webhook endpoint with its new secret.
#[derive(Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WebhookWithSecret {
    /// The secret that signs deliveries. It is shown only once.
    #[schema(pattern = "^whsec_[0-9a-f]{64}$")]
    pub secret: String,
    /// The endpoint.
    #[serde(flatten)]
    pub webhook: WebhookJson,
}

impl WebhookWithSecret {
    /// Shapes a webhook with its secret, which is shown once.
    pub fn of((webhook, secret): (rpcgate_store::Webhook, WebhookSecret), now: Time) -> Self {
        WebhookWithSecret { secret: secret.expose().to_owned(), webhook: WebhookJson::of(webhook, now) }
    }
}

impl fmt::Debug for WebhookWithSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.webhook.fmt(f)
    }
}

/// The properties of a new webhook endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewWebhook)]
pub struct NewWebhookJson {
    /// The URL that receives deliveries: absolute, with http or https, without user name, password and fragment.
    #[schema(max_length = 2048, example = "https://hooks.example.com/rpcgate")]
    pub url: String,
    /// True to also send the headers of Standard Webhooks; false by default.
    pub standard_headers: Option<bool>,
}

/// A change to a webhook endpoint. Fields that are left out stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WebhookChange)]
pub struct WebhookChangeJson {
    /// The URL that receives deliveries.
    #[schema(max_length = 2048)]
    pub url: Option<String>,
    /// True to deliver events. Undelivered events are still due when it is switched on again.
    pub active: Option<bool>,
    /// True to also send the headers of Standard Webhooks.
    pub standard_headers: Option<bool>,
}

/// The replacement of a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretReplacement {
    /// The hours for which the old secret signs in addition to the new one; by default the new one signs alone at once.
    #[schema(maximum = 72)]
    pub overlap_hours: Option<u32>,
}

/// The time range of the events to send again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRange {
    /// Events that were stored at this time or later.
    #[schema(value_type = String, format = DateTime)]
    pub from: Moment,
    /// Events that were stored before this time.
    #[schema(value_type = String, format = DateTime)]
    pub to: Moment,
}

/// The result of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct ReplayStarted {
    /// The number of new deliveries.
    pub deliveries: u64,
}
