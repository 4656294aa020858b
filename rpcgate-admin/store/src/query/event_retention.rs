//! Removes old events, old deliveries, and the rows of deleted webhooks and projects.

use super::delivery_status::DeliveryStatus;
use super::projects::HAS_LOG;
use super::removal::{remove, remove_pairs};
use super::sweep::{FailedStep, SweepFailed};
use super::value::moment;
use crate::entity::{chain_events, deliveries, project_events, projects, subscriptions, webhooks};
use crate::error::RemovalStopped;
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, Expr, ExprTrait};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use std::time::Duration;
use uuid::Uuid;

const STEP: u64 = 500;

/// The number of endpoints whose deliveries are counted at once: the count must end within the deadline of reads.
const COUNTED: u64 = 5;

const LOGS: u64 = 100;

/// The number of newest deliveries kept per endpoint. Those that have not ended are kept too.
pub const DELIVERIES_KEPT: u64 = 100_000;

/// The numbers of removed rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SweptEvents {
    /// Events, with their log entries.
    pub events: u64,
    /// Deliveries, with their attempts.
    pub deliveries: u64,
    /// Deleted endpoints, with their subscriptions.
    pub webhooks: u64,
}

impl SweptEvents {
    fn add(&mut self, step: SweptEvents) {
        self.events += step.events;
        self.deliveries += step.deliveries;
        self.webhooks += step.webhooks;
    }
}

type Step = (SweptEvents, bool);

/// Removes deliveries of the oldest events stored until `then`; then their log entries; then the events.
async fn remove_events(transaction: &DatabaseTransaction, then: i64) -> Result<Step, StoreError> {
    use chain_events::{Column, Entity};
    let mut swept = SweptEvents::default();
    let oldest = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::CreatedAt.lte(then))
        .order_by_asc(Column::CreatedAt)
        .limit(STEP);
    let oldest: Vec<Uuid> = oldest.into_tuple().all(transaction).await?;
    if oldest.is_empty() {
        return Ok((swept, false));
    }
    let their = Condition::all().add(deliveries::Column::EventId.is_in(oldest.iter().copied()));
    swept.deliveries = remove::<deliveries::Entity>(transaction, deliveries::Column::Id, their, STEP).await?;
    if swept.deliveries == STEP {
        return Ok((swept, true));
    }
    let names = [project_events::Column::ProjectId, project_events::Column::EventId];
    let their = Condition::all().add(project_events::Column::EventId.is_in(oldest.iter().copied()));
    if remove_pairs::<project_events::Entity>(transaction, names, their, STEP).await? == STEP {
        return Ok((swept, true));
    }
    let is_more = oldest.len() as u64 == STEP;
    let gone = Entity::delete_many().filter(Column::Id.is_in(oldest)).exec(transaction).await?;
    swept.events = gone.rows_affected;
    Ok((swept, is_more))
}

async fn remove_webhook(transaction: &DatabaseTransaction) -> Result<Step, StoreError> {
    use webhooks::{Column, Entity};
    let mut swept = SweptEvents::default();
    let deleted = Entity::find().select_only().column(Column::Id).filter(Column::DeletedAt.is_not_null());
    let Some(id) = deleted.into_tuple::<Uuid>().one(transaction).await? else {
        return Ok((swept, false));
    };
    let its = Condition::all().add(deliveries::Column::WebhookId.eq(id));
    swept.deliveries = remove::<deliveries::Entity>(transaction, deliveries::Column::Id, its, STEP).await?;
    if swept.deliveries == STEP {
        return Ok((swept, true));
    }
    let its = Condition::all().add(subscriptions::Column::WebhookId.eq(id));
    let removed = remove::<subscriptions::Entity>(transaction, subscriptions::Column::Id, its, STEP).await?;
    if removed < STEP {
        swept.webhooks = Entity::delete_by_id(id).exec(transaction).await?.rows_affected;
    }
    Ok((swept, true))
}

/// Removes a part of the log of a project, and reports whether more is left.
async fn remove_log(transaction: &DatabaseTransaction, project: Uuid) -> Result<bool, StoreError> {
    use project_events::{Column, Entity};
    let its = Condition::all().add(Column::ProjectId.eq(project));
    let names = [Column::ProjectId, Column::EventId];
    Ok(remove_pairs::<Entity>(transaction, names, its, STEP).await? == STEP)
}

/// Removes ended deliveries of an endpoint that were made before `oldest`.
async fn remove_ended(
    transaction: &DatabaseTransaction,
    webhook: Uuid,
    oldest: i64,
) -> Result<Step, StoreError> {
    let ended = [DeliveryStatus::Delivered.name(), DeliveryStatus::Failed.name()];
    let old = Condition::all()
        .add(deliveries::Column::WebhookId.eq(webhook))
        .add(deliveries::Column::CreatedAt.lt(oldest))
        .add(deliveries::Column::Status.is_in(ended));
    let removed = remove::<deliveries::Entity>(transaction, deliveries::Column::Id, old, STEP).await?;
    Ok((SweptEvents { deliveries: removed, ..SweptEvents::default() }, removed == STEP))
}

