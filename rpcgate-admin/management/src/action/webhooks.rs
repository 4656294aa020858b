//! Webhook endpoints of the caller's tenant.

use super::actor::Actor;
use super::{projects, text};
use crate::app_state::AppState;
use crate::egress::{EgressError, EgressTarget};
use crate::error::{ActionError, ErrorCode, Part};
use crate::identity::webhook_secret::{SecretUse, WebhookSecret};
use http::Uri;
use rpcgate_config::Url;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::event::{BlockRef, ChainEvent, EventType};
use rpcgate_store::{
    ChainEventId, Delivery, DeliveryId, EndpointHealth, LoggedEvent, SealedSecrets, Versioned, Webhook,
    WebhookChange, WebhookId, fresh_id,
};
use std::time::Duration;

const UNKNOWN: ActionError = ActionError::NotFound("webhook");

/// The maximum bytes of a URL.
pub const MAX_URL: usize = 2_048;

/// The maximum number of hours during which the old secret signs together with the new one.
pub const MAX_OVERLAP_HOURS: u32 = 72;

/// The maximum number of a tenant's endpoints in a list.
pub const MAX_LISTED: u64 = 1_000;

/// The hours of deliveries in the health of an endpoint.
pub const HEALTH_HOURS: u64 = 24;

const HOUR: Duration = Duration::from_secs(3_600);

/// The chain of test events to an endpoint without subscriptions.
const TEST_CHAIN: &str = "eth";

const TEST_BLOCK: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The properties of a new endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NewWebhook {
    /// The URL of the receiver.
    pub url: String,
    /// True if deliveries also have the headers of Standard Webhooks.
    pub standard_headers: bool,
}

fn later_than_begin() -> ActionError {
    let to = Part::Field("to".into());
    let from = Part::Field("from".into());
    ActionError::of_parts("to", [to, Part::Words(" must be later than ".into()), from])
}

/// Checks the URL of an endpoint, trims it and lowercases its scheme. Whether its host is public is checked at each
/// delivery, because names can resolve differently later.
fn target(url: &str) -> Result<String, ActionError> {
    let url = url.trim();
    let invalid = |why: &str| ActionError::named("url", why.to_owned());
    if url.len() > MAX_URL {
        return Err(invalid(&format!("must be at most {MAX_URL} bytes long")));
    }
    let url = Url::parse(url, &["http", "https"]).map_err(|why| invalid(&why))?.expose().to_owned();
    if !url.is_ascii() {
        return Err(invalid("must not contain characters beyond ASCII: escape them"));
    }
    let parsed: Uri = url.parse().map_err(|_| invalid("is not a URL"))?;
    if parsed.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return Err(invalid("must not contain a user name or a password"));
    }
    match EgressTarget::parse(&url) {
        Err(EgressError::Url(why)) => Err(invalid(why)),
        Err(error) => Err(invalid(&error.to_string())),
        Ok(_) => Ok(url),
    }
}

/// Returns the host of an endpoint for the audit log: the rest of its URL may hold secrets.
fn host(webhook: &Webhook) -> String {
    let parsed = webhook.url.parse::<Uri>().ok();
    parsed.and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default()
}

/// Creates an endpoint and returns it with its secret, which cannot be shown again.
///
/// # Errors
/// [`ErrorCode::EmailUnconfirmed`] if the caller's e-mail address is not confirmed, [`ActionError::NotFound`] for a
/// project that is not the tenant's, [`ActionError::Invalid`] for a URL that cannot receive deliveries,
/// [`ActionError::Full`] if the project already has as many endpoints as the plan allows.
pub async fn create(
    app: &AppState,
    actor: &Actor,
    project: ProjectId,
    new: NewWebhook,
) -> Result<(Webhook, WebhookSecret), ActionError> {
    if actor.user.confirmed_at.is_none() {
        let text = "confirm your e-mail address before you create a webhook";
        return Err(ActionError::Refused(ErrorCode::EmailUnconfirmed, text));
    }
    let project = projects::get(app, actor, project).await?;
    let now = app.now();
    let id = WebhookId(fresh_id(now));
    let secret = WebhookSecret::make()?;
    let webhook = Webhook {
        id,
        project: project.id,
        url: target(&new.url)?,
        secret: secret.seal(&app.sealing, id, SecretUse::Current)?,
        next_secret: None,
        active: true,
        standard_headers: new.standard_headers,
        failing_since: None,
        disabled_at: None,
        created_at: now,
        updated_at: now,
    };
    let event = ("webhook.created", id, host(&webhook));
    let store = actor.audited_store(&app.store, Some(project.tenant), event, now);
    store.create_webhook(project.tenant, &webhook, now).await?;
    Ok((webhook, secret))
}

/// Lists the endpoints of a project, the oldest first.
///
/// # Errors
/// [`ActionError::NotFound`] for a project that is not the tenant's.
pub async fn list(app: &AppState, actor: &Actor, project: ProjectId) -> Result<Vec<Webhook>, ActionError> {
    let project = projects::get(app, actor, project).await?;
    Ok(app.store.webhooks(project.tenant, project.id).await?)
}

