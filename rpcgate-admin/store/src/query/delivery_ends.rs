//! The ends of delivery attempts, and their effect on the endpoints.

use super::changes::{NewChange, record};
use super::delivery_status::{DeliveryStatus, FAILED, PENDING};
use super::id::{DeliveryId, WebhookId};
use super::value::{moment, time};
use crate::entity::{deliveries, delivery_attempts, projects, webhook_notices, webhooks};
use crate::{Store, StoreError};
use deliveries::Column;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Expr, LockType, OnConflict, SimpleExpr};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use uuid::Uuid;

const DELIVERED: &str = DeliveryStatus::Delivered.name();
const ROWS: usize = 500;

/// An attempt that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndedAttempt {
    /// The delivery.
    pub delivery: DeliveryId,
    /// The endpoint.
    pub webhook: WebhookId,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// The start time.
    pub started_at: Time,
    /// The duration.
    pub took: Duration,
    /// The HTTP status of the response, if one came.
    pub status: Option<u16>,
    /// The error, if it failed.
    pub error: Option<String>,
    /// The beginning of the response body.
    pub answer: Option<Vec<u8>>,
    /// The URL that was called, if the receiver answered that it is gone for good (410).
    pub gone_url: Option<String>,
    /// The next step for the delivery.
    pub then: AfterAttempt,
}

/// The next step for a delivery after an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterAttempt {
    /// The delivery succeeded.
    Delivered,
    /// Another attempt is made at this time.
    Again(Time),
    /// The delivery is given up.
    Failed,
}

/// The changes of endpoints after the ends of attempts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndpointTransitions {
    /// Endpoints whose last attempt failed.
    pub failing: Vec<FailingEndpoint>,
    /// Endpoints that receive deliveries again.
    pub recovered: Vec<WebhookId>,
    /// Endpoints whose receiver answered that it is gone for good, with the URL that was called.
    pub gone: Vec<(WebhookId, String)>,
}

/// An endpoint whose last attempt failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailingEndpoint {
    /// The endpoint.
    pub webhook: WebhookId,
    /// The start of the period without a successful delivery.
    pub since: Time,
    /// True if a delivery was given up.
    pub has_given_up: bool,
}

fn small(number: u32) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}

fn code(status: Option<u16>) -> Option<i16> {
    status.and_then(|status| i16::try_from(status).ok())
}

struct Marked {
    status: String,
    attempts: i16,
    ended: BTreeMap<i16, (i64, i32)>,
}

struct AttemptRow<'e> {
    end: &'e EndedAttempt,
    number: i16,
    /// True if another dispatcher has already ended this attempt, because the dispatcher of this one was considered
    /// dead.
    is_late: bool,
}

impl Marked {
    /// Returns the row of an end that is not stored yet, with its own number or the next free one. Returns `None` if it
    /// is already stored, because a mark with an unknown outcome is repeated, or if no number is left.
    fn add_row<'e>(&mut self, end: &'e EndedAttempt) -> Option<AttemptRow<'e>> {
        let wanted = small(end.number);
        let began = moment(end.started_at);
        let took = millis(end.took);
        let mut number = wanted;
        for (next, of) in self.ended.range(wanted..) {
            if *of == (began, took) {
                return None;
            }
            if *next == number {
                number = number.checked_add(1)?;
            }
        }
        self.ended.insert(number, (began, took));
        Some(AttemptRow { end, number, is_late: self.attempts >= wanted })
    }
}

fn millis(took: Duration) -> i32 {
    i32::try_from(took.as_millis()).unwrap_or(i32::MAX)
}

fn row(place: &AttemptRow<'_>) -> delivery_attempts::ActiveModel {
    let end = place.end;
    delivery_attempts::ActiveModel {
        delivery_id: Set(Uuid::from_u128(end.delivery.0)),
        number: Set(place.number),
        started_at: Set(moment(end.started_at)),
        duration_ms: Set(millis(end.took)),
        http_status: Set(code(end.status)),
        error: Set(end.error.clone()),
        answer: Set(end.answer.clone()),
    }
}

