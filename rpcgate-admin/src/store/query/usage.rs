//! The usage view.

use super::source::{Source, over};
use super::summed::Summed;
use super::sums::{DAY, Names};
use super::usage_rows::{TRANSPORTS, stored, transport_code};
use super::value::{moment, time, unreadable};
use super::wide;
use crate::store::entity::block_keys;
use crate::store::entity::rollups::{Column, metric_columns};
use crate::store::usage::Bounds;
use crate::store::{StoreError, UsageStore};
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::{Cell, Group, Metrics, Stream, UsageAsk, UsageRow, UsageView};
use sea_orm::sea_query::{
    Condition, DynIden, Expr, ExprTrait, Func, IntoIden, Order, Query, SelectStatement,
};
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, QueryResult};
use uuid::Uuid;

const HOUR: u64 = 3_600;

/// What the number of the day is selected as, which no column is called.
const DAY_NUMBER: &str = "day_number";

impl UsageStore {
    /// The answer to a question about usage, all of it as it stood at one moment.
    ///
    /// # Errors
    /// [`StoreError::TooWide`] says what to narrow; [`StoreError::Busy`] if the tenant has too many questions at a time;
    /// [`StoreError::Unavailable`].
    pub async fn usage(&self, ask: &UsageAsk) -> Result<UsageView, StoreError> {
        let part = self.shares.of(ask.tenant()).await?;
        let Bounds { large, most } = self.bounds.grouped_by(ask.group_by().len());
        if let Some(view) = self.usage_within(ask, large).await? {
            return Ok(view);
        }
        let _large = part.large().await?;
        let view = self.usage_within(ask, most).await?;
        view.ok_or_else(|| StoreError::TooWide(wide::narrower(ask, most)))
    }

    /// The same, if no more than `most` rows are to be read for it.
    async fn usage_within(&self, ask: &UsageAsk, most: u64) -> Result<Option<UsageView>, StoreError> {
        self.look(async |database| {
            let summed = Summed::read(database).await?;
            // Its totals, where they are read apart, come from fewer rows.
            if wide::reads_more(database, ask, &Plan::rows(ask, &summed).sources, most).await? {
                return Ok(None);
            }
            let found = database.query_all(&Plan::rows(ask, &summed).first()).await?;
            let limit = ask.limit() as usize;
            let truncated = found.len() > limit;
            let mut rows: Vec<UsageRow> =
                found.iter().take(limit).map(|row| read(ask, row)).collect::<Result<_, _>>()?;
            rows.sort_unstable_by(|one, other| one.cells.cmp(&other.cells));
            let mut totals = Metrics::default();
            if truncated {
                if let Some(row) = database.query_one(&Plan::totals(ask, &summed).all()).await? {
                    totals = metrics(&row, 0)?;
                }
            } else {
                // All rows are here, so the table need not be gone through again.
                rows.iter().for_each(|row| totals.add(&row.counted()));
            }
            Ok(Some(UsageView {
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
            }))
        })
        .await
    }
}

/// A name by which rows are grouped.
#[derive(Clone, Copy)]
enum Name {
    Column(Column),
    Day,
}

impl Name {
    /// Those of a question, in the order of its groups.
    fn all(ask: &UsageAsk) -> Vec<Name> {
        let mut names = Vec::new();
        for group in ask.group_by() {
            names.push(match group {
                Group::Hour => Name::Column(Column::Hour),
                Group::Day => Name::Day,
                Group::Chain => Name::Column(Column::Chain),
                Group::Method => Name::Column(Column::Method),
                Group::Key => Name::Column(Column::Key),
                Group::Project => Name::Column(Column::Project),
                Group::Transport => Name::Column(Column::Transport),
                Group::Status => Name::Column(Column::Status),
            });
            if *group == Group::Method {
                names.push(Name::Column(Column::Stream));
            }
        }
        names
    }

    fn is_time(self) -> bool {
        matches!(self, Name::Day | Name::Column(Column::Hour))
    }

    /// What it is selected as.
    fn iden(self) -> DynIden {
        match self {
            Name::Column(column) => column.into_iden(),
            Name::Day => DAY_NUMBER.into_iden(),
        }
    }
}

/// Where an answer comes from, and what stands in its rows: the metrics, and then the names.
struct Plan<'a> {
    ask: &'a UsageAsk,
    sources: Vec<Source>,
    names: Vec<Name>,
    /// Each row will be of one method, so that the bytes of ended streams are in rows of their own and may be shown;
    /// elsewhere they are left out, for they repeat what other rows have (specification, "Meaning of counters").
    by_method: bool,
}

impl<'a> Plan<'a> {
    /// One row of the sums of what is asked for.
    fn totals(ask: &'a UsageAsk, summed: &Summed) -> Self {
        let names = Names::of(ask.part(), &[]);
        let sources = Source::all(summed, ask.tenant(), &ask.window().hours(), names, false);
        Plan { ask, sources, names: Vec::new(), by_method: false }
    }

