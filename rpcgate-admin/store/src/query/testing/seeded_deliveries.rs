//! Deliveries for tests, written as watchers write them.
#![expect(clippy::unwrap_used, reason = "a database that cannot be made or used fails its test")]

use crate::entity::{deliveries, delivery_attempts, project_events, webhooks};
use crate::query::chain_events::LoggedEvent;
use crate::query::delivery_status::DeliveryStatus;
use crate::query::id::{ChainEventId, DeliveryId, WebhookId};
use crate::query::new_deliveries::{due, insert_event};
use crate::query::value::{moment, time};
use crate::query::webhooks::Webhook;
use crate::{Store, StoreError, fresh_id};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::event::EventType;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
};
use uuid::Uuid;

/// A delivery in the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredDelivery {
    /// Its status in the database.
    pub status: String,
    /// The number of attempts so far.
    pub attempts: i16,
    /// The time of the next attempt.
    pub due_at: Time,
    /// The HTTP status of the last attempt.
    pub last_status: Option<i16>,
    /// The error of the last attempt.
    pub last_error: Option<String>,
    /// True if no more attempts follow.
    pub is_finished: bool,
    /// The ended attempts.
    pub ended: Vec<StoredAttempt>,
}

/// The number, status, error and response body of an attempt.
pub type StoredAttempt = (i16, Option<i16>, Option<String>, Option<Vec<u8>>);

/// An active endpoint without a usable secret.
pub fn webhook(id: u128, project: ProjectId, url: &str, now: Time) -> Webhook {
    Webhook {
        id: WebhookId(id),
        project,
        url: url.into(),
        secret: Vec::new(),
        next_secret: None,
        active: true,
        standard_headers: false,
        failing_since: None,
        disabled_at: None,
        created_at: now,
        updated_at: now,
    }
}

impl Store {
    /// Stores an event with this body, and due deliveries of it.
    pub async fn seed_deliveries(
        &self,
        body: &[u8],
        all: &[(WebhookId, DeliveryId)],
        due_at: Time,
    ) -> ChainEventId {
        let event = ChainEventId(fresh_id(due_at));
        let stored = LoggedEvent {
            id: event,
            chain: "eth".into(),
            kind: EventType::NewBlock,
            block_num: 1,
            block_hash: "h".into(),
            removed: false,
            body: body.to_vec(),
            created_at: due_at,
        };
        self.transact(async |transaction| {
            insert_event(transaction, &stored).await?;
            for some in all.chunks(500) {
                let rows = some.iter().map(|(webhook, id)| {
                    let row = due(id.0, Uuid::from_u128(webhook.0), Uuid::from_u128(event.0), due_at);
                    row.into_active_model().reset_all()
                });
                deliveries::Entity::insert_many(rows).exec_without_returning(transaction).await?;
            }
            Ok(())
        })
        .await
        .unwrap();
        event
    }

    /// Returns a delivery as stored in the database.
    pub async fn stored_delivery(&self, id: DeliveryId) -> StoredDelivery {
        let id = Uuid::from_u128(id.0);
        self.read(async |database| {
            let row = deliveries::Entity::find_by_id(id).one(database).await?.unwrap();
            let ended = delivery_attempts::Entity::find()
                .filter(delivery_attempts::Column::DeliveryId.eq(id))
                .order_by_asc(delivery_attempts::Column::Number);
            let ended = ended.all(database).await?.into_iter();
            Ok::<_, StoreError>(StoredDelivery {
                status: row.status,
                attempts: row.attempts,
                due_at: time(row.due_at),
                last_status: row.last_status,
                last_error: row.last_error,
                is_finished: row.finished_at.is_some(),
                ended: ended.map(|one| (one.number, one.http_status, one.error, one.answer)).collect(),
            })
        })
        .await
        .unwrap()
    }

