//! Endpoints from which events are withheld because too many of their deliveries wait. Their users are notified.

use super::delivery_ends::later;
use super::id::WebhookId;
use super::value::moment;
use crate::entity::webhook_notices;
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr, ExprTrait, OnConflict};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

const ROWS: usize = 500;

pub(super) async fn note_withheld(
    transaction: &DatabaseTransaction,
    webhooks: BTreeSet<Uuid>,
    now: Time,
) -> Result<(), StoreError> {
    use webhook_notices::Column::{WebhookId as Of, WithheldAt};
    let rows: Vec<_> = webhooks
        .into_iter()
        .map(|id| webhook_notices::ActiveModel {
            webhook_id: Set(id),
            withheld_at: Set(Some(moment(now))),
            ..Default::default()
        })
        .collect();
    for some in rows.chunks(ROWS) {
        let upsert = OnConflict::column(Of).update_column(WithheldAt).to_owned();
        let insert = webhook_notices::Entity::insert_many(some.iter().cloned()).on_conflict(upsert);
        insert.exec_without_returning(transaction).await?;
    }
    Ok(())
}

impl Store {
    /// Returns the tenant and URL of an endpoint from which events are withheld, if its users must be notified: once
    /// per `pause`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn notify_of_withheld(
        &self,
        webhook: WebhookId,
        pause: Duration,
        now: Time,
    ) -> Result<Option<(TenantId, String)>, StoreError> {
        self.notify(webhook, now, |row| {
            let withheld = row.withheld_at?;
            let is_told = row.withheld_told_at.is_some_and(|at| withheld < later(at, pause));
            (!is_told).then(|| webhook_notices::Model { withheld_told_at: Some(moment(now)), ..row })
        })
        .await
    }

    /// Returns endpoints from which events are withheld and whose users were not notified within `pause`: at most
    /// `limit`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn withheld_webhooks(&self, pause: Duration, limit: u64) -> Result<Vec<WebhookId>, StoreError> {
        use webhook_notices::Column::{WebhookId as Of, WithheldAt, WithheldToldAt};
        let pause = i64::try_from(pause.as_micros()).unwrap_or(i64::MAX);
        let is_late = Expr::col(WithheldAt).sub(pause).gte(Expr::col(WithheldToldAt));
        let due = webhook_notices::Entity::find()
            .select_only()
            .column(Of)
            .filter(WithheldAt.is_not_null())
            .filter(Condition::any().add(WithheldToldAt.is_null()).add(is_late))
            .order_by_asc(Of)
            .limit(limit)
            .into_tuple::<Uuid>();
        let found = self.read(async |database| Ok::<_, StoreError>(due.all(database).await?)).await?;
        Ok(found.into_iter().map(|id| WebhookId(id.as_u128())).collect())
    }
}
