//! Notifications. They are raised in the transaction of the shipment that makes them due, so that each is raised
//! exactly once, even if processes are killed and several gateways ship.

use super::id::NotificationId;
use super::usage_rows::{ROWS, statement_error, stored};
use super::value::count;
use crate::entity::notifications::{Column, Entity, Model};
use crate::entity::{daily_requests, minute_refusals, spikes};
use crate::{StoreError, UsageStore, fresh_id};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::HourlySums;
use rpcgate_core::usage::notice::{Notice, SPIKE, SPIKE_PAUSE};
use sea_orm::sea_query::{Alias, Expr, ExprTrait, OnConflict, Query};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

const MAX_RETURNED: u64 = 1_000;
const MAX_UNMAILED: u64 = 100;

const MINUTE: u64 = 60;
const DAY: u64 = 86_400;

/// The number of newest minutes for which sums of refusals are kept, so that late shipments of a gateway are still
/// added.
const REFUSALS_KEPT: i64 = 24 * 60;

/// A notification of a tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification {
    /// Its identifier.
    pub id: NotificationId,
    /// The tenant.
    pub tenant: TenantId,
    /// Its kind.
    pub notice: Notice,
    /// The start of its UTC day or minute.
    pub since: Time,
    /// The time when it was raised, within that day or minute: the arrival of the newest call known then.
    pub at: Time,
    /// The requests of the day, or calls refused in the minute, when it was raised.
    pub counted: u64,
    /// The requests per day that the plan allows all keys of the tenant; `None` for a spike.
    pub allowed: Option<u64>,
}

impl Notification {
    /// Returns its display text.
    pub fn text(&self) -> String {
        match (self.notice.percent(), self.allowed) {
            (Some(percent), Some(allowed)) => {
                format!("{percent} percent of the day's requests are used: {} of {allowed}", self.counted)
            }
            (Some(percent), None) => format!("{percent} percent of the day's requests are used"),
            (None, _) => format!("{} calls were refused with 429 within a minute", self.counted),
        }
    }
}

impl TryFrom<Model> for Notification {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(Notification {
            id: row.id,
            tenant: row.tenant,
            notice: row.notice,
            since: row.since,
            at: row.at,
            counted: count("number of requests", row.counted)?,
            allowed: row.allowed.map(|allowed| count("number of requests", allowed)).transpose()?,
        })
    }
}

/// Adds to the sums behind notifications, and raises those that are due. `allowances` are requests per day; a tenant
/// without an allowance gets no notification now and must be checked again later.
pub(super) async fn note(
    transaction: &DatabaseTransaction,
    folded: &HourlySums,
    allowances: &BTreeMap<TenantId, u64>,
) -> Result<(), StoreError> {
    let requests = {
        use daily_requests::{Column, Entity};
        add::<Entity>(transaction, [Column::Day, Column::Tenant, Column::Requests], &folded.admitted).await?
    };
    let mut due: Vec<Notification> = requests
        .into_iter()
        .flat_map(|(tenant, day, requests)| {
            daily(tenant, day, requests, allowances.get(&tenant).copied(), folded.newest)
        })
        .collect();
    let refused = {
        use minute_refusals::{Column, Entity};
        add::<Entity>(transaction, [Column::Minute, Column::Tenant, Column::Calls], &folded.refused).await?
    };
    for (tenant, minute, calls) in refused {
        if calls >= SPIKE && claim(transaction, tenant, minute).await? {
            let since = Time::from_secs(minute.saturating_mul(MINUTE));
            let at = within(folded.newest, since, MINUTE);
            due.push(notification(tenant, Notice::RateLimitedSpike, (since, at), calls, None));
        }
    }
    raise(transaction, &due).await
}

fn daily(
    tenant: TenantId,
    day: u64,
    requests: u64,
    allowed: Option<u64>,
    now: Time,
) -> impl Iterator<Item = Notification> {
    let since = Time::from_secs(day.saturating_mul(DAY));
    let at = within(now, since, DAY);
    let reached = Notice::reached(requests, allowed.unwrap_or_default());
    reached.map(move |notice| notification(tenant, notice, (since, at), requests, allowed))
}

fn notification(
    tenant: TenantId,
    notice: Notice,
    (since, at): (Time, Time),
    counted: u64,
    allowed: Option<u64>,
) -> Notification {
    Notification { id: NotificationId(fresh_id(at)), tenant, notice, since, at, counted, allowed }
}

/// Returns the time closest to `now` within the `length` seconds that begin at `since`.
fn within(now: Time, since: Time, length: u64) -> Time {
    let last = Time::from_micros(since.micros().saturating_add(length * 1_000_000 - 1));
    now.clamp(since, last)
}

