//! Gateways' reports: the state of their nodes for operators, and the keys with scaled-down limits for tenants.

use super::removal::remove;
use super::value::{count, moment, number, time, unreadable};
use crate::entity::gateways::{ActiveModel, Column, Entity};
use crate::entity::throttled_keys;
use crate::{Store, StoreError};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::safeguard::CoolDown;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, OnConflict};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use uuid::Uuid;

/// The state of one node as seen by one gateway.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeState {
    /// The chain's path.
    pub chain: String,
    /// The node's URL, secrets masked.
    pub node: String,
    /// Its priority: nodes with a lower number are used first.
    pub priority: u32,
    /// Its health, in one word.
    pub standing: String,
    /// The reason, in words.
    pub reason: String,
    /// The newest height it has reported.
    pub height: Option<u64>,
    /// The number of blocks that it is behind the height that the gateway trusts.
    pub lag: Option<u64>,
    /// Its latency in microseconds; 0 before its first response.
    pub latency_micros: u64,
    /// Calls in flight to it.
    pub in_flight: u64,
    /// Attempts that failed through the node or its network since the gateway has it. Earlier gateway versions do not
    /// report it.
    #[serde(default)]
    pub faults: u64,
    /// The limit of calls per second from each gateway, if any. Earlier gateway versions report neither this nor the
    /// limits below.
    #[serde(default)]
    pub rate_limit: Option<u32>,
    /// The limit of calls per month, if any.
    #[serde(default)]
    pub monthly_calls: Option<u64>,
    /// The calls of this month, including those of other gateways that this one knows about, if the node has a limit or
    /// a price.
    #[serde(default)]
    pub month_calls: Option<u64>,
    /// The price of a million calls, in millionths of the operator's unit.
    #[serde(default)]
    pub price_per_million: Option<u64>,
    /// The number of times that the gateway skipped it because it had reached its limit per second.
    #[serde(default)]
    pub over_rate: u64,
    /// The number of times that the gateway skipped it because it had reached its limit per month.
    #[serde(default)]
    pub over_budget: u64,
}

/// A gateway's report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayReport {
    /// The gateway.
    pub id: u128,
    /// The time when it was sent.
    pub at: Time,
    /// Its nodes.
    pub nodes: Vec<NodeState>,
}

/// The time without a report after which a gateway is removed.
const SILENT: Duration = Duration::from_secs(86_400);

/// The number of rows per statement: each has six values, and SQLite accepts 32,766 per statement.
const ROWS: usize = 1_000;

impl Store {
    /// Replaces a gateway's previous report, including the keys with scaled-down limits, and removes gateways that have
    /// long been silent.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], [`StoreError::Unavailable`].
    pub fn put_report<'a>(
        &'a self,
        report: &'a GatewayReport,
        throttled: &'a [CoolDown],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let nodes = serde_json::to_string(&report.nodes).unwrap_or_else(|_| "[]".into());
            let row = ActiveModel {
                id: Set(Uuid::from_u128(report.id)),
                seen_at: Set(moment(report.at)),
                nodes: Set(nodes),
            };
            let throttled = throttled
                .iter()
                .map(|throttled| throttled_row(report.id, throttled))
                .collect::<Result<Vec<_>, _>>()?;
            let long_ago = moment(report.at) - i64::try_from(SILENT.as_micros()).unwrap_or(i64::MAX);
            self.write(async |transaction| {
                let gone = Condition::all().add(Column::SeenAt.lte(long_ago));
                remove::<Entity>(transaction, Column::Id, gone, 8).await?;
                let upsert =
                    OnConflict::column(Column::Id).update_columns([Column::SeenAt, Column::Nodes]).to_owned();
                Entity::insert(row).on_conflict(upsert).exec_without_returning(transaction).await?;
                let before = throttled_keys::Column::Gateway.eq(Uuid::from_u128(report.id));
                throttled_keys::Entity::delete_many().filter(before).exec(transaction).await?;
                for rows in throttled.chunks(ROWS) {
                    let rows = throttled_keys::Entity::insert_many(rows.iter().cloned());
                    rows.exec_without_returning(transaction).await?;
                }
                Ok(())
            })
            .await
        })
    }

    /// Returns the reports sent after `since`, by ascending gateway identifier.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn reports(&self, since: Time) -> Result<Vec<GatewayReport>, StoreError> {
        self.read(async |database| {
            let rows = Entity::find().filter(Column::SeenAt.gt(since)).order_by_asc(Column::Id);
            let rows = rows.all(database).await?;
            let report = |row: crate::entity::gateways::Model| {
                let nodes = serde_json::from_str(&row.nodes)
                    .map_err(|_| unreadable("report of a gateway", row.nodes))?;
                Ok(GatewayReport { id: row.id.as_u128(), at: time(row.seen_at), nodes })
            };
            rows.into_iter().map(report).collect()
        })
        .await
    }

    /// Returns the keys of a tenant whose limits are scaled down beyond `now`, according to reports sent after `since`:
    /// each key once per gateway, in key order.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn throttled_keys(
        &self,
        tenant: TenantId,
        since: Time,
        now: Time,
    ) -> Result<Vec<CoolDown>, StoreError> {
        use throttled_keys::Column as Cooling;
        self.read(async |database| {
            let reporting = Entity::find().select_only().column(Column::Id);
            let reporting = reporting.filter(Column::SeenAt.gt(since)).into_query();
            let rows = throttled_keys::Entity::find()
                .filter(Cooling::Tenant.eq(tenant))
                .filter(Cooling::EndsAt.gt(now))
                .filter(Cooling::Gateway.in_subquery(reporting))
                .order_by_asc(Cooling::Key)
                .order_by_asc(Cooling::Gateway);
            rows.all(database).await?.iter().map(throttled).collect()
        })
        .await
    }
}

fn throttled_row(gateway: u128, throttled: &CoolDown) -> Result<throttled_keys::ActiveModel, StoreError> {
    Ok(throttled_keys::ActiveModel {
        tenant: Set(Uuid::from_u128(throttled.tenant.0)),
        key: Set(Uuid::from_u128(throttled.key.0)),
        gateway: Set(Uuid::from_u128(gateway)),
        project: Set(Uuid::from_u128(throttled.project.0)),
        percent: Set(number("percent", throttled.percent)?),
        ends_at: Set(moment(throttled.end)),
    })
}

fn throttled(row: &throttled_keys::Model) -> Result<CoolDown, StoreError> {
    Ok(CoolDown {
        key: KeyId(row.key.as_u128()),
        project: ProjectId(row.project.as_u128()),
        tenant: TenantId(row.tenant.as_u128()),
        percent: count("percent", row.percent)?,
        end: time(row.ends_at),
    })
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "gateways/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;