impl Store {
    /// Removes events older than `kept` with their deliveries, ended deliveries beyond the newest `DELIVERIES_KEPT` of
    /// an endpoint, deleted endpoints, and the logs of deleted projects. Uses small transactions, so that other writes
    /// hardly wait; after an error, the finished ones stay.
    ///
    /// Each kind of rows is removed independently, so a failure of one does not block the others. Any program may call
    /// this at any time; it stops if another program does the work.
    ///
    /// # Errors
    /// [`SweepFailed`] lists the kinds of rows that could not all be removed.
    pub async fn sweep_events(&self, kept: Duration, now: Time) -> Result<SweptEvents, SweepFailed> {
        let mut swept = SweptEvents::default();
        let then = moment(now).saturating_sub(i64::try_from(kept.as_micros()).unwrap_or(i64::MAX));
        let webhooks = self.remove_webhooks(&mut swept).await;
        let logs = self.remove_logs().await;
        let events = self.remove_old_events(&mut swept, then).await;
        let deliveries = self.trim_deliveries(&mut swept).await;
        let mut failed = SweepFailed { steps: Vec::new() };
        for (step, ended) in
            [("webhooks", webhooks), ("event_logs", logs), ("events", events), ("deliveries", deliveries)]
        {
            if let Err(error) = RemovalStopped::failed(ended) {
                failed.steps.push(FailedStep { step, error });
            }
        }
        if failed.steps.is_empty() { Ok(swept) } else { Err(failed) }
    }

    async fn remove_webhooks(&self, swept: &mut SweptEvents) -> Result<(), RemovalStopped> {
        let mut is_more = true;
        while is_more {
            let step = self.remove_expired(async |transaction| remove_webhook(transaction).await).await?;
            swept.add(step.0);
            is_more = step.1;
        }
        Ok(())
    }

    async fn remove_old_events(&self, swept: &mut SweptEvents, then: i64) -> Result<(), RemovalStopped> {
        let mut is_more = true;
        while is_more {
            let step =
                self.remove_expired(async |transaction| remove_events(transaction, then).await).await?;
            swept.add(step.0);
            is_more = step.1;
        }
        Ok(())
    }

    /// Removes the logs of deleted projects, which are no longer read. The removal of their projects would cascade to
    /// them, but each in one transaction.
    async fn remove_logs(&self) -> Result<(), RemovalStopped> {
        use projects::{Column, Entity};
        loop {
            let some = self.read(async |database| {
                let logged = Entity::find()
                    .select_only()
                    .column(Column::Id)
                    .filter(Column::DeletedAt.is_not_null())
                    .filter(Expr::cust(HAS_LOG))
                    .limit(LOGS);
                Ok(logged.into_tuple::<Uuid>().all(database).await?)
            });
            let some = some.await?;
            if some.is_empty() {
                return Ok(());
            }
            for project in some {
                while self.remove_expired(async |transaction| remove_log(transaction, project).await).await? {
                }
            }
        }
    }

    async fn trim_deliveries(&self, swept: &mut SweptEvents) -> Result<(), RemovalStopped> {
        let mut last = None;
        loop {
            let some = self.some_webhooks(last).await?;
            let Some(end) = some.last().copied() else { return Ok(()) };
            for webhook in self.full_webhooks(some).await? {
                let Some(oldest) = self.oldest_stored(webhook).await? else { continue };
                let mut is_more = true;
                while is_more {
                    let step = self
                        .remove_expired(async |transaction| remove_ended(transaction, webhook, oldest).await)
                        .await?;
                    swept.add(step.0);
                    is_more = step.1;
                }
            }
            last = Some(end);
        }
    }

    async fn some_webhooks(&self, after: Option<Uuid>) -> Result<Vec<Uuid>, StoreError> {
        use webhooks::{Column, Entity};
        self.read(async |database| {
            let mut next = Entity::find().select_only().column(Column::Id).order_by_asc(Column::Id);
            if let Some(after) = after {
                next = next.filter(Column::Id.gt(after));
            }
            Ok(next.limit(COUNTED).into_tuple().all(database).await?)
        })
        .await
    }

    /// Returns the endpoints that have more deliveries than are kept.
    async fn full_webhooks(&self, some: Vec<Uuid>) -> Result<Vec<Uuid>, StoreError> {
        use deliveries::{Column, Entity};
        let kept = i64::try_from(DELIVERIES_KEPT).unwrap_or(i64::MAX);
        self.read(async |database| {
            let full = Entity::find()
                .select_only()
                .column(Column::WebhookId)
                .filter(Column::WebhookId.is_in(some))
                .group_by(Column::WebhookId)
                .having(Column::WebhookId.count().gt(kept));
            Ok(full.into_tuple().all(database).await?)
        })
        .await
    }

    /// Returns the creation time of the oldest kept delivery of an endpoint that has more than are kept.
    async fn oldest_stored(&self, webhook: Uuid) -> Result<Option<i64>, StoreError> {
        use deliveries::{Column, Entity};
        self.read(async |database| {
            let oldest = Entity::find()
                .select_only()
                .column(Column::CreatedAt)
                .filter(Column::WebhookId.eq(webhook))
                .order_by_desc(Column::CreatedAt)
                .offset(DELIVERIES_KEPT - 1)
                .limit(1);
            Ok(oldest.into_tuple().one(database).await?)
        })
        .await
    }
}