async fn stored(
    transaction: &DatabaseTransaction,
    ended: &[EndedAttempt],
) -> Result<HashMap<Uuid, Marked>, StoreError> {
    use delivery_attempts::Column as Attempt;
    let present = deliveries::Entity::find()
        .select_only()
        .columns([Column::Id, Column::Status, Column::Attempts])
        .filter(Column::Id.is_in(ended.iter().map(|end| Uuid::from_u128(end.delivery.0))))
        // In a fixed order, so that two dispatchers do not wait for each other.
        .order_by_asc(Column::Id)
        .lock(LockType::Update);
    let present: Vec<(Uuid, String, i16)> = present.into_tuple().all(transaction).await?;
    let mut marked: HashMap<_, _> = present
        .into_iter()
        .map(|(id, status, attempts)| (id, Marked { status, attempts, ended: BTreeMap::new() }))
        .collect();
    let attempts = delivery_attempts::Entity::find()
        .select_only()
        .columns([Attempt::DeliveryId, Attempt::Number, Attempt::StartedAt, Attempt::DurationMs])
        .filter(Attempt::DeliveryId.is_in(marked.keys().copied()));
    let attempts: Vec<(Uuid, i16, i64, i32)> = attempts.into_tuple().all(transaction).await?;
    for (id, number, began, took) in attempts {
        if let Some(of) = marked.get_mut(&id) {
            of.ended.insert(number, (began, took));
        }
    }
    Ok(marked)
}

