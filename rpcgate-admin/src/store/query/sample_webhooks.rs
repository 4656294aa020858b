//! Endpoints, subscriptions and deliveries for tests of what writes and reads them.

use super::changes::{NewChange, record};
use super::id::{SubscriptionId, WebhookId};
use super::value::moment;
use crate::store::entity::{chain_events, deliveries, project_events, subscriptions, webhooks};
use crate::store::{Store, StoreError};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::event::IndexedSubscription;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder};
use std::collections::HashMap;
use uuid::Uuid;

/// A delivery with the event that it is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SampleDelivery {
    pub(crate) webhook: WebhookId,
    pub(crate) status: String,
    pub(crate) block_hash: String,
    pub(crate) removed: bool,
    pub(crate) body: String,
}

impl Store {
    pub(crate) async fn add_sample_webhook(&self, id: WebhookId, project: ProjectId, now: Time) {
        let row = webhooks::ActiveModel {
            id: Set(Uuid::from_u128(id.0)),
            project_id: Set(Uuid::from_u128(project.0)),
            url: Set("https://example.com".into()),
            secret: Set(vec![1]),
            next_secret: Set(None),
            next_secret_at: Set(None),
            active: Set(true),
            standard_headers: Set(false),
            failing_since: Set(None),
            disabled_at: Set(None),
            deleted_at: Set(None),
            created_at: Set(moment(now)),
            updated_at: Set(moment(now)),
        };
        let write = async |transaction: &sea_orm::DatabaseTransaction| -> Result<(), StoreError> {
            webhooks::Entity::insert(row).exec_without_returning(transaction).await?;
            record(transaction, NewChange::Project(project), now).await
        };
        self.write(write).await.unwrap();
    }

    pub(crate) async fn add_sample_subscription(&self, subscription: &IndexedSubscription, now: Time) {
        let filter = subscription.filter.as_ref().map(|filter| serde_json::to_string(filter).unwrap());
        let row = subscriptions::ActiveModel {
            id: Set(Uuid::from_u128(subscription.id)),
            webhook_id: Set(Uuid::from_u128(subscription.webhook)),
            chain: Set(subscription.chain.clone()),
            event_type: Set(subscription.kind.name().into()),
            filter: Set(filter),
            confirmations: Set(subscription.confirmations.try_into().unwrap()),
            created_at: Set(moment(now)),
        };
        let write = async |transaction: &sea_orm::DatabaseTransaction| -> Result<(), StoreError> {
            subscriptions::Entity::insert(row).exec_without_returning(transaction).await?;
            record(transaction, NewChange::Project(ProjectId(subscription.project)), now).await
        };
        self.write(write).await.unwrap();
    }

    pub(crate) async fn remove_sample_subscription(&self, id: SubscriptionId, project: ProjectId, now: Time) {
        let write = async |transaction: &sea_orm::DatabaseTransaction| -> Result<(), StoreError> {
            subscriptions::Entity::delete_by_id(Uuid::from_u128(id.0)).exec(transaction).await?;
            record(transaction, NewChange::Project(project), now).await
        };
        self.write(write).await.unwrap();
    }

    pub(crate) async fn set_sample_webhook_active(&self, id: WebhookId, active: bool) {
        let write = async |transaction: &sea_orm::DatabaseTransaction| -> Result<(), StoreError> {
            let update =
                webhooks::Entity::update_many().col_expr(webhooks::Column::Active, Expr::value(active));
            let this = webhooks::Column::Id.eq(Uuid::from_u128(id.0));
            update.filter(this).exec(transaction).await?;
            Ok(())
        };
        self.write(write).await.unwrap();
    }

    pub(crate) async fn sample_deliveries(&self) -> Vec<SampleDelivery> {
        let read = async |database: &sea_orm::DatabaseConnection| -> Result<_, StoreError> {
            // Deliveries first: their events are stored with them or before.
            let all = deliveries::Entity::find().order_by_asc(deliveries::Column::Id).all(database).await?;
            let events = chain_events::Entity::find().all(database).await?;
            let events: HashMap<_, _> = events.into_iter().map(|event| (event.id, event)).collect();
            let sample = |delivery: deliveries::Model| {
                let event = &events[&delivery.event_id];
                SampleDelivery {
                    webhook: WebhookId(delivery.webhook_id.as_u128()),
                    status: delivery.status,
                    block_hash: event.block_hash.clone(),
                    removed: event.removed,
                    body: String::from_utf8(event.body.clone()).unwrap(),
                }
            };
            Ok(all.into_iter().map(sample).collect())
        };
        self.read(read).await.unwrap()
    }

    /// The number of events in the log of a project.
    pub(crate) async fn sample_log(&self, project: ProjectId) -> u64 {
        let own = project_events::Column::ProjectId.eq(Uuid::from_u128(project.0));
        let count = project_events::Entity::find().filter(own);
        self.read(async |database| Ok(count.count(database).await?)).await.unwrap()
    }
}
