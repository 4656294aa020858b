//! Levels of sums: the dimensions that each distinguishes, and the addition of rollups.

use super::usage_rows::{ROWS, statement_error, stored, values};
use crate::StoreError;
use crate::entity::rollups::{self, Column, KEY_COLUMNS, counts};
use crate::entity::sums::{self, Entity};
use rpcgate_core::caller::{KeyId, ProjectId};
use rpcgate_core::tally::Transport;
use rpcgate_core::usage::rollup::join;
use rpcgate_core::usage::{Group, Rollup, UsageFilter};
use sea_orm::sea_query::{
    Alias, Condition, Expr, ExprTrait, InsertStatement, IntoIden, OnConflict, Query, SelectStatement,
};
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use uuid::Uuid;

pub(super) const DAY: u64 = 24;

/// The dimensions that rows distinguish. Hour, tenant and the part of a stream are always distinguished.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Dimensions {
    pub(super) project: bool,
    pub(super) key: bool,
    pub(super) call: bool,
}

impl Dimensions {
    pub(super) fn of(only: &UsageFilter, groups: &[Group]) -> Self {
        let by = |group| groups.contains(&group);
        Dimensions {
            project: only.project.is_some() || by(Group::Project),
            key: only.key.is_some() || by(Group::Key),
            call: only.chain.is_some()
                || only.method.is_some()
                || only.transport.is_some()
                || [Group::Chain, Group::Method, Group::Transport, Group::Status].into_iter().any(by),
        }
    }

    pub(super) const PROJECTS: Dimensions = Dimensions { project: true, key: false, call: false };
    pub(super) const KEYS: Dimensions = Dimensions { project: false, key: true, call: false };
    pub(super) const ALL: Dimensions = Dimensions { project: true, key: true, call: true };

    const fn includes(self, other: Dimensions) -> bool {
        (self.project || !other.project) && (self.key || !other.key) && (self.call || !other.call)
    }

    const fn has(self, column: Column) -> bool {
        match column {
            Column::Project => self.project,
            Column::Key => self.key,
            Column::Chain | Column::Method | Column::Transport | Column::Status => self.call,
            _ => true,
        }
    }
}

/// A level of sums: the hours that a row adds up, and the dimensions that it distinguishes.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Level {
    /// Its code in the database, which must never change.
    pub(super) code: i16,
    /// The hours per row: one, or those of a UTC day.
    hours: u64,
    dimensions: Dimensions,
}

const CALLS: Dimensions = Dimensions { project: false, key: false, call: true };

/// The levels, ordered by the number of rows: the first that can answer a query has the fewest.
pub(super) static LEVELS: [Level; 5] = [
    Level { code: 1, hours: 1, dimensions: Dimensions::PROJECTS },
    Level { code: 2, hours: DAY, dimensions: Dimensions::PROJECTS },
    Level { code: 3, hours: 1, dimensions: CALLS },
    Level { code: 4, hours: DAY, dimensions: CALLS },
    Level { code: 5, hours: DAY, dimensions: Dimensions::ALL },
];

/// The alias of the computed hour, which must differ from all column names.
const FIRST: &str = "first_hour";

impl Level {
    /// Returns the level that answers queries by `dimensions` in steps of this many hours.
    pub(super) fn of(dimensions: Dimensions, hours: u64) -> Option<&'static Level> {
        LEVELS.iter().find(|level| level.hours == hours && level.dimensions.includes(dimensions))
    }

    /// Adds rollups in the order of storage to this level.
    pub(super) async fn add(
        &self,
        transaction: &DatabaseTransaction,
        rollups: &[&Rollup],
    ) -> Result<(), StoreError> {
        let mut rows: Vec<Rollup> = rollups.iter().map(|rollup| self.row(rollup)).collect();
        join(&mut rows);
        for chunk in rows.chunks(ROWS) {
            let mut insert = self.insert();
            for row in chunk {
                let row = [Expr::value(self.code)].into_iter().chain(values(row));
                insert.values(row).map_err(statement_error)?;
            }
            transaction.execute(&insert).await?;
        }
        Ok(())
    }

    /// Adds all rollups that match `condition` to this level, within the database.
    pub(super) async fn add_where(
        &self,
        transaction: &DatabaseTransaction,
        condition: Condition,
    ) -> Result<(), StoreError> {
        let mut insert = self.insert();
        insert.select_from(self.rows(condition)).map_err(statement_error)?;
        transaction.execute(&insert).await?;
        Ok(())
    }

    fn row(&self, rollup: &Rollup) -> Rollup {
        let Dimensions { project, key, call } = self.dimensions;
        let text = |name: &String| if call { name.clone() } else { String::new() };
        Rollup {
            hour: rollup.hour - rollup.hour % self.hours,
            tenant: rollup.tenant,
            project: if project { rollup.project } else { ProjectId(0) },
            key: if key { rollup.key } else { KeyId(0) },
            chain: text(&rollup.chain),
            method: text(&rollup.method),
            transport: if call { rollup.transport } else { Transport::Http },
            status: if call { rollup.status } else { 0 },
            stream: rollup.stream,
            metrics: rollup.metrics,
            window_requests: rollup.window_requests,
        }
    }

    /// Selects the same rows for all rollups that match `condition`, in the order of the columns.
    fn rows(&self, condition: Condition) -> SelectStatement {
        let mut rows = Query::select();
        let hour = || Expr::col(Column::Hour);
        rows.from(rollups::Entity).cond_where(condition).expr(Expr::value(self.code));
        for name in KEY_COLUMNS {
            match name {
                // Grouped by its alias: PostgreSQL treats two parameters as different even if they have the same value.
                Column::Hour => {
                    rows.expr_as(hour().sub(hour().modulo(stored(self.hours))), Alias::new(FIRST));
                    rows.group_by_col(Alias::new(FIRST))
                }
                column if self.dimensions.has(column) => rows.column(column).group_by_col(column),
                Column::Project | Column::Key => rows.expr(Expr::value(Uuid::nil())),
                Column::Transport => rows.expr(Expr::value(0i16)),
                Column::Status => rows.expr(Expr::value(0i32)),
                _ => rows.expr(Expr::value("")),
            };
        }
        for count in counts() {
            // PostgreSQL's sum of bigints is a numeric.
            rows.expr(Expr::col(count).sum().cast_as("bigint"));
        }
        rows
    }

    fn insert(&self) -> InsertStatement {
        let names =
            || [sums::Column::Level.into_iden()].into_iter().chain(KEY_COLUMNS.map(IntoIden::into_iden));
        let mut insert = Query::insert();
        insert.into_table(Entity).columns(names().chain(counts().map(IntoIden::into_iden)));
        let sum = |sum| (sum, Expr::col((Entity, sum)).add(Expr::col((Alias::new("excluded"), sum))));
        insert.on_conflict(OnConflict::columns(names()).values(counts().map(sum)).to_owned());
        insert
    }
}
