//! Records on their way to disk or memory: a single one, or several that were held back.

use rpcgate_core::backend::usage_sink::{Line, Phase, Record};
use rpcgate_core::journal::MAX_NAME;
use rpcgate_core::tally::Transport;
use smallvec::{SmallVec, smallvec};

/// The loss that a lost record causes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Weight {
    pub(super) records: u64,
    pub(super) calls: u64,
    pub(super) cu: u64,
}

impl Weight {
    /// Returns the weight of a record that sums up `records` records. The parts of a WebSocket stream are not calls.
    /// Any other long call counts from its begin.
    pub(super) fn of(record: &Record<'_>, records: u64) -> Self {
        let calls = match (record.phase, record.transport) {
            (Phase::Begin, Transport::Ws) | (Phase::Pushed | Phase::End, _) => 0,
            (Phase::Complete | Phase::Begin, _) => {
                record.lines.iter().map(|line| u64::from(line.calls)).sum()
            }
        };
        Weight { records, calls, cu: record.lines.iter().map(|line| u64::from(line.cu)).sum() }
    }

    pub(super) const fn add(&mut self, other: Weight) {
        self.records += other.records;
        self.calls += other.calls;
        self.cu += other.cu;
    }
}

/// One or more records, which can be visited again if the disk did not take them.
pub(super) trait Records {
    fn each(&self, take: impl FnMut(&Record<'_>, Weight));
}

impl Records for Record<'_> {
    fn each(&self, mut take: impl FnMut(&Record<'_>, Weight)) {
        take(self, Weight::of(self, 1));
    }
}

impl Records for [Held] {
    fn each(&self, mut take: impl FnMut(&Record<'_>, Weight)) {
        for held in self {
            held.lend(&mut take);
        }
    }
}

#[derive(Debug)]
pub(super) struct Held {
    set: Record<'static>,
    lines: SmallVec<[HeldLine; 1]>,
    /// The number of records that this one sums up.
    records: u64,
}

#[derive(Debug)]
struct HeldLine {
    /// Inline for the length of most method names.
    method: SmallVec<[u8; 32]>,
    rest: Line<'static>,
}

impl Held {
    pub(super) fn copy(record: &Record<'_>) -> Self {
        let lines = record
            .lines
            .iter()
            .map(|line| HeldLine { method: SmallVec::from_slice(name(line.method)), rest: bare(line) });
        Held { set: set(record), lines: lines.collect(), records: 1 }
    }

    /// Creates a record of one line that sums up `records` records.
    pub(super) fn sum(set: Record<'static>, method: &[u8], rest: Line<'static>, records: u64) -> Self {
        Held { set, lines: smallvec![HeldLine { method: SmallVec::from_slice(method), rest }], records }
    }

    fn lend(&self, take: &mut impl FnMut(&Record<'_>, Weight)) {
        let lines: SmallVec<[_; 1]> =
            self.lines.iter().map(|line| Line { method: &line.method, ..line.rest }).collect();
        let record = Record { lines: &lines, ..self.set };
        take(&record, Weight::of(&record, self.records));
    }
}

/// Returns the stored part of a method's name: long enough for the writer to truncate it as it would the whole name.
pub(super) fn name(method: &[u8]) -> &[u8] {
    method.get(..MAX_NAME + 4).unwrap_or(method)
}

pub(super) const fn set(record: &Record<'_>) -> Record<'static> {
    Record {
        phase: record.phase,
        request: record.request,
        key: record.key,
        project: record.project,
        tenant: record.tenant,
        chain: record.chain,
        transport: record.transport,
        tier: record.tier,
        price: record.price,
        arrival: record.arrival,
        latency: record.latency,
        windowed: record.windowed,
        lines: &[],
    }
}

pub(super) const fn bare(line: &Line<'_>) -> Line<'static> {
    Line {
        method: &[],
        cu: line.cu,
        status: line.status,
        outcome: line.outcome,
        cached: line.cached,
        calls: line.calls,
        bytes_in: line.bytes_in,
        bytes_out: line.bytes_out,
    }
}
