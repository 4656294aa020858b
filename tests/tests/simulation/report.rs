//! The answers of clients in a world, and the rules for them.

use rpcgate_core::backend::usage_sink::OwnedRecord;
use rpcgate_core::caller::{ProjectId, RequestId};
use std::collections::{BTreeMap, HashMap};

/// The maximum number of broken promises of a world that are printed.
const TOLD: usize = 5;

/// The limits of a key. Each has its own project.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyLimits {
    pub(crate) project: ProjectId,
    pub(crate) per_minute: u64,
    pub(crate) units: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct KeyUse {
    /// Requests without an answer, and their maximum cost: their clients have left, or the process was killed.
    unanswered: u64,
    unanswered_units: u64,
    /// The maximum cost of all requests so far.
    asked_units: u64,
    /// The value of `asked_units` when a call was first refused for the quota.
    refused_at: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct SimulationReport {
    /// The units that answers reported.
    charged: HashMap<RequestId, u64>,
    /// All requests, and those that were not refused with 429, by key and minute of their arrival.
    made_by_minute: BTreeMap<(String, u64), u64>,
    by_minute: BTreeMap<(String, u64), u64>,
    /// Keys that were refused with 429, and the minute.
    refused: Vec<(String, u64)>,
    uses: BTreeMap<String, KeyUse>,
    pub(crate) broken: Vec<String>,
    /// Calls that nodes answered, and those that none did.
    pub(crate) served: u64,
    pub(crate) failed: u64,
    /// Calls refused because no node had reached the client's height, and answers that contain the height of their
    /// nodes.
    pub(crate) not_reached: u64,
    pub(crate) consistent: u64,
    pub(crate) hits: u64,
    pub(crate) left: u64,
    pub(crate) reorganisations: u64,
    pub(crate) in_flight: u64,
    /// Arrivals at nodes (`crate::arrivals`), and the calls that were sent with those of other clients.
    pub(crate) repeats: u64,
    pub(crate) hedges: u64,
    pub(crate) trials: u64,
    pub(crate) writes: u64,
    pub(crate) gathered: u64,
}

impl SimulationReport {
    pub(crate) fn broken(&mut self, what: String) {
        if self.broken.len() < TOLD {
            self.broken.push(what);
        }
    }

    /// Adds a request that costs at most `units`.
    pub(crate) fn begin(&mut self, key: &str, minute: u64, units: u64) {
        *self.made_by_minute.entry((key.to_owned(), minute)).or_default() += 1;
        let known = self.uses.entry(key.to_owned()).or_default();
        known.unanswered += 1;
        known.unanswered_units += units;
        known.asked_units += units;
    }

    /// Removes a request that has an answer of any kind.
    pub(crate) fn end(&mut self, key: &str, units: u64) {
        let known = self.uses.entry(key.to_owned()).or_default();
        known.unanswered = known.unanswered.saturating_sub(1);
        known.unanswered_units = known.unanswered_units.saturating_sub(units);
    }

    pub(crate) fn admitted(&mut self, key: &str, minute: u64) {
        *self.by_minute.entry((key.to_owned(), minute)).or_default() += 1;
    }

    pub(crate) fn limited(&mut self, key: &str, minute: u64) {
        self.refused.push((key.to_owned(), minute));
    }

    pub(crate) fn over_quota(&mut self, key: &str) {
        let known = self.uses.entry(key.to_owned()).or_default();
        known.refused_at.get_or_insert(known.asked_units);
    }

    pub(crate) fn answered(&mut self, id: RequestId, units: u64) {
        if self.charged.insert(id, units).is_some() {
            self.broken(format!("an identifier was given twice: {id}"));
        }
    }

    /// Returns the number of events of each kind that worlds are about.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 17] {
        let over_quota = self.uses.values().filter(|known| known.refused_at.is_some()).count();
        [
            ("answers", self.charged.len() as u64),
            ("served calls", self.served),
            ("failed calls", self.failed),
            ("cache hits", self.hits),
            ("refused by windows", self.refused.len() as u64),
            ("keys over their quota", over_quota as u64),
            ("height not reached", self.not_reached),
            ("heads", self.consistent),
            ("clients left", self.left),
            ("reorganisations", self.reorganisations),
            ("records in flight", self.in_flight),
            ("repeats", self.repeats),
            ("hedges", self.hedges),
            ("trials", self.trials),
            ("transactions", self.writes),
            ("gathered calls", self.gathered),
            ("requests without an answer", self.uses.values().map(|known| known.unanswered).sum()),
        ]
    }

    /// Checks that no key made more requests than its plan admits, and that none was refused before that. `minutes` are
    /// the minutes of the wall clock, counted each time that it entered one; if it never jumped, each minute is checked
    /// alone.
    pub(crate) fn check_windows(&mut self, limits: &BTreeMap<String, KeyLimits>, minutes: u64, jumped: bool) {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        let mut found = Vec::new();
        for ((key, minute), count) in &self.by_minute {
            *sums.entry(key).or_default() += count;
            let most = limits[key].per_minute;
            if !jumped && *count > most {
                found.push(format!("{key}: {count} requests of {most} in the minute {minute}"));
            }
        }
        for (key, sum) in sums {
            let most = limits[key].per_minute * minutes;
            if sum > most {
                found.push(format!("{key}: {sum} requests of {most} in {minutes} minutes"));
            }
        }
        for refused in self.refused.iter().filter(|_| !jumped) {
            let made = self.made_by_minute.get(refused).copied().unwrap_or_default();
            if made <= limits[&refused.0].per_minute {
                found.push(format!("{refused:?}: refused, though only {made} requests were made"));
            }
        }
        found.into_iter().for_each(|what| self.broken(what));
    }

    /// Checks that every answered request is recorded once, with the units of its answer; that all other records are
    /// requests of clients without an answer; that no project exceeds its ceiling by more than one call of the heaviest
    /// method; and that none was refused before it could have reached it.
    pub(crate) fn check_records(
        &mut self,
        events: &[OwnedRecord],
        limits: &BTreeMap<String, KeyLimits>,
        heaviest: u64,
    ) {
        let mut recorded: HashMap<RequestId, (ProjectId, u64)> = HashMap::new();
        let mut used: BTreeMap<ProjectId, u64> = BTreeMap::new();
        for event in events {
            let units: u64 = event.lines.iter().map(|line| u64::from(line.cu)).sum();
            *used.entry(event.project).or_default() += units;
            if recorded.insert(event.request, (event.project, units)).is_some() {
                self.broken(format!("billed twice: {}", event.request));
            }
        }
        let mut found = Vec::new();
        for (id, units) in &self.charged {
            match recorded.remove(id) {
                Some((_, billed)) if billed == *units => {}
                None if *units == 0 => {}
                billed => {
                    found.push(format!("{id} was answered with {units} units, and is billed {billed:?}"));
                }
            }
        }
        let mut unasked: BTreeMap<ProjectId, (u64, u64)> = BTreeMap::new();
        for (project, units) in recorded.values().filter(|(_, units)| *units > 0) {
            let sum = unasked.entry(*project).or_default();
            *sum = (sum.0 + 1, sum.1 + units);
            self.in_flight += 1;
        }
        for (key, KeyLimits { project, units: most, .. }) in limits {
            let known = self.uses.get(key).copied().unwrap_or_default();
            let (count, units) = unasked.remove(project).unwrap_or_default();
            if count > known.unanswered || units > known.unanswered_units {
                found.push(format!(
                    "{key}: {count} requests with {units} units that no client has made: {known:?}"
                ));
            }
            let used = used.remove(project).unwrap_or_default();
            if used >= most + heaviest {
                found.push(format!("{key} used {used} units of {most}"));
            }
            if known.refused_at.is_some_and(|asked| asked < *most) {
                found.push(format!("{key} was refused before it could use {most} units: {known:?}"));
            }
        }
        if !used.is_empty() {
            found.push(format!("billed to projects that there are not: {used:?}"));
        }
        found.sort();
        found.into_iter().for_each(|what| self.broken(what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::suite;
    use rpcgate_core::backend::usage_sink::{Line, MemoryUsageSink, Outcome, UsageSink};

    const LINE: Line<'_> = Line {
        method: b"eth_call",
        cu: 15,
        status: 200,
        outcome: Outcome::Answered,
        cached: false,
        calls: 1,
        bytes_in: 1,
        bytes_out: 1,
    };

    fn events(ids: &[u128]) -> Vec<OwnedRecord> {
        let sink = MemoryUsageSink::default();
        for id in ids {
            let lines = [LINE];
            let mut record = suite::record(*id, &lines);
            (record.request, record.project) = (RequestId(*id), ProjectId(1));
            sink.append(&record);
        }
        sink.records()
    }

    fn limits(per_minute: u64, units: u64) -> BTreeMap<String, KeyLimits> {
        [("a".to_owned(), KeyLimits { project: ProjectId(1), per_minute, units })].into()
    }

    /// Returns the findings if `ids` are recorded, each with 15 units, `answered` were answered with these units, and
    /// `unanswered` more requests were made.
    fn found(ids: &[u128], answered: &[(u128, u64)], unanswered: u64, ceiling: u64) -> Vec<String> {
        let mut report = SimulationReport::default();
        for (id, units) in answered {
            report.answered(RequestId(*id), *units);
        }
        (0..unanswered).for_each(|_| report.begin("a", 1, 15));
        report.check_records(&events(ids), &limits(9, ceiling), 15);
        report.broken
    }

    // Shows (Reliability).
    #[test]
    fn a_record_that_is_missing_double_or_different_is_found() {
        assert!(found(&[1, 2], &[(1, 15), (3, 0)], 1, 30).is_empty());
        assert_eq!(found(&[1, 1], &[(1, 15)], 0, 30).len(), 1);
        assert_eq!(found(&[1], &[(1, 15), (2, 15)], 0, 30).len(), 1);
        assert_eq!(found(&[1], &[(1, 14)], 0, 30).len(), 1);
        assert_eq!(found(&[], &[(1, 15), (1, 15)], 0, 30).len(), 2);
    }

    // Shows (Reliability).
    #[test]
    fn a_record_without_a_client_call_or_with_wrong_units_or_project_is_found() {
        assert_eq!(found(&[1, 2], &[(1, 15)], 0, 30).len(), 1);
        assert_eq!(found(&[1, 2, 3], &[(1, 15)], 2, 90).len(), 0);
        let mut report = SimulationReport::default();
        report.begin("a", 1, 14);
        report.check_records(&events(&[1]), &limits(9, 90), 15);
        assert_eq!((report.broken.len(), report.in_flight), (1, 1), "it was asked for 14 units");
        let mut report = SimulationReport::default();
        report.begin("a", 1, 15);
        report.end("a", 15);
        report.check_records(&events(&[1]), &limits(9, 90), 15);
        assert_eq!(report.broken.len(), 1, "its client has an answer");
        let mut report = SimulationReport::default();
        report.check_records(&events(&[1]), &BTreeMap::new(), 15);
        assert_eq!(report.broken.len(), 1, "nobody has this project");
    }

    // Shows (Reliability).
    #[test]
    fn a_ceiling_may_be_overrun_by_less_than_one_call() {
        assert!(found(&[1, 2, 3], &[], 3, 31).is_empty());
        assert_eq!(found(&[1, 2, 3], &[], 3, 30).len(), 1);
    }

    // Shows (Reliability).
    #[test]
    fn a_refusal_for_a_quota_that_cannot_be_used_up_is_found() {
        let refused = |asked| {
            let mut report = SimulationReport::default();
            report.begin("a", 1, asked);
            report.over_quota("a");
            report.begin("a", 1, 100);
            report.check_records(&[], &limits(9, 30), 15);
            report.broken.len()
        };
        assert_eq!((refused(30), refused(29)), (0, 1));
    }

    // Shows (Reliability).
    #[test]
    fn a_refusal_by_a_window_that_is_not_full_is_found_unless_the_clock_jumps() {
        let refused = |made, jumped| {
            let mut report = SimulationReport::default();
            (0..made).for_each(|_| report.begin("a", 1, 1));
            report.limited("a", 1);
            report.check_windows(&limits(2, 30), 2, jumped);
            report.broken.len()
        };
        assert_eq!((refused(3, false), refused(2, false), refused(2, true)), (0, 1, 0));
    }

    // Shows (Reliability).
    #[test]
    fn a_request_beyond_a_window_is_found_also_where_the_clock_jumps() {
        let checked = |counts: &[(u64, u64)], jumped| {
            let mut report = SimulationReport::default();
            for (minute, count) in counts {
                (0..*count).for_each(|_| report.admitted("a", *minute));
            }
            report.check_windows(&limits(2, 30), 2, jumped);
            report.broken.len()
        };
        assert_eq!(checked(&[(1, 2), (2, 2)], false), 0);
        assert_eq!(checked(&[(1, 3)], false), 1);
        assert_eq!(checked(&[(1, 3)], true), 0);
        assert_eq!(checked(&[(1, 3), (2, 2)], true), 1);
    }
}
