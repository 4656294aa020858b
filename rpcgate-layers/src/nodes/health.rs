//! The health of a node, according to its calls and its probes.

use super::transport_health::TransportHealth;
use super::usefulness::MethodIndex;
use rpcgate_core::adapter::NodeStatus;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::tally::Transport;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The health of a node. A node that is not healthy is used if no other node is left: a chain never refuses calls while
/// it has a node that may answer. The exceptions are the last three variants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeHealth {
    /// The node is used. A node that was not probed yet is well.
    Well,
    /// Most of the latest tries by a transport failed: the node comes after nodes that are well, and single calls try
    /// it out.
    Doubtful {
        /// The first such transport.
        by: Transport,
    },
    /// The node reports that it has not caught up, or it is at height 0.
    Syncing,
    /// The node is farther behind the others than the allowed lag.
    Behind {
        /// The number of blocks that it is behind.
        blocks: u64,
    },
    /// The node has not answered its last probes.
    Silent,
    /// Several consecutive answers to calls were unusable, or the node requested a pause.
    Ejected {
        /// The time that is left of the pause.
        left: Duration,
    },
    /// No connection could be made.
    Unreachable {
        /// The time that is left of the pause.
        left: Duration,
    },
    /// The node belongs to another network than its chain. It is not used even if no other node is left.
    WrongNetwork,
    /// An operator has drained the node. It is not used even if no other node is left.
    Drained,
    /// The node has used its calls of this month. It is not used even if no other node is left.
    Spent,
}

impl NodeHealth {
    /// One value of each variant, in the order of declaration.
    pub const ALL: [NodeHealth; 10] = [
        NodeHealth::Well,
        NodeHealth::Doubtful { by: Transport::Http },
        NodeHealth::Syncing,
        NodeHealth::Behind { blocks: 0 },
        NodeHealth::Silent,
        NodeHealth::Ejected { left: Duration::ZERO },
        NodeHealth::Unreachable { left: Duration::ZERO },
        NodeHealth::WrongNetwork,
        NodeHealth::Drained,
        NodeHealth::Spent,
    ];

    /// Reports whether the node can be reached and has caught up. Calls to it may fail nevertheless.
    pub const fn is_fit(self) -> bool {
        matches!(self, NodeHealth::Well | NodeHealth::Doubtful { .. })
    }

    /// Reports whether this is the [name](NodeHealth::name) of a node that [is fit](NodeHealth::is_fit).
    pub fn is_fit_name(name: &str) -> bool {
        NodeHealth::ALL.iter().any(|health| health.is_fit() && health.name() == name)
    }

    /// Returns the name of the variant.
    pub const fn name(self) -> &'static str {
        match self {
            NodeHealth::Well => "well",
            NodeHealth::Doubtful { .. } => "doubtful",
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

    /// Returns the time that is left of the backoff; zero without one.
    pub const fn left(self) -> Duration {
        match self {
            NodeHealth::Ejected { left } | NodeHealth::Unreachable { left } => left,
            _ => Duration::ZERO,
        }
    }
}

/// The order in which nodes are considered; the lowest grade first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Grade {
    /// The node is used.
    Healthy,
    /// Most tries fail, or calls wait for the node longer than usual. The node gets calls if no other node is better,
    /// and trial calls.
    Doubtful,
    /// The node can be reached, but its answers may be outdated.
    Unfit,
    BackedOff,
}

const WELL: u8 = 0;
const SYNCING: u8 = 1;
const BEHIND: u8 = 2;
const SILENT: u8 = 3;

/// The number of consecutive unanswered probes after which a node is silent.
const MAX_MISSES: u32 = 2;

/// The known state of a node: the results of probes, and statistics of each transport. No access takes a lock.
#[derive(Debug, Default)]
pub(crate) struct HealthState {
    transports: [TransportHealth; 3],
    /// The result of the probes: one of the constants above.
    probed: AtomicU8,
    misses: AtomicU32,
    /// 0 if no height was seen.
    height: AtomicU64,
    behind: AtomicU64,
    /// Failed tries for which the node is responsible.
    faults: AtomicU64,
}

