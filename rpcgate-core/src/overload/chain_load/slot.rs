//! The slot of one set of calls.

use super::{ChainLoad, End};
use crate::caller::ProjectId;
use crate::overload::project_slots::ProjectSlot;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// A slot among the sets in flight of a chain, released on drop.
#[derive(Debug)]
#[must_use = "dropped at once, it is over at once"]
pub struct LoadSlot {
    load: Arc<ChainLoad>,
    project: ProjectId,
    slot: Option<ProjectSlot>,
    since: Duration,
}

impl LoadSlot {
    pub(super) fn new(
        load: Arc<ChainLoad>,
        project: ProjectId,
        slot: Option<ProjectSlot>,
        since: Duration,
    ) -> Self {
        LoadSlot { load, project, slot, since }
    }

    /// Returns the number of a kind of answers. Equal values give equal numbers.
    pub fn kind(&self, of: &impl Hash) -> u64 {
        self.load.kind(of)
    }

    /// Releases the slot after an answer at `now`. Answers of the same `kind` (request and node) take about the same
    /// time.
    pub fn answered(self, kind: u64, now: Duration) {
        self.load.ended(self.end(kind, now, true), now);
    }

    /// Releases the slot at `now` after the wait was given up: the answer would have taken longer.
    pub fn abandoned(self, kind: u64, now: Duration) {
        self.load.ended(self.end(kind, now, false), now);
    }

    /// Releases the slot at `now` after an end that says nothing about latency.
    pub fn passed(self, now: Duration) {
        self.load.passed(now);
    }

    fn end(&self, kind: u64, now: Duration, is_complete: bool) -> End {
        let latency = now.saturating_sub(self.since);
        End { kind, project: self.project, slot: self.slot, latency, is_complete }
    }
}

impl Drop for LoadSlot {
    fn drop(&mut self) {
        self.load.leave(self.slot);
    }
}