/// Lists the endpoints of all projects of the caller's tenant, the oldest first: at most [`MAX_LISTED`].
///
/// # Errors
/// [`ActionError::Forbidden`] for an operator.
pub async fn all(app: &AppState, actor: &Actor) -> Result<Vec<Webhook>, ActionError> {
    Ok(app.store.tenant_webhooks(actor.tenant()?, MAX_LISTED).await?)
}

/// Returns the health of an endpoint: its deliveries of the current hour and the 23 before.
///
/// # Errors
/// [`ActionError::NotFound`] for an endpoint that is not the tenant's.
pub async fn health(app: &AppState, actor: &Actor, id: WebhookId) -> Result<EndpointHealth, ActionError> {
    let webhook = get(app, actor, id).await?;
    let first = app.now().hour().saturating_sub(HEALTH_HOURS - 1);
    let since = Time::from_secs(first.saturating_mul(HOUR.as_secs()));
    Ok(app.store.endpoint_health(actor.tenant()?, webhook.id, since).await?)
}

/// Returns an endpoint of the caller's tenant.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn get(app: &AppState, actor: &Actor, id: WebhookId) -> Result<Webhook, ActionError> {
    app.store.webhook(actor.tenant()?, id).await?.ok_or(UNKNOWN)
}

/// Applies `change` and returns the changed endpoint. Switching it on ends its automatic switch-off.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Invalid`] for a URL that cannot receive deliveries.
pub async fn update(
    app: &AppState,
    actor: &Actor,
    id: WebhookId,
    change: WebhookChange,
) -> Result<Webhook, ActionError> {
    let WebhookChange { url, active, standard_headers } = change;
    let change = WebhookChange { url: url.as_deref().map(target).transpose()?, active, standard_headers };
    let tenant = actor.tenant()?;
    let now = app.now();
    if change == WebhookChange::default() {
        actor.check_version(&app.store, &Versioned::Webhook(tenant, id)).await?;
        return get(app, actor, id).await;
    }
    let changed = [
        ("url", change.url.is_some()),
        ("active", active.is_some()),
        ("standard_headers", standard_headers.is_some()),
    ];
    let changed: Vec<_> = changed.into_iter().filter(|(_, given)| *given).map(|(field, _)| field).collect();
    let event = ("webhook.changed", id, changed.join(", "));
    let store = actor.audited_store(&app.store, Some(tenant), event, now);
    let store = actor.expecting(&store, Versioned::Webhook(tenant, id));
    Ok(store.update_webhook(tenant, id, &change, now).await?)
}

/// Deletes an endpoint with its subscriptions. It gets no more deliveries.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn delete(app: &AppState, actor: &Actor, id: WebhookId) -> Result<(), ActionError> {
    let tenant = actor.tenant()?;
    let now = app.now();
    let store = actor.audited_store(&app.store, Some(tenant), ("webhook.deleted", id, ""), now);
    let store = actor.expecting(&store, Versioned::Webhook(tenant, id));
    Ok(store.delete_webhook(tenant, id, now).await?)
}

/// Replaces the secret of an endpoint and returns the new one, which cannot be shown again. The new secret signs at
/// once; with an overlap, the old one signs too until the overlap ends. A secret that waits for the end of an earlier
/// overlap is dropped, so that a lost answer or a leaked secret can always be handled.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Invalid`] for too long an overlap, [`ActionError::Conflict`] if another
/// user replaces it at the same time.
pub async fn replace_secret(
    app: &AppState,
    actor: &Actor,
    id: WebhookId,
    overlap_hours: Option<u32>,
) -> Result<(Webhook, WebhookSecret), ActionError> {
    let hours = overlap_hours.unwrap_or_default();
    if hours > MAX_OVERLAP_HOURS {
        return Err(ActionError::named("overlap_hours", format!("must be at most {MAX_OVERLAP_HOURS}")));
    }
    let webhook = get(app, actor, id).await?;
    let tenant = actor.tenant()?;
    let now = app.now();
    let new = WebhookSecret::make()?;
    let secrets = if hours == 0 {
        SealedSecrets { secret: new.seal(&app.sealing, id, SecretUse::Current)?, next: None }
    } else {
        let secret = match &webhook.next_secret {
            Some((next, alone)) if *alone <= now => {
                let signing = WebhookSecret::open(&app.sealing, id, SecretUse::Next, next)?;
                signing.seal(&app.sealing, id, SecretUse::Current)?
            }
            _ => webhook.secret.clone(),
        };
        let next = new.seal(&app.sealing, id, SecretUse::Next)?;
        SealedSecrets { secret, next: Some((next, now.plus(HOUR * hours))) }
    };
    let event = ("webhook.secret_replaced", id, format!("overlap of {hours} h"));
    let store = actor.audited_store(&app.store, Some(tenant), event, now);
    Ok((store.replace_secrets(tenant, &webhook, &secrets, now).await?, new))
}

