//! Endpoints, subscriptions and deliveries for tests.
#![expect(clippy::unwrap_used, reason = "a database that cannot be made or used fails its test")]

use super::seeded_deliveries::webhook;
use crate::entity::{
    chain_events, deliveries, project_events, subscriptions as stored_subscriptions,
    webhooks as stored_webhooks,
};
use crate::query::changes::{NewChange, record};
use crate::query::id::{SubscriptionId, WebhookId};
use crate::query::subscriptions::{self, WebhookSubscription};
use crate::query::webhooks;
use crate::{Store, StoreError};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::event::IndexedSubscription;
use sea_orm::{
    ColumnTrait, DatabaseConnection, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder,
};
use std::collections::HashMap;
use uuid::Uuid;

/// A delivery with its event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleDelivery {
    /// The endpoint.
    pub webhook: WebhookId,
    /// Its status in the database.
    pub status: String,
    /// The hash of the block of the event.
    pub block_hash: String,
    /// True if the block is no longer in the chain.
    pub removed: bool,
    /// The body.
    pub body: String,
}

impl Store {
    /// Adds an endpoint, regardless of the plan's limit.
    pub async fn add_sample_webhook(&self, id: WebhookId, project: ProjectId, now: Time) {
        let row = webhooks::row(&webhook(id.0, project, "https://example.com", now));
        let write = async |transaction: &DatabaseTransaction| -> Result<(), StoreError> {
            stored_webhooks::Entity::insert(row).exec_without_returning(transaction).await?;
            record(transaction, NewChange::Project(project), now).await
        };
        self.write(write).await.unwrap();
    }

    /// Adds a subscription, regardless of the plan's limit.
    pub async fn add_sample_subscription(&self, subscription: &IndexedSubscription, now: Time) {
        let row = subscriptions::row(&WebhookSubscription {
            id: SubscriptionId(subscription.id),
            webhook: WebhookId(subscription.webhook),
            chain: subscription.chain.clone(),
            kind: subscription.kind,
            filter: subscription.filter.clone(),
            confirmations: subscription.confirmations,
            created_at: now,
        });
        let write = async |transaction: &DatabaseTransaction| -> Result<(), StoreError> {
            stored_subscriptions::Entity::insert(row).exec_without_returning(transaction).await?;
            record(transaction, NewChange::Project(ProjectId(subscription.project)), now).await
        };
        self.write(write).await.unwrap();
    }

    /// Removes a subscription.
    pub async fn remove_sample_subscription(&self, id: SubscriptionId, project: ProjectId, now: Time) {
        let write = async |transaction: &DatabaseTransaction| -> Result<(), StoreError> {
            stored_subscriptions::Entity::delete_by_id(Uuid::from_u128(id.0)).exec(transaction).await?;
            record(transaction, NewChange::Project(project), now).await
        };
        self.write(write).await.unwrap();
    }

    /// Returns all deliveries, by identifier.
    pub async fn sample_deliveries(&self) -> Vec<SampleDelivery> {
        let read = async |database: &DatabaseConnection| -> Result<_, StoreError> {
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

    /// Returns the number of events in the log of a project.
    pub async fn sample_log(&self, project: ProjectId) -> u64 {
        let own = project_events::Column::ProjectId.eq(project);
        let count = project_events::Entity::find().filter(own);
        self.read(async |database| Ok(count.count(database).await?)).await.unwrap()
    }
}
