//! Usage queries that would read too many rows to be answered in time, and advice to narrow them.
//!
//! The cost of a query is the number of rows that it adds up. They are counted first, up to a bound, which is some
//! thirty times cheaper than grouping them.

use super::source::Source;
use super::sums::Dimensions;
use crate::StoreError;
use crate::entity::rollups::Column;
use rpcgate_core::usage::{Group, UsageAsk};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Alias, Asterisk, Expr, ExprTrait, Query};
use uuid::Uuid;

/// Reports whether answering `ask` reads more than `max` rows of `sources`.
pub(super) async fn reads_more(
    database: &impl ConnectionTrait,
    ask: &UsageAsk,
    sources: &[Source],
    max: u64,
) -> Result<bool, StoreError> {
    let mut left = max;
    for source in sources {
        // Only the filter by project reduces the rows that are read.
        let project = ask.part().project.map(|project| Uuid::from_u128(project.0));
        let mut rows = source.select();
        rows.column(Column::Hour)
            .and_where_option(project.map(|project| Expr::col(Column::Project).eq(project)));
        rows.limit(left.saturating_add(1));
        let mut count = Query::select();
        count.expr(Expr::col(Asterisk).count()).from_subquery(rows, Alias::new("rows_read"));
        let found = database.query_one(&count).await?;
        let found = found.map_or(Ok(0), |row| row.try_get_by_index::<i64>(0))?.unsigned_abs();
        match left.checked_sub(found) {
            Some(rest) => left = rest,
            None => return Ok(true),
        }
    }
    Ok(false)
}

pub(super) fn advice(ask: &UsageAsk, max: u64) -> String {
    let dimensions = Dimensions::of(ask.part(), ask.group_by());
    let hours = ask.window().hours().count();
    let mut ways = Vec::new();
    if hours > 1 {
        ways.push("ask for a shorter time");
    }
    // Sums of whole days have fewer rows.
    if hours > 24 && ask.group_by().contains(&Group::Hour) {
        ways.push("group by day instead of hour");
    }
    if dimensions.key && dimensions.call {
        ways.push("leave out key");
    }
    if ask.part().project.is_none() {
        ways.push("name one project_id");
    }
    if ways.is_empty() {
        ways.push("group by fewer names");
    }
    format!("this question reads more than {max} rows of usage: {}", ways.join(", or "))
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "wide/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;
