//! The tables that answer a usage query: rollups, hourly sums, and sums of UTC days.

use super::summed::Summed;
use super::sums::{DAY, Dimensions, Level};
use super::usage_rows::stored;
use crate::entity::rollups::{self, Column};
use crate::entity::sums;
use rpcgate_core::caller::TenantId;
use sea_orm::sea_query::{Alias, Condition, Expr, ExprTrait, Query, SelectStatement, UnionType};
use std::ops::Range;

const PARTS: &str = "parts";

#[derive(PartialEq, Eq, Debug)]
pub(super) struct Source {
    tenant: TenantId,
    /// `None` for rollups.
    level: Option<&'static Level>,
    hours: Vec<u64>,
}

impl Source {
    /// Returns the sources that together contain a tenant's usage in `hours` exactly once, with at least `dimensions`
    /// distinguished, and single hours if `by_hour`.
    pub(super) fn all(
        summed: &Summed,
        tenant: TenantId,
        hours: &Range<u64>,
        dimensions: Dimensions,
        by_hour: bool,
    ) -> Vec<Source> {
        let first = summed.first();
        let end = summed.end(tenant);
        let from = std::cmp::max(hours.start, first);
        let by_days = if by_hour { None } else { Level::of(dimensions, DAY) };
        let partial = summed.partial_day(tenant);
        let source = |level| Source { tenant, level, hours: Vec::new() };
        let [mut rollups, mut of_hours, mut of_days] = [None, Level::of(dimensions, 1), by_days].map(source);
        for hour in hours.clone() {
            let day = hour - hour % DAY;
            // The sums of a day contain the summed part of it.
            let is_within = day >= from && std::cmp::min(end, day + DAY) <= hours.end;
            if hour < first || hour >= end {
                rollups.hours.push(hour);
            } else if by_days.is_some() && is_within && partial != Some(day) {
                if of_days.hours.last() != Some(&day) {
                    of_days.hours.push(day);
                }
            } else if of_hours.level.is_some() {
                of_hours.hours.push(hour);
            } else {
                rollups.hours.push(hour);
            }
        }
        let mut sources = vec![rollups, of_hours, of_days];
        sources.retain(|source| !source.hours.is_empty());
        sources
    }

    /// Returns a statement over the rows of this source. All tables have the same column names.
    pub(super) fn select(&self) -> SelectStatement {
        let mut select = Query::select();
        match self.level {
            None => select.from(rollups::Entity),
            Some(level) => select.from(sums::Entity).and_where(Expr::col(sums::Column::Level).eq(level.code)),
        };
        // The hours are listed one by one: each of them, together with the tenant, is one range of the table, while a
        // range of hours would contain the rows of all tenants.
        let part = Condition::all()
            .add(Expr::col(Column::Hour).is_in(self.hours.iter().copied().map(stored)))
            .add(Expr::col(Column::Tenant).eq(self.tenant));
        select.cond_where(part);
        select
    }
}

pub(super) fn union_all(parts: impl IntoIterator<Item = SelectStatement>) -> SelectStatement {
    let mut parts = parts.into_iter();
    let mut select = Query::select();
    if let Some(mut first) = parts.next() {
        first.unions(parts.map(|part| (UnionType::All, part)));
        select.from_subquery(first, Alias::new(PARTS));
    }
    select
}

#[cfg(test)]
mod tests {
    use super::*;

    use rpcgate_core::caller::{KeyId, ProjectId};

    const TENANT: TenantId = TenantId(7);
    const CALLS: Dimensions = Dimensions { project: false, key: false, call: true };
    const KEYS: Dimensions = Dimensions { project: false, key: true, call: false };

    fn found(
        summed: &Summed,
        hours: Range<u64>,
        dimensions: Dimensions,
        by_hour: bool,
    ) -> Vec<(i16, Vec<u64>)> {
        let all = Source::all(summed, TENANT, &hours, dimensions, by_hour);
        all.into_iter().map(|source| (source.level.map_or(0, |level| level.code), source.hours)).collect()
    }

    fn list(hours: Range<u64>) -> Vec<u64> {
        hours.collect()
    }

    #[test]
    fn whole_days_come_from_sums_of_days_and_edges_from_hours() {
        let summed = Summed::at(100, TenantId(0), 0);
        assert_eq!(
            found(&summed, 30..90, CALLS, false),
            [(3, [list(30..48), list(72..90)].concat()), (4, vec![48])]
        );
        assert_eq!(found(&summed, 24..96, CALLS, false), [(4, vec![24, 48, 72])]);
        assert_eq!(found(&summed, 24..96, CALLS, true), [(3, list(24..96))]);
        assert_eq!(found(&summed, 24..90, KEYS, false), [(0, list(72..90)), (5, vec![24, 48])]);
        assert_eq!(found(&summed, 24..48, Dimensions::default(), false), [(2, vec![24])]);
        assert_eq!(found(&summed, 24..25, Dimensions::default(), false), [(1, vec![24])]);
    }

    #[test]
    fn hours_that_are_not_summed_come_from_rollups() {
        let nothing = Summed::default();
        assert_eq!(found(&nothing, 0..30, CALLS, false), [(0, list(0..30))]);
        // The day that is being summed counts as whole if the window contains its summed part.
        let summed = Summed::at(30, TenantId(0), 0);
        assert_eq!(found(&summed, 24..36, CALLS, false), [(0, list(30..36)), (4, vec![24])]);
        assert_eq!(found(&summed, 24..29, CALLS, false), [(3, list(24..29))]);
        assert_eq!(found(&summed, 25..36, CALLS, false), [(0, list(30..36)), (3, list(25..30))]);
        // In the hour that is being summed, some tenants are finished.
        for (tenant, is_summed) in [(7, false), (8, true)] {
            let summed = Summed::at(30, TenantId(tenant), 0);
            let last = if is_summed { (3, vec![30]) } else { (0, vec![30]) };
            assert_eq!(found(&summed, 30..31, CALLS, false), [last], "{tenant}");
        }
    }

    // Shows (Usage).
    #[test]
    fn a_day_with_an_hour_that_is_summed_in_part_is_read_by_the_hour() {
        let partial = Summed::at(30, TENANT, 0).within(ProjectId(1), KeyId(0));
        assert_eq!(found(&partial, 24..36, CALLS, false), [(0, list(30..36)), (3, list(24..30))]);
        assert_eq!(found(&partial, 0..36, KEYS, false), [(0, list(24..36)), (5, vec![0])]);
        let another = Summed::at(30, TenantId(6), 0).within(ProjectId(1), KeyId(0));
        assert_eq!(found(&another, 24..36, CALLS, false), [(0, list(30..36)), (4, vec![24])]);
    }

    #[test]
    fn a_day_that_retention_has_begun_is_read_by_the_hour() {
        let summed = Summed::at(100, TenantId(0), 30);
        let expected = [(0, list(24..30)), (3, list(30..48)), (4, vec![48])];
        assert_eq!(found(&summed, 24..72, CALLS, false), expected);
        assert_eq!(found(&Summed::at(100, TenantId(0), 48), 48..72, CALLS, false), [(4, vec![48])]);
    }
}
