//! Replays: new deliveries of events that an endpoint was sent before, or that were withheld from it.
//!
//! A request for a replay stores its range; the deliveries are made afterwards, [`STEP`] in a transaction, so that no
//! replay delays other writes, regardless of its size and the speed of the database.

use super::delivery_status::{DeliveryStatus, WITHHELD};
use super::id::WebhookId;
use super::keyset::page;
use super::new_deliveries::{check_capacity, due};
use super::value::moment;
use super::webhooks::expect_active;
use crate::entity::deliveries::{ActiveModel, Column, Entity, Model};
use crate::entity::{chain_events, project_events, webhook_replays, webhooks};
use crate::{Store, StoreError, fresh_id};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Alias, Asterisk, Expr, Func, LockType, Query};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, DatabaseConnection, DatabaseTransaction, EntityTrait,
    IntoActiveModel, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
};
use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;
use uuid::Uuid;

/// The number of deliveries that one replay may repeat.
pub const MAX_REPLAYED: u64 = 10_000;

pub(super) const STEP: u64 = 500;

/// The maximum distance between the times of a delivery and of its event in the project's log, which are equal except
/// for a removed block. It bounds the range that is read from the index of the deliveries.
const SLACK: i64 = 3_600_000_000;

const REPLAYED: &str = "too many deliveries of the endpoint waited: a replay sends this event";

#[derive(Clone, Debug)]
struct ReplaySource {
    id: Uuid,
    event: Uuid,
    subscription: Option<Uuid>,
    status: String,
    created_at: i64,
}

/// Selects the deliveries of an endpoint, sent or withheld, for the events of the project's log that were stored in
/// this time.
///
/// The time is looked up for each delivery, which takes as long for the last one as for the first. A join may compare
/// each delivery with each event of the log: PostgreSQL plans it like that while it has no statistics of these rows.
fn sources(webhook: Uuid, project: Uuid, stored: &Range<i64>) -> Select<Entity> {
    use project_events::Column::{CreatedAt, EventId, ProjectId};
    use sea_orm::sea_query::ExprTrait;
    let stored_at = project_events::Entity::find()
        .select_only()
        .column(CreatedAt)
        .filter(ProjectId.eq(project))
        .filter(Expr::col((project_events::Entity, EventId)).equals((Entity, Column::EventId)))
        .into_query();
    Entity::find()
        .filter(Column::WebhookId.eq(webhook))
        .filter(Column::Replay.eq(false))
        .filter(Column::Status.ne(DeliveryStatus::Held.name()))
        .filter(Column::CreatedAt.gte(stored.start.saturating_sub(SLACK)))
        .filter(Column::CreatedAt.lt(stored.end.saturating_add(SLACK)))
        .filter(Expr::from(stored_at).between(stored.start, stored.end.saturating_sub(1)))
}

/// Returns the sources whose events the sweep has not removed meanwhile.
async fn still_stored(
    transaction: &DatabaseTransaction,
    some: &[ReplaySource],
) -> Result<Vec<ReplaySource>, StoreError> {
    use chain_events::Column::Id;
    let found = chain_events::Entity::find()
        .select_only()
        .column(Id)
        .filter(Id.is_in(some.iter().map(|source| source.event)));
    let found: HashSet<Uuid> = found.into_tuple().all(transaction).await?.into_iter().collect();
    Ok(some.iter().filter(|source| found.contains(&source.event)).cloned().collect())
}

async fn repeat(
    transaction: &DatabaseTransaction,
    webhook: Uuid,
    some: &[ReplaySource],
    now: Time,
) -> Result<(), StoreError> {
    let some = still_stored(transaction, some).await?;
    if some.is_empty() {
        return Ok(());
    }
    let rows = some.iter().map(|source| {
        let delivery = due(fresh_id(now), webhook, source.event, now);
        let again = Model { subscription_id: source.subscription, replay: true, ..delivery };
        again.into_active_model().reset_all()
    });
    let rows: Vec<ActiveModel> = rows.collect();
    Entity::insert_many(rows).exec_without_returning(transaction).await?;
    let withheld: Vec<_> =
        some.iter().filter(|source| source.status == WITHHELD).map(|source| source.id).collect();
    if !withheld.is_empty() {
        Entity::update_many()
            .col_expr(Column::Status, Expr::value(DeliveryStatus::Failed.name()))
            .col_expr(Column::LastError, Expr::value(REPLAYED))
            .col_expr(Column::FinishedAt, Expr::value(now))
            .filter(Column::Id.is_in(withheld))
            .filter(Column::Status.eq(WITHHELD))
            .exec(transaction)
            .await?;
    }
    Ok(())
}

type NextStep = (webhook_replays::Model, Vec<ReplaySource>);

async fn next_step(database: &DatabaseConnection) -> Result<Option<NextStep>, StoreError> {
    use webhook_replays::Column::{CreatedAt, Id};
    let oldest = webhook_replays::Entity::find().order_by_asc(CreatedAt).order_by_asc(Id);
    let Some(replay) = oldest.one(database).await? else { return Ok(None) };
    let endpoint = webhooks::Entity::find_by_id(replay.webhook_id)
        .filter(webhooks::Column::DeletedAt.is_null())
        .one(database)
        .await?;
    let Some(endpoint) = endpoint else { return Ok(Some((replay, Vec::new()))) };
    let stored = replay.stored_from..replay.stored_until;
    let most = STEP.min(replay.remaining.unsigned_abs());
    let some = sources(endpoint.id, endpoint.project_id, &stored);
    let mut some = page(some, (Column::CreatedAt, Column::Id), replay.after_at.zip(replay.after_id), most);
    let some = some.all(database).await?.into_iter();
    let some = some.map(|row| ReplaySource {
        id: row.id,
        event: row.event_id,
        subscription: row.subscription_id,
        status: row.status,
        created_at: row.created_at,
    });
    Ok(Some((replay, some.collect())))
}

