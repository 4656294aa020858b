//! Meters that count calls. Each shard of records has a meter under the lock that it takes anyway, and a page adds the
//! meters up.
//!
//! The record with the outcome of a call counts the call, and the record that charges its Compute Units counts those. A
//! stream is not a call; its parts are counted as usage counts them:
//!
//! | record | adds |
//! |---|---|
//! | of calls, also of those in a message of a stream | calls by outcome, with duration, Compute Units and bytes |
//! | begin of a long gRPC call | Compute Units |
//! | end of a long gRPC call | the call by outcome, with duration, and the bytes of all of it |
//! | begin of a WebSocket stream | a connection, or a refused handshake; bytes |
//! | pushes of a WebSocket stream | messages, bytes |
//! | end of a WebSocket stream | nothing: its totals were counted part by part |
//!
//! Any record may add requests that the plan windows counted.
//!
//! The number of labels is bounded. Methods in a chain's table have their own labels, and so have at most [`UNLISTED`]
//! others that a node has answered. All other names are `(other)`, because callers can invent them.

use foldhash::fast::RandomState;
use rpcgate_core::adapter::{Adapter, method_table};
use rpcgate_core::backend::usage_sink::{Line, Outcome, Phase, Record};
use rpcgate_core::chain::ChainName;
use rpcgate_core::secret::shown;
use rpcgate_core::tally::Transport;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The maximum number of labelled methods per chain in addition to those in its table.
pub(crate) const UNLISTED: usize = 64;
/// The maximum length, in bytes, of a labelled method that is not in a table.
const LONGEST: usize = 64;
/// The label of all other methods.
pub(crate) const OTHER: &str = "(other)";
/// The recorded name of a call whose method could not be read.
const UNREAD: &str = "-";

/// The upper bounds of the duration buckets, in microseconds.
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
    pub(crate) const ALL: [Kind; 6] =
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

/// The methods that have their own labels from the start.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<ChainName, HashSet<&'static str>>);

impl Names {
    /// Collects the methods in the tables of these chains.
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
    /// The sum of the durations, in microseconds.
    pub(crate) micros: u64,
    /// The calls per duration bucket. The last bucket has no upper bound.
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
    pub(crate) units: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) streams: StreamTraffic,
}

/// The counts of a chain's WebSocket streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct StreamTraffic {
    pub(crate) connections: u64,
    /// Handshakes that were refused or that no node answered.
    pub(crate) refused: u64,
    /// Messages pushed to clients, without answers to their calls.
    pub(crate) messages: u64,
}

impl Traffic {
    fn carry(&mut self, line: &Line<'_>) {
        self.bytes_in += u64::from(line.bytes_in);
        self.bytes_out += u64::from(line.bytes_out);
    }

    fn add(&mut self, other: &Traffic) {
        self.windowed += other.windowed;
        self.units += other.units;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.streams.connections += other.streams.connections;
        self.streams.refused += other.streams.refused;
        self.streams.messages += other.streams.messages;
    }
}

impl StreamTraffic {
    fn begin(&mut self, line: &Line<'_>) {
        let calls = u64::from(line.calls);
        match line.outcome {
            Outcome::Answered | Outcome::NodeError => self.connections += calls,
            Outcome::Refused | Outcome::Failed => self.refused += calls,
            // The client left before its handshake was answered.
            Outcome::Abandoned => {}
        }
    }
}

/// Counts the calls of one shard, once [`start`](Meter::start) was called.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    names: Option<Arc<Names>>,
    chains: HashMap<ChainName, Row, RandomState>,
}

#[derive(Debug, Default)]
struct Row {
    indexes: HashMap<Box<[u8]>, usize, RandomState>,
    methods: Vec<[Option<Box<Cell>>; Kind::ALL.len()]>,
    unlisted: usize,
    refused: BTreeMap<u16, u64>,
    traffic: Traffic,
}

