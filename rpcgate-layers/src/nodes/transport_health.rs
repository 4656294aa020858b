//! The health of a node over one transport, according to the tries of calls and streams.

use super::backoff::Backoff;
use super::usefulness::{MethodIndex, Usefulness};
use rpcgate_core::adapter::Unserved;
use rpcgate_core::fault::Cause;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// The number of consecutive failures after which the node, and not the calls, is considered the cause.
const MAX_FAILURES: u32 = 5;

#[derive(Debug, Default)]
pub(crate) struct TransportHealth {
    unreachable: Backoff,
    ejected: Backoff,
    failures: AtomicU32,
    usefulness: Usefulness,
}

/// The information about a node in an accepted answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The answer is complete and has a result.
    Usable,
    /// The answer has only begun. Its rest decides.
    Begun,
    /// The answer is empty or an error of the client's call: the node works, but nothing is known about how well.
    Neutral,
    Unserved(Unserved),
}

pub(crate) trait Judged {
    fn verdict(&self) -> Verdict;
}

impl TransportHealth {
    pub(crate) fn usefulness(&self) -> &Usefulness {
        &self.usefulness
    }

    /// Returns the time that is left of the backoff after failed connections.
    pub(super) fn unreachable_for(&self, now: Duration) -> Duration {
        self.unreachable.remaining(now)
    }

    /// Returns the time that is left of the backoff after unusable answers.
    pub(super) fn ejected_for(&self, now: Duration) -> Duration {
        self.ejected.remaining(now)
    }

    /// Reports whether a connection has failed since the last successful one.
    pub(super) fn was_unreachable(&self) -> bool {
        self.unreachable.is_set()
    }

    pub(super) fn remaining(&self, now: Duration) -> Duration {
        self.unreachable.remaining(now).max(self.ejected.remaining(now))
    }

    /// Reports whether the gateway backs off from the node. Reads the clock only if it ever has.
    pub(super) fn is_backed_off(&self, now: impl Fn() -> Duration) -> bool {
        (self.unreachable.is_set() || self.ejected.is_set()) && !self.remaining(now()).is_zero()
    }

    /// Records that a connection could be made, or that an old one works.
    pub(crate) fn record_reachable(&self) {
        self.unreachable.clear();
    }

    pub(crate) fn record_unreachable(&self, now: Duration) {
        self.unreachable.fail(now);
    }

    /// Records that an answer to a call of this method was accepted, after `took` if that was measured.
    pub(crate) fn record_answer(
        &self,
        verdict: Verdict,
        method: MethodIndex,
        took: Option<Duration>,
        now: impl Fn() -> Duration,
    ) {
        if verdict != Verdict::Begun && self.usefulness.is_awaited_by_others() {
            self.usefulness.record_sign_of_life(now());
        }
        match verdict {
            Verdict::Usable => {
                self.clear_failures();
                self.usefulness.record_usable(method, took);
            }
            Verdict::Begun => {}
            // A client can make every node answer like this, so it makes no node doubtful.
            Verdict::Neutral | Verdict::Unserved(Unserved::Data | Unserved::UnknownMethod) => {
                self.clear_failures();
                self.usefulness.record_error(now);
            }
            Verdict::Unserved(Unserved::Method) => {
                self.clear_failures();
                self.usefulness.record_answered();
                self.usefulness.record_method_failed(method);
            }
            // No client can cause this answer by its choice of calls.
            Verdict::Unserved(Unserved::Node) => {
                self.record_unusable(now());
                self.usefulness.record_answered();
                self.usefulness.record_failed();
                self.usefulness.record_method_failed(method);
            }
        }
    }

    /// Ends the series of failures, because the node answers.
    fn clear_failures(&self) {
        // Reads first, like all code here: nearly all calls have nothing to write.
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
        self.ejected.clear();
    }

    pub(super) fn record_failure(&self, cause: Cause, pause: Option<Duration>, now: Duration) {
        match (cause, pause) {
            (_, Some(pause)) => self.ejected.pause(now, pause),
            (Cause::Status(401 | 403), None) => self.record_rejected_gateway(now),
            // A rejected call says nothing about the next one: no client may drive nodes out of the pool by the calls
            // that it makes.
            (Cause::Status(status), None) if (400..500).contains(&status) && status != 429 => {
                self.usefulness.record_error(|| now);
                return;
            }
            (Cause::Unanswered, None) => {
                self.usefulness.record_error(|| now);
                return;
            }
            (Cause::Timeout | Cause::Broken | Cause::Undecodable | Cause::Status(_), None) => {
                self.record_unusable(now);
            }
            // A failure to connect is recorded where it happens. The other causes say nothing about the node.
            (Cause::Connect, None) => {}
            _ => return,
        }
        if cause != Cause::Timeout {
            self.usefulness.record_failed();
        }
    }

    fn record_unusable(&self, now: Duration) {
        if self.failures.fetch_add(1, Relaxed) + 1 >= MAX_FAILURES {
            self.ejected.fail(now);
        }
    }

    /// Records that the node rejects every call of this gateway.
    fn record_rejected_gateway(&self, now: Duration) {
        self.failures.store(MAX_FAILURES, Relaxed);
        self.ejected.fail(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);
    const ANY: MethodIndex = MethodIndex::OTHER;

    impl Judged for () {
        fn verdict(&self) -> Verdict {
            Verdict::Usable
        }
    }

    fn answered(health: &TransportHealth, verdict: Verdict) {
        health.record_answer(verdict, ANY, Some(Duration::from_millis(1)), || NOW);
    }

    // Shows (Nodes and cache).
    #[test]
    fn only_usable_answers_improve_the_rank_of_a_node() {
        let health = TransportHealth::default();
        for verdict in [
            Verdict::Neutral,
            Verdict::Unserved(Unserved::Node),
            Verdict::Unserved(Unserved::Method),
            Verdict::Unserved(Unserved::UnknownMethod),
            Verdict::Unserved(Unserved::Data),
        ] {
            answered(&health, verdict);
            assert_eq!(health.usefulness.latency(), Duration::ZERO, "{verdict:?}");
        }
        answered(&health, Verdict::Usable);
        assert_eq!(health.usefulness.latency(), Duration::from_millis(1));
    }

    #[test]
    fn a_node_that_cannot_serve_is_doubtful_and_one_that_lacks_a_state_is_not() {
        let is_doubtful = |why| {
            let health = TransportHealth::default();
            (0..2).for_each(|_| answered(&health, Verdict::Unserved(why)));
            health.usefulness.is_doubtful(ANY, || NOW)
        };
        assert!(is_doubtful(Unserved::Node) && is_doubtful(Unserved::Method));
        assert!(!is_doubtful(Unserved::Data), "a caller that wants old states cannot drive nodes out");
        assert!(!is_doubtful(Unserved::UnknownMethod), "nor can one that invents methods");
    }

    #[test]
    fn errors_of_callers_do_not_eject_a_node() {
        let health = TransportHealth::default();
        for cause in [Cause::Oversize, Cause::NoNode, Cause::Status(404)] {
            (0..20).for_each(|_| health.record_failure(cause, None, NOW));
            assert!(!health.is_backed_off(|| NOW) && !health.usefulness.is_doubtful(ANY, || NOW));
            assert_eq!(health.usefulness.is_suspect(), cause == Cause::Status(404), "{cause:?}");
        }
        (0..5).for_each(|_| health.record_failure(Cause::Broken, None, NOW));
        assert!(health.is_backed_off(|| NOW) && health.usefulness.is_doubtful(ANY, || NOW));
    }
}
