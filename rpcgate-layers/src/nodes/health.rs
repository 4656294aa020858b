//! The health of a node, as its answers and its probes show it.

use super::backoff::Backoff;
use rpcgate_core::adapter::NodeStatus;
use rpcgate_core::fault::{Cause, Fault};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Whether a node is used, and if not, why. A node that is not healthy is used if no other is left: a chain with a
/// node that may answer is never refused, unless an operator has drained it or has limited what it may get, or it belongs to another
/// network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeHealth {
    /// It is used. So is a node that was not probed yet.
    Well,
    /// It reports that it has not caught up, or it is at height 0.
    Syncing,
    /// It is farther behind the others than a node may be.
    Behind {
        /// By this many blocks.
        blocks: u64,
    },
    /// It has not answered its last probes.
    Silent,
    /// Its answers to calls were unusable several times in a row, or it requested a pause.
    Ejected {
        /// For this time.
        left: Duration,
    },
    /// No connection could be made.
    Unreachable {
        /// For this time.
        left: Duration,
    },
    /// It belongs to another network than its chain: it is not used even if no other node is left.
    WrongNetwork,
    /// An operator has drained it: it is not used even if no other node is left.
    Drained,
    /// It has got as many calls as it may get in this month: it is not used even if no other node is left.
    Spent,
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
            NodeHealth::WrongNetwork => "wrong_network",
            NodeHealth::Drained => "drained",
            NodeHealth::Spent => "spent",
        }
    }

    /// How long the node is backed off from; zero if it is not.
    pub const fn left(self) -> Duration {
        match self {
            NodeHealth::Ejected { left } | NodeHealth::Unreachable { left } => left,
            _ => Duration::ZERO,
        }
    }
}

/// In which order nodes are considered; the lesser first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Grade {
    /// It is used.
    Healthy,
    /// It can be reached, but its answers may be old.
    Unfit,
    /// It is backed off from.
    BackedOff,
}

const WELL: u8 = 0;
const SYNCING: u8 = 1;
const BEHIND: u8 = 2;
const SILENT: u8 = 3;

/// Consecutive failures from which on the node is considered the cause, and not the calls.
const MAX_FAILURES: u32 = 5;

/// Consecutive probes without an answer from which on a node is silent.
const MAX_MISSES: u32 = 2;

/// The known state of a node. Every transport reports to it, and none of it takes a lock.
#[derive(Debug, Default)]
pub(crate) struct HealthState {
    unreachable: Backoff,
    ejected: Backoff,
    /// Consecutive calls without a usable answer.
    failures: AtomicU32,
    /// What the probes have shown: one of the constants above.
    probed: AtomicU8,
    /// Consecutive probes without an answer.
    misses: AtomicU32,
    /// 0: none seen.
    height: AtomicU64,
    behind: AtomicU64,
    /// In microseconds; 0: none seen.
    latency: AtomicU64,
    /// Tries that failed through the node.
    faults: AtomicU64,
}

impl HealthState {
    /// The health at `now`, for people.
    pub(super) fn health(&self, now: Duration) -> NodeHealth {
        let (unreachable, ejected) = (self.unreachable.remaining(now), self.ejected.remaining(now));
        match self.probed.load(Relaxed) {
            _ if !unreachable.is_zero() => NodeHealth::Unreachable { left: unreachable },
            _ if !ejected.is_zero() => NodeHealth::Ejected { left: ejected },
            // Between the end of the pause and the next attempt to connect, why it does not answer is still known.
            SILENT if self.unreachable.is_set() => NodeHealth::Unreachable { left: unreachable },
            SYNCING => NodeHealth::Syncing,
            BEHIND => NodeHealth::Behind { blocks: self.behind.load(Relaxed) },
            SILENT => NodeHealth::Silent,
            _ => NodeHealth::Well,
        }
    }

    /// The grade of the node among the others. Reads the clock only if it was ever backed off from.
    pub(super) fn grade(&self, now: impl FnOnce() -> Duration) -> Grade {
        if (self.unreachable.is_set() || self.ejected.is_set()) && !self.remaining(now()).is_zero() {
            Grade::BackedOff
        } else if self.probed.load(Relaxed) == WELL {
            Grade::Healthy
        } else {
            Grade::Unfit
        }
    }

    /// Whether it is used like any other.
    pub(super) fn is_healthy(&self, now: impl FnOnce() -> Duration) -> bool {
        self.grade(now) == Grade::Healthy
    }

    /// How long the node is still backed off from.
    pub(super) fn remaining(&self, now: Duration) -> Duration {
        self.unreachable.remaining(now).max(self.ejected.remaining(now))
    }

    /// Whether it has not answered its last probes.
    pub(super) fn is_silent(&self) -> bool {
        self.probed.load(Relaxed) == SILENT
    }

    /// Probes in a row without an answer.
    pub(super) fn misses(&self) -> u32 {
        self.misses.load(Relaxed)
    }