impl HealthState {
    /// Returns the state of one transport. A node that works over one transport may fail over another.
    pub(crate) fn by(&self, transport: Transport) -> &TransportHealth {
        let [http, ws, grpc] = &self.transports;
        match transport {
            Transport::Http => http,
            Transport::Ws => ws,
            Transport::Grpc => grpc,
        }
    }

    /// Returns the health at `now` for display: a pause of any transport is shown.
    pub(super) fn health(&self, now: Duration) -> NodeHealth {
        let longest = |left: fn(&TransportHealth, Duration) -> Duration| {
            self.transports.iter().map(|transport| left(transport, now)).max().unwrap_or_default()
        };
        let unreachable = longest(TransportHealth::unreachable_for);
        let ejected = longest(TransportHealth::ejected_for);
        let was_unreachable = || self.transports.iter().any(TransportHealth::was_unreachable);
        match self.probed.load(Relaxed) {
            _ if !unreachable.is_zero() => NodeHealth::Unreachable { left: unreachable },
            _ if !ejected.is_zero() => NodeHealth::Ejected { left: ejected },
            // Between the end of the pause and the next connection attempt, the reason for the silence is still known.
            SILENT if was_unreachable() => NodeHealth::Unreachable { left: unreachable },
            SYNCING => NodeHealth::Syncing,
            BEHIND => NodeHealth::Behind { blocks: self.behind.load(Relaxed) },
            SILENT => NodeHealth::Silent,
            _ => self.doubtful_by().map_or(NodeHealth::Well, |by| NodeHealth::Doubtful { by }),
        }
    }

    /// Returns the first transport by which most tries failed. Calls that wait for the node at the moment do not count
    /// here: a few long calls would change the displayed health all the time.
    fn doubtful_by(&self) -> Option<Transport> {
        let every = [Transport::Http, Transport::Ws, Transport::Grpc];
        let is_in_doubt =
            |transport: &Transport| self.by(*transport).usefulness().is_in_doubt(MethodIndex::OTHER);
        every.into_iter().find(is_in_doubt)
    }

    /// Returns the grade of the node for calls of this method by this transport. Reads the clock only if the gateway
    /// has ever backed off from the node, or if calls wait for it.
    pub(super) fn grade(
        &self,
        (transport, method): (Transport, MethodIndex),
        now: impl Fn() -> Duration,
    ) -> Grade {
        let by = self.by(transport);
        if by.is_backed_off(&now) {
            Grade::BackedOff
        } else if self.probed.load(Relaxed) != WELL {
            Grade::Unfit
        } else if by.usefulness().is_doubtful(method, now) {
            Grade::Doubtful
        } else {
            Grade::Healthy
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        self.probed.load(Relaxed) == SILENT
    }

    pub(super) fn misses(&self) -> u32 {
        self.misses.load(Relaxed)
    }

    /// Returns the number of blocks that the node is behind; `u64::MAX` if that is unknown.
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

    pub(super) fn raise_height(&self, height: u64) {
        self.height.fetch_max(height, Relaxed);
    }

    /// Returns the latency of usable answers over the first transport that has one.
    pub(super) fn latency(&self) -> Duration {
        let mut latencies = self.transports.iter().map(|transport| transport.usefulness().latency());
        latencies.find(|latency| !latency.is_zero()).unwrap_or_default()
    }

    /// Returns the number of failed tries of calls and streams for which the node or the network to it is responsible.
    pub(super) fn faults(&self) -> u64 {
        self.faults.load(Relaxed)
    }

    /// Records that the node gave no usable answer to a call. `pause` is the pause that the node requested.
    pub(crate) fn record_failure(
        &self,
        transport: Transport,
        fault: Fault,
        pause: Option<Duration>,
        now: Duration,
    ) {
        if is_of_node(fault.cause) {
            self.faults.fetch_add(1, Relaxed);
        }
        self.by(transport).record_failure(fault.cause, pause, now);
    }

    /// Records the result of a probe; `None` if there was no answer.
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
                    // The node is well again only after a comparison, for which other nodes may still have to answer.
                    _ => BEHIND,
                };
                if now != known {
                    self.probed.store(now, Relaxed);
                }
            }
        }
    }

    /// Compares the height of a node that answered its probe with the height of the others.
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

