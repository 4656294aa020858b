//! The usage view.

use super::source::{Source, union_all};
use super::summed::Summed;
use super::sums::{DAY, Dimensions};
use super::usage_rows::{TRANSPORTS, stored, transport_code};
use super::value::{moment, time, unreadable};
use super::wide;
use crate::entity::block_keys;
use crate::entity::rollups::{Column, metric_columns};
use crate::usage::Bounds;
use crate::{StoreError, UsageStore};
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::{Cell, Group, Metrics, Stream, UsageAsk, UsageRow, UsageView};
use sea_orm::sea_query::{
    Condition, DynIden, Expr, ExprTrait, Func, IntoIden, Order, Query, SelectStatement,
};
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, QueryResult};
use uuid::Uuid;

const HOUR: u64 = 3_600;

/// The alias of the day's number, which must differ from all column names.
const DAY_NUMBER: &str = "day_number";

impl UsageStore {
    /// Answers a usage query from one snapshot.
    ///
    /// # Errors
    /// [`StoreError::TooWide`] with advice to narrow the query; [`StoreError::Busy`] if the tenant runs too many
    /// queries at a time; [`StoreError::Unavailable`].
    pub async fn usage(&self, ask: &UsageAsk) -> Result<UsageView, StoreError> {
        let permit = self.permits.acquire(ask.tenant()).await?;
        let Bounds { large, max } = self.bounds.grouped_by(ask.group_by().len());
        if let Some(view) = self.usage_within(ask, large).await? {
            return Ok(view);
        }
        let _large = permit.acquire_large().await?;
        let view = self.usage_within(ask, max).await?;
        view.ok_or_else(|| StoreError::TooWide(wide::advice(ask, max)))
    }

