//! What a gateway reports for a comparison of counters with what is recorded: up to when all is recorded that it has
//! counted, and how many units of its reservations no call has used.

use super::Recording;
use super::link::{Broken, Link};
use super::units::Unused;
use redis::Pipeline;
use redis::aio::MultiplexedConnection;
use rpcgate_core::caller::ProjectId;
use std::collections::{HashMap, VecDeque};

/// Seconds that a report is kept.
const KEPT: u64 = 120;
/// Projects in one pipeline.
const CHUNK: usize = 200;
/// Moments that wait until all before them is recorded. While there are so many, no further one is noted.
const MOST_MOMENTS: usize = 128;

/// What was reported for one comparison.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Report {
    /// The comparison; empty: there was none.
    comparison: String,
    recorded: RecordedUpTo,
    unused: HashMap<(ProjectId, u64), MostUnused>,
}

/// Up to when all is recorded that was counted.
#[derive(Clone, PartialEq, Eq, Debug)]
struct RecordedUpTo {
    known: i64,
    /// A moment, and when all calls that had begun before it were found to be over.
    waiting: VecDeque<(i64, i64)>,
}

impl Default for RecordedUpTo {
    fn default() -> Self {
        RecordedUpTo { known: i64::MIN, waiting: VecDeque::new() }
    }
}

impl RecordedUpTo {
    /// At `now` all calls are over that began before `oldest`, and what was over `behind` ago is recorded.
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

/// The most units of a project and hour that can have been unused at any time since the report began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct MostUnused {
    /// What was unused at first, and what had ever become unused by then.
    first: Unused,
    reported: u64,
}

impl MostUnused {
    /// By how much it has grown since that was asked last.
    fn grow(&mut self, unused: Unused) -> u64 {
        let most = self.first.now.saturating_add(unused.ever.saturating_sub(self.first.ever));
        let by = most.saturating_sub(self.reported);
        self.reported += by;
        by
    }
}

impl Link {
    /// Reports to a comparison. Each time it is said anew how things stand.
    pub(super) async fn report(
        &mut self,
        connection: &mut MultiplexedConnection,
        comparison: &str,
        recording: &Recording,
    ) -> Result<(), Broken> {
        let is_first = self.report.comparison != comparison;
        if is_first {
            self.report = Report { comparison: comparison.to_owned(), ..Report::default() };
        }
        let now = self.shared.micros();
        let behind = i64::try_from(recording.behind.as_micros()).unwrap_or(i64::MAX);
        // First this, then what is unused: a call that is over has given back what it did not use.
        let known = self.report.recorded.look(self.shared.in_flight.advance(now), now, behind);
        let names = &self.shared.names;
        let unused_units = names.unused(comparison);
        let mut grown = Vec::new();
        for (project, hour, unused) in self.shared.unused() {
            let first = if is_first { unused } else { Unused::default() };
            let most = self.report.unused.entry((project, hour));
            let by = most.or_insert(MostUnused { first, reported: 0 }).grow(unused);
            if by > 0 {
                grown.push((project, hour, by));
            }
        }
        for chunk in grown.chunks(CHUNK) {
            let mut pipe = Pipeline::with_capacity(chunk.len() + 1);
            for (project, hour, by) in chunk {
                pipe.cmd("HINCRBY").arg(&unused_units).arg(format!("{:x}:{hour}", project.0)).arg(*by);
            }
            pipe.cmd("EXPIRE").arg(&unused_units).arg(KEPT);
            self.send(connection, &pipe).await?;
        }
        let mut pipe = Pipeline::with_capacity(2);
        let (reports, up_to) = (names.reports(comparison), self.shared.at_redis(known));
        pipe.cmd("HSET").arg(&reports).arg(self.gateway).arg(format!("{up_to} {}", recording.place));
        pipe.cmd("EXPIRE").arg(&reports).arg(KEPT);
        self.send(connection, &pipe).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_recorded_up_to_a_moment_once_its_calls_are_over_and_what_they_left_is_shipped() {
        let mut recorded = RecordedUpTo::default();
        assert_eq!(recorded.look(90, 100, 20), i64::MIN, "what was over at 100 is not known to be recorded");
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
    fn the_most_that_can_be_unused_never_falls_and_grows_by_what_becomes_unused() {
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
