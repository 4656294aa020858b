//! The place of one set of calls.

use super::{ChainLoad, End};
use crate::caller::ProjectId;
use crate::overload::seats::Seat;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// One of those that a chain has under way, until it is dropped.
#[derive(Debug)]
#[must_use = "dropped at once, it is over at once"]
pub struct LoadPlace {
    load: Arc<ChainLoad>,
    project: ProjectId,
    seat: Option<Seat>,
    since: Duration,
}

impl LoadPlace {
    pub(super) fn new(load: Arc<ChainLoad>, project: ProjectId, seat: Option<Seat>, since: Duration) -> Self {
        LoadPlace { load, project, seat, since }
    }

    /// The number of a kind of answers, which is the same for equal values.
    pub fn kind(&self, of: &impl Hash) -> u64 {
        self.load.kind(of)
    }

    /// It ends with an answer at `now`. `kind` stands for what was asked, and of whom: answers of a kind usually take
    /// about the same time.
    pub fn answered(self, kind: u64, now: Duration) {
        self.load.ended(self.end(kind, now, true), now);
    }

    /// It ends at `now` without the answer that was waited for: the answer would have taken longer.
    pub fn given_up(self, kind: u64, now: Duration) {
        self.load.ended(self.end(kind, now, false), now);
    }

    /// It ends at `now` with something that says nothing about how long answers take.
    pub fn passed(self, now: Duration) {
        self.load.passed(now);
    }

    fn end(&self, kind: u64, now: Duration, is_whole: bool) -> End {
        let latency = now.saturating_sub(self.since);
        End { kind, project: self.project, seat: self.seat, latency, is_whole }
    }
}

impl Drop for LoadPlace {
    fn drop(&mut self) {
        self.load.leave(self.seat);
    }
}
