//! Deliveries to webhook endpoints of the caller's tenant.

use super::actor::Actor;
use super::webhooks;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::clock::Time;
use rpcgate_store::{Delivery, DeliveryFilter, DeliveryId, DeliveryStatus, WebhookId, WholeDelivery};

/// Lists at most `limit` deliveries of an endpoint, of one state or of all, the newest first, after the position
/// `before`.
///
/// # Errors
/// [`ActionError::NotFound`] for an endpoint that is not the tenant's.
pub async fn list(
    app: &AppState,
    actor: &Actor,
    webhook: WebhookId,
    status: Option<DeliveryStatus>,
    before: Option<(Time, DeliveryId)>,
    limit: u64,
) -> Result<Vec<Delivery>, ActionError> {
    let filter = DeliveryFilter { status, ..DeliveryFilter::default() };
    filtered(app, actor, webhook, &filter, before, limit).await
}

/// Lists the deliveries that match `filter`, which names a chain by its path, in the same order.
///
/// # Errors
/// [`ActionError::NotFound`] for an endpoint that is not the tenant's.
pub async fn filtered(
    app: &AppState,
    actor: &Actor,
    webhook: WebhookId,
    filter: &DeliveryFilter,
    before: Option<(Time, DeliveryId)>,
    limit: u64,
) -> Result<Vec<Delivery>, ActionError> {
    let webhook = webhooks::get(app, actor, webhook).await?;
    Ok(app.store.filtered_deliveries(actor.tenant()?, webhook.id, filter, before, limit).await?)
}

/// Returns a delivery of the caller's tenant with all its details.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn get(app: &AppState, actor: &Actor, id: DeliveryId) -> Result<WholeDelivery, ActionError> {
    app.store.delivery(actor.tenant()?, id).await?.ok_or(ActionError::NotFound("delivery"))
}

/// Makes a completed delivery due again.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Conflict`] for a delivery that has not ended or was tried too often, and
/// if its endpoint is switched off.
pub async fn retry(app: &AppState, actor: &Actor, id: DeliveryId) -> Result<Delivery, ActionError> {
    let tenant = actor.tenant()?;
    let now = app.now();
    let store = actor.audited_store(&app.store, Some(tenant), ("delivery.retried", id, ""), now);
    Ok(store.retry_delivery(tenant, id, now).await?)
}
