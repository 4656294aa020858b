//! The usage view.

use super::shipment::{TRANSPORTS, stored, transport_code};
use super::value::{moment, time, unreadable};
use crate::store::entity::block_keys;
use crate::store::entity::rollups::{Column, Entity, METRICS};
use crate::store::{StoreError, UsageStore};
use crate::usage::{Cell, Group, Metrics, Stream, UsageAsk, UsageRow, UsageView};
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Alias, Condition, Expr, ExprTrait, Func, Order, Query, SelectStatement};
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, QueryResult};
use uuid::Uuid;

const HOUR: u64 = 3_600;
const DAY: u64 = 24;

/// What the number of the day is selected as, which no column is called.
const DAY_NUMBER: &str = "day_number";

impl UsageStore {
    /// The answer to a question about usage, all of it as it stood at one moment.
    ///
    /// # Errors
    /// [`StoreError::Away`].
    pub async fn usage(&self, ask: &UsageAsk) -> Result<UsageView, StoreError> {
        self.look(async |database| {
            let found = database.query_all(&rows(ask)).await?;
            let limit = ask.limit() as usize;
            let truncated = found.len() > limit;
            let rows: Vec<UsageRow> =
                found.iter().take(limit).map(|row| read(ask, row)).collect::<Result<_, _>>()?;
            let mut totals = Metrics::default();
            if truncated {
                if let Some(row) = database.query_one(&sums(ask, false)).await? {
                    totals = metrics(&row, 0)?;
                }
            } else {
                // All rows are here, so the table need not be gone through again.
                rows.iter().for_each(|row| totals.add(&row.counted()));
            }
            Ok(UsageView {
                tenant: ask.tenant(),
                project: ask.part().project,
                from: ask.window().from(),
                to: ask.window().to(),
                period: ask.window().period(),
                group_by: ask.group_by().to_vec(),
                totals,
                truncated,
                rows,
                history_from: history_from(database, ask.tenant(), ask.part().project).await?,
            })
        })
        .await
    }
}

/// The sums of what is asked for, in one row. `by_method`: each row will be of one method, so that the bytes of ended
/// streams are in rows of their own and may be shown; elsewhere they are left out, for they repeat what other rows
/// have (specification, "Meaning of counters").
fn sums(ask: &UsageAsk, by_method: bool) -> SelectStatement {
    let mut select = Query::select();
    select.from(Entity).cond_where(part(ask));
    for column in METRICS {
        // PostgreSQL's sum of bigints is no bigint.
        select.expr(value(column, by_method).sum().cast_as("bigint"));
    }
    select
}

/// One more row than may be shown, to see whether there are more.
fn rows(ask: &UsageAsk) -> SelectStatement {
    let by_method = ask.group_by().contains(&Group::Method);
    let mut select = sums(ask, by_method);
    for group in ask.group_by() {
        match group {
            Group::Hour => by(&mut select, Column::Hour),
            Group::Day => {
                // Grouped by its name: PostgreSQL takes two parameters for two different numbers.
                let day = Alias::new(DAY_NUMBER);
                select.expr_as(Expr::col(Column::Hour).div(stored(DAY)), day.clone());
                select.group_by_col(day.clone()).order_by(day, Order::Asc)
            }
            Group::Chain => by(&mut select, Column::Chain),
            Group::Method => by(by(&mut select, Column::Method), Column::Stream),
            Group::Key => by(&mut select, Column::Key),
            Group::Project => by(&mut select, Column::Project),
            Group::Transport => by(&mut select, Column::Transport),
            Group::Status => by(&mut select, Column::Status),
        };
    }
    let all = METRICS.into_iter().map(|column| value(column, by_method)).reduce(ExprTrait::add);
    if let Some(all) = all {
        select.and_having(Func::sum(all).gt(0));
    }
    select.limit(u64::from(ask.limit()) + 1);
    select
}

fn by(select: &mut SelectStatement, column: Column) -> &mut SelectStatement {
    select.column(column).group_by_col(column).order_by(column, Order::Asc)
}

fn value(column: Column, by_method: bool) -> Expr {
    let is_bytes = matches!(column, Column::RequestBytes | Column::ResponseBytes);
    if by_method || !is_bytes {
        return Expr::col(column);
    }
    let ended = Column::Stream.eq(i16::from(Stream::Disconnect.code()));
    Expr::case(ended, 0i64).finally(Expr::col(column)).into()
}

/// The rollups that are asked about.
fn part(ask: &UsageAsk) -> Condition {
    let only = ask.part();
    // The hours one by one: together with the tenant each is one place in the table, while a range of hours is the
    // rows of all tenants.
    Condition::all()
        .add(Column::Hour.is_in(ask.window().hours().map(stored)))
        .add(Column::Tenant.eq(Uuid::from_u128(ask.tenant().0)))
        .add_option(only.project.map(|project| Column::Project.eq(Uuid::from_u128(project.0))))
        .add_option(only.chain.as_deref().map(|chain| Column::Chain.eq(chain)))
        .add_option(only.method.as_deref().map(|method| Column::Method.eq(method)))
        .add_option(only.key.map(|key| Column::Key.eq(Uuid::from_u128(key.0))))
        .add_option(only.transport.map(|transport| Column::Transport.eq(transport_code(transport))))
}

