//! Refusals, held back for a tenth of a second to bound the writes of a storm. They are never billed.

use super::records::{Held, bare, name, set};
use crate::metrics::meter::Meter;
use rpcgate_core::backend::usage_sink::{Line, Outcome, Phase, Record};
use rpcgate_core::caller::RequestId;
use rpcgate_core::chain::ChainName;
use rpcgate_core::journal::Party;
use rpcgate_core::tally::Transport;
use std::collections::HashMap;

/// The number of refusals per write that keep their own record, so that their request can be found.
pub(super) const SINGLES: usize = 32;
/// The number of sums with their own method; calls of further methods are summed under [`OTHER`].
pub(super) const SUMS: usize = 4_096;
/// The maximum number of sums, including those of [`OTHER`].
pub(super) const MOST_SUMS: usize = 2 * SUMS;
pub(super) const OTHER: &[u8] = b"(other)";

#[derive(Debug, Default)]
pub(super) struct Refusals {
    singles: Vec<Held>,
    kinds: HashMap<Kind, HashMap<Box<[u8]>, Sum>>,
    sums: usize,
    /// Sums that are complete because one of their numbers would overflow.
    done: Vec<Held>,
    closed: bool,
    pub(super) meter: Meter,
}

/// The fields that summed refusals share, except the method.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Kind {
    phase: Phase,
    party: Party,
    chain: ChainName,
    transport: Transport,
    status: u16,
    outcome: Outcome,
    cached: bool,
    minute: u64,
}

#[derive(Debug)]
struct Sum {
    /// The first of the refusals; latency, windows and line are summed in it.
    set: Record<'static>,
    line: Line<'static>,
    records: u64,
    /// It is the record of one whole request, so it keeps the request's id.
    is_request: bool,
}

/// The result of adding a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AddResult {
    Held,
    /// Held, and all held refusals should be written now.
    Enough,
    Closed,
}

impl Refusals {
    /// Reports whether a record is a pure refusal, which charges nothing. A refused stream has no other part.
    pub(super) fn wants(record: &Record<'_>) -> bool {
        matches!(record.phase, Phase::Complete | Phase::Begin)
            && !record.lines.is_empty()
            && record.lines.iter().all(|line| line.outcome == Outcome::Refused && line.cu == 0)
    }

    pub(super) fn add(&mut self, record: &Record<'_>) -> AddResult {
        self.meter.count(record);
        if self.closed {
            return AddResult::Closed;
        }
        if self.singles.len() < SINGLES {
            self.singles.push(Held::copy(record));
            return AddResult::Held;
        }
        for (index, line) in record.lines.iter().enumerate() {
            let is_first = index == 0;
            let part = Sum {
                set: Record { windowed: if is_first { record.windowed } else { 0 }, ..set(record) },
                line: bare(line),
                records: is_first.into(),
                is_request: record.lines.len() == 1,
            };
            self.add_part(part, name(line.method));
        }
        if self.sums >= MOST_SUMS { AddResult::Enough } else { AddResult::Held }
    }

    fn add_part(&mut self, part: Sum, method: &[u8]) {
        let kind = Kind {
            phase: part.set.phase,
            party: Party::from(&part.set),
            chain: part.set.chain,
            transport: part.set.transport,
            status: part.line.status,
            outcome: part.line.outcome,
            cached: part.line.cached,
            minute: part.set.arrival.minute(),
        };
        let by_method = self.kinds.entry(kind).or_default();
        let method = if self.sums < SUMS || by_method.contains_key(method) { method } else { OTHER };
        let Some(sum) = by_method.get_mut(method) else {
            by_method.insert(method.into(), part);
            self.sums += 1;
            return;
        };
        if !sum.add(&part) {
            let full = std::mem::replace(sum, part);
            self.done.push(full.held(method));
        }
    }

    pub(super) fn take(&mut self) -> Vec<Held> {
        let mut all = std::mem::take(&mut self.singles);
        all.append(&mut self.done);
        for (_, by_method) in self.kinds.drain() {
            all.extend(by_method.into_iter().map(|(method, sum)| sum.held(&method)));
        }
        self.sums = 0;
        all
    }

    pub(super) fn close(&mut self) -> Vec<Held> {
        self.closed = true;
        self.take()
    }
}

impl Sum {
    /// Adds a sum of the same kind and method, if no number overflows.
    fn add(&mut self, part: &Sum) -> bool {
        let a = &self.line;
        let b = &part.line;
        let (Some(calls), Some(bytes_in), Some(bytes_out), Some(windowed)) = (
            a.calls.checked_add(b.calls),
            a.bytes_in.checked_add(b.bytes_in),
            a.bytes_out.checked_add(b.bytes_out),
            self.set.windowed.checked_add(part.set.windowed),
        ) else {
            return false;
        };
        self.line = Line { calls, bytes_in, bytes_out, ..self.line };
        self.set.windowed = windowed;
        self.set.latency = self.set.latency.saturating_add(part.set.latency);
        self.set.arrival = self.set.arrival.min(part.set.arrival);
        self.records += part.records;
        self.is_request = false;
        true
    }

    fn held(mut self, method: &[u8]) -> Held {
        if !self.is_request {
            self.set.request = RequestId::new(self.set.arrival);
        }
        Held::sum(self.set, method, self.line, self.records)
    }
}
