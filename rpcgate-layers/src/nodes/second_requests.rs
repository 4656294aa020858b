//! Reads that were sent to a second node while the first still worked on them, counted by reason.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The reason why a second node gets a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecondReason {
    /// The first node takes longer than most calls of the method.
    Hedge,
    /// The first node has failed lately and is on trial.
    Trial,
    /// The first node takes longer than the configured limit.
    Slow,
}

impl SecondReason {
    /// All reasons.
    pub const ALL: [SecondReason; 3] = [SecondReason::Hedge, SecondReason::Trial, SecondReason::Slow];

    /// Returns the name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            SecondReason::Hedge => "hedge",
            SecondReason::Trial => "trial",
            SecondReason::Slow => "slow",
        }
    }
}

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
