//! The hours in which a project's quota is used up, from its units by hour.

use super::{BeforeAfter, HOURS_OF_DAY};
use rpcgate_core::caller::TenantId;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The maximum number of projects whose hours are read.
pub(super) const MAX_FOLLOWED: usize = 200;

/// The units of a project by the number of the UTC day.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ProjectDays {
    pub(super) tenant: TenantId,
    pub(super) units: BTreeMap<u64, BeforeAfter<u64>>,
}

impl ProjectDays {
    pub(super) const fn of(tenant: TenantId) -> Self {
        ProjectDays { tenant, units: BTreeMap::new() }
    }

    /// Returns the maximum units of any 24 hours, which span at most two days. The day before the first is unknown and
    /// counts like the first.
    pub(super) fn most(&self) -> u64 {
        let larger = |units: &BeforeAfter<u64>| units.before.max(units.after);
        let two_days = self.units.iter().map(|(day, units)| {
            let before = day.checked_sub(1).and_then(|before| self.units.get(&before)).unwrap_or(units);
            larger(units).saturating_add(larger(before))
        });
        two_days.max().unwrap_or_default()
    }

    /// Reports whether the quota may be used up in other hours than before.
    pub(super) fn may_differ(&self, ceilings: &BeforeAfter<u64>) -> bool {
        let differs = ceilings.differs() || self.units.values().any(BeforeAfter::differs);
        differs && self.most() >= ceilings.before.min(ceilings.after)
    }
}

/// Returns the number of `hours` at whose end the units of 24 hours reach `ceiling`. `units` are the requested ones, in
/// the order of the hours. Units beyond the ceiling are refused and do not count. The call that crosses the ceiling is
/// served, but hourly sums do not show it, so an hour counts up to the ceiling.
pub(super) fn hours_used_up(
    units: impl Iterator<Item = (u64, u64)>,
    ceiling: u64,
    hours: &Range<u64>,
) -> u64 {
    let (mut served, mut used, mut used_up): (VecDeque<(u64, u64)>, u64, u64) = Default::default();
    let mut units = units.peekable();
    let Some(first) = units.peek().map(|(hour, _)| *hour) else { return 0 };
    for now in first..hours.end {
        while let Some((_, old)) = served.pop_front_if(|(hour, _)| *hour + HOURS_OF_DAY <= now) {
            used = used.saturating_sub(old);
        }
        if let Some((_, asked)) = units.next_if(|(hour, _)| *hour == now) {
            let granted = asked.min(ceiling.saturating_sub(used));
            used = used.saturating_add(granted);
            served.push_back((now, granted));
        }
        if used >= ceiling && hours.contains(&now) {
            used_up += 1;
        }
    }
    used_up
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_used_up_until_its_units_are_24_hours_old() {
        let hours =
            |units: &[(u64, u64)], ceiling| hours_used_up(units.iter().copied(), ceiling, &(100..200));
        assert_eq!(hours(&[], 10), 0);
        assert_eq!(hours(&[(110, 9)], 10), 0);
        assert_eq!(hours(&[(110, 10)], 10), 24);
        assert_eq!(hours(&[(110, 9), (120, 1)], 10), 14, "from 120 to 133");
        assert_eq!(hours(&[(110, 9), (120, 50), (134, 1)], 10), 14, "what is refused does not count later");
        assert_eq!(hours(&[(190, 10)], 10), 10, "the hours end");
        assert_eq!(hours(&[(90, 10)], 10), 14, "hours before the first do not count, but their units do");
    }

    #[test]
    fn a_project_that_stays_below_its_quota_is_not_followed() {
        let days = |units: &[(u64, u64, u64)]| ProjectDays {
            tenant: TenantId(1),
            units: units
                .iter()
                .map(|(day, before, after)| (*day, BeforeAfter { before: *before, after: *after }))
                .collect(),
        };
        let same = |ceiling| BeforeAfter { before: ceiling, after: ceiling };
        assert_eq!(days(&[(5, 10, 20), (6, 30, 10), (9, 20, 24)]).most(), 50);
        assert!(!days(&[(5, 10, 20), (6, 30, 10)]).may_differ(&same(51)));
        assert!(days(&[(5, 10, 20), (6, 30, 10)]).may_differ(&same(50)));
        assert!(!days(&[(5, 90, 90)]).may_differ(&same(50)), "nothing changes");
        assert!(days(&[(5, 90, 90)]).may_differ(&BeforeAfter { before: 50, after: 60 }));
        assert!(days(&[(5, 25, 20)]).may_differ(&same(50)), "the day before may have as much");
    }
}