    /// Blocks that the node is behind, as far as that is known.
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

    /// It has shown this height in an answer.
    pub(super) fn raise_height(&self, height: u64) {
        self.height.fetch_max(height, Relaxed);
    }

    pub(super) fn latency(&self) -> Duration {
        Duration::from_micros(self.latency.load(Relaxed))
    }

    /// Tries of calls and streams that failed through the node or the network to it.
    pub(super) fn faults(&self) -> u64 {
        self.faults.load(Relaxed)
    }

    /// A connection could be made, or an old one works.
    pub(crate) fn record_reachable(&self) {
        self.unreachable.clear();
    }

    /// No connection could be made.
    pub(crate) fn record_unreachable(&self, now: Duration) {
        self.unreachable.fail(now);
    }

    /// The node gave a usable answer to a call.
    pub(super) fn record_success(&self) {
        // Read first, like everything here: nearly all calls have nothing to write.
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
        self.ejected.clear();
    }

    /// The node gave no usable answer to a call; `pause` is the time for which it requested no calls.
    pub(super) fn record_failure(&self, fault: Fault, pause: Option<Duration>, now: Duration) {
        if is_of_node(fault.cause) {
            self.faults.fetch_add(1, Relaxed);
        }
        match (fault.cause, pause) {
            (_, Some(pause)) => self.ejected.pause(now, pause),
            (Cause::Status(401 | 403), None) => self.record_rejected_gateway(now),
            // That a node rejects one call says nothing about the next: no client may drive nodes out of the pool by the
            // calls that it makes.
            (Cause::Status(status), None) if (400..500).contains(&status) && status != 429 => {}
            (Cause::Timeout | Cause::Broken | Cause::Undecodable | Cause::Status(_), None) => {
                self.record_unusable(now);
            }
            // A failure to connect is recorded where it happens, and the rest says nothing about the node.
            _ => {}
        }
    }

    fn record_unusable(&self, now: Duration) {
        if self.failures.fetch_add(1, Relaxed) + 1 >= MAX_FAILURES {
            self.ejected.fail(now);
        }
    }

    /// The node rejects every call of this gateway.
    fn record_rejected_gateway(&self, now: Duration) {
        self.failures.store(MAX_FAILURES, Relaxed);
        self.ejected.fail(now);
    }

    /// How long an answer took.
    pub(crate) fn record_latency(&self, time: Duration) {
        let sample = (time.as_micros() as u64).max(1);
        let old = self.latency.load(Relaxed);
        // A rise is believed sooner than a fall.
        let new = match old {
            0 => sample,
            _ if sample > old => old + (sample - old).div_ceil(4),
            _ => old - (old - sample) / 8,
        };
        if new != old {
            self.latency.store(new, Relaxed);
        }
    }

    /// The result of a probe; `None` if there was no answer.
    pub(super) fn record_probe(&self, status: Option<NodeStatus>) {
        match status {
            None if self.misses.fetch_add(1, Relaxed) + 1 >= MAX_MISSES => self.probed.store(SILENT, Relaxed),
            None => {}
            Some(NodeStatus { height, syncing, .. }) => {
                self.misses.store(0, Relaxed);
                self.height.store(height, Relaxed);
                let known = self.probed.load(Relaxed);
                let now = match known {
                    _ if syncing || height == 0 => SYNCING,
                    WELL => WELL,
                    // It is well again only by comparison, for which other nodes may still have to answer.
                    _ => BEHIND,
                };
                if now != known {
                    self.probed.store(now, Relaxed);
                }
            }
        }
    }

    /// Compares a node that answered its probe with the others' height.
    pub(super) fn compare(&self, reference: u64, max_lag: u64) {
        let behind = reference.saturating_sub(self.height.load(Relaxed));
        self.behind.store(behind, Relaxed);
        match self.probed.load(Relaxed) {
            WELL if behind > max_lag => self.probed.store(BEHIND, Relaxed),
            BEHIND if behind <= max_lag => self.probed.store(WELL, Relaxed),
            _ => {}
        }
    }
}