impl Meter {
    pub(crate) fn start(&mut self, names: Arc<Names>) {
        self.names = Some(names);
    }

    pub(crate) fn count(&mut self, record: &Record<'_>) {
        let Some(names) = &self.names else { return };
        let row = self.chains.entry(record.chain).or_default();
        row.traffic.windowed += u64::from(record.windowed);
        let micros = u64::try_from(record.latency.as_micros()).unwrap_or(u64::MAX);
        for line in record.lines {
            let traffic = &mut row.traffic;
            match (record.phase, record.transport) {
                (Phase::Complete, _) => {
                    traffic.units += u64::from(line.cu);
                    traffic.carry(line);
                    row.call(record.chain, line, micros, names);
                }
                (Phase::Begin, Transport::Ws) => {
                    traffic.streams.begin(line);
                    traffic.carry(line);
                }
                (Phase::Begin, _) => traffic.units += u64::from(line.cu),
                (Phase::Pushed, Transport::Ws) => {
                    traffic.streams.messages += u64::from(line.calls);
                    traffic.carry(line);
                }
                (Phase::End, Transport::Ws) | (Phase::Pushed, _) => {}
                (Phase::End, _) => {
                    traffic.carry(line);
                    row.call(record.chain, line, micros, names);
                }
            }
        }
    }

