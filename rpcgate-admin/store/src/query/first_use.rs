//! The time when a tenant first used the gateway.

use super::source::Source;
use super::summed::Summed;
use super::sums::Dimensions;
use super::usage::history_from;
use crate::entity::rollups::Column;
use crate::{StoreError, UsageStore};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::Order;
use std::time::Duration;

const HOUR: u64 = 3_600;

impl UsageStore {
    /// Returns the time when a tenant first used the gateway, from the usage that is kept: the arrival of the oldest
    /// single event, or else the start of the oldest hour or day since `since` with usage; `None` without usage. Looks
    /// no further back than `kept`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], [`StoreError::Busy`].
    pub async fn first_use(
        &self,
        tenant: TenantId,
        since: Time,
        kept: Duration,
        now: Time,
    ) -> Result<Option<Time>, StoreError> {
        let _permit = self.permits.acquire(tenant).await?;
        self.snapshot(async |database| {
            if let Some(oldest) = history_from(database, tenant, None).await? {
                return Ok(Some(oldest));
            }
            let summed = Summed::read(database).await?;
            let first = since.hour().max(now.hour().saturating_sub(kept.as_secs() / HOUR));
            let hours = first..now.hour().saturating_add(1);
            let mut found = None;
            for source in Source::all(&summed, tenant, &hours, Dimensions::default(), false) {
                let mut select = source.select();
                select.column(Column::Hour).order_by(Column::Hour, Order::Asc).limit(1);
                let Some(row) = database.query_one(&select).await? else { continue };
                let hour =
                    Time::from_secs(row.try_get_by_index::<i64>(0)?.unsigned_abs().saturating_mul(HOUR));
                found = Some(found.map_or(hour, |found: Time| found.min(hour)));
            }
            Ok(found)
        })
        .await
    }
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "first_use/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;