async fn put(transaction: &DatabaseTransaction, places: &[AttemptRow<'_>]) -> Result<(), StoreError> {
    for some in places.chunks(ROWS) {
        let insert = delivery_attempts::Entity::insert_many(some.iter().map(row));
        insert.exec_without_returning(transaction).await?;
    }
    Ok(())
}

/// Marks the deliveries. The number of attempts never falls. An acknowledgement always counts, but a failure only if it
/// ends the current attempt. Deliveries with the same status and number of attempts are marked together.
async fn mark(
    transaction: &DatabaseTransaction,
    places: &[AttemptRow<'_>],
    marked: &mut HashMap<Uuid, Marked>,
    now: Time,
) -> Result<(), StoreError> {
    let mut delivered: BTreeMap<_, Vec<Uuid>> = BTreeMap::new();
    for AttemptRow { end, number, is_late } in places {
        let id = Uuid::from_u128(end.delivery.0);
        let Some(of) = marked.get_mut(&id) else { continue };
        let counts = match end.then {
            AfterAttempt::Delivered => of.status != DELIVERED,
            AfterAttempt::Again(_) | AfterAttempt::Failed => of.status == PENDING && !is_late,
        };
        if !counts {
            tracing::debug!(delivery = %end.delivery, number, "the result of an attempt came too late and is ignored");
            continue;
        }
        of.attempts = of.attempts.max(*number);
        let pending = deliveries::Entity::update_many()
            .col_expr(Column::Attempts, Expr::value(of.attempts))
            .col_expr(Column::LastStatus, Expr::value(code(end.status)))
            .col_expr(Column::LastError, Expr::value(end.error.clone()))
            .filter(Column::Id.eq(id));
        let failed = match end.then {
            AfterAttempt::Delivered => {
                of.status = DELIVERED.into();
                delivered.entry((of.attempts, code(end.status))).or_default().push(id);
                continue;
            }
            AfterAttempt::Again(at) => pending.col_expr(Column::DueAt, Expr::value(at)),
            AfterAttempt::Failed => {
                of.status = FAILED.into();
                pending
                    .col_expr(Column::Status, Expr::value(FAILED))
                    .col_expr(Column::FinishedAt, Expr::value(now))
            }
        };
        failed.exec(transaction).await?;
    }
    for ((attempts, status), ids) in delivered {
        deliveries::Entity::update_many()
            .col_expr(Column::Status, Expr::value(DELIVERED))
            .col_expr(Column::Attempts, Expr::value(attempts))
            .col_expr(Column::LastStatus, Expr::value(status))
            .col_expr(Column::LastError, Expr::value(None::<String>))
            .col_expr(Column::FinishedAt, Expr::value(now))
            .filter(Column::Id.is_in(ids))
            .exec(transaction)
            .await?;
    }
    Ok(())
}

/// Locks those of these endpoints that fail, or those that do not, according to the stored state.
async fn locked(
    transaction: &DatabaseTransaction,
    some: impl IntoIterator<Item = WebhookId>,
    fails: bool,
) -> Result<Vec<Uuid>, StoreError> {
    use webhooks::Column::{FailingSince, Id};
    let since = if fails { FailingSince.is_not_null() } else { FailingSince.is_null() };
    let found = webhooks::Entity::find()
        .select_only()
        .column(Id)
        .filter(Id.is_in(some.into_iter().map(|id| Uuid::from_u128(id.0))))
        .filter(since)
        .order_by_asc(Id)
        // This lock does not wait for watchers that make deliveries to the same endpoints.
        .lock(LockType::NoKeyUpdate);
    Ok(found.into_tuple().all(transaction).await?)
}

async fn set_failing(
    transaction: &DatabaseTransaction,
    some: Vec<Uuid>,
    since: Option<i64>,
) -> Result<(), StoreError> {
    use webhooks::Column::{FailingSince, Id};
    if !some.is_empty() {
        let update = webhooks::Entity::update_many().col_expr(FailingSince, Expr::value(since));
        update.filter(Id.is_in(some)).exec(transaction).await?;
    }
    Ok(())
}

async fn turn(
    transaction: &DatabaseTransaction,
    ended: &[&EndedAttempt],
    now: Time,
) -> Result<EndpointTransitions, StoreError> {
    use webhooks::Column::{FailingSince, Id};
    let last: BTreeMap<_, _> = ended.iter().map(|end| (end.webhook, end.then)).collect();
    let is_good = |(_, then): &(&WebhookId, &AfterAttempt)| **then == AfterAttempt::Delivered;
    let (good, bad): (BTreeMap<_, _>, BTreeMap<_, _>) = last.iter().partition(is_good);
    let mut turns = EndpointTransitions::default();
    let gone = ended.iter().filter_map(|end| Some((end.webhook, end.gone_url.clone()?)));
    turns.gone = gone.collect::<BTreeMap<_, _>>().into_iter().collect();
    if !good.is_empty() {
        let recovered = locked(transaction, good.into_keys().copied(), true).await?;
        turns.recovered = recovered.iter().map(|id| WebhookId(id.as_u128())).collect();
        set_failing(transaction, recovered, None).await?;
    }
    if bad.is_empty() {
        return Ok(turns);
    }
    let fresh = locked(transaction, bad.keys().map(|id| **id), false).await?;
    set_failing(transaction, fresh, Some(moment(now))).await?;
    let given_up = ended.iter().filter(|end| end.then == AfterAttempt::Failed);
    let given_up: BTreeSet<_> = given_up.map(|end| end.webhook).collect();
    let since = webhooks::Entity::find()
        .select_only()
        .columns([Id, FailingSince])
        .filter(Id.is_in(bad.keys().map(|id| Uuid::from_u128(id.0))))
        .filter(FailingSince.is_not_null());
    let since: Vec<(Uuid, i64)> = since.into_tuple().all(transaction).await?;
    let failing = |(id, since): (Uuid, i64)| {
        let webhook = WebhookId(id.as_u128());
        FailingEndpoint { webhook, since: time(since), has_given_up: given_up.contains(&webhook) }
    };
    turns.failing = since.into_iter().map(failing).collect();
    Ok(turns)
}

impl Store {
    /// Marks the ends of attempts in one transaction, and returns their effect on the endpoints. Repeated ends and ends
    /// of deleted deliveries change nothing.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn finish_attempts(
        &self,
        ended: &[EndedAttempt],
        now: Time,
    ) -> Result<EndpointTransitions, StoreError> {
        if ended.is_empty() {
            return Ok(EndpointTransitions::default());
        }
        self.database
            .transact_concurrently(async |transaction| {
                let mut marked = stored(transaction, ended).await?;
                let mut present = Vec::new();
                let mut places = Vec::new();
                for end in ended {
                    if let Some(of) = marked.get_mut(&Uuid::from_u128(end.delivery.0)) {
                        present.push(end);
                        places.extend(of.add_row(end));
                    }
                }
                put(transaction, &places).await?;
                mark(transaction, &places, &mut marked, now).await?;
                turn(transaction, &present, now).await
            })
            .await
    }

    /// Returns the tenant and URL of a failing endpoint if its users must be notified: once per `pause` over all
    /// dispatchers.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn notify_of_failing(
        &self,
        webhook: WebhookId,
        pause: Duration,
        now: Time,
    ) -> Result<Option<(TenantId, String)>, StoreError> {
        self.notify(webhook, now, |row| {
            let is_told = row.failing_at.is_some_and(|at| moment(now) < later(at, pause));
            (!is_told).then(|| webhook_notices::Model { failing_at: Some(moment(now)), ..row })
        })
        .await
    }

    /// Returns the tenant and URL of a recovered endpoint if its users must be notified: only if they were notified of
    /// the failure, and once per `pause`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn notify_of_recovered(
        &self,
        webhook: WebhookId,
        pause: Duration,
        now: Time,
    ) -> Result<Option<(TenantId, String)>, StoreError> {
        self.notify(webhook, now, |row| {
            let fails = row.failing_at.filter(|at| row.working_at.is_none_or(|working| working < *at));
            let is_told = row.working_at.is_some_and(|at| moment(now) < later(at, pause));
            (fails.is_some() && !is_told)
                .then(|| webhook_notices::Model { working_at: Some(moment(now)), ..row })
        })
        .await
    }

    /// Returns the tenant and URL of an endpoint if `decide` has its users notified. `decide` gets the times of earlier
    /// notifications and returns the row to store.
    pub(super) async fn notify(
        &self,
        webhook: WebhookId,
        now: Time,
        decide: impl Fn(webhook_notices::Model) -> Option<webhook_notices::Model>,
    ) -> Result<Option<(TenantId, String)>, StoreError> {
        use webhook_notices::Column::{FailingAt, WebhookId as Of, WithheldToldAt, WorkingAt};
        let id = Uuid::from_u128(webhook.0);
        let nothing = webhook_notices::Model {
            webhook_id: id,
            failing_at: None,
            working_at: None,
            withheld_at: None,
            withheld_told_at: None,
        };
        // Usually no notification is due, which a read finds without the write lock.
        let known = webhook_notices::Entity::find_by_id(id);
        let known = self.read(async |database| Ok::<_, StoreError>(known.one(database).await?)).await?;
        if decide(known.unwrap_or_else(|| nothing.clone())).is_none() {
            return Ok(None);
        }
        self.transact(async |transaction| {
            let Some((endpoint, project)) = with_project(transaction, id).await? else { return Ok(None) };
            let before = webhook_notices::Entity::find_by_id(id).one(transaction).await?;
            let Some(row) = decide(before.unwrap_or(nothing)) else { return Ok(None) };
            let row = webhook_notices::ActiveModel {
                webhook_id: Set(row.webhook_id),
                failing_at: Set(row.failing_at),
                working_at: Set(row.working_at),
                withheld_at: Set(row.withheld_at),
                withheld_told_at: Set(row.withheld_told_at),
            };
            // Only watchers write the time of withheld events.
            let upsert =
                OnConflict::column(Of).update_columns([FailingAt, WorkingAt, WithheldToldAt]).to_owned();
            let insert = webhook_notices::Entity::insert(row).on_conflict(upsert);
            insert.exec_without_returning(transaction).await?;
            tracing::debug!(webhook = %webhook, at = ?now, "users are notified about an endpoint");
            Ok(Some((project.tenant_id, endpoint.url)))
        })
        .await
    }

    /// Switches off an endpoint that has failed since `failing_since` or earlier, and returns its tenant and URL;
    /// `None` if it is not active or has recovered.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn disable_webhook(
        &self,
        webhook: WebhookId,
        failing_since: Time,
        now: Time,
    ) -> Result<Option<(TenantId, String)>, StoreError> {
        let fails = webhooks::Column::FailingSince.lte(failing_since);
        self.disable_webhook_if(webhook, fails, now).await
    }

    /// Switches off an endpoint whose receiver at `url` is gone, and returns its tenant; `None` if it is not active or
    /// its URL has changed.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn disable_gone_webhook(
        &self,
        webhook: WebhookId,
        url: &str,
        now: Time,
    ) -> Result<Option<TenantId>, StoreError> {
        let disabled = self.disable_webhook_if(webhook, webhooks::Column::Url.eq(url), now).await?;
        Ok(disabled.map(|(tenant, _)| tenant))
    }

    async fn disable_webhook_if(
        &self,
        webhook: WebhookId,
        condition: SimpleExpr,
        now: Time,
    ) -> Result<Option<(TenantId, String)>, StoreError> {
        use webhooks::Column::{Active, DisabledAt, Id, UpdatedAt};
        let id = Uuid::from_u128(webhook.0);
        self.transact(async |transaction| {
            let Some((endpoint, project)) = with_project(transaction, id).await? else { return Ok(None) };
            let done = webhooks::Entity::update_many()
                .col_expr(Active, Expr::value(false))
                .col_expr(DisabledAt, Expr::value(now))
                .col_expr(UpdatedAt, Expr::value(now))
                .filter(Id.eq(id))
                .filter(Active.eq(true))
                .filter(condition.clone())
                .exec(transaction)
                .await?;
            if done.rows_affected == 0 {
                return Ok(None);
            }
            let its = project.id;
            record(transaction, NewChange::Project(its), now).await?;
            Ok(Some((project.tenant_id, endpoint.url)))
        })
        .await
    }
}

pub(super) fn later(at: i64, pause: Duration) -> i64 {
    at.saturating_add(i64::try_from(pause.as_micros()).unwrap_or(i64::MAX))
}

async fn with_project(
    transaction: &DatabaseTransaction,
    webhook: Uuid,
) -> Result<Option<(webhooks::Model, projects::Model)>, StoreError> {
    // No user is notified about an endpoint that was deleted during an attempt.
    let found = webhooks::Entity::find_by_id(webhook)
        .filter(webhooks::Column::DeletedAt.is_null())
        .find_also_related(projects::Entity);
    Ok(found.one(transaction).await?.and_then(|(endpoint, project)| Some((endpoint, project?))))
}
