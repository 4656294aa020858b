//! The headers of a delivery.

use super::signature::{SigningSecrets, signature, standard_signatures};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use rpcgate_core::clock::Time;
use rpcgate_store::DueDelivery;

/// The user agent of deliveries.
pub const AGENT: &str = concat!("rpcgate-webhooks/", env!("CARGO_PKG_VERSION"));
const SIGNATURE: HeaderName = HeaderName::from_static("x-signature");
const NEXT_SIGNATURE: HeaderName = HeaderName::from_static("x-signature-next");
const DELIVERY: HeaderName = HeaderName::from_static("x-delivery-id");
const ATTEMPT: HeaderName = HeaderName::from_static("x-delivery-attempt");
const REPLAY: HeaderName = HeaderName::from_static("x-replay");
const STANDARD_ID: HeaderName = HeaderName::from_static("webhook-id");
const STANDARD_TIME: HeaderName = HeaderName::from_static("webhook-timestamp");
const STANDARD_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Makes a header value of letters, digits and base64 characters, which are always valid.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Returns the headers of this attempt. None of them depends on user input.
pub(super) fn headers(
    delivery: &DueDelivery,
    attempt: u32,
    secrets: &SigningSecrets,
    now: Time,
) -> HeaderMap {
    let SigningSecrets { first, next } = secrets;
    let id = delivery.id.to_string();
    let body = &delivery.body[..];
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    headers.insert(SIGNATURE, value(&signature(first, body)));
    if let Some(next) = next {
        headers.insert(NEXT_SIGNATURE, value(&signature(next, body)));
    }
    headers.insert(DELIVERY, value(&id));
    headers.insert(ATTEMPT, HeaderValue::from(attempt));
    if delivery.replay {
        headers.insert(REPLAY, HeaderValue::from_static("true"));
    }
    if delivery.webhook.standard_headers {
        let both = [Some(first), next.as_ref()].into_iter().flatten();
        let both: Vec<_> = both.map(|secret| standard_signatures(secret, &id, now.secs(), body)).collect();
        headers.insert(STANDARD_ID, value(&id));
        headers.insert(STANDARD_TIME, HeaderValue::from(now.secs()));
        headers.insert(STANDARD_SIGNATURE, value(&both.join(" ")));
    }
    headers
}
