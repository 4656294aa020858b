//! Exact counts of final losses.

use super::records::Weight;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts the records that neither disk nor memory could hold.
#[derive(Debug, Default)]
pub(super) struct Losses {
    records: AtomicU64,
    calls: AtomicU64,
    cu: AtomicU64,
}

impl Losses {
    pub(super) fn add(&self, weight: Weight) {
        self.calls.fetch_add(weight.calls, Relaxed);
        self.cu.fetch_add(weight.cu, Relaxed);
        self.records.fetch_add(weight.records, Relaxed);
    }

    pub(super) fn sum(&self) -> Weight {
        Weight {
            records: self.records.load(Relaxed),
            calls: self.calls.load(Relaxed),
            cu: self.cu.load(Relaxed),
        }
    }
}
