//! Notifications about endpoints whose deliveries fail, and the rules for switching such endpoints off.

use super::notifications::raise_about;
use super::text;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::mail::MailObject;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_store::{EndpointTransitions, FailingEndpoint, NotificationKind, User, WebhookId};
use std::time::Duration;

/// The minimum time between two notifications that the same endpoint fails, and between two that it works again.
const PAUSE: Duration = Duration::from_secs(86_400);
/// The time for which deliveries wait for an endpoint that is switched off or whose tenant is suspended, the reason
/// recorded when they are then given up, and the number given up in one step.
const KEPT: Duration = Duration::from_secs(86_400);
const TOO_LATE: &str =
    "the endpoint was switched off or the organisation suspended, and the delivery waited for it for a day";
const STEP: u64 = 500;
/// The maximum number of letters of a URL in a notification.
const MAX_SHOWN: usize = 200;

/// Notifies users of endpoints that fail and of those that work again. Switches off endpoints whose receiver is gone,
/// and endpoints that got no delivery for `webhooks.disable_after`: when a delivery is given up, and when an attempt
/// fails at an endpoint that `is_left_alone`, whose single attempts may each be for a different delivery, so that no
/// delivery is given up. No user is notified again about an endpoint that `is_told`.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn take_turns(
    app: &AppState,
    turns: &EndpointTransitions,
    is_told: impl Fn(WebhookId) -> bool,
    is_left_alone: impl Fn(WebhookId) -> bool,
) -> Result<(), ActionError> {
    let now = app.now();
    for (webhook, url) in &turns.gone {
        if let Some(tenant) = app.store.disable_gone_webhook(*webhook, url, now).await? {
            tracing::info!(%webhook, "an endpoint is switched off: its receiver answers 410 (Gone)");
            let text = format!(
                "The webhook {} was switched off, because its receiver answers 410 (Gone). Give it another \
                 address, or switch it on again when it works: deliveries wait for it for a day.",
                shown(url)
            );
            notify(app, tenant, *webhook, text).await?;
        }
    }
    let is_gone = |webhook| turns.gone.iter().any(|(gone, _)| *gone == webhook);
    for FailingEndpoint { webhook, since, has_given_up } in turns.failing.iter().copied() {
        if is_due(app.settings.config.webhooks.disable_after, since, now)
            && (has_given_up || is_left_alone(webhook))
            && let Some((tenant, url)) = app.store.disable_webhook(webhook, since, now).await?
        {
            tracing::info!(%webhook, "an endpoint is switched off: no delivery has succeeded for too long");
            let text = format!(
                "The webhook {} was switched off, because its deliveries failed for too long. Switch it on again when \
                 it works: deliveries wait for it for a day.",
                shown(&url)
            );
            notify(app, tenant, webhook, text).await?;
            continue;
        }
        if has_given_up
            && !is_gone(webhook)
            && !is_told(webhook)
            && let Some((tenant, url)) = app.store.notify_of_failing(webhook, PAUSE, now).await?
        {
            let text = format!(
                "Deliveries to the webhook {} fail: one has failed in its last attempt. The list of its \
                 deliveries shows the reasons.",
                shown(&url)
            );
            notify(app, tenant, webhook, text).await?;
        }
    }
    for webhook in &turns.recovered {
        if let Some((tenant, url)) = app.store.notify_of_recovered(*webhook, PAUSE, now).await? {
            let text = format!("Deliveries to the webhook {} succeed again.", shown(&url));
            notify(app, tenant, *webhook, text).await?;
        }
    }
    Ok(())
}

/// Notifies users of endpoints from which events are withheld because too many of their deliveries wait.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn notify_of_withheld(app: &AppState) -> Result<(), ActionError> {
    let now = app.now();
    for webhook in app.store.withheld_webhooks(PAUSE, STEP).await? {
        if let Some((tenant, url)) = app.store.notify_of_withheld(webhook, PAUSE, now).await? {
            tracing::info!(%webhook, "events are withheld from an endpoint: too many deliveries are waiting");
            let text = format!(
                "Too many deliveries wait for the webhook {}. Events from about {} on are only stored in \
                 the log of events. Replay that time when the webhook works again.",
                shown(&url),
                text::moment(now)
            );
            notify(app, tenant, webhook, text).await?;
        }
    }
    Ok(())
}

/// Gives up some of the deliveries that have waited too long for an endpoint that is switched off, or whose tenant is
/// suspended, and returns whether there may be more.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn give_up_waiting(app: &AppState) -> Result<bool, ActionError> {
    let now = app.now();
    let made_before = Time::from_secs(now.secs().saturating_sub(KEPT.as_secs()));
    let given_up = app.store.give_up_waiting_deliveries(made_before, TOO_LATE, STEP, now).await?;
    Ok(given_up >= STEP)
}

/// Reports whether an endpoint without a successful delivery since `since` must be switched off.
fn is_due(disable_after: Duration, since: Time, now: Time) -> bool {
    !disable_after.is_zero() && now.since(since) >= disable_after
}

async fn notify(
    app: &AppState,
    tenant: TenantId,
    webhook: WebhookId,
    text: String,
) -> Result<(), ActionError> {
    let object = |_: &User| MailObject::Webhook(webhook);
    match raise_about(app, tenant, NotificationKind::WebhookHealth, &text, object).await {
        // The tenant was deleted meanwhile.
        Err(ActionError::NotFound(_)) => Ok(()),
        done => done,
    }
}

/// Returns the part of a URL that may be mailed: without the query, which may hold a secret.
fn shown(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Webhooks).
    #[test]
    fn an_endpoint_is_switched_off_after_the_configured_time_and_never_if_that_is_zero() {
        let since = Time::from_secs(1_000_000);
        let day = Duration::from_secs(86_400);
        let almost = since.plus(3 * day - Duration::from_secs(1));
        assert!(!is_due(3 * day, since, almost) && is_due(3 * day, since, since.plus(3 * day)));
        assert!(!is_due(Duration::ZERO, since, since.plus(365 * day)));
    }

    #[test]
    fn a_mail_shows_no_query() {
        assert_eq!(shown("https://a.example/in?token=secret"), "https://a.example/in");
        assert_eq!(shown(&format!("https://{}", "a".repeat(999))).len(), MAX_SHOWN);
    }
}
