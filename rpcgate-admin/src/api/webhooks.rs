//! Routes of webhook endpoints.

use super::etag::{IfMatchHeader, Tagged};
use axum::Json;
use axum::extract::{Request, State};
use http::StatusCode;
use rpcgate_core::caller::ProjectId;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::versions::current;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id, read_body};
use rpcgate_management::shape::deliveries::DeliveryJson;
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::moment::Moment;
use rpcgate_management::shape::webhooks::{
    NewWebhookJson, ReplayRange, ReplayStarted, SecretReplacement, WebhookChangeJson, WebhookJson,
    WebhookWithSecret,
};
use rpcgate_management::{action, strict_json};
use rpcgate_store::{Versioned, WebhookId};
use std::sync::Arc;

/// Create a webhook endpoint
///
/// Only this response contains the secret that signs its deliveries. The caller's e-mail address must be confirmed. The
/// plan limits the number of endpoints of a project.
#[utoipa::path(post, path = "/projects/{project_id}/webhooks", operation_id = "create_webhook", tag = "webhooks",
    request_body = NewWebhookJson,
    responses((status = 201, description = "The endpoint.", body = WebhookWithSecret),
        (status = 403, description = "The role does not permit this, or the e-mail address is not confirmed."),
        (status = 409, description = "The project has as many webhooks as the plan allows.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(project): Id<ProjectId>,
    Body(new): Body<NewWebhookJson>,
) -> Result<(StatusCode, Json<WebhookWithSecret>), ActionError> {
    let NewWebhookJson { url, standard_headers } = new;
    let standard_headers = standard_headers.unwrap_or_default();
    let new = action::webhooks::NewWebhook { url, standard_headers };
    let created = action::webhooks::create(&app, &actor, project, new).await?;
    Ok((StatusCode::CREATED, Json(WebhookWithSecret::of(created, app.now()))))
}

/// List the webhook endpoints of a project
///
/// Oldest first.
#[utoipa::path(get, path = "/projects/{project_id}/webhooks", operation_id = "list_webhooks", tag = "webhooks",
    params(Page),
    responses((status = 200, description = "All endpoints.", body = [WebhookJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
    Id(project): Id<ProjectId>,
) -> Result<ListPage<WebhookJson>, ActionError> {
    let all = action::webhooks::list(&app, &actor, project).await?;
    let now = app.now();
    page.of(all.into_iter().map(|one| WebhookJson::of(one, now)).collect(), false, |one| &one.id)
}

/// Read a webhook endpoint
#[utoipa::path(get, path = "/webhooks/{id}", operation_id = "get_webhook", tag = "webhooks",
    responses((status = 200, description = "The endpoint.", body = WebhookJson,
        headers(("ETag" = String, description = "The version, for `If-Match`.")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<WebhookId>,
) -> Result<Tagged<WebhookJson>, ActionError> {
    let version = current(&app, Versioned::Webhook(actor.tenant()?, id)).await?;
    let webhook = action::webhooks::get(&app, &actor, id).await?;
    Ok(Tagged::new(version, WebhookJson::of(webhook, app.now())))
}

/// Change a webhook endpoint
///
/// Changes its URL, its headers, and whether events are delivered to it. Switching it on also enables an endpoint that
/// was disabled because its deliveries failed.
#[utoipa::path(put, path = "/webhooks/{id}", operation_id = "update_webhook", tag = "webhooks",
    params(IfMatchHeader),
    request_body = WebhookChangeJson,
    responses((status = 200, description = "The endpoint as it is now.", body = WebhookJson)))]
pub async fn update(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<WebhookId>,
    Body(change): Body<WebhookChangeJson>,
) -> Result<Json<WebhookJson>, ActionError> {
    let WebhookChangeJson { url, active, standard_headers } = change;
    let change = rpcgate_store::WebhookChange { url, active, standard_headers };
    let changed = action::webhooks::update(&app, &actor, id, change).await?;
    Ok(Json(WebhookJson::of(changed, app.now())))
}

/// Delete a webhook endpoint
///
/// Also deletes its subscriptions. Nothing is sent to it any more, and its deliveries are no longer shown.
#[utoipa::path(delete, path = "/webhooks/{id}", operation_id = "delete_webhook", tag = "webhooks",
    params(IfMatchHeader),
    responses((status = 204, description = "Deleted.")))]
pub async fn delete(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<WebhookId>,
) -> Result<StatusCode, ActionError> {
    action::webhooks::delete(&app, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Replace the secret of a webhook endpoint
///
/// Only this response contains the new secret. Without `overlap_hours`, or without a body, it signs at once. With it,
/// the old secret signs in `X-Signature` until that time has passed, and the new one signs in `X-Signature-Next`. A
/// secret from an earlier replacement that does not sign alone yet is discarded.
#[utoipa::path(post, path = "/webhooks/{id}/secret", operation_id = "replace_webhook_secret", tag = "webhooks",
    request_body(content = Option<SecretReplacement>, description = "Without a body, the new secret signs at once."),
    responses((status = 200, description = "The endpoint with its new secret.", body = WebhookWithSecret),
        (status = 409, description = "Another request has replaced it at the same time.")))]
pub async fn replace_secret(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<WebhookId>,
    request: Request,
) -> Result<Json<WebhookWithSecret>, ActionError> {
    let body = read_body(request, &()).await?;
    let replacement = if matches!(body.trim_ascii(), b"" | b"null") {
        SecretReplacement::default()
    } else {
        strict_json::of_object(&body)?
    };
    let replaced = action::webhooks::replace_secret(&app, &actor, id, replacement.overlap_hours).await?;
    Ok(Json(WebhookWithSecret::of(replaced, app.now())))
}

/// Send a test event to a webhook endpoint
///
/// Creates an ordinary delivery of a `new_block` event whose innermost `data` is `{"test": true}`. Its chain is that of
/// the endpoint's oldest subscription.
#[utoipa::path(post, path = "/webhooks/{id}/test", operation_id = "test_webhook", tag = "webhooks",
    responses((status = 201, description = "The delivery.", body = DeliveryJson),
        (status = 409, description = "The endpoint is switched off, or too many of its deliveries are waiting.")))]
pub async fn test(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<WebhookId>,
) -> Result<(StatusCode, Json<DeliveryJson>), ActionError> {
    let delivery = action::webhooks::send_test(&app, &actor, id).await?;
    Ok((StatusCode::CREATED, Json(delivery.into())))
}

/// Send events to a webhook endpoint again
///
/// Repeats everything that was sent to it for the events in the project's log from this time range, at most 10,000
/// deliveries. They are new deliveries with their own identifiers and the header `X-Replay: true`.
#[utoipa::path(post, path = "/webhooks/{id}/replay", operation_id = "replay_webhook", tag = "webhooks",
    request_body = ReplayRange,
    responses((status = 202, description = "The deliveries are due.", body = ReplayStarted),
        (status = 409, description = "The endpoint is switched off, or too many of its deliveries are waiting.")))]
pub async fn replay(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<WebhookId>,
    Body(range): Body<ReplayRange>,
) -> Result<(StatusCode, Json<ReplayStarted>), ActionError> {
    let ReplayRange { from: Moment(from), to: Moment(to) } = range;
    let deliveries = action::webhooks::replay(&app, &actor, id, from, to).await?;
    Ok((StatusCode::ACCEPTED, Json(ReplayStarted { deliveries })))
}

#[cfg(test)]
pub(crate) mod tests;
