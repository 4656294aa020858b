//! The counts that a gateway restores when it starts.

use super::summed::Summed;
use super::sums::{DAY, Dimensions, Level};
use super::usage_rows::stored;
use super::value::{moment, unreadable};
use crate::entity::rollups::{Column, Entity};
use crate::entity::{blocks, sums};
use crate::{StoreError, UsageStore};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::backend::counters::Restored;
use rpcgate_core::caller::{KeyId, ProjectId};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Block;
use sea_orm::sea_query::ExprTrait;
use sea_orm::{ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter, QuerySelect, Statement};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

const MINUTE: u64 = 60;
/// The deadline of each part. A gateway cannot serve before it has them, so even a large database must be read.
const DEADLINE: Duration = Duration::from_secs(15);

impl UsageStore {
    /// Returns the requests counted in the plan windows that contain `now`, and the units charged in the hours that the
    /// quota covers. Day and hour come from the rollups; the minute is counted from the events that arrived in it.
    ///
    /// Covers only shipped records, so ship first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; [`StoreError::Unreadable`] for a damaged block.
    pub fn restore(&self, now: Time) -> BoxFuture<'_, Result<Restored, StoreError>> {
        Box::pin(async move {
            let mut windows = self.windows(now).await?;
            for block in self.blocks_of_minute(now).await? {
                let Some(bytes) = self.bytes_of(block).await? else { continue };
                let read = Block::read(&bytes, |reader, event| {
                    let Some(party) = reader.party(event.party) else { return };
                    if event.windowed > 0 && event.arrival.minute() == now.minute() {
                        let [in_minute, ..] = windows.entry(party.key).or_default();
                        *in_minute = in_minute.saturating_add(event.windowed.into());
                    }
                });
                read.map_err(|error| unreadable("block", format!("{block}: {error}")))?;
            }
            Ok(Restored { now, windows: windows.into_iter().collect(), units: self.units(now).await? })
        })
    }

    /// Like [`restore`](Self::restore) without the minute, at the cost of a few sums.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn recorded(&self, now: Time) -> BoxFuture<'_, Result<Restored, StoreError>> {
        Box::pin(async move {
            let windows = self.windows(now).await?.into_iter().collect();
            Ok(Restored { now, windows, units: self.units(now).await? })
        })
    }

    /// Returns an identifier of this database that is unique among all databases. Returns `None` for a file, because
    /// gateways on other machines have their own files.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; [`StoreError::Sql`] from a server that does not allow its users the query.
    pub fn identity(&self) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        Box::pin(async move {
            self.read(async |database| {
                if database.get_database_backend() != DbBackend::Postgres {
                    return Ok(None);
                }
                let sql = "SELECT concat_ws('/', system_identifier, current_database(), current_schema()) \
                       FROM pg_control_system()";
                let row = database.query_one_raw(Statement::from_string(DbBackend::Postgres, sql)).await?;
                Ok(row.map(|row| row.try_get_by_index(0)).transpose()?)
            })
            .await
        })
    }

    /// Reads the requests of each key in the hour and the day of `now`, as one snapshot. The summed part of the day
    /// comes from its sums.
    async fn windows(&self, now: Time) -> Result<BTreeMap<KeyId, [u64; 3]>, StoreError> {
        self.snapshot_within(DEADLINE, async |database| {
            let first = now.day() * DAY;
            let summed = Summed::read(database).await?;
            let of_day = sums::Entity::find()
                .select_only()
                .column(sums::Column::Key)
                .column_as(sums::Column::WindowRequests.sum().cast_as("bigint"), "requests")
                .filter(
                    sums::Column::Level.eq(Level::of(Dimensions::KEYS, DAY).map_or(0, |level| level.code)),
                )
                .filter(sums::Column::Hour.eq(stored(first)))
                .filter(sums::Column::WindowRequests.gt(0))
                .group_by(sums::Column::Key);
            let rollups = || {
                Entity::find()
                    .select_only()
                    .column(Column::Key)
                    .column_as(Column::WindowRequests.sum().cast_as("bigint"), "requests")
                    .filter(Column::WindowRequests.gt(0))
                    .group_by(Column::Key)
            };
            let since = rollups()
                .filter(Column::Hour.between(stored(first), stored(first + DAY - 1)))
                .filter(summed.rest());
            let of_hour = rollups().filter(Column::Hour.eq(stored(now.hour())));
            let of_day: Vec<(Uuid, i64)> = of_day.into_tuple().all(database).await?;
            let since: Vec<(Uuid, i64)> = since.into_tuple().all(database).await?;
            let of_hour: Vec<(Uuid, i64)> = of_hour.into_tuple().all(database).await?;
            let mut windows: BTreeMap<KeyId, [u64; 3]> = BTreeMap::new();
            let parts = [(2, of_day), (2, since), (1, of_hour)];
            for (span, (key, requests)) in
                parts.into_iter().flat_map(|(span, rows)| rows.into_iter().map(move |row| (span, row)))
            {
                let used = &mut windows.entry(KeyId(key.as_u128())).or_default()[span];
                *used = used.saturating_add(requests.unsigned_abs());
            }
            Ok(windows)
        })
        .await
    }

    /// Reads the Compute Units charged to each project in the hour of `now` and the 23 before, as one snapshot.
    async fn units(&self, now: Time) -> Result<Vec<(ProjectId, u64, u64)>, StoreError> {
        self.snapshot_within(DEADLINE, async |database| {
            let last = now.hour();
            let summed = Summed::read(database).await?;
            let from = stored(last.saturating_sub(DAY - 1));
            let to = stored(last);
            let added = sums::Entity::find()
                .select_only()
                .columns([sums::Column::Project, sums::Column::Hour])
                .column_as(sums::Column::BillableUnits.sum().cast_as("bigint"), "units")
                .filter(
                    sums::Column::Level.eq(Level::of(Dimensions::PROJECTS, 1).map_or(0, |level| level.code)),
                )
                .filter(sums::Column::Hour.between(from, to))
                .filter(sums::Column::BillableUnits.gt(0))
                .group_by(sums::Column::Project)
                .group_by(sums::Column::Hour);
            let since = Entity::find()
                .select_only()
                .columns([Column::Project, Column::Hour])
                .column_as(Column::BillableUnits.sum().cast_as("bigint"), "units")
                .filter(Column::Hour.between(from, to))
                .filter(summed.rest())
                .filter(Column::BillableUnits.gt(0))
                .group_by(Column::Project)
                .group_by(Column::Hour);
            let added: Vec<(Uuid, i64, i64)> = added.into_tuple().all(database).await?;
            let since: Vec<(Uuid, i64, i64)> = since.into_tuple().all(database).await?;
            let mut units: BTreeMap<(ProjectId, u64), u64> = BTreeMap::new();
            for (project, hour, charged) in added.into_iter().chain(since) {
                let of_hour = units.entry((ProjectId(project.as_u128()), hour.unsigned_abs())).or_default();
                *of_hour = of_hour.saturating_add(charged.unsigned_abs());
            }
            Ok(units.into_iter().map(|((project, hour), units)| (project, hour, units)).collect())
        })
        .await
    }

    async fn blocks_of_minute(&self, now: Time) -> Result<Vec<Uuid>, StoreError> {
        self.read(async |database| {
            let first = now.minute() * MINUTE;
            let covering = blocks::Entity::find()
                .select_only()
                .column(blocks::Column::Id)
                .filter(blocks::Column::Last.gte(moment(Time::from_secs(first))))
                .filter(blocks::Column::First.lt(moment(Time::from_secs(first + MINUTE))));
            Ok(covering.into_tuple().all(database).await?)
        })
        .await
    }
}

#[cfg(all(test, have_postgres))]
mod tests {
    use super::*;
    use crate::testing::TestDatabase;
    use std::time::Duration;

    #[tokio::test]
    async fn a_database_on_a_server_has_a_name_of_its_own_that_any_user_may_ask_for() {
        let deadline = Duration::from_secs(60);
        let here = TestDatabase::server();
        let there = TestDatabase::server();
        let first = here.usage_within(deadline).await.unwrap();
        let name = first.identity().await.unwrap();
        assert!(name.is_some());
        assert_eq!(here.usage_within(deadline).await.unwrap().identity().await.unwrap(), name);
        assert_ne!(there.usage_within(deadline).await.unwrap().identity().await.unwrap(), name);
        let sql = "SELECT has_function_privilege('public', 'pg_control_system()', 'execute')";
        let statement = Statement::from_string(DbBackend::Postgres, sql);
        let row =
            first.read(async |database| Ok(database.query_one_raw(statement).await?)).await.unwrap().unwrap();
        assert!(row.try_get_by_index::<bool>(0).unwrap(), "an ordinary role may call it");
        let file = TestDatabase::file().usage_within(deadline).await.unwrap();
        assert_eq!(file.identity().await.unwrap(), None, "each gateway has a file of its own");
    }
}
