//! Stripe Checkout (<https://docs.stripe.com/api/checkout/sessions>).
//!
//! An invoice is paid in the mode `payment`. A plan is paid later, by invoices, so its checkout has the mode `setup`,
//! in which the customer saves a means of payment. `client_reference_id` carries our identifier.

use super::{BegunPayment, EventError, PaymentError, PaymentEvent, PaymentOrder, PaymentProvider};
use crate::outgoing::{OutgoingClient, OutgoingError, ServiceUrl};
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use ring::hmac;
use rpcgate_config::{Secret, StripeSettings};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Time;
use rpcgate_store::{CheckoutId, CheckoutSubject, PaymentReport};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

const API: &str = "https://api.stripe.com";

/// The API version of these requests and events. An account's default version may change.
const VERSION: &str = "2024-06-20";

/// The smallest amount of a payment in US dollars
/// (<https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts>).
const LEAST_CENTS: u64 = 50;

/// The maximum age of a signature (<https://docs.stripe.com/webhooks#replay-attacks>).
const TOLERANCE: Duration = Duration::from_secs(300);

const DEADLINE: Duration = Duration::from_secs(10);

/// The number of an event's signatures that are checked. There are two while a secret is being rolled.
const MAX_SIGNATURES: usize = 8;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const STRIPE_VERSION: HeaderName = HeaderName::from_static("stripe-version");
const STRIPE_SIGNATURE: HeaderName = HeaderName::from_static("stripe-signature");

/// Stripe Checkout.
pub struct Stripe {
    client: OutgoingClient,
    url: ServiceUrl,
    authorization: HeaderValue,
    key: hmac::Key,
}

impl fmt::Debug for Stripe {
    /// Leaves out the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stripe").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Stripe {
    /// Configures Stripe, or returns `None` without its secrets.
    ///
    /// # Errors
    /// The key of the setting that cannot be used, and the reason.
    pub fn configured(settings: &StripeSettings) -> Result<Option<Self>, (&'static str, String)> {
        let (Some(secret), Some(events)) = (&settings.secret_key, &settings.webhook_secret) else {
            return Ok(None);
        };
        let api = settings.api_url.as_ref().map_or(API, |url| url.expose()).trim_end_matches('/');
        let wrong = |error: OutgoingError| ("billing.stripe.api_url", error.to_string());
        Ok(Some(Stripe {
            client: OutgoingClient::new().map_err(wrong)?,
            url: ServiceUrl::parse(&format!("{api}/v1/checkout/sessions")).map_err(wrong)?,
            authorization: bearer(secret)?,
            key: hmac::Key::new(hmac::HMAC_SHA256, events.expose().as_bytes()),
        }))
    }

    async fn create_session(&self, order: &PaymentOrder) -> Result<BegunPayment, PaymentError> {
        let id = order.id.to_string();
        let idempotency_key = HeaderValue::try_from(&id);
        let headers = [
            (AUTHORIZATION, self.authorization.clone()),
            (IDEMPOTENCY_KEY, idempotency_key.map_err(|error| PaymentError::Refused(error.to_string()))?),
            (STRIPE_VERSION, HeaderValue::from_static(VERSION)),
        ];
        let form = form(order, &id);
        let form: Vec<_> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = self.client.post_form(&self.url, headers.into_iter().collect(), &form, DEADLINE).await;
        let (status, body) = answer.map_err(|error| PaymentError::Unavailable(error.to_string()))?;
        if status.is_success() {
            let NewSession { id: session, url } = serde_json::from_slice(&body)
                .map_err(|error| PaymentError::Unavailable(format!("the answer cannot be read: {error}")))?;
            return Ok(BegunPayment { url, session });
        }
        let answer: ErrorAnswer = serde_json::from_slice(&body).unwrap_or_default();
        let why = format!("{status} {}", answer.error.message);
        // 409: another request with the same idempotency key is still running.
        let is_temporary = status.is_server_error()
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::CONFLICT);
        Err(if is_temporary { PaymentError::Unavailable(why) } else { PaymentError::Refused(why) })
    }
}

