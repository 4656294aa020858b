//! What clients got in a world, and what must be true of it.

use rpcgate_core::backend::usage_sink::OwnedRecord;
use rpcgate_core::caller::{ProjectId, RequestId};
use std::collections::{BTreeMap, HashMap};

/// Broken promises of a world that are told.
const TOLD: usize = 5;

/// Sums and findings.
#[derive(Debug, Default)]
pub(crate) struct SimulationReport {
    /// The units that answers said they cost.
    charged: HashMap<RequestId, u64>,
    /// Requests that were not refused with 429, by key and minute of their arrival.
    by_minute: BTreeMap<(String, u64), u64>,
    pub(crate) broken: Vec<String>,
    pub(crate) limited: u64,
    pub(crate) over_quota: u64,
    pub(crate) hits: u64,
    pub(crate) left: u64,
    pub(crate) reorganisations: u64,
    /// Recorded requests whose client has no answer.
    pub(crate) in_flight: u64,
}

impl SimulationReport {
    pub(crate) fn broken(&mut self, what: String) {
        if self.broken.len() < TOLD {
            self.broken.push(what);
        }
    }

    pub(crate) fn admitted(&mut self, key: &str, minute: u64) {
        *self.by_minute.entry((key.to_owned(), minute)).or_default() += 1;
    }

    pub(crate) fn answered(&mut self, id: RequestId, units: u64) {
        if self.charged.insert(id, units).is_some() {
            self.broken(format!("an identifier was given twice: {id}"));
        }
    }

    pub(crate) fn answers(&self) -> usize {
        self.charged.len()
    }

    /// No key made more requests than its plan admits. `minutes` are those that the wall clock has shown, each time that it
    /// came to one; where it never jumped, each minute is checked alone.
    pub(crate) fn check_windows(&mut self, limits: &BTreeMap<String, u64>, minutes: u64, jumped: bool) {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        let mut found = Vec::new();
        for ((key, minute), count) in &self.by_minute {
            *sums.entry(key).or_default() += count;
            if !jumped && *count > limits[key] {
                found.push(format!("{key}: {count} requests of {} in the minute {minute}", limits[key]));
            }
        }
        for (key, sum) in sums {
            if sum > limits[key] * minutes {
                found.push(format!("{key}: {sum} requests of {} in {minutes} minutes", limits[key]));
            }
        }
        found.into_iter().for_each(|what| self.broken(what));
    }

    /// Every answered request is recorded once, with the units that its answer said, and no project is beyond its ceiling by
    /// more than one call of the heaviest method.
    pub(crate) fn check_records(
        &mut self,
        events: &[OwnedRecord],
        ceilings: &BTreeMap<ProjectId, u64>,
        heaviest: u64,
    ) {
        let mut recorded: HashMap<RequestId, u64> = HashMap::new();
        let mut used: BTreeMap<ProjectId, u64> = BTreeMap::new();
        for event in events {
            let units: u64 = event.lines.iter().map(|line| u64::from(line.cu)).sum();
            *used.entry(event.project).or_default() += units;
            if recorded.insert(event.request, units).is_some() {
                self.broken(format!("billed twice: {}", event.request));
            }
        }
        let mut found = Vec::new();
        for (id, units) in &self.charged {
            match recorded.remove(id) {
                Some(billed) if billed == *units => {}
                None if *units == 0 => {}
                billed => {
                    found.push(format!("{id} was answered with {units} units, and is billed {billed:?}"));
                }
            }
        }
        self.in_flight = recorded.len() as u64;
        for (project, units) in used {
            if units >= ceilings[&project] + heaviest {
                found.push(format!("{project:?} used {units} units of {}", ceilings[&project]));
            }
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

    fn found(ids: &[u128], answered: &[(u128, u64)], ceiling: u64) -> Vec<String> {
        let mut report = SimulationReport::default();
        for (id, units) in answered {
            report.answered(RequestId(*id), *units);
        }
        report.check_records(&events(ids), &[(ProjectId(1), ceiling)].into(), 15);
        report.broken
    }

    #[test]
    fn a_record_that_is_missing_double_or_different_is_found() {
        assert!(found(&[1, 2], &[(1, 15), (3, 0)], 30).is_empty());
        assert_eq!(found(&[1, 1], &[(1, 15)], 30).len(), 1);
        assert_eq!(found(&[1], &[(1, 15), (2, 15)], 30).len(), 1);
        assert_eq!(found(&[1], &[(1, 14)], 30).len(), 1);
        assert_eq!(found(&[], &[(1, 15), (1, 15)], 30).len(), 2);
    }

    #[test]
    fn a_ceiling_may_be_overrun_by_less_than_one_call() {
        assert!(found(&[1, 2, 3], &[], 31).is_empty());
        assert_eq!(found(&[1, 2, 3], &[], 30).len(), 1);
    }

    #[test]
    fn a_request_beyond_a_window_is_found_also_where_the_clock_jumps() {
        let limits = [("a".to_owned(), 2)].into();
        let checked = |counts: &[(u64, u64)], jumped| {
            let mut report = SimulationReport::default();
            for (minute, count) in counts {
                (0..*count).for_each(|_| report.admitted("a", *minute));
            }
            report.check_windows(&limits, 2, jumped);
            report.broken.len()
        };
        assert_eq!(checked(&[(1, 2), (2, 2)], false), 0);
        assert_eq!(checked(&[(1, 3)], false), 1);
        assert_eq!(checked(&[(1, 3)], true), 0);
        assert_eq!(checked(&[(1, 3), (2, 2)], true), 1);
    }
}
