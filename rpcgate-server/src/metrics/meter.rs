//! Calls, counted where their records go: each shard that takes records has a meter behind the lock that it takes
//! anyway, and a page adds the meters up.
//!
//! The number of labels is bounded. Methods in a chain's table have labels of their own; so do, up to a number, others
//! that a node has answered. All other names that callers make up are `(other)`.

use foldhash::fast::RandomState;
use rpcgate_core::adapter::{Adapter, method_table};
use rpcgate_core::backend::usage_sink::{Line, Outcome, Phase, Record};
use rpcgate_core::chain::ChainName;
use rpcgate_core::secret::shown;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Methods of a chain that have labels of their own beside those in its table.
pub(crate) const UNLISTED: usize = 64;
/// The longest name in bytes of a method that gets a label without being in a table.
const LONGEST: usize = 64;
/// The label of all other methods.
pub(crate) const OTHER: &str = "(other)";
/// The name that records have for a call whose method could not be read.
const UNREAD: &str = "-";

/// Upper bounds of the buckets of durations, in microseconds.
pub(crate) const BOUNDS: [u64; 13] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000,
    30_000_000,
];

/// The outcome of a call as a label.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Answered,
    Cached,
    NodeError,
    Refused,
    Failed,
    Abandoned,
}

impl Kind {
    const ALL: [Kind; 6] =
        [Kind::Answered, Kind::Cached, Kind::NodeError, Kind::Refused, Kind::Failed, Kind::Abandoned];

    const fn of(line: &Line<'_>) -> Self {
        match line.outcome {
            Outcome::Answered if line.cached => Kind::Cached,
            Outcome::Answered => Kind::Answered,
            Outcome::NodeError => Kind::NodeError,
            Outcome::Refused => Kind::Refused,
            Outcome::Failed => Kind::Failed,
            Outcome::Abandoned => Kind::Abandoned,
        }
    }

    /// Its name as a label.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Answered => "answered",
            Kind::Cached => "cached",
            Kind::NodeError => "node_error",
            Kind::Refused => "refused",
            Kind::Failed => "failed",
            Kind::Abandoned => "abandoned",
        }
    }
}

/// The methods that have labels of their own from the start.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<ChainName, HashSet<&'static str>>);

impl Names {
    /// The methods in the tables of these chains.
    pub(crate) fn of(chains: impl Iterator<Item = Arc<dyn Adapter>>) -> Self {
        let names = |adapter: &dyn Adapter| {
            method_table(adapter).into_iter().map(|method| method.metered).chain([UNREAD]).collect()
        };
        Names(chains.map(|adapter| (adapter.facts().name, names(&*adapter))).collect())
    }

    fn has(&self, chain: ChainName, method: &[u8]) -> bool {
        let listed = |name| self.0.get(&chain).is_some_and(|names| names.contains(name));
        std::str::from_utf8(method).is_ok_and(listed)
    }
}

/// The calls of one chain, method and outcome.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) calls: u64,
    /// The sum of their durations.
    pub(crate) micros: u64,
    /// How many took longer than the previous bound and no longer than this one; the last are longer than all bounds.
    pub(crate) took: [u64; BOUNDS.len() + 1],
}

impl Cell {
    fn count(&mut self, calls: u64, micros: u64) {
        self.calls += calls;
        self.micros = self.micros.saturating_add(micros.saturating_mul(calls));
        self.took[BOUNDS.partition_point(|bound| *bound < micros)] += calls;
    }

    fn add(&mut self, other: &Cell) {
        self.calls += other.calls;
        self.micros = self.micros.saturating_add(other.micros);
        for (sum, more) in self.took.iter_mut().zip(other.took) {
            *sum += more;
        }
    }
}

/// The sums of a chain's calls over all outcomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traffic {
    /// Requests counted in the plan windows.
    pub(crate) windowed: u64,
    /// Compute Units charged.
    pub(crate) units: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

impl Traffic {
    fn add(&mut self, other: &Traffic) {
        self.windowed += other.windowed;
        self.units += other.units;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }
}

/// Counts the calls of one shard. It counts nothing before [`start`](Meter::start).
#[derive(Debug, Default)]
pub(crate) struct Meter {
    names: Option<Arc<Names>>,
    chains: HashMap<ChainName, Row, RandomState>,
}

