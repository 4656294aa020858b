//! Deliveries of events, as listed for the users of an endpoint.

use super::chain_events::LoggedEvent;
use super::delivery_status::DeliveryStatus;
use super::id::{ChainEventId, DeliveryId, SubscriptionId, WebhookId};
use super::keyset::page;
use super::subscriptions::kind;
use super::value::{moment, time};
use super::webhooks::{Webhook, expect_active, of_tenants_webhooks};
use crate::entity::deliveries::{ActiveModel, Column, Entity, Model, Relation};
use crate::entity::{chain_events, delivery_attempts, webhooks};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::event::EventType;
use sea_orm::ActiveValue::Set;
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, JoinType, QueryFilter, QueryOrder, QuerySelect, RelationTrait,
    Select,
};
use std::collections::HashMap;
use std::time::Duration;
use uuid::Uuid;

const MAX_RETURNED: u64 = 1_000;

/// The number of attempts after which a delivery cannot be retried.
const MAX_ATTEMPTS: i16 = 100;

/// The filter of an endpoint's deliveries; `None` matches all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeliveryFilter {
    /// The state.
    pub status: Option<DeliveryStatus>,
    /// The type of the event.
    pub kind: Option<EventType>,
    /// The path of the event's chain.
    pub chain: Option<String>,
}

/// A delivery of an event to an endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Its identifier, the value of `X-Delivery-Id`.
    pub id: DeliveryId,
    /// The endpoint.
    pub webhook: WebhookId,
    /// The subscription that it was made for; `None` for a test.
    pub subscription: Option<SubscriptionId>,
    /// The event.
    pub event: ChainEventId,
    /// The path of the event's chain.
    pub chain: String,
    /// The type of the event.
    pub kind: EventType,
    /// Its state.
    pub status: DeliveryStatus,
    /// True if it repeats an earlier delivery of the event.
    pub replay: bool,
    /// The number of ended attempts.
    pub attempts: u32,
    /// The due time of the next attempt, or the time when the running one is given up.
    pub due_at: Time,
    /// The height at which it stops being held.
    pub held_until: Option<u64>,
    /// The HTTP status of the last response.
    pub last_status: Option<u16>,
    /// The error of the last attempt.
    pub last_error: Option<String>,
    /// The creation time.
    pub created_at: Time,
    /// The end of its last attempt.
    pub finished_at: Option<Time>,
}

impl Delivery {
    pub(super) fn of(row: Model, chain: String, kind: EventType) -> Result<Self, StoreError> {
        Ok(Delivery {
            id: DeliveryId(row.id.as_u128()),
            webhook: WebhookId(row.webhook_id.as_u128()),
            subscription: row.subscription_id.map(|id| SubscriptionId(id.as_u128())),
            event: ChainEventId(row.event_id.as_u128()),
            chain,
            kind,
            status: row.status.parse()?,
            replay: row.replay,
            attempts: u32::from(row.attempts.unsigned_abs()),
            due_at: time(row.due_at),
            held_until: row.held_until.map(i64::unsigned_abs),
            last_status: row.last_status.map(i16::unsigned_abs),
            last_error: row.last_error,
            created_at: time(row.created_at),
            finished_at: row.finished_at.map(time),
        })
    }
}

/// An attempt of a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryAttempt {
    /// Its number, from 1.
    pub number: u32,
    /// The start time.
    pub started_at: Time,
    /// The duration.
    pub duration: Duration,
    /// The HTTP status of the response.
    pub status: Option<u16>,
    /// The error.
    pub error: Option<String>,
    /// The beginning of the response body.
    pub answer: Option<Vec<u8>>,
}

impl From<delivery_attempts::Model> for DeliveryAttempt {
    fn from(row: delivery_attempts::Model) -> Self {
        DeliveryAttempt {
            number: u32::from(row.number.unsigned_abs()),
            started_at: time(row.started_at),
            duration: Duration::from_millis(u64::from(row.duration_ms.unsigned_abs())),
            status: row.http_status.map(i16::unsigned_abs),
            error: row.error,
            answer: row.answer,
        }
    }
}

/// A delivery with its event, endpoint and attempts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WholeDelivery {
    /// The delivery.
    pub delivery: Delivery,
    /// Its event.
    pub event: LoggedEvent,
    /// The current state of its endpoint.
    pub webhook: Webhook,
    /// Its ended attempts, in order.
    pub attempts: Vec<DeliveryAttempt>,
}

fn of_tenant(tenant: TenantId) -> Select<Entity> {
    of_tenants_webhooks(Entity::find().inner_join(webhooks::Entity), tenant)
}

async fn with_events(database: &impl ConnectionTrait, rows: Vec<Model>) -> Result<Vec<Delivery>, StoreError> {
    use chain_events::Column::{Chain, EventType, Id};
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let events = chain_events::Entity::find()
        .select_only()
        .columns([Id, Chain, EventType])
        .filter(Id.is_in(rows.iter().map(|row| row.event_id)))
        .into_tuple::<(Uuid, String, String)>();
    let events = events.all(database).await?.into_iter().map(|(id, chain, kind)| (id, (chain, kind)));
    let events: HashMap<_, _> = events.collect();
    // The sweep removes the deliveries of an event before the event.
    let known = rows.into_iter().filter_map(|row| events.get(&row.event_id).map(|event| (row, event)));
    known.map(|(row, (chain, stored))| Delivery::of(row, chain.clone(), kind(stored)?)).collect()
}

