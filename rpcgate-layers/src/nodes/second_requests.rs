//! Counts of reads that were sent to another node while the first still worked on them, by the reason.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The reason why another node gets a read as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecondReason {
    /// The first takes longer than most calls of its method do.
    Hedge,
    /// The first has failed lately and is tried out.
    Trial,
    /// The first takes longer than a read may.
    Slow,
}

impl SecondReason {
    /// Every reason.
    pub const ALL: [SecondReason; 3] = [SecondReason::Hedge, SecondReason::Trial, SecondReason::Slow];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            SecondReason::Hedge => "hedge",
            SecondReason::Trial => "trial",
            SecondReason::Slow => "slow",
        }
    }
}

/// The second requests of a pool.
#[derive(Debug, Default)]
pub(super) struct SecondRequests([AtomicU64; SecondReason::ALL.len()]);

impl SecondRequests {
    pub(super) fn count(&self, reason: SecondReason) {
        self.0[reason as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn of(&self, reason: SecondReason) -> u64 {
        self.0[reason as usize].load(Relaxed)
    }
}
