//! Routes of deliveries to webhook endpoints.

use axum::Json;
use axum::extract::State;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Id, Query};
use rpcgate_management::shape::deliveries::{DeliveryJson, DeliveryStatusJson, WholeDeliveryJson};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest, time_cursor};
use rpcgate_store::{DeliveryId, WebhookId};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// The filter of deliveries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DeliveryQuery {
    /// Only deliveries in this state.
    #[param(inline)]
    pub status: Option<DeliveryStatusJson>,
}

/// List the deliveries of a webhook endpoint
///
/// Newest first. Finished deliveries are kept until their events expire, but only the newest 100,000.
#[utoipa::path(get, path = "/webhooks/{id}/deliveries", operation_id = "list_deliveries", tag = "webhooks",
    params(Page, DeliveryQuery),
    responses((status = 200, description = "The deliveries.", body = [DeliveryJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
    Id(webhook): Id<WebhookId>,
    Query(query): Query<DeliveryQuery>,
) -> Result<ListPage<DeliveryJson>, ActionError> {
    let before = page.time_cursor()?;
    let status = query.status.map(Into::into);
    let some = action::deliveries::list(&app, &actor, webhook, status, before, page.limit).await?;
    Ok(page.cut(some, |last| time_cursor(last.created_at, last.id)).map(DeliveryJson::from))
}

/// Read a delivery
///
/// Includes its request and its attempts.
#[utoipa::path(get, path = "/deliveries/{id}", operation_id = "get_delivery", tag = "webhooks",
    responses((status = 200, description = "The delivery.", body = WholeDeliveryJson)))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<DeliveryId>,
) -> Result<Json<WholeDeliveryJson>, ActionError> {
    Ok(Json(action::deliveries::get(&app, &actor, id).await?.into()))
}

/// Try a delivery again
///
/// It must have ended. It is due at once, with the same identifier and body.
#[utoipa::path(post, path = "/deliveries/{id}/retry", operation_id = "retry_delivery", tag = "webhooks",
    responses((status = 200, description = "The delivery as it is now.", body = DeliveryJson),
        (status = 409, description = "It has not ended or was tried too often, or its endpoint is switched off.")))]
pub async fn retry(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<DeliveryId>,
) -> Result<Json<DeliveryJson>, ActionError> {
    Ok(Json(action::deliveries::retry(&app, &actor, id).await?.into()))
}

#[cfg(test)]
mod tests;
