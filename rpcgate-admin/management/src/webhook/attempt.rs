//! One attempt at a delivery.

use super::request::headers;
use super::schedule::{DeliverySchedule, requested_wait};
use super::signature::SigningSecrets;
use crate::app_state::AppState;
use crate::egress::{EgressAnswer, EgressError, EgressTarget};
use crate::identity::sealing::SealingError;
use bytes::Bytes;
use http::StatusCode;
use rpcgate_core::clock::Time;
use rpcgate_store::{AfterAttempt, DueDelivery, EndedAttempt};
use std::time::Duration;

const MAX_ERROR: usize = 300;
/// The shortest lease, and the time by which a lease exceeds an attempt. An attempt that starts late in its lease, or
/// whose end is stored late, still ends within it.
const SHORTEST_LEASE: Duration = Duration::from_secs(30);
const SPARE: Duration = Duration::from_secs(20);

/// Returns the time for which a dispatcher claims a delivery. It is longer than an attempt, so two dispatchers never
/// make the same attempt unless one of them dies.
pub fn lease(timeout: Duration) -> Duration {
    timeout.saturating_add(SPARE).max(SHORTEST_LEASE)
}

#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error(transparent)]
    Sealing(#[from] SealingError),
}

/// Makes the next attempt at a delivery, within `webhooks.timeout`.
pub async fn attempt(app: &AppState, delivery: &DueDelivery) -> EndedAttempt {
    let started_at = app.now();
    let began = app.clock.elapsed();
    let number = delivery.attempts.saturating_add(1);
    let answered = send(app, delivery, number, started_at).await;
    let took = app.clock.elapsed().saturating_sub(began);
    let is_gone = answered.as_ref().is_ok_and(|answer| answer.status == StatusCode::GONE);
    let requested = answered.as_ref().ok().and_then(|answer| answer.retry_after.as_ref());
    let requested = requested.and_then(|value| requested_wait(value.to_str().ok()?, app.now()));
    let (status, error, answer) = match answered {
        Ok(EgressAnswer { status, beginning, .. }) => {
            let why = match status {
                StatusCode::GONE => ": the endpoint is gone",
                status if status.is_redirection() => ": redirects are not followed",
                _ => "",
            };
            let error =
                (!status.is_success()).then(|| format!("the receiver answers {}{why}", status.as_u16()));
            (Some(status.as_u16()), error, Some(beginning.to_vec()))
        }
        Err(error) => (None, Some(shortened(&error.to_string())), None),
    };
    let then = match &error {
        None => AfterAttempt::Delivered,
        Some(_) if is_gone => AfterAttempt::Failed,
        Some(_) => {
            let schedule = DeliverySchedule::of(&app.settings.config.webhooks);
            let wait = schedule.wait_as_requested(number, delivery.id, requested);
            wait.map_or(AfterAttempt::Failed, |wait| AfterAttempt::Again(app.now().plus(wait)))
        }
    };
    EndedAttempt {
        delivery: delivery.id,
        webhook: delivery.webhook.id,
        number,
        started_at,
        took,
        status,
        error,
        answer: answer.filter(|answer| !answer.is_empty()),
        gone_url: is_gone.then(|| delivery.webhook.url.clone()),
        then,
    }
}

async fn send(
    app: &AppState,
    delivery: &DueDelivery,
    number: u32,
    now: Time,
) -> Result<EgressAnswer, AttemptError> {
    let target = EgressTarget::parse(&delivery.webhook.url)?;
    let secrets = SigningSecrets::of(&delivery.webhook, &app.sealing, now)?;
    let headers = headers(delivery, number, &secrets, now);
    let body = Bytes::from_owner(delivery.body.clone());
    Ok(app.egress.post(&target, headers, body, app.settings.config.webhooks.timeout).await?)
}

/// Returns the start of an error, without characters that a database refuses.
fn shortened(error: &str) -> String {
    error.chars().filter(|letter| !letter.is_control()).take(MAX_ERROR).collect()
}