#[derive(Debug, Default)]
struct Row {
    places: HashMap<Box<[u8]>, usize, RandomState>,
    methods: Vec<[Option<Box<Cell>>; Kind::ALL.len()]>,
    unlisted: usize,
    refused: BTreeMap<u16, u64>,
    traffic: Traffic,
}

impl Meter {
    /// Starts counting.
    pub(crate) fn start(&mut self, names: Arc<Names>) {
        self.names = Some(names);
    }

    /// Counts the calls of a record.
    pub(crate) fn count(&mut self, record: &Record<'_>) {
        let Some(names) = &self.names else { return };
        // The begin, push and end records of a stream are not calls.
        if record.phase != Phase::Whole {
            return;
        }
        let row = self.chains.entry(record.chain).or_default();
        row.traffic.windowed += u64::from(record.windowed);
        let micros = u64::try_from(record.latency.as_micros()).unwrap_or(u64::MAX);
        for line in record.lines {
            let (kind, calls) = (Kind::of(line), u64::from(line.calls));
            let place = match row.places.get(line.method) {
                Some(place) => *place,
                None => row.place(line, names.has(record.chain, line.method)),
            };
            row.methods[place][kind as usize].get_or_insert_default().count(calls, micros);
            if kind == Kind::Refused {
                *row.refused.entry(line.status).or_default() += calls;
            }
            row.traffic.units += u64::from(line.cu);
            row.traffic.bytes_in += u64::from(line.bytes_in);
            row.traffic.bytes_out += u64::from(line.bytes_out);
        }
    }

    /// Adds all that was counted to `sums`.
    pub(crate) fn add_to(&self, sums: &mut Sums) {
        for (chain, row) in &self.chains {
            sums.traffic.entry(*chain).or_default().add(&row.traffic);
            for (status, calls) in &row.refused {
                *sums.refused.entry((*chain, *status)).or_default() += calls;
            }
            for (method, place) in &row.places {
                let method = String::from_utf8_lossy(method);
                for (kind, cell) in Kind::ALL.into_iter().zip(&row.methods[*place]) {
                    if let Some(cell) = cell {
                        let key = (*chain, method.clone().into_owned(), kind);
                        sums.calls.entry(key).or_default().add(cell);
                    }
                }
            }
        }
    }
}

impl Row {
    /// The place of a method that was not counted here before.
    fn place(&mut self, line: &Line<'_>, is_listed: bool) -> usize {
        let is_real = line.outcome == Outcome::Answered
            && line.method.len() <= LONGEST
            && line.method.iter().all(u8::is_ascii_graphic)
            // A caller may have pasted a key in place of a method.
            && std::str::from_utf8(line.method).is_ok_and(|name| shown(name).is_empty());
        let name = if is_listed {
            line.method
        } else if is_real && self.unlisted < UNLISTED {
            self.unlisted += 1;
            line.method
        } else {
            OTHER.as_bytes()
        };
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.methods.len();
        self.methods.push(Default::default());
        self.places.insert(name.into(), place);
        place
    }
}