/// The metrics that stand in a row from the column `at` on.
fn metrics(row: &QueryResult, at: usize) -> Result<Metrics, StoreError> {
    let mut values = [0; Metrics::COUNT];
    for (index, value) in values.iter_mut().enumerate() {
        // The sum of no rows is null.
        *value = row.try_get_by_index::<Option<i64>>(at + index)?.unwrap_or_default().unsigned_abs();
    }
    Ok(Metrics::of(values))
}

fn read(ask: &UsageAsk, row: &QueryResult) -> Result<UsageRow, StoreError> {
    let mut at = Metrics::COUNT;
    let mut next = || {
        at += 1;
        at - 1
    };
    let mut cells = Vec::with_capacity(ask.group_by().len());
    for group in ask.group_by() {
        let column = next();
        let start = |length: u64| -> Result<Time, StoreError> {
            let number = row.try_get_by_index::<i64>(column)?.unsigned_abs();
            Ok(Time::from_secs(number.saturating_mul(length)))
        };
        let id = || -> Result<u128, StoreError> { Ok(row.try_get_by_index::<Uuid>(column)?.as_u128()) };
        cells.push(match group {
            Group::Hour => Cell::Hour(start(HOUR)?),
            Group::Day => Cell::Day(start(DAY * HOUR)?),
            Group::Chain => Cell::Chain(row.try_get_by_index(column)?),
            Group::Method => {
                let code: i16 = row.try_get_by_index(next())?;
                let stream = usize::try_from(code).ok().and_then(|code| Stream::ALL.get(code).copied());
                let stream = stream.ok_or_else(|| unreadable("part of a stream", code))?;
                Cell::Method(row.try_get_by_index(column)?, stream)
            }
            Group::Key => Cell::Key(KeyId(id()?)),
            Group::Project => Cell::Project(ProjectId(id()?)),
            Group::Transport => {
                let code: i16 = row.try_get_by_index(column)?;
                let transport = usize::try_from(code).ok().and_then(|code| TRANSPORTS.get(code).copied());
                Cell::Transport(transport.ok_or_else(|| unreadable("transport", code))?)
            }
            Group::Status => {
                let status: i32 = row.try_get_by_index(column)?;
                Cell::Status(u16::try_from(status).map_err(|_| unreadable("status", status))?)
            }
        });
    }
    Ok(UsageRow { cells, metrics: metrics(row, 0)? })
}

/// When the oldest event came that is kept of a tenant, or of one of its projects.
async fn history_from(
    database: &DatabaseTransaction,
    tenant: TenantId,
    project: Option<ProjectId>,
) -> Result<Option<Time>, StoreError> {
    use block_keys::Column;
    let scope = Condition::all()
        .add(Column::Tenant.eq(Uuid::from_u128(tenant.0)))
        .add_option(project.map(|project| Column::Project.eq(Uuid::from_u128(project.0))));
    let mut oldest = Query::select();
    oldest.from(block_keys::Entity).column(Column::Last).cond_where(scope.clone());
    oldest.order_by(Column::Last, Order::Asc).limit(1);
    let Some(row) = database.query_one(&oldest).await? else { return Ok(None) };
    // No block is longer than an hour, so none that ends in a later hour holds an older event.
    let hour = time(row.try_get_by_index(0)?).hour();
    let next = moment(Time::from_secs((hour + 1).saturating_mul(HOUR)));
    let mut first = Query::select();
    first.from(block_keys::Entity).expr(Column::First.min()).cond_where(scope.add(Column::Last.lt(next)));
    let Some(row) = database.query_one(&first).await? else { return Ok(None) };
    Ok(row.try_get_by_index::<Option<i64>>(0)?.map(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::url_of;
    use crate::usage::ask::Only;
    use crate::usage::{Period, Window};
    use sea_orm::{DbBackend, Statement, StatementBuilder};
    use tempfile::TempDir;

    /// How SQLite finds the rows of a statement.
    async fn plan(store: &UsageStore, select: &SelectStatement) -> String {
        let statement = StatementBuilder::build(select, &DbBackend::Sqlite);
        let explain = Statement { sql: format!("EXPLAIN QUERY PLAN {}", statement.sql), ..statement };
        let row =
            store.read(async |database| Ok(database.query_one_raw(explain).await?)).await.unwrap().unwrap();
        row.try_get("", "detail").unwrap()
    }

    #[tokio::test]
    async fn a_view_goes_straight_to_the_hours_of_its_tenant() {
        let dir = TempDir::new().unwrap();
        let store = UsageStore::open(&url_of(&dir.path().join("rpcgate.db")), true).await.unwrap();
        let all = UsageAsk::new(TenantId(1), Window::of(Period::Month, Time::from_secs(1_800_000_000)));
        let all = all.grouped(&[Group::Day, Group::Method]).unwrap();
        let key = "SEARCH rollups USING PRIMARY KEY (hour=? AND tenant=?";
        assert_eq!(plan(&store, &sums(&all, false)).await, format!("{key})"));
        assert_eq!(plan(&store, &rows(&all)).await, format!("{key})"));
        let project = Only { project: Some(ProjectId(1)), ..Only::default() };
        assert_eq!(plan(&store, &rows(&all.only(project))).await, format!("{key} AND project=?)"));
    }
}