/// Reports whether the node or the network to it is responsible for a failed try. A call that the node rejects, or
/// whose answer is too large, is the client's responsibility.
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
    use crate::nodes::transport_health::Verdict;

    const NOW: Duration = Duration::from_secs(100);

    const HTTP: (Transport, MethodIndex) = (Transport::Http, MethodIndex::OTHER);

    fn grade(health: &HealthState) -> Grade {
        health.grade(HTTP, || NOW)
    }

    fn answers(health: &HealthState) {
        health.by(Transport::Http).record_answer(Verdict::Usable, MethodIndex::OTHER, None, || NOW);
    }

    fn fails(health: &HealthState, now: Duration) {
        health.record_failure(Transport::Http, Fault::sent(Cause::Broken), None, now);
    }

    #[test]
    fn a_node_is_healthy_until_the_opposite_is_known() {
        assert_eq!(HealthState::default().health(NOW), NodeHealth::Well);
        assert_eq!(grade(&HealthState::default()), Grade::Healthy);
    }

    #[test]
    fn five_failures_in_a_row_eject_and_an_answer_brings_back() {
        let health = HealthState::default();
        (0..4).for_each(|_| fails(&health, NOW));
        answers(&health);
        (0..4).for_each(|_| fails(&health, NOW));
        assert_eq!(grade(&health), Grade::Doubtful);
        assert_eq!(health.health(NOW), NodeHealth::Doubtful { by: Transport::Http });
        fails(&health, NOW);
        assert_eq!(health.health(NOW), NodeHealth::Ejected { left: Duration::from_secs(1) });
        assert_eq!(grade(&health), Grade::BackedOff);
        let later = NOW + Duration::from_secs(1);
        assert_eq!(health.grade(HTTP, || later), Grade::Doubtful, "it gets another chance");
        fails(&health, later);
        assert_eq!(
            health.health(later),
            NodeHealth::Ejected { left: Duration::from_secs(2) },
            "and one only"
        );
        (0..2).for_each(|_| answers(&health));
        assert_eq!(health.health(later), NodeHealth::Well);
    }

    #[test]
    fn a_node_that_refuses_the_gateway_is_ejected_at_once() {
        let health = HealthState::default();
        health.record_failure(Transport::Http, Fault::sent(Cause::Status(401)), None, NOW);
        assert_eq!(health.health(NOW).name(), "ejected");
    }

    // Shows (Dashboard): Nodes show their failed tries, and no refusals of clients.
    #[test]
    fn faults_are_what_fails_through_the_node_and_not_through_the_call() {
        let health = HealthState::default();
        let counts = |cause| {
            let before = health.faults();
            health.record_failure(Transport::Http, Fault::sent(cause), None, NOW);
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
        answers(&health);
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
    fn a_silent_node_that_failed_to_connect_stays_unreachable_after_the_pause() {
        let health = HealthState::default();
        (0..2).for_each(|_| health.record_probe(None));
        health.by(Transport::Http).record_unreachable(NOW);
        let later = NOW + Duration::from_secs(3);
        assert_eq!(health.health(later), NodeHealth::Unreachable { left: Duration::ZERO });
        assert_eq!(health.grade(HTTP, || later), Grade::Unfit, "it gets another chance");
        health.by(Transport::Http).record_reachable();
        assert_eq!(health.health(later), NodeHealth::Silent, "it can be reached, and has not answered yet");
    }

    #[test]
    fn a_node_at_height_0_or_that_reports_syncing_is_not_in_sync() {
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

    // Shows (Nodes and cache).
    #[test]
    fn a_failing_transport_does_not_affect_the_others() {
        let health = HealthState::default();
        let of = |transport| health.grade((transport, MethodIndex::OTHER), || NOW);
        (0..5).for_each(|_| {
            health.record_failure(Transport::Grpc, Fault::sent(Cause::Broken), None, NOW);
        });
        health.by(Transport::Ws).record_unreachable(NOW);
        let grades = [of(Transport::Http), of(Transport::Ws), of(Transport::Grpc)];
        assert_eq!(grades, [Grade::Healthy, Grade::BackedOff, Grade::BackedOff]);
        answers(&health);
        health.by(Transport::Http).record_reachable();
        assert_eq!(of(Transport::Grpc), Grade::BackedOff, "HTTP clears nothing of another transport");
        assert_eq!(health.health(NOW).name(), "unreachable", "people see it");
    }
}