/// Adds sums to a table with the columns period, tenant and sum, and returns the new totals. All transactions take the
/// rows in the same order, so they cannot deadlock.
async fn add<E: EntityTrait>(
    transaction: &DatabaseTransaction,
    [period, tenant, sum]: [E::Column; 3],
    sums: &BTreeMap<(TenantId, u64), u64>,
) -> Result<Vec<(TenantId, u64, u64)>, StoreError> {
    let sums: Vec<_> = sums.iter().collect();
    let mut totals = Vec::with_capacity(sums.len());
    for chunk in sums.chunks(ROWS) {
        let mut insert = Query::insert();
        insert.into_table(E::default()).columns([period, tenant, sum]);
        for ((owner, number), value) in chunk {
            let row: [Expr; 3] = [stored(*number).into(), (*owner).into(), stored(**value).into()];
            insert.values(row).map_err(statement_error)?;
        }
        let total = Expr::col((E::default(), sum)).add(Expr::col((Alias::new("excluded"), sum)));
        insert.on_conflict(OnConflict::columns([period, tenant]).value(sum, total).to_owned());
        insert.returning(Query::returning().columns([tenant, period, sum]));
        for row in transaction.query_all(&insert).await? {
            let owner = row.try_get_by_index(0)?;
            let [number, value] = [row.try_get_by_index::<i64>(1)?, row.try_get_by_index::<i64>(2)?];
            totals.push((owner, number.unsigned_abs(), value.unsigned_abs()));
        }
    }
    Ok(totals)
}

/// Reports whether to notify about the spike in this minute. If so, records it as the tenant's last.
async fn claim(transaction: &DatabaseTransaction, tenant: TenantId, minute: u64) -> Result<bool, StoreError> {
    use spikes::{Column, Entity};
    let known = Expr::col((Entity, Column::Minute)).add(stored(SPIKE_PAUSE));
    let later = OnConflict::column(Column::Tenant)
        .update_column(Column::Minute)
        .action_and_where(known.lte(Expr::col((Alias::new("excluded"), Column::Minute))))
        .to_owned();
    let mut insert = Query::insert();
    insert.into_table(Entity).columns([Column::Tenant, Column::Minute]).on_conflict(later);
    let row: [Expr; 2] = [tenant.into(), stored(minute).into()];
    insert.values(row).map_err(statement_error)?;
    Ok(transaction.execute(&insert).await?.rows_affected() == 1)
}

async fn raise(transaction: &DatabaseTransaction, due: &[Notification]) -> Result<(), StoreError> {
    for chunk in due.chunks(ROWS) {
        let mut insert = Query::insert();
        insert.into_table(Entity).columns([
            Column::Id,
            Column::Tenant,
            Column::Notice,
            Column::Since,
            Column::At,
            Column::Counted,
            Column::Allowed,
        ]);
        for notification in chunk {
            let row: [Expr; 7] = [
                notification.id.into(),
                notification.tenant.into(),
                notification.notice.name().into(),
                notification.since.into(),
                notification.at.into(),
                stored(notification.counted).into(),
                notification.allowed.map(stored).into(),
            ];
            insert.values(row).map_err(statement_error)?;
        }
        let once =
            OnConflict::columns([Column::Tenant, Column::Notice, Column::Since]).do_nothing().to_owned();
        transaction.execute(insert.on_conflict(once)).await?;
    }
    Ok(())
}