    /// Returns the endpoint with this id, of any tenant.
    pub async fn any_webhook(&self, id: WebhookId) -> Webhook {
        let found = webhooks::Entity::find_by_id(Uuid::from_u128(id.0));
        let found = self.read(async |database| Ok::<_, StoreError>(found.one(database).await?));
        found.await.unwrap().unwrap().into()
    }

    /// Switches an endpoint on or off.
    pub async fn switch_webhook(&self, id: WebhookId, active: bool) {
        self.transact(async |transaction| {
            let switch = webhooks::Entity::update_many()
                .col_expr(webhooks::Column::Active, Expr::value(active))
                .filter(webhooks::Column::Id.eq(id));
            switch.exec(transaction).await?;
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Executes a statement.
    pub async fn execute(&self, sql: &str) {
        let done = self.transact(async |transaction| Ok(transaction.execute_unprepared(sql).await?)).await;
        done.unwrap();
    }

    /// Stores an event in the log of an endpoint's project, and its delivery, as a watcher does.
    pub async fn log_event(
        &self,
        webhook: &Webhook,
        (id, status): (DeliveryId, DeliveryStatus),
        event: &LoggedEvent,
    ) -> Result<(), StoreError> {
        let endpoint = Uuid::from_u128(webhook.id.0);
        let event_id = Uuid::from_u128(event.id.0);
        self.transact(async |transaction| {
            insert_event(transaction, event).await?;
            let entry = project_events::ActiveModel {
                project_id: Set(Uuid::from_u128(webhook.project.0)),
                event_id: Set(event_id),
                created_at: Set(moment(event.created_at)),
            };
            project_events::Entity::insert(entry).exec_without_returning(transaction).await?;
            let delivery = due(id.0, endpoint, event_id, event.created_at);
            let delivery = deliveries::Model { status: status.name().into(), ..delivery };
            let columns = delivery.into_active_model().reset_all();
            deliveries::Entity::insert(columns).exec_without_returning(transaction).await?;
            Ok(())
        })
        .await
    }

    /// Ends a delivery with one more failed attempt.
    pub async fn failed_attempt(
        &self,
        id: DeliveryId,
        (status, error, answer): (Option<i16>, &str, &[u8]),
        now: Time,
    ) -> Result<(), StoreError> {
        let id = Uuid::from_u128(id.0);
        self.transact(async |transaction| {
            let row = deliveries::Entity::find_by_id(id)
                .one(transaction)
                .await?
                .ok_or(StoreError::NotFound("delivery"))?;
            let number = row.attempts + 1;
            let attempt = delivery_attempts::ActiveModel {
                delivery_id: Set(id),
                number: Set(number),
                started_at: Set(moment(now)),
                duration_ms: Set(250),
                http_status: Set(status),
                error: Set(Some(error.into())),
                answer: Set(Some(answer.to_vec())),
            };
            delivery_attempts::Entity::insert(attempt).exec_without_returning(transaction).await?;
            let ended = deliveries::ActiveModel {
                status: Set(DeliveryStatus::Failed.name().into()),
                attempts: Set(number),
                last_status: Set(status.or(row.last_status)),
                last_error: Set(Some(error.into())),
                finished_at: Set(Some(moment(now))),
                ..Default::default()
            };
            deliveries::Entity::update_many()
                .set(ended)
                .filter(deliveries::Column::Id.eq(id))
                .exec(transaction)
                .await?;
            Ok(())
        })
        .await
    }

    /// Switches off an endpoint whose deliveries have failed for too long.
    pub async fn mark_disabled(&self, id: WebhookId, now: Time) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            let disabled = webhooks::ActiveModel {
                active: Set(false),
                failing_since: Set(Some(moment(now))),
                disabled_at: Set(Some(moment(now))),
                ..Default::default()
            };
            let its = webhooks::Column::Id.eq(id);
            webhooks::Entity::update_many().set(disabled).filter(its).exec(transaction).await?;
            Ok(())
        })
        .await
    }
}
