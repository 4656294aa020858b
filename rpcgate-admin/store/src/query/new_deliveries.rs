//! Deliveries of test events, and the common parts of all deliveries that users request.

use super::chain_events::LoggedEvent;
use super::delivery_list::Delivery;
use super::delivery_status::DeliveryStatus;
use super::due_deliveries::any_position;
use super::id::{DeliveryId, WebhookId};
use super::value::{moment, number};
use super::webhooks::expect_active;
use crate::entity::deliveries::{Column, Entity, Model};
use crate::entity::{chain_events, webhook_replays};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QuerySelect,
};
use uuid::Uuid;

/// The number of waiting deliveries of an endpoint above which users cannot request more.
pub const MAX_WAITING: u64 = 20_000;

async fn in_replays(transaction: &DatabaseTransaction, webhook: Uuid) -> Result<u64, StoreError> {
    use webhook_replays::Column::{Remaining, WebhookId};
    let all = webhook_replays::Entity::find()
        .select_only()
        .column(Remaining)
        .filter(WebhookId.eq(webhook))
        .into_tuple::<i64>();
    let all = all.all(transaction).await?;
    Ok(all.into_iter().map(i64::unsigned_abs).sum())
}

/// Refuses more deliveries to an endpoint for which too many wait, including those of replays that are not made yet.
pub(super) async fn check_capacity(
    transaction: &DatabaseTransaction,
    webhook: Uuid,
    new: u64,
) -> Result<(), StoreError> {
    let new = new.saturating_add(in_replays(transaction, webhook).await?);
    let waiting = Entity::find()
        .filter(Column::WebhookId.eq(webhook))
        .filter(Column::Status.eq(DeliveryStatus::Pending.name()))
        .filter(any_position());
    if waiting.count(transaction).await?.saturating_add(new) <= MAX_WAITING {
        return Ok(());
    }
    Err(StoreError::Full(format!(
        "at most {MAX_WAITING} deliveries of a webhook may wait: try again when they have been made"
    )))
}

pub(super) fn due(id: u128, webhook: Uuid, event: Uuid, now: Time) -> Model {
    Model {
        id: Uuid::from_u128(id),
        webhook_id: webhook,
        subscription_id: None,
        event_id: event,
        status: DeliveryStatus::Pending.name().into(),
        replay: false,
        attempts: 0,
        due_at: moment(now),
        ready: true,
        held_chain: None,
        held_until: None,
        last_status: None,
        last_error: None,
        created_at: moment(now),
        finished_at: None,
    }
}

pub(super) async fn insert_event(
    transaction: &DatabaseTransaction,
    event: &LoggedEvent,
) -> Result<(), StoreError> {
    let row = chain_events::ActiveModel {
        id: Set(Uuid::from_u128(event.id.0)),
        chain: Set(event.chain.clone()),
        event_type: Set(event.kind.name().into()),
        block_num: Set(number("block_num", event.block_num)?),
        block_hash: Set(event.block_hash.clone()),
        removed: Set(event.removed),
        body: Set(event.body.clone()),
        created_at: Set(moment(event.created_at)),
    };
    chain_events::Entity::insert(row).exec_without_returning(transaction).await?;
    Ok(())
}

impl Store {
    /// Stores a test event, which is in no project's log, and its delivery to an endpoint of a tenant.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the endpoint is not this tenant's, [`StoreError::WrongState`] if it is switched off,
    /// [`StoreError::Full`] if too many of its deliveries wait; [`StoreError::Unavailable`].
    pub async fn create_test_delivery(
        &self,
        tenant: TenantId,
        webhook: WebhookId,
        (id, event): (DeliveryId, &LoggedEvent),
        now: Time,
    ) -> Result<Delivery, StoreError> {
        self.write(async |transaction| {
            let endpoint = expect_active(transaction, tenant, webhook).await?;
            check_capacity(transaction, endpoint.id, 1).await?;
            insert_event(transaction, event).await?;
            let row = due(id.0, endpoint.id, Uuid::from_u128(event.id.0), now);
            let columns = row.clone().into_active_model().reset_all();
            Entity::insert(columns).exec_without_returning(transaction).await?;
            Delivery::of(row, event.chain.clone(), event.kind)
        })
        .await
    }
}
