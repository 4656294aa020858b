//! The usage of all tenants in some days, for operators' what-if analyses: the units of projects and of some methods,
//! and the requests of those keys that come near the windows in question.
//!
//! The time of a query depends on the number of tenants, projects and keys and hardly on their requests: days come from
//! the sums of days, hours from the sums of hours, and rollups are read for the hours that these point to.

mod rows;

use super::ledger;
use super::source::union_all;
use super::summed::Summed;
use super::sums::{DAY, Dimensions, Level};
use super::usage_rows::stored;
use super::value::count;
use crate::entity::rollups::{self, Column};
use crate::entity::sums;
use crate::{StoreError, UsageStore};
pub use rows::{KeyUse, KeysAsk, MethodUse, ProjectUnits, TenantSet, UsageOfAll, UsageOfAllAsk};
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use sea_orm::sea_query::{Alias, Condition, Expr, ExprTrait, Func, JoinType, Query, SelectStatement};
use sea_orm::{ConnectionTrait, DatabaseTransaction, QueryResult};
use std::ops::Range;
use std::time::Duration;
use uuid::Uuid;

/// The deadline of a query, for which only an operator waits.
const QUERY_DEADLINE: Duration = Duration::from_secs(15);

/// The number of rows that are read before other tasks run: less than a millisecond.
const ROWS_AT_ONCE: usize = 4_096;

/// The alias of the first hour of a row, which must differ from all column names.
const FIRST: &str = "first_hour";

const BUSY: &str = "busy";

const RATE_LIMITED: i32 = 429;

/// The status of a call whose client left. It was charged if it had been sent to a node.
const LEFT: i32 = 499;

impl UsageStore {
    /// Reads the usage of all tenants from one snapshot.
    ///
    /// # Errors
    /// [`StoreError::TooWide`] for too many rows, [`StoreError::Busy`], [`StoreError::Unavailable`].
    pub async fn usage_of_all(&self, ask: &UsageOfAllAsk) -> Result<UsageOfAll, StoreError> {
        let most = self.bounds.max;
        self.for_operator(async |database| {
            let summed = Summed::read(database).await?;
            let hours = ask.hours.clone();
            let query = AllQuery { summed, hours, only: ask.only, most };
            let mut found = UsageOfAll {
                projects: query.projects(database).await?,
                charged: ledger::charged_to_all(database, &ask.hours, ask.only).await?,
                ..UsageOfAll::default()
            };
            if !ask.methods.is_empty() {
                found.methods = query.methods_by_day(database, &ask.methods).await?;
            }
            if let Some(keys) = &ask.keys {
                found.key_hours = query.key_hours(database, keys).await?;
                found.key_days = query.key_days(database, keys).await?;
            }
            Ok(found)
        })
        .await
    }

    /// Returns the units of some projects, and their calls of some methods, in each of `hours`, from one snapshot.
    ///
    /// # Errors
    /// Those of [`usage_of_all`](UsageStore::usage_of_all).
    pub async fn hours_of_projects(
        &self,
        projects: &[ProjectId],
        hours: Range<u64>,
        methods: &[(String, String)],
    ) -> Result<(Vec<ProjectUnits>, Vec<MethodUse>), StoreError> {
        let most = self.bounds.max;
        self.for_operator(async |database| {
            let query = AllQuery { summed: Summed::read(database).await?, hours, only: None, most };
            let its = projects.iter().map(|project| Uuid::from_u128(project.0));
            let its = Condition::all().add(Expr::col(Column::Project).is_in(its));
            let of_projects = query.project_hours(database, &its).await?;
            let of_methods = if methods.is_empty() {
                Vec::new()
            } else {
                query.methods_by_hour(database, &its, methods).await?
            };
            Ok((of_projects, of_methods))
        })
        .await
    }

    /// Runs a large query of an operator. Operators' queries wait for each other like those of a tenant.
    pub(super) async fn for_operator<T>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let permit = self.permits.acquire(TenantId::default()).await?;
        let _large = permit.acquire_large().await?;
        self.snapshot_within(QUERY_DEADLINE, work).await
    }
}

pub(super) struct AllQuery {
    pub(super) summed: Summed,
    pub(super) hours: Range<u64>,
    /// The tenant, for a query about one.
    pub(super) only: Option<TenantId>,
    pub(super) most: u64,
}