impl Store {
    /// Returns the deliveries of a tenant's endpoint, of one state or of all, the newest first, starting after
    /// `before`: at most `limit`, and at most 1,000. Returns nothing for another tenant's endpoint.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn deliveries(
        &self,
        tenant: TenantId,
        webhook: WebhookId,
        status: Option<DeliveryStatus>,
        before: Option<(Time, DeliveryId)>,
        limit: u64,
    ) -> Result<Vec<Delivery>, StoreError> {
        let filter = DeliveryFilter { status, ..DeliveryFilter::default() };
        self.filtered_deliveries(tenant, webhook, &filter, before, limit).await
    }

    /// Like [`deliveries`](Self::deliveries), for the deliveries that match `filter`. A selective filter reads all
    /// deliveries of the endpoint, within the deadline.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn filtered_deliveries(
        &self,
        tenant: TenantId,
        webhook: WebhookId,
        filter: &DeliveryFilter,
        before: Option<(Time, DeliveryId)>,
        limit: u64,
    ) -> Result<Vec<Delivery>, StoreError> {
        let mut its = of_tenant(tenant).filter(Column::WebhookId.eq(webhook));
        if let Some(status) = filter.status {
            its = its.filter(Column::Status.eq(status.name()));
        }
        if filter.kind.is_some() || filter.chain.is_some() {
            its = its.join(JoinType::InnerJoin, Relation::Event.def());
        }
        if let Some(kind) = filter.kind {
            its = its.filter(chain_events::Column::EventType.eq(kind.name()));
        }
        if let Some(chain) = &filter.chain {
            its = its.filter(chain_events::Column::Chain.eq(chain.as_str()));
        }
        let before = before.map(|(at, id)| (moment(at), Uuid::from_u128(id.0)));
        let mut newest = page(its, (Column::CreatedAt, Column::Id), before, limit.min(MAX_RETURNED));
        self.read(async |database| {
            let rows = newest.desc().all(database).await?;
            with_events(database, rows).await
        })
        .await
    }

    /// Returns a delivery of a tenant with its event, endpoint and attempts.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn delivery(
        &self,
        tenant: TenantId,
        id: DeliveryId,
    ) -> Result<Option<WholeDelivery>, StoreError> {
        self.read(async |database| {
            let found = of_tenant(tenant).filter(Column::Id.eq(id));
            let Some(row) = found.one(database).await? else { return Ok(None) };
            let webhook = webhooks::Entity::find_by_id(row.webhook_id).one(database).await?;
            let event = chain_events::Entity::find_by_id(row.event_id).one(database).await?;
            let (Some(webhook), Some(event)) = (webhook, event) else { return Ok(None) };
            let attempts = delivery_attempts::Entity::find()
                .filter(delivery_attempts::Column::DeliveryId.eq(row.id))
                .order_by_asc(delivery_attempts::Column::Number);
            let attempts = attempts.all(database).await?.into_iter().map(DeliveryAttempt::from).collect();
            let event = LoggedEvent::try_from(event)?;
            let delivery = Delivery::of(row, event.chain.clone(), event.kind)?;
            Ok(Some(WholeDelivery { delivery, event, webhook: webhook.into(), attempts }))
        })
        .await
    }

    /// Makes an ended delivery of a tenant due again, for at least one more attempt.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not this tenant's, [`StoreError::WrongState`] if it has not ended, was tried
    /// too often, or its endpoint is switched off; [`StoreError::Unavailable`].
    pub async fn retry_delivery(
        &self,
        tenant: TenantId,
        id: DeliveryId,
        now: Time,
    ) -> Result<Delivery, StoreError> {
        const UNKNOWN: StoreError = StoreError::NotFound("delivery");
        self.write(async |transaction| {
            let found = of_tenant(tenant).filter(Column::Id.eq(id));
            let row = found.one(transaction).await?.ok_or(UNKNOWN)?;
            if !row.status.parse::<DeliveryStatus>()?.is_final() {
                return Err(StoreError::WrongState("the delivery has not ended yet"));
            }
            if row.attempts >= MAX_ATTEMPTS {
                let text = "the delivery was tried too often: replay its event instead";
                return Err(StoreError::WrongState(text));
            }
            expect_active(transaction, tenant, WebhookId(row.webhook_id.as_u128())).await?;
            let columns = ActiveModel {
                status: Set(DeliveryStatus::Pending.name().into()),
                due_at: Set(moment(now)),
                finished_at: Set(None),
                ..Default::default()
            };
            Entity::update_many().set(columns).filter(Column::Id.eq(row.id)).exec(transaction).await?;
            let stored = Entity::find_by_id(row.id).all(transaction).await?;
            with_events(transaction, stored).await?.pop().ok_or(UNKNOWN)
        })
        .await
    }
}
