//! Deliveries for tests, written as watchers write them.

use super::chain_events::LoggedEvent;
use super::id::{ChainEventId, DeliveryId, WebhookId};
use super::new_deliveries::{due, insert_event};
use super::value::time;
use super::webhooks::Webhook;
use crate::store::entity::{deliveries, delivery_attempts, webhooks};
use crate::store::{Store, fresh_id};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::event::EventType;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
};
use uuid::Uuid;

/// What is stored of a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredDelivery {
    pub(crate) status: String,
    pub(crate) attempts: i16,
    pub(crate) due_at: Time,
    pub(crate) last_status: Option<i16>,
    pub(crate) last_error: Option<String>,
    pub(crate) is_finished: bool,
    pub(crate) ended: Vec<StoredAttempt>,
}

/// Number, status, error and answer of an attempt.
pub(crate) type StoredAttempt = (i16, Option<i16>, Option<String>, Option<Vec<u8>>);

/// An active endpoint without a usable secret.
pub(crate) fn webhook(id: u128, project: ProjectId, url: &str, now: Time) -> Webhook {
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
    /// Stores an event with this body, and deliveries of it that are due.
    pub(crate) async fn seed_deliveries(
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

    /// What is stored of a delivery.
    pub(crate) async fn stored_delivery(&self, id: DeliveryId) -> StoredDelivery {
        let id = Uuid::from_u128(id.0);
        self.read(async |database| {
            let row = deliveries::Entity::find_by_id(id).one(database).await?.unwrap();
            let ended = delivery_attempts::Entity::find()
                .filter(delivery_attempts::Column::DeliveryId.eq(id))
                .order_by_asc(delivery_attempts::Column::Number);
            let ended = ended.all(database).await?.into_iter();
            Ok::<_, crate::store::StoreError>(StoredDelivery {
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

    /// The endpoint with this id, of any tenant.
    pub(crate) async fn any_webhook(&self, id: WebhookId) -> Webhook {
        let found = webhooks::Entity::find_by_id(Uuid::from_u128(id.0));
        let found = self.read(async |database| Ok::<_, crate::store::StoreError>(found.one(database).await?));
        found.await.unwrap().unwrap().into()
    }

    /// Switches an endpoint on or off.
    pub(crate) async fn switch_webhook(&self, id: WebhookId, active: bool) {
        self.transact(async |transaction| {
            let switch = webhooks::Entity::update_many()
                .col_expr(webhooks::Column::Active, Expr::value(active))
                .filter(webhooks::Column::Id.eq(Uuid::from_u128(id.0)));
            switch.exec(transaction).await?;
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Executes a statement.
    pub(crate) async fn execute(&self, sql: &str) {
        let done = self.transact(async |transaction| Ok(transaction.execute_unprepared(sql).await?)).await;
        done.unwrap();
    }
}
