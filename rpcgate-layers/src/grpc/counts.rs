//! Counts of gRPC calls, for metrics.

use super::status::CANCELLED;
use foldhash::fast::RandomState;
use parking_lot::RwLock;
use rpcgate_core::chain::ChainName;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The gRPC status names, by number (google.rpc.Code).
pub const STATUSES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

type Row = [AtomicU64; STATUSES.len()];

/// The number of ended gRPC calls by chain and status, and the number of open ones.
#[derive(Debug, Default)]
pub struct GrpcCounts {
    chains: RwLock<HashMap<ChainName, Arc<Row>, RandomState>>,
    open: AtomicUsize,
}

impl GrpcCounts {
    /// Returns the number of open calls: those with an answer that has begun and not ended, such as streams.
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Returns the number of ended calls by chain and status name, without zeros.
    pub fn ended(&self) -> Vec<(ChainName, &'static str, u64)> {
        let chains = self.chains.read();
        let of = |(chain, row): (&ChainName, &Arc<Row>)| {
            let chain = *chain;
            let counts: Vec<_> = row.iter().map(|count| count.load(Relaxed)).collect();
            let named = STATUSES.into_iter().zip(counts).filter(|(_, count)| *count > 0);
            named.map(move |(name, count)| (chain, name, count)).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = chains.iter().flat_map(of).collect();
        all.sort_unstable();
        all
    }

    pub(super) fn count(&self, chain: ChainName, status: u8) {
        let known = self.chains.read().get(&chain).cloned();
        let row = known.unwrap_or_else(|| self.chains.write().entry(chain).or_default().clone());
        if let Some(count) = row.get(usize::from(status)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Counts a call as cancelled if its client disconnects before the answer.
    pub(super) fn unanswered(&self, chain: ChainName) -> Unanswered<'_> {
        Unanswered { counts: self, chain }
    }

    pub(super) fn opened(&self) {
        self.open.fetch_add(1, Relaxed);
    }

    pub(super) fn closed(&self) {
        self.open.fetch_sub(1, Relaxed);
    }
}

/// A call that has no answer yet. Dropping it counts a client that disconnected.
#[must_use]
pub(super) struct Unanswered<'a> {
    counts: &'a GrpcCounts,
    chain: ChainName,
}

impl Unanswered<'_> {
    /// Marks the call as answered. It is counted by the status of its answer.
    pub(super) fn answered(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.counts.count(self.chain, CANCELLED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_chain_and_status() {
        let counts = GrpcCounts::default();
        let [tron, cosmos] = ["tron", "cosmos"].map(ChainName::new);
        for (chain, status) in [(tron, 0), (cosmos, 0), (tron, 0), (tron, 14), (tron, 99)] {
            counts.count(chain, status);
        }
        assert_eq!(counts.ended(), [(cosmos, "OK", 1), (tron, "OK", 2), (tron, "UNAVAILABLE", 1)]);
    }
}