/// Whether a try failed through the node or the network to it, and not through a call as a client may make it: one that the
/// node rejects, or whose answer is too large.
const fn is_of_node(cause: Cause) -> bool {
    match cause {
        Cause::NoNode | Cause::Oversize => false,
        // With these, the node rejects the gateway itself.
        Cause::Status(401 | 403 | 429) => true,
        Cause::Status(status) => status < 400 || status >= 500,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn grade(health: &HealthState) -> Grade {
        health.grade(|| NOW)
    }

    #[test]
    fn a_node_is_well_until_something_else_is_known() {
        assert_eq!(HealthState::default().health(NOW), NodeHealth::Well);
        assert_eq!(grade(&HealthState::default()), Grade::Healthy);
    }

    #[test]
    fn five_failures_in_a_row_eject_and_an_answer_brings_back() {
        let health = HealthState::default();
        (0..4).for_each(|_| health.record_unusable(NOW));
        health.record_success();
        (0..4).for_each(|_| health.record_unusable(NOW));
        assert_eq!(grade(&health), Grade::Healthy);
        health.record_unusable(NOW);
        assert_eq!(health.health(NOW), NodeHealth::Ejected { left: Duration::from_secs(1) });
        assert_eq!(grade(&health), Grade::BackedOff);
        let later = NOW + Duration::from_secs(1);
        assert_eq!(health.grade(|| later), Grade::Healthy, "it gets another chance");
        health.record_unusable(later);
        assert_eq!(
            health.health(later),
            NodeHealth::Ejected { left: Duration::from_secs(2) },
            "and one only"
        );
        health.record_success();
        assert_eq!(health.health(later), NodeHealth::Well);
    }

    #[test]
    fn a_node_that_refuses_the_gateway_is_ejected_at_once() {
        let health = HealthState::default();
        health.record_rejected_gateway(NOW);
        assert_eq!(health.health(NOW).name(), "ejected");
    }

    #[test]
    fn faults_are_what_fails_through_the_node_and_not_through_the_call() {
        let health = HealthState::default();
        let counts = |cause| {
            let before = health.faults();
            health.record_failure(Fault::sent(cause), None, NOW);
            health.faults() - before
        };
        for cause in [Cause::NoNode, Cause::Oversize, Cause::Status(400), Cause::Status(404)] {
            assert_eq!(counts(cause), 0, "{cause:?}");
        }
        for cause in [Cause::Connect, Cause::Timeout, Cause::Broken, Cause::Undecodable, Cause::Unanswered] {
            assert_eq!(counts(cause), 1, "{cause:?}");
        }
        for status in [401, 403, 429, 500, 503] {
            assert_eq!(counts(Cause::Status(status)), 1, "{status}");
        }
        health.record_success();
        assert_eq!(health.faults(), 10, "they stay counted");
    }

    #[test]
    fn a_node_that_misses_one_probe_is_not_silent_yet() {
        let health = HealthState::default();
        health.record_probe(None);
        assert_eq!(health.health(NOW), NodeHealth::Well);
        health.record_probe(None);
        assert_eq!((health.health(NOW), grade(&health)), (NodeHealth::Silent, Grade::Unfit));
        health.record_probe(Some(NodeStatus::at(7)));
        assert_eq!(grade(&health), Grade::Unfit, "it answers, but others have not been asked yet");
        health.compare(7, 3);
        assert_eq!((health.health(NOW), health.height()), (NodeHealth::Well, Some(7)));
    }

    #[test]
    fn a_silent_node_to_which_no_connection_could_be_made_stays_unreachable_after_the_pause() {
        let health = HealthState::default();
        (0..2).for_each(|_| health.record_probe(None));
        health.record_unreachable(NOW);
        let later = NOW + Duration::from_secs(3);
        assert_eq!(health.health(later), NodeHealth::Unreachable { left: Duration::ZERO });
        assert_eq!(health.grade(|| later), Grade::Unfit, "it gets another chance");
        health.record_reachable();
        assert_eq!(health.health(later), NodeHealth::Silent, "it can be reached, and has not answered yet");
    }

    #[test]
    fn a_node_at_height_0_or_that_says_so_is_not_in_sync() {
        let health = HealthState::default();
        for seen in [NodeStatus::at(0), NodeStatus::at(9).with_syncing(true)] {
            health.record_probe(Some(seen));
            assert_eq!((health.health(NOW), grade(&health)), (NodeHealth::Syncing, Grade::Unfit));
        }
        health.compare(100, 3);
        assert_eq!(health.health(NOW), NodeHealth::Syncing, "the reason stays the node's own word");
    }

    #[test]
    fn a_node_may_be_behind_up_to_its_limit() {
        let health = HealthState::default();
        health.record_probe(Some(NodeStatus::at(97)));
        health.compare(100, 3);
        assert_eq!(grade(&health), Grade::Healthy);
        health.compare(101, 3);
        assert_eq!((health.health(NOW), health.behind()), (NodeHealth::Behind { blocks: 4 }, 4));
        health.record_probe(Some(NodeStatus::at(97)));
        assert_eq!(grade(&health), Grade::Unfit, "no better before it is compared than after");
        health.record_probe(Some(NodeStatus::at(101)));
        health.compare(101, 3);
        assert_eq!(health.health(NOW), NodeHealth::Well);
    }

    #[test]
    fn latency_rises_faster_than_it_falls() {
        let health = HealthState::default();
        let after = |millis| {
            health.record_latency(Duration::from_millis(millis));
            health.latency().as_micros()
        };
        assert_eq!(after(8), 8_000);
        assert_eq!(after(16), 10_000);
        assert_eq!(after(2), 9_000);
        health.record_latency(Duration::ZERO);
        assert!(health.latency() > Duration::ZERO);
    }
}
