//! The usage sink, which gets the record of every set of calls before its answer is sent.

use crate::caller::{KeyId, ProjectId, RequestId, TenantId};
use crate::chain::ChainName;
use crate::clock::Time;
use crate::plan::{Price, Tier};
use crate::transport::Transport;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// A receiver of records. Its functions do not block: slow work happens elsewhere.
pub trait UsageSink: Send + Sync + Debug {
    /// Takes one record. On return, the record is written, or as safe as the state of the sink allows.
    fn append(&self, record: &Record<'_>);

    /// Takes one record that may wait to be written together with others. `None`: it is already written. Otherwise it
    /// is safe only after [`write`](UsageSink::write), which must be called soon. [`Receipt`] ensures that.
    fn hold(&self, record: &Record<'_>) -> Option<Ticket> {
        self.append(record);
        None
    }

    /// Writes the record of a ticket, together with the others that wait in its slot.
    fn write(&self, ticket: Ticket) {
        let _ = ticket;
    }

    /// Reports whether the sink accepts charged calls. If not, calls are refused before anything is counted.
    fn is_ready(&self) -> bool {
        true
    }
}

/// The position of an unwritten record. Only the sink that issued it can use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// The slot.
    pub slot: usize,
    /// The number of the record among those that have waited in the slot.
    pub number: u64,
}

/// A record that its sink may not have written yet. Dropping this writes it. No answer is sent before.
#[derive(Debug)]
#[must_use = "dropped at once, it waits for no other"]
pub struct Receipt {
    sink: Arc<dyn UsageSink>,
    ticket: Ticket,
}

impl Receipt {
    /// Passes a record to a sink that may hold it. `None` if it is already written.
    pub fn hold(sink: &Arc<dyn UsageSink>, record: &Record<'_>) -> Option<Self> {
        let ticket = sink.hold(record)?;
        Some(Receipt { sink: sink.clone(), ticket })
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.sink.write(self.ticket);
    }
}

/// One set of calls, or the begin or the end of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The part of the lifetime that it records.
    pub phase: Phase,
    /// The id of the request.
    pub request: RequestId,
    /// The key of the caller.
    pub key: KeyId,
    /// The key's project.
    pub project: ProjectId,
    /// The project's tenant.
    pub tenant: TenantId,
    /// The chain.
    pub chain: ChainName,
    /// The transport of the request.
    pub transport: Transport,
    /// The tenant's tier at that time.
    pub tier: Tier,
    /// The price of a Compute Unit at that time.
    pub price: Price,
    /// The arrival of the request.
    pub arrival: Time,
    /// The time from arrival to answer.
    pub latency: Duration,
    /// The number of requests that the plan windows counted. The windows are restored from it.
    pub windowed: u32,
    /// Its calls.
    pub lines: &'a [Line<'a>],
}

/// The part of a request's lifetime that a record covers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// A whole request.
    Complete,
    /// A stream or a long call began.
    Begin,
    /// Messages were pushed to the client of a stream.
    Pushed,
    /// A stream or a long call ended; the line holds the totals.
    End,
}

/// One call, or several of the same kind.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The metered method.
    pub method: &'a [u8],
    /// Compute Units charged.
    pub cu: u32,
    /// The HTTP status that the call would have had alone.
    pub status: u16,
    /// The outcome of the call.
    pub outcome: Outcome,
    /// True if it was answered without a request to a node.
    pub cached: bool,
    /// The number of calls that the line sums; 1 except for refusals and stream messages.
    pub calls: u32,
    /// The call's part of the request's body, in bytes.
    pub bytes_in: u32,
    /// The call's part of the answer's body, in bytes.
    pub bytes_out: u32,
}

/// The outcome of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Outcome {
    /// Answered with a result.
    Answered,
    /// Answered with a node's own error.
    NodeError,
    /// Refused by the gateway.
    Refused,
    /// Not answered by any node.
    Failed,
    /// Abandoned: the client left first.
    Abandoned,
}