    /// Answers the query from one snapshot, unless it would read more than `max` rows.
    async fn usage_within(&self, ask: &UsageAsk, max: u64) -> Result<Option<UsageView>, StoreError> {
        self.snapshot(async |database| {
            let summed = Summed::read(database).await?;
            // Totals that are read separately come from fewer rows.
            if wide::reads_more(database, ask, &ViewQuery::rows(ask, &summed).sources, max).await? {
                return Ok(None);
            }
            let found = database.query_all(&ViewQuery::rows(ask, &summed).first()).await?;
            let limit = ask.limit() as usize;
            let truncated = found.len() > limit;
            let mut rows: Vec<UsageRow> =
                found.iter().take(limit).map(|row| read(ask, row)).collect::<Result<_, _>>()?;
            rows.sort_unstable_by(|one, other| one.cells.cmp(&other.cells));
            let mut totals = Metrics::default();
            if truncated {
                if let Some(row) = database.query_one(&ViewQuery::totals(ask, &summed).all()).await? {
                    totals = metrics(&row, 0)?;
                }
            } else {
                // All rows are here, so the tables need not be read again.
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

#[derive(Clone, Copy)]
enum GroupColumn {
    Column(Column),
    Day,
}

impl GroupColumn {
    fn all(ask: &UsageAsk) -> Vec<GroupColumn> {
        let mut names = Vec::new();
        for group in ask.group_by() {
            names.push(match group {
                Group::Hour => GroupColumn::Column(Column::Hour),
                Group::Day => GroupColumn::Day,
                Group::Chain => GroupColumn::Column(Column::Chain),
                Group::Method => GroupColumn::Column(Column::Method),
                Group::Key => GroupColumn::Column(Column::Key),
                Group::Project => GroupColumn::Column(Column::Project),
                Group::Transport => GroupColumn::Column(Column::Transport),
                Group::Status => GroupColumn::Column(Column::Status),
            });
            if *group == Group::Method {
                names.push(GroupColumn::Column(Column::Stream));
            }
        }
        names
    }

    fn is_time(self) -> bool {
        matches!(self, GroupColumn::Day | GroupColumn::Column(Column::Hour))
    }

    fn iden(self) -> DynIden {
        match self {
            GroupColumn::Column(column) => column.into_iden(),
            GroupColumn::Day => DAY_NUMBER.into_iden(),
        }
    }
}

/// A query: its sources and the columns of its rows, the metrics first and then the group columns.
struct ViewQuery<'a> {
    ask: &'a UsageAsk,
    sources: Vec<Source>,
    names: Vec<GroupColumn>,
    /// True if each row is of one method, so that the bytes of ended streams have separate rows and may be shown.
    /// Otherwise they are omitted, because they repeat the content of other rows (specification, "Meaning of
    /// counters").
    by_method: bool,
}

impl<'a> ViewQuery<'a> {
    fn totals(ask: &'a UsageAsk, summed: &Summed) -> Self {
        let names = Dimensions::of(ask.part(), &[]);
        let sources = Source::all(summed, ask.tenant(), &ask.window().hours(), names, false);
        ViewQuery { ask, sources, names: Vec::new(), by_method: false }
    }

    fn rows(ask: &'a UsageAsk, summed: &Summed) -> Self {
        let names = Dimensions::of(ask.part(), ask.group_by());
        let by_hour = ask.group_by().contains(&Group::Hour);
        let sources = Source::all(summed, ask.tenant(), &ask.window().hours(), names, by_hour);
        let by_method = ask.group_by().contains(&Group::Method);
        ViewQuery { ask, sources, names: GroupColumn::all(ask), by_method }
    }

    /// Selects all rows, in any order. Rows of several sources are summed within each source first, because the sources
    /// have the many rows.
    fn all(&self) -> SelectStatement {
        if let [only] = &self.sources[..] {
            return self.of(only, false);
        }
        let mut select = union_all(self.sources.iter().map(|source| self.of(source, true)));
        for column in metric_columns() {
            select.expr(sum(Expr::col(column)));
        }
        for name in &self.names {
            select.column(name.iden()).group_by_col(name.iden());
        }
        select
    }

    /// Selects one more row than may be shown, to detect truncation; the newest hours or days come first if rows are
    /// grouped by them.
    fn first(&self) -> SelectStatement {
        let mut select = self.all();
        let (times, others): (Vec<&GroupColumn>, Vec<&GroupColumn>) =
            self.names.iter().partition(|name| name.is_time());
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

    /// Selects the rows of one source; the metrics keep their own names if `named`.
    fn of(&self, source: &Source, named: bool) -> SelectStatement {
        let mut select = source.select();
        select.cond_where(filter(self.ask));
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
                GroupColumn::Column(column) => select.column(*column),
                GroupColumn::Day => select.expr_as(Expr::col(Column::Hour).div(stored(DAY)), DAY_NUMBER),
            };
            // Grouped by its alias: PostgreSQL treats two parameters as different even if they have the same value.
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

/// PostgreSQL's sum of bigints is a numeric.
fn sum(value: Expr) -> Expr {
    value.sum().cast_as("bigint")
}

fn filter(ask: &UsageAsk) -> Condition {
    let only = ask.part();
    let is = |column: Column| Expr::col(column);
    Condition::all()
        .add_option(only.project.map(|project| is(Column::Project).eq(project)))
        .add_option(only.chain.as_deref().map(|chain| is(Column::Chain).eq(chain)))
        .add_option(only.method.as_deref().map(|method| is(Column::Method).eq(method)))
        .add_option(only.key.map(|key| is(Column::Key).eq(key)))
        .add_option(only.transport.map(|transport| is(Column::Transport).eq(transport_code(transport))))
}

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

/// Returns the arrival of the oldest kept event of a tenant, or of one of its projects.
pub(super) async fn history_from(
    database: &DatabaseTransaction,
    tenant: TenantId,
    project: Option<ProjectId>,
) -> Result<Option<Time>, StoreError> {
    use block_keys::Column;
    let scope = Condition::all()
        .add(Column::Tenant.eq(tenant))
        .add_option(project.map(|project| Column::Project.eq(project)));
    let mut oldest = Query::select();
    oldest.from(block_keys::Entity).column(Column::Last).cond_where(scope.clone());
    oldest.order_by(Column::Last, Order::Asc).limit(1);
    let Some(row) = database.query_one(&oldest).await? else { return Ok(None) };
    // No block spans more than an hour, so a block that ends in a later hour contains no older event.
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
    use crate::url_of;
    use rpcgate_core::usage::ask::UsageFilter;
    use rpcgate_core::usage::{Period, UsageWindow};
    use sea_orm::{DbBackend, Statement, StatementBuilder};
    use tempfile::TempDir;

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
        let project = UsageFilter { project: Some(ProjectId(1)), ..UsageFilter::default() };
        let one = all.clone().only(project);
        let nothing = Summed::default();
        assert_eq!(plan(&store, &ViewQuery::totals(&all, &nothing).all()).await, format!("{key})"));
        assert_eq!(plan(&store, &ViewQuery::rows(&all, &nothing).first()).await, format!("{key})"));
        assert_eq!(
            plan(&store, &ViewQuery::rows(&one, &nothing).first()).await,
            format!("{key} AND project=?)")
        );

        let all_days = Summed::at(now.hour() + 1, TenantId(0), 0);
        let key = "SEARCH sums USING PRIMARY KEY (level=? AND hour=? AND tenant=?";
        assert_eq!(plan(&store, &ViewQuery::totals(&all, &all_days).all()).await, format!("{key})"));
        assert_eq!(plan(&store, &ViewQuery::rows(&all, &all_days).first()).await, format!("{key})"));
        assert_eq!(
            plan(&store, &ViewQuery::rows(&one, &all_days).first()).await,
            format!("{key} AND project=?)")
        );
    }
}
