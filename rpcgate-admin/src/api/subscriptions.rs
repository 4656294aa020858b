//! Routes of subscriptions of webhook endpoints.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest, time_cursor};
use rpcgate_management::shape::subscriptions::{NewSubscriptionJson, SubscriptionJson};
use rpcgate_store::{SubscriptionId, WebhookId};
use std::sync::Arc;

/// Subscribe a webhook endpoint to events
///
/// Watchers apply it within a second. The plan limits the number of subscriptions of an endpoint.
#[utoipa::path(post, path = "/webhooks/{endpoint_id}/subscriptions", operation_id = "create_subscription",
    tag = "webhooks",
    request_body = NewSubscriptionJson,
    responses((status = 201, description = "The subscription.", body = SubscriptionJson),
        (status = 409, description = "The endpoint has the maximum number of subscriptions that the plan allows.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(webhook): Id<WebhookId>,
    Body(new): Body<NewSubscriptionJson>,
) -> Result<(StatusCode, Json<SubscriptionJson>), ActionError> {
    let NewSubscriptionJson { chain, event_type, filter, confirmations } = new;
    let new = action::subscriptions::NewSubscription {
        chain,
        kind: event_type.into(),
        filter,
        confirmations: confirmations.unwrap_or_default(),
    };
    let created = action::subscriptions::create(&app, &actor, webhook, new).await?;
    Ok((StatusCode::CREATED, Json(created.into())))
}

/// List the subscriptions of a webhook endpoint
///
/// Oldest first.
#[utoipa::path(get, path = "/webhooks/{endpoint_id}/subscriptions", operation_id = "list_subscriptions",
    tag = "webhooks",
    params(Page),
    responses((status = 200, description = "The subscriptions.", body = [SubscriptionJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
    Id(webhook): Id<WebhookId>,
) -> Result<ListPage<SubscriptionJson>, ActionError> {
    let after = page.time_cursor()?;
    let some = action::subscriptions::list(&app, &actor, webhook, after, page.limit).await?;
    Ok(page.cut(some, |last| time_cursor(last.created_at, last.id)).map(SubscriptionJson::from))
}

/// Delete a subscription
///
/// Its existing deliveries are still sent.
#[utoipa::path(delete, path = "/subscriptions/{id}", operation_id = "delete_subscription", tag = "webhooks",
    responses((status = 204, description = "Deleted.")))]
pub async fn delete(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<SubscriptionId>,
) -> Result<StatusCode, ActionError> {
    action::subscriptions::delete(&app, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;