fn bearer(secret: &Secret) -> Result<HeaderValue, (&'static str, String)> {
    let value = HeaderValue::try_from(format!("Bearer {}", secret.expose()));
    let mut value = value.map_err(|_| {
        ("billing.stripe.secret_key", "must contain no characters but those of a header".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn form(order: &PaymentOrder, id: &str) -> Vec<(&'static str, String)> {
    let mut form = vec![
        ("client_reference_id", id.to_owned()),
        ("customer_email", order.email.clone()),
        ("success_url", order.return_url.clone()),
        ("cancel_url", order.return_url.clone()),
        ("metadata[checkout]", id.to_owned()),
    ];
    match order.subject {
        CheckoutSubject::Invoice(number) => form.extend([
            ("mode", "payment".to_owned()),
            ("line_items[0][quantity]", "1".to_owned()),
            ("line_items[0][price_data][currency]", "usd".to_owned()),
            ("line_items[0][price_data][unit_amount]", order.cents.to_string()),
            ("line_items[0][price_data][product_data][name]", format!("Invoice {number}")),
            ("metadata[invoice]", number.to_string()),
        ]),
        CheckoutSubject::Plan(plan) => {
            form.extend([
                ("mode", "setup".to_owned()),
                ("currency", "usd".to_owned()),
                ("metadata[tier]", plan.tier.name().to_owned()),
            ]);
            form.extend(plan.custom.map(|id| ("metadata[custom_plan]", id.to_string())));
        }
    }
    form
}

#[derive(Deserialize)]
struct NewSession {
    id: String,
    url: String,
}

#[derive(Deserialize, Default)]
struct ErrorAnswer {
    #[serde(default)]
    error: ErrorDetail,
}

#[derive(Deserialize, Default)]
struct ErrorDetail {
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    data: Value,
}

/// The members of a session that we read from events.
#[derive(Deserialize)]
struct Session {
    id: String,
    mode: Option<String>,
    client_reference_id: Option<String>,
    payment_status: Option<String>,
    amount_total: Option<u64>,
    currency: Option<String>,
}

/// Verifies the header `Stripe-Signature`: `t=SECONDS,v1=HEX,…`, where each `v1` is an HMAC-SHA256 over the seconds, a dot
/// and the body (<https://docs.stripe.com/webhooks#verify-manually>).
fn verify(key: &hmac::Key, header: &str, body: &[u8], now: Time) -> Result<(), EventError> {
    let parts = || header.split(',').filter_map(|part| part.trim().split_once('='));
    let (_, seconds) = parts().find(|(name, _)| *name == "t").ok_or(EventError::Signature)?;
    let at: u64 = seconds.parse().map_err(|_| EventError::Signature)?;
    if now.secs().abs_diff(at) > TOLERANCE.as_secs() {
        return Err(EventError::Signature);
    }
    let signed = [seconds.as_bytes(), b".", body].concat();
    let mut signatures = parts().filter(|(name, _)| *name == "v1").take(MAX_SIGNATURES);
    // The comparison takes constant time.
    let is_valid = signatures.any(|(_, signature)| {
        hex::decode(signature).is_ok_and(|signature| hmac::verify(key, &signed, &signature).is_ok())
    });
    if is_valid { Ok(()) } else { Err(EventError::Signature) }
}

fn read(body: &[u8]) -> Result<PaymentEvent, EventError> {
    let event: Event = serde_json::from_slice(body).map_err(|_| EventError::Form)?;
    let is_paid_later = match event.kind.as_str() {
        "checkout.session.completed" => false,
        "checkout.session.async_payment_succeeded" => true,
        "checkout.session.async_payment_failed" | "checkout.session.expired" => {
            let session = session(event.data)?;
            let id = session.checkout();
            return Ok(id.map_or(PaymentEvent::Other, |id| PaymentEvent::Ended { id, session: session.id }));
        }
        _ => return Ok(PaymentEvent::Other),
    };
    let session = session(event.data)?;
    let checkout = session.checkout();
    let status = session.payment_status.as_deref().unwrap_or_default();
    if !is_paid_later && !matches!(status, "paid" | "no_payment_required") {
        // This means of payment takes days, and another event follows.
        return Ok(PaymentEvent::Other);
    }
    // A session without anything to pay has brought no money, whatever its total is.
    let cents = if status == "no_payment_required" { 0 } else { session.amount_total.unwrap_or_default() };
    if checkout.is_none() && cents == 0 {
        // A session of a different application of the same account, in which nothing was paid.
        return Ok(PaymentEvent::Other);
    }
    let Session { id: session, mode, currency, .. } = session;
    Ok(PaymentEvent::Completed(PaymentReport { session, checkout, mode, cents, currency }))
}

impl Session {
    fn checkout(&self) -> Option<CheckoutId> {
        self.client_reference_id.as_deref().and_then(|id| id.parse().ok())
    }
}

fn session(mut data: Value) -> Result<Session, EventError> {
    serde_json::from_value(data.get_mut("object").map(Value::take).unwrap_or_default())
        .map_err(|_| EventError::Form)
}

impl PaymentProvider for Stripe {
    fn least_cents(&self) -> u64 {
        LEAST_CENTS
    }

    fn begin<'a>(&'a self, order: &'a PaymentOrder) -> BoxFuture<'a, Result<BegunPayment, PaymentError>> {
        Box::pin(self.create_session(order))
    }

    fn read_event(&self, headers: &HeaderMap, body: &[u8], now: Time) -> Result<PaymentEvent, EventError> {
        let header = headers.get(STRIPE_SIGNATURE).and_then(|value| value.to_str().ok());
        verify(&self.key, header.unwrap_or_default(), body, now)?;
        read(body)
    }
}

#[cfg(test)]
pub(crate) mod tests;