/// An owned record, kept in memory or read from a journal or a database.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are those of Record")]
pub struct OwnedRecord {
    pub phase: Phase,
    pub request: RequestId,
    pub key: KeyId,
    pub project: ProjectId,
    pub tenant: TenantId,
    pub chain: String,
    pub transport: Transport,
    pub tier: Tier,
    pub price: Price,
    pub arrival: Time,
    pub latency: Duration,
    pub windowed: u32,
    pub lines: Vec<OwnedLine>,
}

/// An owned line. Its method is [`shown_method`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are those of Line")]
pub struct OwnedLine {
    pub method: String,
    pub cu: u32,
    pub status: u16,
    pub outcome: Outcome,
    pub cached: bool,
    pub calls: u32,
    pub bytes_in: u32,
    pub bytes_out: u32,
}

impl From<&Record<'_>> for OwnedRecord {
    fn from(record: &Record<'_>) -> Self {
        OwnedRecord {
            phase: record.phase,
            request: record.request,
            key: record.key,
            project: record.project,
            tenant: record.tenant,
            chain: record.chain.to_string(),
            transport: record.transport,
            tier: record.tier,
            price: record.price,
            arrival: record.arrival,
            latency: record.latency,
            windowed: record.windowed,
            lines: record
                .lines
                .iter()
                .map(|line| OwnedLine {
                    method: shown_method(line.method).into_owned(),
                    cu: line.cu,
                    status: line.status,
                    outcome: line.outcome,
                    cached: line.cached,
                    calls: line.calls,
                    bytes_in: line.bytes_in,
                    bytes_out: line.bytes_out,
                })
                .collect(),
        }
    }
}

/// Returns a method's name as stored and shown. Invalid UTF-8 and NUL, which PostgreSQL refuses, are replaced.
pub fn shown_method(name: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(name);
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { text }
}

/// A sink that keeps the newest records in memory, up to a bound.
#[derive(Debug)]
pub struct MemoryUsageSink {
    records: Mutex<VecDeque<OwnedRecord>>,
    bound: usize,
}

impl MemoryUsageSink {
    /// Creates a sink that keeps the newest `bound` records.
    pub fn bounded(bound: usize) -> Self {
        MemoryUsageSink { records: Mutex::default(), bound }
    }

    /// Returns the stored records, oldest first.
    pub fn records(&self) -> Vec<OwnedRecord> {
        self.records.lock().iter().cloned().collect()
    }
}

impl Default for MemoryUsageSink {
    /// Keeps 100,000 records.
    fn default() -> Self {
        Self::bounded(100_000)
    }
}

impl UsageSink for MemoryUsageSink {
    fn append(&self, record: &Record<'_>) {
        if self.bound == 0 {
            return;
        }
        let stored = OwnedRecord::from(record);
        let mut records = self.records.lock();
        if records.len() >= self.bound {
            records.pop_front();
        }
        records.push_back(stored);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::suite;

    #[test]
    fn memory_passes_the_suite_of_usage_sinks() {
        suite::sink(|| {
            let sink = std::sync::Arc::new(MemoryUsageSink::default());
            let reader = sink.clone();
            (sink, Box::new(move || reader.records()))
        });
    }

    #[test]
    fn a_name_is_shown_as_text_without_nul() {
        assert!(matches!(shown_method(b"eth_call"), Cow::Borrowed("eth_call")));
        assert_eq!(shown_method(b"a\0b"), "a\u{fffd}b");
        assert_eq!(shown_method(b"a\xff\xfe"), "a\u{fffd}\u{fffd}");
        assert_eq!(shown_method(b"'; DROP TABLE rollups; --"), "'; DROP TABLE rollups; --");
    }

    #[test]
    fn a_bounded_memory_forgets_the_oldest() {
        let sink = MemoryUsageSink::bounded(2);
        for n in 0..3 {
            sink.append(&suite::record(n, &[]));
        }
        let stored: Vec<_> = sink.records().iter().map(|r| r.request.0).collect();
        assert_eq!(stored, [1, 2]);
    }
}