pub(super) type NamedSum = (&'static str, Expr);

impl AllQuery {
    async fn projects(&self, database: &DatabaseTransaction) -> Result<Vec<ProjectUnits>, StoreError> {
        let columns = [Column::Tenant, Column::Project];
        let sums = [("all_units", Expr::col(Column::BillableUnits))];
        let parts = self.by_day(Dimensions::PROJECTS, &Condition::all(), &columns, &sums);
        self.rows(database, union(parts, &columns, &sums), read_project).await
    }

    async fn methods_by_day(
        &self,
        database: &DatabaseTransaction,
        methods: &[(String, String)],
    ) -> Result<Vec<MethodUse>, StoreError> {
        let parts = self.by_day(Dimensions::ALL, &are_of(methods), &METHOD_COLUMNS, &method_sums());
        self.rows(database, union(parts, &METHOD_COLUMNS, &method_sums()), read_method).await
    }

    async fn key_days(
        &self,
        database: &DatabaseTransaction,
        keys: &KeysAsk,
    ) -> Result<Vec<KeyUse>, StoreError> {
        let parts = self.by_day(Dimensions::ALL, &keys.of.condition(), &KEY_COLUMNS, &key_sums());
        let select = above(union(parts, &KEY_COLUMNS, &key_sums()), keys.above_in_day);
        self.rows(database, select, read_key).await
    }

    /// Reads the keys by hour. A key's hour is above the floor only if its project's is, which the sums of hours
    /// contain.
    async fn key_hours(
        &self,
        database: &DatabaseTransaction,
        keys: &KeysAsk,
    ) -> Result<Vec<KeyUse>, StoreError> {
        let its = keys.of.condition();
        let mut busy = self.summed_hours();
        busy.cond_where(its.clone());
        let all = Expr::col(Column::WindowRequests).add(Expr::col(Column::Rejected));
        busy.and_having(Func::sum(all).gt(stored(keys.above_in_hour)));
        // These rows point to hours of these tenants alone.
        let parts = self.by_hour(busy, &Condition::all(), &its, &KEY_COLUMNS, &key_sums());
        let select = above(union(parts, &KEY_COLUMNS, &key_sums()), keys.above_in_hour);
        self.rows(database, select, read_key).await
    }

    async fn project_hours(
        &self,
        database: &DatabaseTransaction,
        its: &Condition,
    ) -> Result<Vec<ProjectUnits>, StoreError> {
        let columns = [Column::Tenant, Column::Project];
        let sums = [("all_units", Expr::col(Column::BillableUnits))];
        let [mut summed, mut rest] = [self.sums(Dimensions::PROJECTS, 1), self.unsummed_hours()];
        let parts = [&mut summed, &mut rest].map(|part| {
            part.cond_where(its.clone());
            part_of(part.take(), 1, &columns, &sums)
        });
        self.rows(database, union(parts.into(), &columns, &sums), read_project).await
    }

    async fn methods_by_hour(
        &self,
        database: &DatabaseTransaction,
        its: &Condition,
        methods: &[(String, String)],
    ) -> Result<Vec<MethodUse>, StoreError> {
        let mut busy = self.summed_hours();
        busy.cond_where(its.clone());
        let wanted = are_of(methods).add(its.clone());
        let parts = self.by_hour(busy, &wanted, &wanted, &METHOD_COLUMNS, &method_sums());
        self.rows(database, union(parts, &METHOD_COLUMNS, &method_sums()), read_method).await
    }

    /// Selects the sums of a level. Sums by the hour cover only hours that are summed for all tenants.
    pub(super) fn sums(&self, dimensions: Dimensions, hours: u64) -> SelectStatement {
        let end = if hours == 1 {
            std::cmp::min(self.hours.end, self.summed.whole_until())
        } else {
            self.hours.end
        };
        let mut select = Query::select();
        select
            .from(sums::Entity)
            .and_where(
                Expr::col(sums::Column::Level).eq(Level::of(dimensions, hours).map_or(0, |level| level.code)),
            )
            .cond_where(self.within(self.hours.start..end, hours));
        select
    }

    /// Matches rows whose first hour is in `hours`, in steps of `step` hours. For one tenant, the hours are listed one
    /// by one: each of them, together with the tenant, is one range of the table, while a range of hours has the rows
    /// of all tenants.
    fn within(&self, hours: Range<u64>, step: u64) -> Condition {
        let Some(only) = self.only else {
            return Condition::all()
                .add(Expr::col(Column::Hour).gte(stored(hours.start)))
                .add(Expr::col(Column::Hour).lt(stored(hours.end)));
        };
        let listed = hours.filter(|hour| hour.is_multiple_of(step)).map(stored);
        Condition::all().add(Expr::col(Column::Hour).is_in(listed)).add(Expr::col(Column::Tenant).eq(only))
    }

    pub(super) fn unsummed_hours(&self) -> SelectStatement {
        let first = std::cmp::max(self.hours.start, self.summed.whole_until());
        let mut select = Query::select();
        select.from(rollups::Entity).cond_where(self.within(first..self.hours.end, 1));
        select
    }

    /// Selects rows by day, from the sums of days and the rollups that are not in them yet.
    pub(super) fn by_day(
        &self,
        dimensions: Dimensions,
        wanted: &Condition,
        columns: &[Column],
        named: &[NamedSum],
    ) -> Vec<SelectStatement> {
        let mut rest = Query::select();
        rest.from(rollups::Entity)
            .cond_where(self.summed.rest())
            .cond_where(self.within(self.hours.clone(), 1));
        [self.sums(dimensions, DAY), rest]
            .map(|mut part| part_of(part.cond_where(wanted.clone()).take(), DAY, columns, named))
            .into()
    }

    fn summed_hours(&self) -> SelectStatement {
        let mut busy = self.sums(Dimensions::PROJECTS, 1);
        for (column, alias) in BUSY_COLUMNS {
            busy.expr_as(Expr::col(column), Alias::new(alias)).group_by_col(column);
        }
        busy
    }

    /// Selects rows by hour, from the rollups to which `busy` points and those of hours that are not summed yet, with a
    /// condition for each.
    fn by_hour(
        &self,
        busy: SelectStatement,
        of_summed: &Condition,
        of_others: &Condition,
        columns: &[Column],
        named: &[NamedSum],
    ) -> Vec<SelectStatement> {
        let mut pointed = Query::select();
        // SQLite keeps the order of a cross join, in which each row finds its rollups by their key. Otherwise it might
        // look up each rollup of a month among the rows.
        pointed.from_subquery(busy, Alias::new(BUSY)).join(
            JoinType::CrossJoin,
            rollups::Entity,
            Condition::all(),
        );
        for (column, alias) in BUSY_COLUMNS {
            pointed.and_where(Expr::col(column).equals(Alias::new(alias)));
        }
        [(pointed, of_summed), (self.unsummed_hours(), of_others)]
            .map(|(mut part, wanted)| part_of(part.cond_where(wanted.clone()).take(), 1, columns, named))
            .into()
    }

    pub(super) async fn rows<T>(
        &self,
        database: &DatabaseTransaction,
        mut select: SelectStatement,
        read: impl Fn(&QueryResult) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = database.query_all(select.limit(self.most.saturating_add(1))).await?;
        if rows.len() as u64 > self.most {
            let most = self.most;
            return Err(StoreError::TooWide(format!(
                "this question needs more than {most} rows of usage: change fewer methods or plans at a time"
            )));
        }
        let mut all = Vec::with_capacity(rows.len());
        for (number, row) in rows.into_iter().enumerate() {
            all.push(read(&row)?);
            if number % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
        Ok(all)
    }

    pub(super) async fn first_rows<T>(
        &self,
        database: &DatabaseTransaction,
        mut select: SelectStatement,
        read: impl Fn(&QueryResult) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = database.query_all(select.limit(self.most)).await?;
        rows.iter().map(read).collect()
    }
}

const METHOD_COLUMNS: [Column; 4] = [Column::Tenant, Column::Project, Column::Chain, Column::Method];
const KEY_COLUMNS: [Column; 2] = [Column::Tenant, Column::Key];
const BUSY_COLUMNS: [(Column, &str); 3] =
    [(Column::Hour, "busy_hour"), (Column::Tenant, "busy_tenant"), (Column::Project, "busy_project")];

/// Returns the calls and units of a method. A call of a free method is not marked as charged, so its rows count the
/// calls that would be: all but refused ones.
fn method_sums() -> [NamedSum; 2] {
    let [requests, rejected] = [Column::Requests, Column::Rejected].map(Expr::col);
    let is_decided = Condition::any()
        .add(Expr::col(Column::BillableUnits).gt(0i64))
        .add(Expr::col(Column::Status).eq(LEFT))
        .add(requests.clone().lte(rejected.clone()));
    let calls = Expr::case(is_decided, Expr::col(Column::BilledRequests)).finally(requests.sub(rejected));
    [("all_calls", calls.into()), ("all_units", Expr::col(Column::BillableUnits))]
}

/// Returns the requests of a key that were admitted, and its refused calls.
fn key_sums() -> [NamedSum; 2] {
    let is_limited = Expr::col(Column::Status).eq(RATE_LIMITED);
    let refused = Expr::case(is_limited, Expr::col(Column::Rejected)).finally(0i64);
    [("all_admitted", Expr::col(Column::WindowRequests)), ("all_refused", refused.into())]
}

fn are_of(methods: &[(String, String)]) -> Condition {
    let mut any = Condition::any();
    for (chain, method) in methods {
        let one = Condition::all()
            .add(Expr::col(Column::Chain).eq(chain.as_str()))
            .add(Expr::col(Column::Method).eq(method.as_str()));
        any = any.add(one);
    }
    Condition::all().add(any)
}

/// Selects the columns of a part: its first hour, in steps of `step` hours, then `columns`, then the sums by their
/// names.
pub(super) fn part_of(
    mut select: SelectStatement,
    step: u64,
    columns: &[Column],
    named: &[NamedSum],
) -> SelectStatement {
    let hour = || Expr::col(Column::Hour);
    let first = if step == 1 { hour() } else { hour().sub(hour().modulo(stored(step))) };
    // Grouped by its alias: PostgreSQL treats two parameters as different even if they have the same value.
    select.expr_as(first, Alias::new(FIRST)).group_by_col(Alias::new(FIRST));
    for column in columns {
        select.column(*column).group_by_col(*column);
    }
    for (name, value) in named {
        // PostgreSQL's sum of bigints is a numeric.
        select.expr_as(value.clone().sum().cast_as("bigint"), Alias::new(*name));
    }
    select
}

fn union(parts: Vec<SelectStatement>, columns: &[Column], named: &[NamedSum]) -> SelectStatement {
    let mut select = union_all(parts);
    select.column(Alias::new(FIRST)).group_by_col(Alias::new(FIRST));
    for column in columns {
        select.column(*column).group_by_col(*column);
    }
    for (name, _) in named {
        select.expr(Expr::col(Alias::new(*name)).sum().cast_as("bigint"));
    }
    select
}

/// Keeps only keys whose requests, admitted and refused, exceed `floor`.
fn above(mut select: SelectStatement, floor: u64) -> SelectStatement {
    let [admitted, refused] = key_sums().map(|(name, _)| Expr::col(Alias::new(name)));
    select.and_having(Func::sum(admitted.add(refused)).gt(stored(floor)));
    select
}

fn read_project(row: &QueryResult) -> Result<ProjectUnits, StoreError> {
    Ok(ProjectUnits {
        hour: number(row, 0)?,
        tenant: TenantId(id(row, 1)?),
        project: ProjectId(id(row, 2)?),
        units: number(row, 3)?,
    })
}

fn read_method(row: &QueryResult) -> Result<MethodUse, StoreError> {
    Ok(MethodUse {
        hour: number(row, 0)?,
        tenant: TenantId(id(row, 1)?),
        project: ProjectId(id(row, 2)?),
        chain: row.try_get_by_index(3)?,
        method: row.try_get_by_index(4)?,
        calls: number(row, 5)?,
        units: number(row, 6)?,
    })
}

fn read_key(row: &QueryResult) -> Result<KeyUse, StoreError> {
    Ok(KeyUse {
        hour: number(row, 0)?,
        tenant: TenantId(id(row, 1)?),
        key: KeyId(id(row, 2)?),
        admitted: number(row, 3)?,
        refused: number(row, 4)?,
    })
}

pub(super) fn number(row: &QueryResult, at: usize) -> Result<u64, StoreError> {
    count("sum of usage", row.try_get_by_index(at)?)
}

pub(super) fn id(row: &QueryResult, at: usize) -> Result<u128, StoreError> {
    Ok(row.try_get_by_index::<Uuid>(at)?.as_u128())
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "usage_of_all/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;
