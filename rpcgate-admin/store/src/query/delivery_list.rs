//! Deliveries of events, as their receivers look at them.

use super::chain_events::LoggedEvent;
use super::delivery_status::DeliveryStatus;
use super::id::{ChainEventId, DeliveryId, SubscriptionId, WebhookId};
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
use sea_orm::sea_query::Condition;
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, JoinType, QueryFilter, QueryOrder, QuerySelect, RelationTrait,
    Select,
};
use std::collections::HashMap;
use std::time::Duration;
use uuid::Uuid;

/// Deliveries that are read at once.
const MAX_RETURNED: u64 = 1_000;

/// Attempts after which a delivery is not tried again.
const MAX_ATTEMPTS: i16 = 100;

/// Which deliveries of an endpoint are asked for; a field that is `None` restricts nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeliveryFilter {
    /// Those of this state.
    pub status: Option<DeliveryStatus>,
    /// Those of events of this type.
    pub kind: Option<EventType>,
    /// Those of events of the chain with this path.
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
    /// Whether it repeats an earlier delivery of the event.
    pub replay: bool,
    /// Attempts that have ended.
    pub attempts: u32,
    /// When the next attempt is due, or the running one is given up.
    pub due_at: Time,
    /// The height at which it stops being held.
    pub held_until: Option<u64>,
    /// The HTTP status of the last attempt that was answered.
    pub last_status: Option<u16>,
    /// The error of the last attempt.
    pub last_error: Option<String>,
    /// When it was made.
    pub created_at: Time,
    /// When its last attempt ended.
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
    /// When it began.
    pub started_at: Time,
    /// How long it took.
    pub duration: Duration,
    /// The HTTP status of the answer.
    pub status: Option<u16>,
    /// Why it failed.
    pub error: Option<String>,
    /// The beginning of the body of the answer.
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

/// A delivery with all that belongs to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WholeDelivery {
    /// The delivery.
    pub delivery: Delivery,
    /// Its event.
    pub event: LoggedEvent,
    /// Its endpoint as it is now.
    pub webhook: Webhook,
    /// Its attempts that have ended, the first one first.
    pub attempts: Vec<DeliveryAttempt>,
}

/// The deliveries of a tenant whose endpoints are not deleted.
fn of_tenant(tenant: TenantId) -> Select<Entity> {
    of_tenants_webhooks(Entity::find().inner_join(webhooks::Entity), tenant)
}

/// Adds the chains and the types of their events to deliveries.
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
    // An event that the sweep has removed in between had its deliveries removed before.
    let known = rows.into_iter().filter_map(|row| events.get(&row.event_id).map(|event| (row, event)));
    known.map(|(row, (chain, stored))| Delivery::of(row, chain.clone(), kind(stored)?)).collect()
}

impl Store {
    /// The deliveries of a tenant's endpoint, of one state or of all, the newest first, starting behind `before` in this
    /// order: at most `limit`, and at most 1,000. Empty for another tenant's endpoint.
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

    /// The same of the deliveries that `filter` selects. A filter that hardly matches any reads all deliveries of the
    /// endpoint, within the deadline.
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
        let mut its = of_tenant(tenant).filter(Column::WebhookId.eq(Uuid::from_u128(webhook.0)));
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
        if let Some((at, id)) = before {
            let (at, id) = (moment(at), Uuid::from_u128(id.0));
            let same_time = Condition::all().add(Column::CreatedAt.eq(at)).add(Column::Id.lt(id));
            its = its.filter(Condition::any().add(Column::CreatedAt.lt(at)).add(same_time));
        }
        let newest =
            its.order_by_desc(Column::CreatedAt).order_by_desc(Column::Id).limit(limit.min(MAX_RETURNED));
        self.read(async |database| {
            let rows = newest.all(database).await?;
            with_events(database, rows).await
        })
        .await
    }

    /// A delivery of a tenant with all that belongs to it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn delivery(
        &self,
        tenant: TenantId,
        id: DeliveryId,
    ) -> Result<Option<WholeDelivery>, StoreError> {
        self.read(async |database| {
            let found = of_tenant(tenant).filter(Column::Id.eq(Uuid::from_u128(id.0)));
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

    /// Makes a delivery of a tenant that has ended due again, for one more attempt at least.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not this tenant's, [`StoreError::WrongState`] if it has not ended, was tried too
    /// often, or its endpoint is switched off; [`StoreError::Unavailable`].
    pub async fn retry_delivery(
        &self,
        tenant: TenantId,
        id: DeliveryId,
        now: Time,
    ) -> Result<Delivery, StoreError> {
        const UNKNOWN: StoreError = StoreError::NotFound("delivery");
        self.write(async |transaction| {
            let found = of_tenant(tenant).filter(Column::Id.eq(Uuid::from_u128(id.0)));
            let row = found.one(transaction).await?.ok_or(UNKNOWN)?;
            if !row.status.parse::<DeliveryStatus>()?.is_final() {
                return Err(StoreError::WrongState("the delivery has not ended yet"));
            }
            if row.attempts >= MAX_ATTEMPTS {
                let text = "the delivery was tried too often: replay its event in place of it";
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
