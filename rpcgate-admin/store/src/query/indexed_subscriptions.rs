//! Subscriptions for watchers: those of active endpoints whose projects and tenants get deliveries.

use super::delivery_status::DeliveryStatus;
use super::id::{SubscriptionId, WebhookId};
use super::keyset::page;
use super::value::{count, unreadable};
use crate::entity::{deliveries, projects, subscriptions, tenants, webhooks};
use crate::{Store, StoreError};
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::event::IndexedSubscription;
use sea_orm::{ColumnTrait, EntityTrait, FromQueryResult, JoinType, QueryFilter, QuerySelect, RelationTrait};
use std::collections::HashMap;
use uuid::Uuid;

const ENDPOINTS: usize = 500;

#[derive(Debug, FromQueryResult)]
struct Row {
    id: Uuid,
    webhook_id: Uuid,
    project_id: Uuid,
    chain: String,
    event_type: String,
    filter: Option<String>,
    confirmations: i32,
}

fn subscription(row: Row) -> Result<IndexedSubscription, StoreError> {
    let kind = row.event_type.parse().map_err(|_| unreadable("event type", row.event_type))?;
    let subscription = IndexedSubscription::new(row.id.as_u128(), row.chain, kind)
        .of_webhook(row.webhook_id.as_u128(), row.project_id.as_u128())
        .with_confirmations(u32::try_from(row.confirmations).unwrap_or_default());
    match row.filter {
        None => Ok(subscription),
        Some(filter) => {
            let members = serde_json::from_str(&filter).map_err(|_| unreadable("filter", filter))?;
            Ok(subscription.with_filter(members))
        }
    }
}

impl Store {
    /// Returns the first `limit` subscriptions after `after`, by identifier, of one project or of all. Includes those
    /// of active endpoints, unless their project is deleted or their tenant suspended.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], [`StoreError::Unreadable`].
    pub async fn indexed_subscriptions(
        &self,
        project: Option<ProjectId>,
        after: Option<SubscriptionId>,
        limit: u64,
    ) -> Result<Vec<IndexedSubscription>, StoreError> {
        use subscriptions::Column;
        self.read(async |database| {
            let mut some = subscriptions::Entity::find()
                .select_only()
                .columns([Column::Id, Column::WebhookId, Column::Chain, Column::EventType])
                .columns([Column::Filter, Column::Confirmations])
                .column(webhooks::Column::ProjectId)
                .join(JoinType::InnerJoin, subscriptions::Relation::Webhook.def())
                .join(JoinType::InnerJoin, webhooks::Relation::Project.def())
                .join(JoinType::InnerJoin, projects::Relation::Tenant.def())
                .filter(webhooks::Column::Active.eq(true))
                .filter(projects::Column::DeletedAt.is_null())
                .filter(tenants::Column::Suspended.eq(false));
            if let Some(project) = project {
                some = some.filter(webhooks::Column::ProjectId.eq(project));
            }
            let mut some = page(some, Column::Id, after, limit).into_model::<Row>();
            let rows = some.all(database).await?;
            rows.into_iter().map(subscription).collect()
        })
        .await
    }

    /// Returns the projects of a tenant that have endpoints.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn projects_with_webhooks(&self, tenant: TenantId) -> Result<Vec<ProjectId>, StoreError> {
        self.read(async |database| {
            let found = webhooks::Entity::find()
                .select_only()
                .column(webhooks::Column::ProjectId)
                .distinct()
                .join(JoinType::InnerJoin, webhooks::Relation::Project.def())
                .filter(projects::Column::TenantId.eq(tenant));
            let found = found.into_tuple::<Uuid>().all(database).await?;
            Ok(found.into_iter().map(|id| ProjectId(id.as_u128())).collect())
        })
        .await
    }

    /// Returns the number of deliveries of each endpoint that wait for their next attempt or for confirmations.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn waiting_deliveries(
        &self,
        endpoints: &[WebhookId],
    ) -> Result<HashMap<WebhookId, u64>, StoreError> {
        use deliveries::Column;
        let mut waiting = HashMap::with_capacity(endpoints.len());
        for some in endpoints.chunks(ENDPOINTS) {
            let ids = some.iter().map(|id| Uuid::from_u128(id.0));
            let counted: Vec<(Uuid, i64)> = self
                .read(async |database| {
                    let counted = deliveries::Entity::find()
                        .select_only()
                        .column(Column::WebhookId)
                        // The index contains this column, so no delivery is read.
                        .column_as(Column::WebhookId.count(), "waiting")
                        .filter(Column::WebhookId.is_in(ids))
                        .filter(
                            Column::Status
                                .is_in([DeliveryStatus::Held.name(), DeliveryStatus::Pending.name()]),
                        )
                        .group_by(Column::WebhookId);
                    Ok(counted.into_tuple().all(database).await?)
                })
                .await?;
            for (id, deliveries) in counted {
                waiting.insert(WebhookId(id.as_u128()), count("number of deliveries", deliveries)?);
            }
        }
        Ok(waiting)
    }
}