/// The sums of several meters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sums {
    /// By chain, method and outcome.
    pub(crate) calls: BTreeMap<(ChainName, String, Kind), Cell>,
    /// Refused calls by chain and the HTTP status that each would have had alone.
    pub(crate) refused: BTreeMap<(ChainName, u16), u64>,
    pub(crate) traffic: BTreeMap<ChainName, Traffic>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::suite::record;
    use rpcgate_core::toy::Toy;
    use std::time::Duration;

    fn meter() -> Meter {
        let mut meter = Meter::default();
        meter.start(Arc::new(Names::of([Arc::new(Toy) as Arc<dyn Adapter>].into_iter())));
        meter
    }

    fn line(method: &[u8], outcome: Outcome) -> Line<'_> {
        Line { method, cu: 3, status: 200, outcome, cached: false, calls: 1, bytes_in: 10, bytes_out: 20 }
    }

    fn sums<'m>(meters: impl IntoIterator<Item = &'m Meter>) -> Sums {
        let mut sums = Sums::default();
        meters.into_iter().for_each(|meter| meter.add_to(&mut sums));
        sums
    }

    fn names(sums: &Sums) -> Vec<(&str, Kind, u64)> {
        sums.calls.iter().map(|((_, method, kind), cell)| (method.as_str(), *kind, cell.calls)).collect()
    }

    #[test]
    fn calls_are_counted_by_method_and_outcome() {
        let mut meter = meter();
        let cached = Line { cached: true, ..line(b"toy_read", Outcome::Answered) };
        let refused = Line { status: 429, calls: 3, cu: 0, ..line(b"toy_read", Outcome::Refused) };
        let lines = [line(b"toy_read", Outcome::Answered), cached, refused, line(b"-", Outcome::Refused)];
        meter.count(&record(1, &lines));
        meter.count(&record(2, &[line(b"toy_id", Outcome::Failed)]));
        meter.count(&record(3, &[line(b"toy_id", Outcome::NodeError), line(b"toy_id", Outcome::Abandoned)]));
        let sums = sums([&meter]);
        assert_eq!(
            names(&sums),
            [
                ("-", Kind::Refused, 1),
                ("toy_id", Kind::NodeError, 1),
                ("toy_id", Kind::Failed, 1),
                ("toy_id", Kind::Abandoned, 1),
                ("toy_read", Kind::Answered, 1),
                ("toy_read", Kind::Cached, 1),
                ("toy_read", Kind::Refused, 3),
            ]
        );
        let toy = ChainName::new("toy");
        assert_eq!(sums.refused, [((toy, 200), 1), ((toy, 429), 3)].into());
        assert_eq!(sums.traffic[&toy], Traffic { windowed: 3, units: 18, bytes_in: 70, bytes_out: 140 });
    }

    #[test]
    fn invented_methods_have_no_label_and_answered_methods_have_one_up_to_a_limit() {
        let mut meter = meter();
        for n in 0..1_000 {
            let made_up = format!("made_up_{n}");
            for outcome in [Outcome::NodeError, Outcome::Refused, Outcome::Failed] {
                meter.count(&record(n, &[line(made_up.as_bytes(), outcome)]));
            }
        }
        assert!(sums([&meter]).calls.keys().all(|(_, method, _)| method == OTHER));
        for name in ["with space", "quo\u{e9}", &format!("rpcg_{}", "x".repeat(45)), &"x".repeat(LONGEST + 1)]
        {
            meter.count(&record(1, &[line(name.as_bytes(), Outcome::Answered)]));
        }
        assert!(sums([&meter]).calls.keys().all(|(_, method, _)| method == OTHER));
        for n in 0..1_000 {
            meter.count(&record(n, &[line(format!("real_{n}").as_bytes(), Outcome::Answered)]));
        }
        meter.count(&record(9, &[line(b"toy_read", Outcome::Answered)]));
        let sums = sums([&meter]);
        let named: HashSet<_> = sums.calls.keys().map(|(_, method, _)| method.as_str()).collect();
        assert_eq!(named.len(), UNLISTED + 2, "those, the rest, and one that is listed");
        assert!(named.contains("toy_read") && named.contains("real_0") && !named.contains("real_999"));
        assert_eq!(sums.calls.values().map(|cell| cell.calls).sum::<u64>(), 4_005, "and no call is left out");
    }

    #[test]
    fn a_duration_falls_below_the_first_bound_that_is_not_less() {
        let mut meter = meter();
        for micros in [0, 500, 501, 30_000_000, 30_000_001] {
            let latency = Duration::from_micros(micros);
            meter.count(&Record { latency, ..record(1, &[line(b"toy_read", Outcome::Answered)]) });
        }
        let sums = sums([&meter]);
        let cell = sums.calls.values().next().unwrap();
        let expected = [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
        assert_eq!((cell.took, cell.micros), (expected, 60_001_002));
    }

    #[test]
    fn meters_add_up_and_one_that_was_not_started_counts_nothing() {
        let (mut a, mut b, mut c) = (meter(), meter(), Meter::default());
        let lines = [line(b"toy_read", Outcome::Answered)];
        for meter in [&mut a, &mut b, &mut c] {
            meter.count(&record(1, &lines));
        }
        b.count(&record(2, &lines));
        assert_eq!(names(&sums([&a, &b, &c])), [("toy_read", Kind::Answered, 3)]);
        b.count(&Record { phase: Phase::End, ..record(1, &lines) });
        assert_eq!(names(&sums([&b])), [("toy_read", Kind::Answered, 2)], "the end of a stream is no call");
    }
}
