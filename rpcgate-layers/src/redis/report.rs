//! The report of a gateway for a comparison of counters with the recorded usage: the time up to which all that it
//! counted is recorded, and the units of its reservations that no call has used.

use super::units::Unused;
use rpcgate_core::caller::ProjectId;
use std::collections::{HashMap, VecDeque};

/// The maximum number of moments that wait until everything before them is recorded. Beyond it no further one is added.
const MOST_MOMENTS: usize = 128;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Report {
    /// The name of the comparison; empty if none runs.
    comparison: String,
    recorded: RecordedUpTo,
    unused: HashMap<(ProjectId, u64), MostUnused>,
    has_grown: bool,
}

impl Report {
    pub(super) fn new(comparison: &str) -> Self {
        Report { comparison: comparison.to_owned(), ..Report::default() }
    }

    pub(super) fn is_for(&self, comparison: &str) -> bool {
        self.comparison == comparison
    }

    /// Returns the time up to which all that was counted is recorded. At `now` all calls that began before `oldest` are
    /// over, and calls that were over `behind` ago are recorded.
    pub(super) fn recorded_up_to(&mut self, oldest: i64, now: i64, behind: i64) -> i64 {
        self.recorded.look(oldest, now, behind)
    }

    /// Returns the units, by project and hour, that have become unused since the last call.
    pub(super) fn grow(
        &mut self,
        unused: impl IntoIterator<Item = (ProjectId, u64, Unused)>,
    ) -> Vec<(ProjectId, u64, u64)> {
        // At the first call, a project's currently unused units count. For a project that appears later, all units
        // count that have ever become unused.
        let is_first = !std::mem::replace(&mut self.has_grown, true);
        let mut grown = Vec::new();
        for (project, hour, unused) in unused {
            let first = if is_first { unused } else { Unused::default() };
            let most = self.unused.entry((project, hour));
            let by = most.or_insert(MostUnused { first, reported: 0 }).grow(unused);
            if by > 0 {
                grown.push((project, hour, by));
            }
        }
        grown
    }
}

/// The time up to which all that was counted is recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
struct RecordedUpTo {
    known: i64,
    /// Each moment with the time at which all calls that began before it were found to be over.
    waiting: VecDeque<(i64, i64)>,
}

impl Default for RecordedUpTo {
    fn default() -> Self {
        RecordedUpTo { known: i64::MIN, waiting: VecDeque::new() }
    }
}

impl RecordedUpTo {
    fn look(&mut self, oldest: i64, now: i64, behind: i64) -> i64 {
        if self.waiting.len() < MOST_MOMENTS {
            self.waiting.push_back((oldest, now));
        }
        while let Some((moment, over)) = self.waiting.front().copied()
            && over <= now.saturating_sub(behind)
        {
            self.known = self.known.max(moment);
            self.waiting.pop_front();
        }
        self.known
    }
}

/// The maximum number of units of a project and hour that can have been unused at any time since the report began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct MostUnused {
    /// The units that were unused at the start, and the units that had ever become unused by then.
    first: Unused,
    reported: u64,
}

impl MostUnused {
    fn grow(&mut self, unused: Unused) -> u64 {
        let most = self.first.now.saturating_add(unused.ever.saturating_sub(self.first.ever));
        let by = most.saturating_sub(self.reported);
        self.reported += by;
        by
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_before_a_moment_is_recorded_once_its_calls_are_over_and_shipped() {
        let mut recorded = RecordedUpTo::default();
        assert_eq!(
            recorded.look(90, 100, 20),
            i64::MIN,
            "calls that were over at 100 are not known to be recorded"
        );
        assert_eq!(recorded.look(95, 110, 20), i64::MIN);
        assert_eq!(recorded.look(95, 120, 20), 90);
        assert_eq!(recorded.look(95, 130, 40), 90, "shipping has fallen behind");
        assert_eq!(recorded.look(95, 140, i64::MAX), 90, "nothing is shipped any more");
        assert_eq!(recorded.look(140, 150, 0), 140);
        for now in 0..1_000 {
            recorded.look(150, now, i64::MAX);
        }
        assert!(recorded.waiting.len() <= MOST_MOMENTS);
    }

    #[test]
    fn the_bound_of_unused_units_never_falls_and_grows_with_units_that_become_unused() {
        let unused = |now, ever| Unused { now, ever };
        let mut most = MostUnused { first: unused(40, 100), reported: 0 };
        assert_eq!(most.grow(unused(40, 100)), 40);
        assert_eq!(most.grow(unused(5, 100)), 0, "35 were used, and may be recorded or not");
        assert_eq!(most.grow(unused(60, 155)), 55, "a slice came");
        assert_eq!(most.grow(unused(0, 155)), 0);
        assert_eq!(most.grow(unused(3, 3)), 0, "it began anew");
        assert_eq!(most.reported, 95);
    }
}
