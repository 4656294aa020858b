//! Subscriptions of webhook endpoints to events.

use super::id::{SubscriptionId, WebhookId};
use super::keyset::page;
use super::plans::{counts, full};
use super::value::{insert_error, moment, time, unreadable};
use super::webhooks::{expect, of_tenants_webhooks, record_change};
use crate::entity::subscriptions::{ActiveModel, Column, Entity, Model};
use crate::entity::webhooks;
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::event::EventType;
use sea_orm::ActiveValue::Set;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QuerySelect, Select};
use serde_json::{Map, Value};
use uuid::Uuid;

const MAX_RETURNED: u64 = 1_000;

/// A subscription of an endpoint to events of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookSubscription {
    /// Its identifier.
    pub id: SubscriptionId,
    /// The endpoint that gets the events.
    pub webhook: WebhookId,
    /// The path of the chain.
    pub chain: String,
    /// The type of the events.
    pub kind: EventType,
    /// The filter on the data of an event, as the user wrote it.
    pub filter: Option<Map<String, Value>>,
    /// The number of blocks above an event's own that must exist before it is delivered.
    pub confirmations: u32,
    /// The creation time.
    pub created_at: Time,
}

impl TryFrom<Model> for WebhookSubscription {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        let filter = row.filter.as_deref().map(serde_json::from_str).transpose();
        Ok(WebhookSubscription {
            id: SubscriptionId(row.id.as_u128()),
            webhook: WebhookId(row.webhook_id.as_u128()),
            kind: kind(&row.event_type)?,
            chain: row.chain,
            filter: filter.map_err(|_| unreadable("filter of a subscription", row.id))?,
            confirmations: u32::try_from(row.confirmations)
                .map_err(|_| unreadable("number of confirmations", row.confirmations))?,
            created_at: time(row.created_at),
        })
    }
}

pub(super) fn kind(stored: &str) -> Result<EventType, StoreError> {
    stored.parse().map_err(|_| unreadable("event type", stored))
}

pub(super) fn row(subscription: &WebhookSubscription) -> ActiveModel {
    ActiveModel {
        id: Set(Uuid::from_u128(subscription.id.0)),
        webhook_id: Set(Uuid::from_u128(subscription.webhook.0)),
        chain: Set(subscription.chain.clone()),
        event_type: Set(subscription.kind.name().into()),
        filter: Set(subscription.filter.clone().map(|filter| Value::Object(filter).to_string())),
        // The API accepts no more than an `i32` holds.
        confirmations: Set(i32::try_from(subscription.confirmations).unwrap_or(i32::MAX)),
        created_at: Set(moment(subscription.created_at)),
    }
}

fn of_tenant(tenant: TenantId) -> Select<Entity> {
    of_tenants_webhooks(Entity::find().inner_join(webhooks::Entity), tenant)
}

impl Store {
    /// Adds a subscription to an endpoint of a tenant.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the endpoint is not this tenant's, [`StoreError::Full`] if the number of
    /// subscriptions that the plan allows is reached, [`StoreError::Unavailable`].
    pub async fn create_subscription(
        &self,
        tenant: TenantId,
        subscription: &WebhookSubscription,
        now: Time,
    ) -> Result<(), StoreError> {
        let webhook = Uuid::from_u128(subscription.webhook.0);
        let row = row(subscription);
        self.write(async |transaction| {
            let endpoint = expect(transaction, tenant, subscription.webhook).await?;
            let max = counts(transaction, &self.plans, tenant, now).await?.subscriptions_per_webhook;
            let its = Entity::find().filter(Column::WebhookId.eq(webhook));
            if its.count(transaction).await? >= max.into() {
                return Err(full(max, "subscriptions of a webhook", "delete one that is not needed"));
            }
            let done = Entity::insert(row).exec_without_returning(transaction).await;
            done.map_err(|error| insert_error(error, "subscription", "webhook", None))?;
            record_change(transaction, endpoint.project_id, now).await
        })
        .await
    }

    /// Returns the subscriptions of a tenant's endpoint, the oldest first, starting after `after`: at most `limit`, and
    /// at most 1,000. Returns nothing for another tenant's endpoint.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn subscriptions(
        &self,
        tenant: TenantId,
        webhook: WebhookId,
        after: Option<(Time, SubscriptionId)>,
        limit: u64,
    ) -> Result<Vec<WebhookSubscription>, StoreError> {
        let its = of_tenant(tenant).filter(Column::WebhookId.eq(webhook));
        let after = after.map(|(at, id)| (moment(at), Uuid::from_u128(id.0)));
        let mut oldest = page(its, (Column::CreatedAt, Column::Id), after, limit.min(MAX_RETURNED));
        self.read(async |database| {
            oldest.all(database).await?.into_iter().map(WebhookSubscription::try_from).collect()
        })
        .await
    }

    /// Returns a subscription of a tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn subscription(
        &self,
        tenant: TenantId,
        id: SubscriptionId,
    ) -> Result<Option<WebhookSubscription>, StoreError> {
        self.read(async |database| {
            let found = of_tenant(tenant).filter(Column::Id.eq(id));
            found.one(database).await?.map(WebhookSubscription::try_from).transpose()
        })
        .await
    }

    /// Deletes a subscription of a tenant. Events that it has already matched are still delivered.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not this tenant's, [`StoreError::Unavailable`].
    pub async fn delete_subscription(
        &self,
        tenant: TenantId,
        id: SubscriptionId,
        now: Time,
    ) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let found = of_tenant(tenant)
                .filter(Column::Id.eq(id))
                .select_only()
                .column(webhooks::Column::ProjectId)
                .into_tuple::<Uuid>();
            let project = found.one(transaction).await?.ok_or(StoreError::NotFound("subscription"))?;
            Entity::delete_by_id(Uuid::from_u128(id.0)).exec(transaction).await?;
            record_change(transaction, project, now).await
        })
        .await
    }
}
