//! How a node stands: what its answers and its probes have shown.

use super::backoff::Backoff;
use rpcgate_core::adapter::NodeStatus;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Whether a node is asked, and if not, why. A node that is not well is asked when no other is left: a chain with a
/// node that may answer is never refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeHealth {
    /// It is asked. So is a node that was not probed yet.
    Well,
    /// It says itself that it has not caught up, or it is at height 0.
    Syncing,
    /// It is farther behind the others than a node may be.
    Behind {
        /// By so many blocks.
        blocks: u64,
    },
    /// It has not answered its last probes.
    Silent,
    /// Its answers to calls were none, several times in a row, or it asked to be left alone.
    Ejected {
        /// Until so much time has passed.
        left: Duration,
    },
    /// No connection could be made.
    Unreachable {
        /// Until so much time has passed.
        left: Duration,
    },
}

impl NodeHealth {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            NodeHealth::Well => "well",
            NodeHealth::Syncing => "syncing",
            NodeHealth::Behind { .. } => "behind",
            NodeHealth::Silent => "silent",
            NodeHealth::Ejected { .. } => "ejected",
            NodeHealth::Unreachable { .. } => "unreachable",
        }
    }

    /// How long it is left alone; zero for a node that is not put aside.
    pub const fn left(self) -> Duration {
        match self {
            NodeHealth::Ejected { left } | NodeHealth::Unreachable { left } => left,
            _ => Duration::ZERO,
        }
    }
}

/// In which order nodes come into question; the lesser first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Grade {
    /// Well.
    Good,
    /// It can be reached, but what it says may be old.
    Poor,
    /// It was put aside.
    Aside,
}

const WELL: u8 = 0;
const SYNCING: u8 = 1;
const BEHIND: u8 = 2;
const SILENT: u8 = 3;

/// What is known of a node.
#[derive(Default)]
pub(super) struct Health {
    unreachable: Backoff,
    ejected: Backoff,
    /// Calls in a row whose answers were none.
    strikes: AtomicU32,
    /// What the probes have shown: one of the constants above.
    probed: AtomicU8,
    /// Probes in a row without an answer.
    misses: AtomicU32,
    /// 0: none seen.
    height: AtomicU64,
    behind: AtomicU64,
    /// In microseconds; 0: none seen.
    latency: AtomicU64,
}

/// So many failures in a row are the node's matter, not the calls'.
const STRIKES: u32 = 5;

/// So many probes may go unanswered.
const MISSES: u32 = 2;

impl Health {
    /// What it shows to people.
    pub(super) fn standing(&self, now: Duration) -> NodeHealth {
        let (unreachable, ejected) = (self.unreachable.left(now), self.ejected.left(now));
        match self.probed.load(Relaxed) {
            _ if !unreachable.is_zero() => NodeHealth::Unreachable { left: unreachable },
            _ if !ejected.is_zero() => NodeHealth::Ejected { left: ejected },
            SYNCING => NodeHealth::Syncing,
            BEHIND => NodeHealth::Behind { blocks: self.behind.load(Relaxed) },
            SILENT => NodeHealth::Silent,
            _ => NodeHealth::Well,
        }
    }

    /// Where it stands among others. The clock is asked only if it was ever put aside.
    pub(super) fn grade(&self, now: impl FnOnce() -> Duration) -> Grade {
        if (self.unreachable.is_set() || self.ejected.is_set()) && !self.left(now()).is_zero() {
            Grade::Aside
        } else if self.probed.load(Relaxed) == WELL {
            Grade::Good
        } else {
            Grade::Poor
        }
    }

    /// How long it is left alone.
    pub(super) fn left(&self, now: Duration) -> Duration {
        self.unreachable.left(now).max(self.ejected.left(now))
    }

    /// Blocks that it is behind, as far as that is known.
    pub(super) fn behind(&self) -> u64 {
        match self.probed.load(Relaxed) {
            WELL => 0,
            BEHIND => self.behind.load(Relaxed),
            _ => u64::MAX,
        }
    }

    pub(super) fn height(&self) -> Option<u64> {
        Some(self.height.load(Relaxed)).filter(|height| *height > 0)
    }

    pub(super) fn latency(&self) -> Duration {
        Duration::from_micros(self.latency.load(Relaxed))
    }

    /// A connection could be made, or an old one works.
    pub(super) fn reached(&self) {
        self.unreachable.clear();
    }

    /// No connection could be made.
    pub(super) fn not_reached(&self, now: Duration) {
        self.unreachable.put(now);
    }

    /// It answered a call, and what it answered was an answer.
    pub(super) fn answered(&self) {
        // Looked at first, as everything here: nearly all calls have nothing to write.
        if self.strikes.load(Relaxed) != 0 {
            self.strikes.store(0, Relaxed);
        }
        self.ejected.clear();
    }

    /// What it answered a call was no answer; or nothing came.
    pub(super) fn failed(&self, now: Duration) {
        if self.strikes.fetch_add(1, Relaxed) + 1 >= STRIKES {
            self.ejected.put(now);
        }
    }

    /// It refuses this gateway whatever it is asked.
    pub(super) fn refused(&self, now: Duration) {
        self.strikes.store(STRIKES, Relaxed);
        self.ejected.put(now);
    }

    /// It asked to be left alone for so long.
    pub(super) fn busy(&self, now: Duration, stay: Duration) {
        self.ejected.put_for(now, stay);
    }