#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, reason = "a write that fails fails its test")]
impl Store {
    /// Makes all deliveries of all replays.
    pub async fn make_all_replays(&self, now: Time) {
        while self.make_replays(now).await.unwrap() {}
    }
}

impl Store {
    /// Stores a request to send the events of an endpoint again, delivered or withheld: those of the project's log that
    /// were stored in this time, up to now. Returns the number of deliveries that [`make_replays`](Self::make_replays)
    /// will make; stores nothing for zero.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the endpoint is not this tenant's, [`StoreError::WrongState`] if it is switched off,
    /// [`StoreError::TooWide`] for more than [`MAX_REPLAYED`], [`StoreError::Full`] if too many of its deliveries wait;
    /// [`StoreError::Unavailable`].
    pub async fn replay(
        &self,
        tenant: TenantId,
        webhook: WebhookId,
        stored: Range<Time>,
        now: Time,
    ) -> Result<u64, StoreError> {
        // Later events are delivered once, without the replay.
        let until = stored.end.min(now.plus(Duration::from_micros(1)));
        let stored = moment(stored.start)..moment(until);
        let count = async |database: &DatabaseConnection| -> Result<u64, StoreError> {
            let endpoint = expect_active(database, tenant, webhook).await?;
            let some = sources(endpoint.id, endpoint.project_id, &stored).select_only().column(Column::Id);
            let some = some.limit(MAX_REPLAYED + 1).into_query();
            let count = Func::count(Expr::col(Asterisk));
            let count = Query::select().expr(count).from_subquery(some, Alias::new("some")).to_owned();
            let counted = database.query_one(&count).await?;
            let many = counted.map(|row| row.try_get_by_index::<i64>(0)).transpose()?;
            Ok(many.unwrap_or_default().unsigned_abs())
        };
        let many = self.read(count).await?;
        if many > MAX_REPLAYED {
            let text = format!("more than {MAX_REPLAYED} deliveries are in this time: name a shorter one");
            return Err(StoreError::TooWide(text));
        }
        if many == 0 {
            return Ok(0);
        }
        self.write(async |transaction| {
            let endpoint = expect_active(transaction, tenant, webhook).await?;
            check_capacity(transaction, endpoint.id, many).await?;
            let replay = webhook_replays::ActiveModel {
                id: Set(Uuid::from_u128(fresh_id(now))),
                webhook_id: Set(endpoint.id),
                stored_from: Set(stored.start),
                stored_until: Set(stored.end),
                after_at: Set(None),
                after_id: Set(None),
                remaining: Set(i64::try_from(many).unwrap_or(i64::MAX)),
                created_at: Set(moment(now)),
            };
            webhook_replays::Entity::insert(replay).exec_without_returning(transaction).await?;
            Ok(many)
        })
        .await
    }

    /// Makes up to 500 deliveries of the oldest replay, in one transaction, and reports whether there may be more. Any
    /// number of programs may call this: each step is done once.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn make_replays(&self, now: Time) -> Result<bool, StoreError> {
        // Read before the transaction begins, because other writes wait for it.
        let Some((replay, some)) = self.read(next_step).await? else { return Ok(false) };
        self.transact(async |transaction| {
            let stored = webhook_replays::Entity::find_by_id(replay.id).lock(LockType::Update);
            if stored.one(transaction).await?.as_ref() != Some(&replay) {
                // Another program has done this step.
                return Ok(());
            }
            repeat(transaction, replay.webhook_id, &some, now).await?;
            let left = replay.remaining.unsigned_abs().saturating_sub(STEP);
            let last = some.last().filter(|_| left > 0 && some.len() as u64 == STEP);
            let Some(last) = last else {
                webhook_replays::Entity::delete_by_id(replay.id).exec(transaction).await?;
                return Ok(());
            };
            let next = webhook_replays::ActiveModel {
                after_at: Set(Some(last.created_at)),
                after_id: Set(Some(last.id)),
                remaining: Set(i64::try_from(left).unwrap_or(i64::MAX)),
                ..Default::default()
            };
            let its = webhook_replays::Column::Id.eq(replay.id);
            webhook_replays::Entity::update_many().set(next).filter(its).exec(transaction).await?;
            Ok(())
        })
        .await?;
        Ok(true)
    }
}

#[cfg(test)]
#[cfg(have_postgres)]
mod tests {
    use super::*;
    use crate::testing::TestDatabase;
    use sea_orm::{Statement, StatementBuilder};

    #[tokio::test]
    async fn postgresql_looks_up_one_event_per_delivery_for_any_statistics() {
        let site = TestDatabase::server();
        let store = site.store_within(Duration::from_secs(60)).await.unwrap();
        let explain = async |database: &DatabaseConnection| {
            let select = sources(Uuid::from_u128(1), Uuid::from_u128(2), &(0..9)).into_query();
            let statement = StatementBuilder::build(&select, &database.get_database_backend());
            let explain = Statement { sql: format!("EXPLAIN {}", statement.sql), ..statement };
            let lines = database.query_all_raw(explain).await?.into_iter();
            Ok(lines.map(|line| line.try_get_by_index::<String>(0)).collect::<Result<Vec<_>, _>>()?)
        };
        let plan = store.read(explain).await.unwrap().join("\n");
        assert!(plan.contains("SubPlan") && !plan.contains("Join") && !plan.contains("Nested"), "{plan}");
    }
}