/// Makes a delivery of a test event to an endpoint: a new block, marked as a test, of the chain of its oldest
/// subscription.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::TooMany`] beyond 30 tests and replays of a tenant in a minute,
/// [`ActionError::Conflict`] if the endpoint is switched off, [`ActionError::Full`] if too many of its deliveries wait.
pub async fn send_test(app: &AppState, actor: &Actor, id: WebhookId) -> Result<Delivery, ActionError> {
    let webhook = get(app, actor, id).await?;
    let tenant = actor.tenant()?;
    let now = app.now();
    app.limits.deliveries.admit(tenant)?;
    let oldest = app.store.subscriptions(tenant, webhook.id, None, 1).await?;
    let chain = oldest.first().map_or(TEST_CHAIN, |oldest| &oldest.chain);
    let block = BlockRef::new(0, TEST_BLOCK, "", i64::try_from(now.secs()).unwrap_or(i64::MAX));
    let kind = EventType::NewBlock;
    let event = LoggedEvent {
        id: ChainEventId(fresh_id(now)),
        chain: chain.to_owned(),
        kind,
        block_num: block.height,
        block_hash: block.hash.clone(),
        removed: false,
        body: ChainEvent::new(kind).with("test", true).body(chain, &block),
        created_at: now,
    };
    let delivery = DeliveryId(fresh_id(now));
    let store = actor.audited_store(&app.store, Some(tenant), ("webhook.tested", id, delivery), now);
    Ok(store.create_test_delivery(tenant, id, (delivery, &event), now).await?)
}

/// Sends the events that an endpoint got in a time range again, in new deliveries, and returns their number.
///
/// # Errors
/// [`ActionError::NotFound`]; [`ActionError::Invalid`] for a range that ends before it begins, or that has too many
/// events; [`ActionError::TooMany`] beyond 30 tests and replays of a tenant in a minute; [`ActionError::Conflict`] if
/// the endpoint is switched off; [`ActionError::Full`] if too many of its deliveries wait.
pub async fn replay(
    app: &AppState,
    actor: &Actor,
    id: WebhookId,
    from: Time,
    to: Time,
) -> Result<u64, ActionError> {
    if to <= from {
        return Err(later_than_begin());
    }
    get(app, actor, id).await?;
    let tenant = actor.tenant()?;
    let now = app.now();
    app.limits.deliveries.admit(tenant)?;
    let detail = format!("from {} to {}", text::moment(from), text::moment(to));
    let store = actor.audited_store(&app.store, Some(tenant), ("webhook.replayed", id, detail), now);
    Ok(store.replay(tenant, id, from..to, now).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Webhooks).
    #[test]
    fn a_target_is_an_absolute_url_that_can_be_requested() {
        for good in [
            "https://hooks.example/a?b=c",
            "http://hooks.example:8080",
            "http://127.0.0.1:9/",
            "https://[2001:db8::1]/x",
        ] {
            assert_eq!(target(good).unwrap(), good);
        }
        for (given, stored) in [
            ("HTTPS://hooks.example/X", "https://hooks.example/X"),
            ("Https://hooks.example/x", "https://hooks.example/x"),
            (" \thttps://hooks.example/x \r\n", "https://hooks.example/x"),
            ("https://hooks.example/x\u{2028}", "https://hooks.example/x"),
            ("http://hooks.example?token=abc", "http://hooks.example?token=abc"),
        ] {
            assert_eq!(target(given).unwrap(), stored);
        }
        let long = format!("https://hooks.example/{}", "a".repeat(MAX_URL));
        for (bad, why) in [
            ("", "must begin with one of http://, https://"),
            ("/path", "must begin with one of http://, https://"),
            ("ftp://hooks.example/", "must begin with one of http://, https://"),
            ("javascript:alert(1)", "must begin with one of http://, https://"),
            ("https://", "must name a host"),
            ("https:///path", "must name a host"),
            ("https://hooks.example/#a", "must not have a fragment (#…)"),
            ("https://hooks.example/a b", "must not contain the character ' '"),
            ("https://hooks.example/\r\nx-a: b", "must not contain the character '\\r'"),
            ("https://hooks.example/\u{2028}x", "must not contain the character '\\u{2028}'"),
            ("https://hooks.example:0/", "has a port that is not between 1 and 65535"),
            ("https://user:secret@hooks.example/", "must not contain a user name or a password"),
            ("https://user@hooks.example/", "must not contain a user name or a password"),
            ("https://hooks.example/ä", "must not contain characters beyond ASCII: escape them"),
            ("https://hooks..example/", "has a host that cannot be read"),
            ("https://1.2.3.4.5/", "has an address that cannot be read"),
            (long.as_str(), "must be at most 2048 bytes long"),
        ] {
            assert_eq!(target(bad).unwrap_err().to_string(), format!("`url` {why}"), "{bad}");
        }
    }
}