    /// How long an answer took.
    pub(super) fn took(&self, time: Duration) {
        let sample = (time.as_micros() as u64).max(1);
        let old = self.latency.load(Relaxed);
        // Worse is believed sooner than better.
        let new = match old {
            0 => sample,
            _ if sample > old => old + (sample - old).div_ceil(4),
            _ => old - (old - sample) / 8,
        };
        if new != old {
            self.latency.store(new, Relaxed);
        }
    }

    /// What came of a probe.
    pub(super) fn probed(&self, seen: Option<NodeStatus>) {
        match seen {
            None if self.misses.fetch_add(1, Relaxed) + 1 >= MISSES => self.probed.store(SILENT, Relaxed),
            None => {}
            Some(NodeStatus { height, syncing }) => {
                self.misses.store(0, Relaxed);
                self.height.store(height, Relaxed);
                let known = self.probed.load(Relaxed);
                let now = match known {
                    _ if syncing || height == 0 => SYNCING,
                    WELL => WELL,
                    // Well again it is only by comparison, for which other nodes may still have to answer.
                    _ => BEHIND,
                };
                if now != known {
                    self.probed.store(now, Relaxed);
                }
            }
        }
    }

    /// Holds a node that answered its probe against the others' height.
    pub(super) fn compared(&self, reference: u64, allowed: u64) {
        let behind = reference.saturating_sub(self.height.load(Relaxed));
        self.behind.store(behind, Relaxed);
        match self.probed.load(Relaxed) {
            WELL if behind > allowed => self.probed.store(BEHIND, Relaxed),
            BEHIND if behind <= allowed => self.probed.store(WELL, Relaxed),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn grade(health: &Health) -> Grade {
        health.grade(|| NOW)
    }

    #[test]
    fn a_node_is_well_until_something_else_is_known() {
        assert_eq!(Health::default().standing(NOW), NodeHealth::Well);
        assert_eq!(grade(&Health::default()), Grade::Good);
    }

    #[test]
    fn five_failures_in_a_row_eject_and_an_answer_brings_back() {
        let health = Health::default();
        (0..4).for_each(|_| health.failed(NOW));
        health.answered();
        (0..4).for_each(|_| health.failed(NOW));
        assert_eq!(grade(&health), Grade::Good);
        health.failed(NOW);
        assert_eq!(health.standing(NOW), NodeHealth::Ejected { left: Duration::from_secs(1) });
        assert_eq!(grade(&health), Grade::Aside);
        let later = NOW + Duration::from_secs(1);
        assert_eq!(health.grade(|| later), Grade::Good, "it gets another chance");
        health.failed(later);
        assert_eq!(
            health.standing(later),
            NodeHealth::Ejected { left: Duration::from_secs(2) },
            "and one only"
        );
        health.answered();
        assert_eq!(health.standing(later), NodeHealth::Well);
    }

    #[test]
    fn a_node_that_refuses_the_gateway_is_ejected_at_once() {
        let health = Health::default();
        health.refused(NOW);
        assert_eq!(health.standing(NOW).name(), "ejected");
    }

    #[test]
    fn a_node_that_misses_one_probe_is_not_silent_yet() {
        let health = Health::default();
        health.probed(None);
        assert_eq!(health.standing(NOW), NodeHealth::Well);
        health.probed(None);
        assert_eq!((health.standing(NOW), grade(&health)), (NodeHealth::Silent, Grade::Poor));
        health.probed(Some(NodeStatus::at(7)));
        assert_eq!(grade(&health), Grade::Poor, "it answers, but others have not been asked yet");
        health.compared(7, 3);
        assert_eq!((health.standing(NOW), health.height()), (NodeHealth::Well, Some(7)));
    }

    #[test]
    fn a_node_at_height_0_or_that_says_so_is_not_in_sync() {
        let health = Health::default();
        for seen in [NodeStatus::at(0), NodeStatus { height: 9, syncing: true }] {
            health.probed(Some(seen));
            assert_eq!((health.standing(NOW), grade(&health)), (NodeHealth::Syncing, Grade::Poor));
        }
        health.compared(100, 3);
        assert_eq!(health.standing(NOW), NodeHealth::Syncing, "the reason stays the node's own word");
    }

    #[test]
    fn a_node_may_be_behind_by_so_much_and_no_more() {
        let health = Health::default();
        health.probed(Some(NodeStatus::at(97)));
        health.compared(100, 3);
        assert_eq!(grade(&health), Grade::Good);
        health.compared(101, 3);
        assert_eq!((health.standing(NOW), health.behind()), (NodeHealth::Behind { blocks: 4 }, 4));
        health.probed(Some(NodeStatus::at(97)));
        assert_eq!(grade(&health), Grade::Poor, "no better before it is compared than after");
        health.probed(Some(NodeStatus::at(101)));
        health.compared(101, 3);
        assert_eq!(health.standing(NOW), NodeHealth::Well);
    }

    #[test]
    fn latency_rises_faster_than_it_falls() {
        let health = Health::default();
        let after = |millis| {
            health.took(Duration::from_millis(millis));
            health.latency().as_micros()
        };
        assert_eq!(after(8), 8_000);
        assert_eq!(after(16), 10_000);
        assert_eq!(after(2), 9_000);
        health.took(Duration::ZERO);
        assert!(health.latency() > Duration::ZERO);
    }
}