    fn rows(ask: &'a UsageAsk, summed: &Summed) -> Self {
        let names = Names::of(ask.part(), ask.group_by());
        let by_hour = ask.group_by().contains(&Group::Hour);
        let sources = Source::all(summed, ask.tenant(), &ask.window().hours(), names, by_hour);
        let by_method = ask.group_by().contains(&Group::Method);
        Plan { ask, sources, names: Name::all(ask), by_method }
    }

    /// The rows in any order, and all of them. What several sources have is summed in each first, for that is where the
    /// many rows are.
    fn all(&self) -> SelectStatement {
        if let [only] = &self.sources[..] {
            return self.of(only, false);
        }
        let mut select = over(self.sources.iter().map(|source| self.of(source, true)));
        for column in metric_columns() {
            select.expr(sum(Expr::col(column)));
        }
        for name in &self.names {
            select.column(name.iden()).group_by_col(name.iden());
        }
        select
    }

    /// One more row than may be shown, to see whether there are more: those of the newest hours or days where the rows are
    /// told apart by them.
    fn first(&self) -> SelectStatement {
        let mut select = self.all();
        let (times, others): (Vec<&Name>, Vec<&Name>) = self.names.iter().partition(|name| name.is_time());
        for name in times {
            select.order_by(name.iden(), Order::Desc);
        }
        for name in others {
            select.order_by(name.iden(), Order::Asc);
        }
        let is_one = self.sources.len() == 1;
        let value = |column| if is_one { self.value(column) } else { Expr::col(column) };
        if let Some(all) = metric_columns().map(value).reduce(ExprTrait::add) {
            select.and_having(Func::sum(all).gt(0));
        }
        select.limit(u64::from(self.ask.limit()) + 1);
        select
    }

    /// What one source has, the metrics under their own names if they are `named`.
    fn of(&self, source: &Source, named: bool) -> SelectStatement {
        let mut select = source.select();
        select.cond_where(part(self.ask));
        for column in metric_columns() {
            let metric = sum(self.value(column));
            if named {
                select.expr_as(metric, column)
            } else {
                select.expr(metric)
            };
        }
        for name in &self.names {
            match name {
                Name::Column(column) => select.column(*column),
                Name::Day => select.expr_as(Expr::col(Column::Hour).div(stored(DAY)), DAY_NUMBER),
            };
            // By what it is selected as: PostgreSQL takes two parameters for two different numbers.
            select.group_by_col(name.iden());
        }
        select
    }

    fn value(&self, column: Column) -> Expr {
        let is_bytes = matches!(column, Column::RequestBytes | Column::ResponseBytes);
        if self.by_method || !is_bytes {
            return Expr::col(column);
        }
        let ended = Expr::col(Column::Stream).eq(i16::from(Stream::Disconnect.code()));
        Expr::case(ended, 0i64).finally(Expr::col(column)).into()
    }
}

/// PostgreSQL's sum of bigints is no bigint.
fn sum(value: Expr) -> Expr {
    value.sum().cast_as("bigint")
}

/// Which rows of a tenant are asked about.
fn part(ask: &UsageAsk) -> Condition {
    let only = ask.part();
    let is = |column: Column| Expr::col(column);
    Condition::all()
        .add_option(only.project.map(|project| is(Column::Project).eq(Uuid::from_u128(project.0))))
        .add_option(only.chain.as_deref().map(|chain| is(Column::Chain).eq(chain)))
        .add_option(only.method.as_deref().map(|method| is(Column::Method).eq(method)))
        .add_option(only.key.map(|key| is(Column::Key).eq(Uuid::from_u128(key.0))))
        .add_option(only.transport.map(|transport| is(Column::Transport).eq(transport_code(transport))))
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
    use rpcgate_core::usage::ask::Only;
    use rpcgate_core::usage::{Period, UsageWindow};
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
        let now = Time::from_secs(1_800_000_000);
        let all = UsageAsk::new(TenantId(1), UsageWindow::of(Period::Month, now));
        let all = all.grouped(&[Group::Day, Group::Method]).unwrap();
        let key = "SEARCH rollups USING PRIMARY KEY (hour=? AND tenant=?";
        let project = Only { project: Some(ProjectId(1)), ..Only::default() };
        let one = all.clone().only(project);
        let nothing = Summed::default();
        assert_eq!(plan(&store, &Plan::totals(&all, &nothing).all()).await, format!("{key})"));
        assert_eq!(plan(&store, &Plan::rows(&all, &nothing).first()).await, format!("{key})"));
        assert_eq!(plan(&store, &Plan::rows(&one, &nothing).first()).await, format!("{key} AND project=?)"));

        let all_days = Summed::at(now.hour() + 1, TenantId(0), 0);
        let key = "SEARCH sums USING PRIMARY KEY (level=? AND hour=? AND tenant=?";
        assert_eq!(plan(&store, &Plan::totals(&all, &all_days).all()).await, format!("{key})"));
        assert_eq!(plan(&store, &Plan::rows(&all, &all_days).first()).await, format!("{key})"));
        assert_eq!(plan(&store, &Plan::rows(&one, &all_days).first()).await, format!("{key} AND project=?)"));
    }
}
