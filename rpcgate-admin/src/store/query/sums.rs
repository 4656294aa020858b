//! Levels of sums: what is told apart in them, and how rollups become a part of them.

use super::usage_rows::{ROWS, misshapen, stored, values};
use crate::store::StoreError;
use crate::store::entity::rollups::{self, Column, NAMES, counts};
use crate::store::entity::sums::{self, Entity};
use rpcgate_core::caller::{KeyId, ProjectId};
use rpcgate_core::tally::Transport;
use rpcgate_core::usage::rollup::join;
use rpcgate_core::usage::{Group, Only, Rollup};
use sea_orm::sea_query::{
    Alias, Condition, Expr, ExprTrait, InsertStatement, IntoIden, OnConflict, Query, SelectStatement,
};
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use uuid::Uuid;

pub(super) const DAY: u64 = 24;

/// Names that are told apart. Hour, tenant and the part of a stream always are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Names {
    pub(super) project: bool,
    pub(super) key: bool,
    /// Chain, method, transport, status.
    pub(super) call: bool,
}

impl Names {
    /// Those that a question needs.
    pub(super) fn of(only: &Only, groups: &[Group]) -> Self {
        let by = |group| groups.contains(&group);
        Names {
            project: only.project.is_some() || by(Group::Project),
            key: only.key.is_some() || by(Group::Key),
            call: only.chain.is_some()
                || only.method.is_some()
                || only.transport.is_some()
                || [Group::Chain, Group::Method, Group::Transport, Group::Status].into_iter().any(by),
        }
    }

    pub(super) const PROJECTS: Names = Names { project: true, key: false, call: false };
    pub(super) const KEYS: Names = Names { project: false, key: true, call: false };

    const fn include(self, other: Names) -> bool {
        (self.project || !other.project) && (self.key || !other.key) && (self.call || !other.call)
    }

    const fn tell(self, column: Column) -> bool {
        match column {
            Column::Project => self.project,
            Column::Key => self.key,
            Column::Chain | Column::Method | Column::Transport | Column::Status => self.call,
            _ => true,
        }
    }
}

/// What some sums add up, and what they tell apart.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Level {
    /// The number it is stored as. It is written down for good.
    pub(super) code: i16,
    /// How many hours: one, or a UTC day.
    hours: u64,
    names: Names,
}

const CALLS: Names = Names { project: false, key: false, call: true };
const ALL: Names = Names { project: true, key: true, call: true };

/// The levels: of several that answer a question the first has the fewest rows.
pub(super) static LEVELS: [Level; 5] = [
    Level { code: 1, hours: 1, names: Names::PROJECTS },
    Level { code: 2, hours: DAY, names: Names::PROJECTS },
    Level { code: 3, hours: 1, names: CALLS },
    Level { code: 4, hours: DAY, names: CALLS },
    Level { code: 5, hours: DAY, names: ALL },
];

/// What selected hours are called, which no column is.
const FIRST: &str = "first_hour";

impl Level {
    /// The one that answers questions about `names` by so many hours at a time.
    pub(super) fn of(names: Names, hours: u64) -> Option<&'static Level> {
        LEVELS.iter().find(|level| level.hours == hours && level.names.include(names))
    }

    /// Adds rollups to it, which are to be in the order in which they are stored.
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
                insert.values(row).map_err(misshapen)?;
            }
            transaction.execute(&insert).await?;
        }
        Ok(())
    }

    /// Adds all rollups of `part` to it, in the database.
    pub(super) async fn take_in(
        &self,
        transaction: &DatabaseTransaction,
        part: Condition,
    ) -> Result<(), StoreError> {
        let mut insert = self.insert();
        insert.select_from(self.rows(part)).map_err(misshapen)?;
        transaction.execute(&insert).await?;
        Ok(())
    }

    /// The row that a rollup is a part of, as if it were all of it.
    fn row(&self, rollup: &Rollup) -> Rollup {
        let Names { project, key, call } = self.names;
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

    /// The same for all rollups of `part`, in the order of the columns.
    fn rows(&self, part: Condition) -> SelectStatement {
        let mut rows = Query::select();
        let hour = || Expr::col(Column::Hour);
        rows.from(rollups::Entity).cond_where(part).expr(Expr::value(self.code));
        for name in NAMES {
            match name {
                // Grouped by its name: PostgreSQL takes two parameters for two different numbers.
                Column::Hour => {
                    rows.expr_as(hour().sub(hour().modulo(stored(self.hours))), Alias::new(FIRST));
                    rows.group_by_col(Alias::new(FIRST))
                }
                told if self.names.tell(told) => rows.column(told).group_by_col(told),
                Column::Project | Column::Key => rows.expr(Expr::value(Uuid::nil())),
                Column::Transport => rows.expr(Expr::value(0i16)),
                Column::Status => rows.expr(Expr::value(0i32)),
                _ => rows.expr(Expr::value("")),
            };
        }
        for count in counts() {
            // PostgreSQL's sum of bigints is no bigint.
            rows.expr(Expr::col(count).sum().cast_as("bigint"));
        }
        rows
    }

    /// The begin of a statement that adds rows to it.
    fn insert(&self) -> InsertStatement {
        let names = || [sums::Column::Level.into_iden()].into_iter().chain(NAMES.map(IntoIden::into_iden));
        let mut insert = Query::insert();
        insert.into_table(Entity).columns(names().chain(counts().map(IntoIden::into_iden)));
        let sum = |sum| (sum, Expr::col((Entity, sum)).add(Expr::col((Alias::new("excluded"), sum))));
        insert.on_conflict(OnConflict::columns(names()).values(counts().map(sum)).to_owned());
        insert
    }
}