impl UsageStore {
    /// Returns the requests that each tenant's plan windows have counted in the UTC day with this number, from shipped
    /// records.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn daily_requests(&self, day: u64) -> BoxFuture<'_, Result<BTreeMap<TenantId, u64>, StoreError>> {
        Box::pin(async move {
            use daily_requests::{Column, Entity};
            let rows = self
                .read(async |database| {
                    Ok(Entity::find().filter(Column::Day.eq(stored(day))).all(database).await?)
                })
                .await?;
            Ok(rows
                .into_iter()
                .map(|row| (TenantId(row.tenant.as_u128()), row.requests.unsigned_abs()))
                .collect())
        })
    }

    /// Raises notifications that are due for a UTC day but were not raised with a shipment, because the allowance was
    /// unknown or has become smaller. `now` is the time of the notification, if it lies within the day.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn remind<'a>(
        &'a self,
        day: u64,
        requests: &'a BTreeMap<TenantId, u64>,
        allowances: &'a BTreeMap<TenantId, u64>,
        now: Time,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut due: Vec<Notification> = requests
                .iter()
                .flat_map(|(tenant, requests)| {
                    daily(*tenant, day, *requests, allowances.get(tenant).copied(), now)
                })
                .collect();
            if due.is_empty() {
                return Ok(());
            }
            let since = Time::from_secs(day.saturating_mul(DAY));
            let known: BTreeSet<(TenantId, Notice)> = self
                .read(async |database| {
                    let known = Entity::find().select_only().columns([Column::Tenant, Column::Notice]);
                    let known = known.filter(Column::Since.eq(since)).filter(Column::At.gte(since));
                    let rows: Vec<(TenantId, Notice)> = known.into_tuple().all(database).await?;
                    Ok(rows.into_iter().collect())
                })
                .await?;
            due.retain(|due| !known.contains(&(due.tenant, due.notice)));
            if due.is_empty() {
                return Ok(());
            }
            self.write(async |transaction| raise(transaction, &due).await).await
        })
    }

    /// Returns the notifications of a tenant, the newest first: the last 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn notifications(&self, tenant: TenantId) -> Result<Vec<Notification>, StoreError> {
        let rows = self
            .read(async |database| {
                let newest = Entity::find()
                    .filter(Column::Tenant.eq(tenant))
                    .order_by_desc(Column::At)
                    .order_by_desc(Column::Id)
                    .limit(MAX_RETURNED);
                Ok(newest.all(database).await?)
            })
            .await?;
        let mut all: Vec<Notification> =
            rows.into_iter().map(Notification::try_from).collect::<Result<_, _>>()?;
        // Of those raised at the same time, the highest threshold comes first.
        all.sort_by_key(|one| (Reverse(one.at), Reverse(one.notice)));
        Ok(all)
    }

    /// Returns the identifiers of a tenant's newest notifications of one of these `kinds`: at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn newest_notifications(
        &self,
        tenant: TenantId,
        kinds: &[Notice],
        limit: u64,
    ) -> Result<Vec<NotificationId>, StoreError> {
        self.read(async |database| {
            let mut newest = Entity::find()
                .select_only()
                .column(Column::Id)
                .filter(Column::Tenant.eq(tenant))
                .order_by_desc(Column::At)
                .limit(limit);
            // Without this condition, only the index of the tenant's newest fits.
            if Notice::ALL.iter().any(|notice| !kinds.contains(notice)) {
                newest = newest.filter(Column::Notice.is_in(kinds.iter().map(|kind| kind.name())));
            }
            let ids: Vec<NotificationId> = newest.into_tuple().all(database).await?;
            Ok(ids)
        })
        .await
    }

    /// Returns a notification of a tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn notification(
        &self,
        tenant: TenantId,
        id: NotificationId,
    ) -> Result<Option<Notification>, StoreError> {
        self.read(async |database| {
            let found = Entity::find_by_id(id).filter(Column::Tenant.eq(tenant));
            found.one(database).await?.map(Notification::try_from).transpose()
        })
        .await
    }

    /// Returns some notifications of any tenant whose mails are not written yet.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn unmailed_notifications(&self) -> Result<Vec<Notification>, StoreError> {
        let waiting = Entity::find().filter(Column::MailedAt.is_null()).limit(MAX_UNMAILED);
        let rows = self.read(async |database| Ok(waiting.all(database).await?)).await?;
        rows.into_iter().map(Notification::try_from).collect()
    }

    /// Marks notifications whose mails were written.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn mark_mailed(&self, ids: &[NotificationId], now: Time) -> Result<(), StoreError> {
        let ids = ids.to_vec();
        self.write(async |transaction| {
            let mark = Entity::update_many().col_expr(Column::MailedAt, Expr::value(now));
            mark.filter(Column::Id.is_in(ids)).exec(transaction).await?;
            Ok::<_, StoreError>(())
        })
        .await
    }

    /// Removes notifications raised before `before`, and sums that can no longer cause one, and returns the number of
    /// notifications removed.
    pub(super) async fn remove_notifications(&self, before: Time) -> Result<u64, StoreError> {
        self.remove_old(async |transaction| {
            use minute_refusals::Column as Minute;
            let newest = minute_refusals::Entity::find().select_only().column(Minute::Minute);
            let newest = newest.order_by_desc(Minute::Minute).limit(1).into_tuple::<i64>();
            if let Some(newest) = newest.one(transaction).await? {
                let old = Minute::Minute.lt(newest.saturating_sub(REFUSALS_KEPT));
                minute_refusals::Entity::delete_many().filter(old).exec(transaction).await?;
            }
            let old = daily_requests::Column::Day.lt(stored(before.day()));
            daily_requests::Entity::delete_many().filter(old).exec(transaction).await?;
            let old = Entity::delete_many().filter(Column::At.lt(before));
            Ok(old.exec(transaction).await?.rows_affected)
        })
        .await
    }
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "notifications/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;