    pub(crate) fn add_to(&self, sums: &mut Sums) {
        for (chain, row) in &self.chains {
            sums.traffic.entry(*chain).or_default().add(&row.traffic);
            for (status, calls) in &row.refused {
                *sums.refused.entry((*chain, *status)).or_default() += calls;
            }
            for (method, index) in &row.indexes {
                let method = String::from_utf8_lossy(method);
                for (kind, cell) in Kind::ALL.into_iter().zip(&row.methods[*index]) {
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
    fn call(&mut self, chain: ChainName, line: &Line<'_>, micros: u64, names: &Names) {
        let kind = Kind::of(line);
        let calls = u64::from(line.calls);
        let index = match self.indexes.get(line.method) {
            Some(index) => *index,
            None => self.add_method(line, names.has(chain, line.method)),
        };
        self.methods[index][kind as usize].get_or_insert_default().count(calls, micros);
        if kind == Kind::Refused {
            *self.refused.entry(line.status).or_default() += calls;
        }
    }

    /// Assigns a slot to a method that this meter has not counted before.
    fn add_method(&mut self, line: &Line<'_>, is_listed: bool) -> usize {
        let is_real = line.outcome == Outcome::Answered
            && line.method.len() <= LONGEST
            && line.method.iter().all(u8::is_ascii_graphic)
            // A caller may have pasted a key instead of a method.
            && std::str::from_utf8(line.method).is_ok_and(|name| shown(name).is_empty());
        let name = if is_listed {
            line.method
        } else if is_real && self.unlisted < UNLISTED {
            self.unlisted += 1;
            line.method
        } else {
            OTHER.as_bytes()
        };
        if let Some(index) = self.indexes.get(name) {
            return *index;
        }
        let index = self.methods.len();
        self.methods.push(Default::default());
        self.indexes.insert(name.into(), index);
        index
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) calls: BTreeMap<(ChainName, String, Kind), Cell>,
    /// Refused calls by chain and by the HTTP status that each would have had alone.
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
        let traffic = Traffic {
            windowed: 3,
            units: 18,
            bytes_in: 70,
            bytes_out: 140,
            streams: StreamTraffic::default(),
        };
        assert_eq!(sums.traffic[&toy], traffic);
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
        let mut a = meter();
        let mut b = meter();
        let mut c = Meter::default();
        let lines = [line(b"toy_read", Outcome::Answered)];
        for meter in [&mut a, &mut b, &mut c] {
            meter.count(&record(1, &lines));
        }
        b.count(&record(2, &lines));
        assert_eq!(names(&sums([&a, &b, &c])), [("toy_read", Kind::Answered, 3)]);
    }

    fn part<'a>(phase: Phase, transport: Transport, windowed: u32, lines: &'a [Line<'a>]) -> Record<'a> {
        Record { phase, transport, windowed, ..record(1, lines) }
    }

    #[test]
    fn a_stream_counts_its_handshake_its_calls_and_its_pushes_and_its_end_adds_nothing() {
        let mut meter = meter();
        let silent = |method| Line { cu: 0, bytes_in: 0, bytes_out: 0, ..line(method, Outcome::Answered) };
        let sent = silent(b"WS:message");
        let pushed = silent(b"WS:message");
        let totals =
            Line { outcome: Outcome::Abandoned, bytes_in: 20, bytes_out: 40, ..silent(b"WS:disconnect") };
        for (phase, windowed, line) in [
            (Phase::Begin, 1, silent(b"WS:connect")),
            (Phase::Complete, 0, Line { cu: 0, ..line(b"toy_read", Outcome::Answered) }),
            (Phase::Pushed, 0, Line { calls: 4, bytes_out: 20, ..pushed }),
            (Phase::Pushed, 0, Line { calls: 0, bytes_in: 10, ..sent }),
            (Phase::End, 0, totals),
        ] {
            meter.count(&part(phase, Transport::Ws, windowed, &[line]));
        }
        let sums = sums([&meter]);
        assert_eq!(names(&sums), [("toy_read", Kind::Answered, 1)], "a stream itself is no call");
        let streams = StreamTraffic { connections: 1, refused: 0, messages: 4 };
        let traffic = Traffic { windowed: 1, units: 0, bytes_in: 20, bytes_out: 40, streams };
        assert_eq!(sums.traffic[&ChainName::new("toy")], traffic);
    }

    #[test]
    fn a_refused_handshake_is_not_a_refused_call() {
        let mut meter = meter();
        for (outcome, calls) in [(Outcome::Refused, 3), (Outcome::Failed, 1), (Outcome::Abandoned, 1)] {
            let lines = [Line { status: 429, calls, cu: 0, ..line(b"-", outcome) }];
            meter.count(&part(Phase::Begin, Transport::Ws, 0, &lines));
        }
        let sums = sums([&meter]);
        assert_eq!((names(&sums), sums.refused.len()), (vec![], 0));
        let traffic = sums.traffic[&ChainName::new("toy")];
        assert_eq!(traffic.streams, StreamTraffic { connections: 0, refused: 4, messages: 0 });
        assert_eq!((traffic.bytes_in, traffic.bytes_out), (30, 60), "their answers have bodies");
    }

    #[test]
    fn a_long_call_is_charged_when_it_begins_and_counted_by_what_became_of_it() {
        let mut meter = meter();
        let begin = [Line { bytes_in: 0, bytes_out: 0, ..line(b"toy_read", Outcome::Answered) }];
        meter.count(&part(Phase::Begin, Transport::Grpc, 1, &begin));
        let begun = sums([&meter]);
        let toy = ChainName::new("toy");
        assert_eq!((names(&begun), begun.traffic[&toy].units, begun.traffic[&toy].windowed), (vec![], 3, 1));
        let end = [Line { cu: 0, ..line(b"toy_read", Outcome::NodeError) }];
        let latency = Duration::from_secs(40);
        meter.count(&Record { latency, ..part(Phase::End, Transport::Grpc, 0, &end) });
        let ended = sums([&meter]);
        assert_eq!(
            names(&ended),
            [("toy_read", Kind::NodeError, 1)],
            "a call that has answered one message may fail"
        );
        assert_eq!(ended.calls.values().next().map(|cell| cell.micros), Some(40_000_000));
        let streams = StreamTraffic::default();
        let traffic = Traffic { windowed: 1, units: 3, bytes_in: 10, bytes_out: 20, streams };
        assert_eq!(ended.traffic[&toy], traffic, "nothing is charged twice");
    }
}
