//! The delivery statistics of an endpoint, and the endpoints of a tenant.

use super::delivery_status::DeliveryStatus;
use super::due_deliveries::any_position;
use super::id::WebhookId;
use super::value::time;
use super::webhooks::{Webhook, of_tenant};
use crate::entity::{deliveries, delivery_attempts, webhooks};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, DatabaseConnection, EntityTrait, JoinType, QueryFilter, QueryOrder, QuerySelect,
    RelationTrait,
};
use std::time::Duration;
use uuid::Uuid;

const HOUR: u64 = 3_600;

/// The number of the hour in which an attempt began. It is a literal, so that the text is the same in `GROUP BY`:
/// PostgreSQL takes two parameters for different values.
const HOUR_OF_START: &str = r#""delivery_attempts"."started_at" / 3600000000"#;

/// The delivery statistics of an endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndpointHealth {
    /// Deliveries since the start of the period that have arrived.
    pub delivered: u64,
    /// Deliveries since the start of the period that were given up.
    pub failed: u64,
    /// Deliveries of any age that wait for an attempt.
    pub pending: u64,
    /// Deliveries of any age that wait for confirmations.
    pub held: u64,
    /// The due time of the next attempt.
    pub next_due: Option<Time>,
    /// The hours with attempts of the deliveries since the start of the period, the oldest first.
    pub hours: Vec<AttemptsOfHour>,
}

/// The attempts that began in an hour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptsOfHour {
    /// The start of the hour.
    pub hour: Time,
    /// All attempts.
    pub made: u64,
    /// Failed attempts.
    pub failed: u64,
    /// Their total duration.
    pub took: Duration,
}

async fn read_health(
    database: &DatabaseConnection,
    webhook: Uuid,
    since: Time,
) -> Result<EndpointHealth, StoreError> {
    use deliveries::Column::{CreatedAt, DueAt, Status, WebhookId};
    let mut health = EndpointHealth::default();
    let ended = deliveries::Entity::find()
        .select_only()
        .column(Status)
        .column_as(WebhookId.count(), "number")
        .filter(WebhookId.eq(webhook))
        .filter(CreatedAt.gte(since))
        .group_by(Status)
        .into_tuple::<(String, i64)>();
    for (status, number) in ended.all(database).await? {
        match status.parse::<DeliveryStatus>()? {
            DeliveryStatus::Delivered => health.delivered = number.unsigned_abs(),
            DeliveryStatus::Failed => health.failed = number.unsigned_abs(),
            DeliveryStatus::Pending | DeliveryStatus::Held | DeliveryStatus::Withheld => {}
        }
    }
    let waiting = deliveries::Entity::find()
        .select_only()
        .column(Status)
        .column_as(WebhookId.count(), "number")
        .column_as(DueAt.min(), "due")
        .filter(WebhookId.eq(webhook))
        .filter(Status.is_in([DeliveryStatus::Pending.name(), DeliveryStatus::Held.name()]))
        .filter(any_position())
        .group_by(Status)
        .into_tuple::<(String, i64, Option<i64>)>();
    for (status, number, due) in waiting.all(database).await? {
        if status.parse::<DeliveryStatus>()? == DeliveryStatus::Held {
            health.held = number.unsigned_abs();
        } else {
            (health.pending, health.next_due) = (number.unsigned_abs(), due.map(time));
        }
    }
    let hours = delivery_attempts::Entity::find()
        .select_only()
        .column_as(Expr::cust(HOUR_OF_START), "hour")
        .column_as(delivery_attempts::Column::Number.count(), "made")
        .column_as(delivery_attempts::Column::Error.count(), "failed")
        .column_as(delivery_attempts::Column::DurationMs.sum().cast_as("bigint"), "took")
        .join(JoinType::InnerJoin, delivery_attempts::Relation::Delivery.def())
        .filter(WebhookId.eq(webhook))
        .filter(CreatedAt.gte(since))
        .group_by(Expr::cust(HOUR_OF_START))
        .into_tuple::<(i64, i64, i64, Option<i64>)>();
    let mut hours = hours.all(database).await?;
    hours.sort_unstable();
    health.hours = hours
        .into_iter()
        .map(|(hour, made, failed, took)| AttemptsOfHour {
            hour: Time::from_secs(hour.unsigned_abs().saturating_mul(HOUR)),
            made: made.unsigned_abs(),
            failed: failed.unsigned_abs(),
            took: Duration::from_millis(took.unwrap_or_default().unsigned_abs()),
        })
        .collect();
    Ok(health)
}

impl Store {
    /// Returns the endpoints of a tenant's projects, the oldest first: at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn tenant_webhooks(&self, tenant: TenantId, limit: u64) -> Result<Vec<Webhook>, StoreError> {
        use webhooks::Column::{CreatedAt, Id};
        let oldest = of_tenant(tenant).order_by_asc(CreatedAt).order_by_asc(Id).limit(limit);
        self.read(async |database| Ok(oldest.all(database).await?.into_iter().map(Webhook::from).collect()))
            .await
    }

    /// Returns the statistics of an endpoint's deliveries since `since`; nothing for another tenant's endpoint.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn endpoint_health(
        &self,
        tenant: TenantId,
        webhook: WebhookId,
        since: Time,
    ) -> Result<EndpointHealth, StoreError> {
        let webhook = Uuid::from_u128(webhook.0);
        self.read(async |database| {
            let known = of_tenant(tenant).filter(webhooks::Column::Id.eq(webhook)).one(database).await?;
            match known {
                Some(_) => read_health(database, webhook, since).await,
                None => Ok(EndpointHealth::default()),
            }
        })
        .await
    }
}
