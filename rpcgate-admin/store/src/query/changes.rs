//! The change feed.

use super::value::unreadable;
use crate::entity::changes::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError, notify};
use rpcgate_core::backend::changes::{AT_ONCE, Change, ChangeFeed, Numbered};
use rpcgate_core::backend::{BoxFuture, Unavailable};
use rpcgate_core::caller::{CustomPlanId, KeyId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::sea_query::Condition;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use std::time::Duration;

/// The time that a change is kept. Gateways poll several times a second; one that was disconnected for longer reloads
/// everything.
const KEPT: Duration = Duration::from_secs(3_600);

const KEY: &str = "key";
const PROJECT: &str = "project";
const TENANT: &str = "tenant";
const PLAN: &str = "plan";
const CUSTOM_PLAN: &str = "custom_plan";
const CHAIN: &str = "chain";
const CACHE: &str = "cache";

#[derive(Clone, Copy, Debug)]
pub(super) enum NewChange<'n> {
    Key(KeyId),
    Project(ProjectId),
    Tenant(TenantId),
    Plan(Tier),
    CustomPlan(CustomPlanId),
    Chain(&'n str),
    Cache(&'n str),
}

pub(super) async fn record(
    transaction: &DatabaseTransaction,
    change: NewChange<'_>,
    now: Time,
) -> Result<(), StoreError> {
    let (kind, subject) = match change {
        NewChange::Key(id) => (KEY, id.to_string()),
        NewChange::Project(id) => (PROJECT, id.to_string()),
        NewChange::Tenant(id) => (TENANT, id.to_string()),
        NewChange::Plan(tier) => (PLAN, tier.name().to_owned()),
        NewChange::CustomPlan(id) => (CUSTOM_PLAN, id.to_string()),
        NewChange::Chain(name) => (CHAIN, name.to_owned()),
        NewChange::Cache(name) => (CACHE, name.to_owned()),
    };
    let row = ActiveModel { number: NotSet, kind: Set(kind.into()), subject: Set(subject), at: Set(now) };
    Entity::insert(row).exec_without_returning(transaction).await?;
    notify::send(transaction).await?;
    Ok(())
}

fn read(row: &Model) -> Result<Change, StoreError> {
    let invalid = || unreadable("change", format!("{} {}", row.kind, row.subject));
    Ok(match row.kind.as_str() {
        KEY => Change::Key(row.subject.parse().map_err(|_| invalid())?),
        PROJECT => Change::Project(row.subject.parse().map_err(|_| invalid())?),
        TENANT => Change::Tenant(row.subject.parse().map_err(|_| invalid())?),
        PLAN => Change::Plan(row.subject.parse().map_err(|_| invalid())?),
        CUSTOM_PLAN => Change::CustomPlan(row.subject.parse().map_err(|_| invalid())?),
        CHAIN => Change::Chain(row.subject.clone()),
        CACHE => Change::Cache(row.subject.clone()),
        _ => Change::Other,
    })
}

impl Store {
    /// Returns the number of the newest change, or 0 without changes. A reader that fetches this number first and the
    /// state afterwards misses nothing that comes later.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn newest_change(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            self.read(async |database| {
                let newest =
                    Entity::find().select_only().column(Column::Number).order_by_desc(Column::Number);
                let number: Option<i64> = newest.into_tuple().one(database).await?;
                Ok(number.map_or(0, i64::unsigned_abs))
            })
            .await
        })
    }

    /// Returns the number of the oldest change that is kept, or 0 without changes. A reader that has not seen
    /// everything before it has missed a change and must reload everything.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn oldest_change(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            self.read(async |database| {
                let oldest = Entity::find().select_only().column(Column::Number).order_by_asc(Column::Number);
                let number: Option<i64> = oldest.into_tuple().one(database).await?;
                Ok(number.map_or(0, i64::unsigned_abs))
            })
            .await
        })
    }

    /// Selects the changes that may be removed: those before the first young one. The newest change always stays, so
    /// that a reader can see that it is behind.
    pub(super) async fn old_changes(&self, now: Time) -> Result<Condition, StoreError> {
        self.read(async |database| {
            let numbers = || Entity::find().select_only().column(Column::Number);
            // By number rather than time, because clocks step back.
            let young = numbers().filter(Column::At.gt(now.minus(KEPT))).order_by_asc(Column::Number);
            let first: Option<i64> = match young.into_tuple().one(database).await? {
                Some(first) => Some(first),
                None => numbers().order_by_desc(Column::Number).into_tuple().one(database).await?,
            };
            Ok(Condition::all().add(Column::Number.lt(first.unwrap_or_default())))
        })
        .await
    }

    async fn changes_since(&self, number: u64) -> Result<Vec<Numbered>, StoreError> {
        self.read(async |database| {
            let above = Column::Number.gt(i64::try_from(number).unwrap_or(i64::MAX));
            let rows = Entity::find().filter(above).order_by_asc(Column::Number).limit(AT_ONCE as u64);
            let rows = rows.all(database).await?;
            let numbered =
                |row: &Model| Ok(Numbered { number: row.number.unsigned_abs(), change: read(row)? });
            rows.iter().map(numbered).collect()
        })
        .await
    }
}

impl ChangeFeed for Store {
    fn since(&self, number: u64) -> BoxFuture<'_, Result<Vec<Numbered>, Unavailable>> {
        Box::pin(async move {
            self.changes_since(number).await.map_err(|error| {
                tracing::debug!(%error, "the change feed could not be read");
                Unavailable
            })
        })
    }
}
