//! The place of one set of calls.

use super::ChainLoad;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// One of those that a chain has under way, until it is dropped.
#[derive(Debug)]
#[must_use = "dropped at once, it is over at once"]
pub struct LoadPlace {
    load: Arc<ChainLoad>,
    seat: Option<u16>,
    since: Duration,
}

impl LoadPlace {
    pub(super) fn new(load: Arc<ChainLoad>, seat: Option<u16>, since: Duration) -> Self {
        LoadPlace { load, seat, since }
    }

    /// The number of a kind of answers, which is the same for equal values.
    pub fn kind(&self, of: &impl Hash) -> u64 {
        self.load.kind(of)
    }

    /// It ends with an answer at `now`. `kind` stands for what was asked, and of whom: answers of a kind usually take
    /// about the same time.
    pub fn answered(self, kind: u64, now: Duration) {
        self.load.ended(kind, now.saturating_sub(self.since), now, true);
    }

    /// It ends at `now` without the answer that was waited for: the answer would have taken longer.
    pub fn given_up(self, kind: u64, now: Duration) {
        self.load.ended(kind, now.saturating_sub(self.since), now, false);
    }

    /// It ends at `now` with something that says nothing about how long answers take.
    pub fn passed(self, now: Duration) {
        self.load.passed(now);
    }
}

impl Drop for LoadPlace {
    fn drop(&mut self) {
        self.load.leave(self.seat);
    }
}
