//! The decision whether and how a failed call is tried again.

use super::error::NodeRequestError;
use super::retry_budget::RetryBudget;
use rpcgate_core::adapter::Unserved;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::node_try::TryEnd;
use std::time::Duration;

/// The number of tries of a call, their time limits, and the retry budget of a chain.
///
/// The policy covers every kind of failure: an unreachable node, a broken connection, a timeout, and an unusable
/// answer. No other layer on the way to a node retries.
///
///
/// ```
/// use rpcgate_layers::nodes::{PoolLimits, RetryPolicy};
/// use std::time::Duration;
///
/// let retry = RetryPolicy::default().with_deadline(Duration::from_secs(5));
/// let limits = PoolLimits::default().with_retry(retry);
/// assert_eq!(limits.retry.attempts, 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// The number of tries of a read, including the first. Each try goes to another node than the previous one. If
    /// there is no other node, the same node is tried again after a broken connection, because the connection may have
    /// been the cause. It is not tried again if it refuses connections or its answer is unusable.
    ///
    /// A broadcast has the same number of tries, but is never tried again after a byte of it was written.
    ///
    /// One extra try per call at the same node is not counted: the one on a new connection, after the node had closed
    /// the idle connection of the first try.
    pub attempts: u32,
    /// The time limit of a call over all its tries, from the choice of a node to the last collected byte. It also
    /// limits the wait for each piece of a streamed answer.
    pub deadline: Duration,
    /// The time limit of one try; `None` for no limit below the deadline. After this limit a read is tried at another
    /// node, unlike after the deadline.
    pub per_try: Option<Duration>,
    /// The time without an answer after which a read is also sent to another node; `None` for never. The first try
    /// continues, and the first usable answer is taken. It has no effect without another healthy node, without a retry
    /// in the budget, on broadcasts, and on gRPC calls whose client has not sent everything.
    pub next_node_after: Option<Duration>,
    /// The budget for tries that follow a try with at least one sent byte. Without a sent byte, a try puts no load on a
    /// node and needs no budget.
    pub budget: RetryBudget,
}

impl Default for RetryPolicy {
    /// Returns a policy with 2 tries within 30 s and the default budget.
    fn default() -> Self {
        RetryPolicy {
            attempts: 2,
            deadline: Duration::from_secs(30),
            per_try: None,
            next_node_after: None,
            budget: RetryBudget::default(),
        }
    }
}

impl RetryPolicy {
    /// Sets the number of tries, including the first.
    #[must_use]
    pub const fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the time limit of all tries together.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the time limit of each try.
    #[must_use]
    pub const fn with_per_try(mut self, per_try: Duration) -> Self {
        self.per_try = Some(per_try);
        self
    }

    /// Sets the time after which a read is also sent to another node; `None` for never.
    #[must_use]
    pub const fn with_next_node_after(mut self, time: Option<Duration>) -> Self {
        self.next_node_after = time;
        self
    }

    /// Sets the retry budget.
    #[must_use]
    pub const fn with_budget(mut self, budget: RetryBudget) -> Self {
        self.budget = budget;
        self
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TryFailure {
    /// The node had closed the idle connection of the try, which says nothing about the node. `sent`: a byte of the
    /// call may have reached it before.
    IdleConnectionClosed { sent: bool },
    /// The node could not be reached, or its answer did not arrive.
    Transport(Fault),
    /// The time limit of this try was reached, but not that of the call.
    TimedOut { sent: bool },
    /// An answer arrived and is unusable.
    BadAnswer(Fault),
    /// The node says that it cannot serve the call now. If no other node can, the client gets this answer.
    Unserved { why: Unserved, fault: Fault },
    /// An error arrived from a node that gave only errors lately, or ever. The cause may be the call or the node. If no
    /// other node has a better answer, the client gets this error.
    DoubtedError(Fault),
    /// This gateway has no memory left for the answer.
    Busy,
    /// No node may get the call now.
    AtLimit,
}

impl From<Fault> for TryFailure {
    fn from(fault: Fault) -> Self {
        TryFailure::Transport(fault)
    }
}

impl From<NodeRequestError> for TryFailure {
    fn from(error: NodeRequestError) -> Self {
        match error {
            NodeRequestError::Fault(fault) => TryFailure::Transport(fault),
            NodeRequestError::AtLimit => TryFailure::AtLimit,
            NodeRequestError::Busy => TryFailure::Busy,
        }
    }
}

impl TryFailure {
    /// Returns the error of a call whose last try failed like this.
    pub(crate) fn error(self) -> NodeRequestError {
        NodeRequestError::Fault(match self {
            TryFailure::IdleConnectionClosed { sent } => Fault { cause: Cause::Broken, sent },
            TryFailure::TimedOut { sent } => Fault { cause: Cause::Timeout, sent },
            TryFailure::Transport(fault)
            | TryFailure::BadAnswer(fault)
            | TryFailure::DoubtedError(fault)
            | TryFailure::Unserved { fault, .. } => fault,
            TryFailure::Busy => return NodeRequestError::Busy,
            TryFailure::AtLimit => return NodeRequestError::AtLimit,
        })
    }

    pub(super) fn end(self) -> TryEnd {
        match self {
            TryFailure::IdleConnectionClosed { .. } => TryEnd::IdleClosed,
            TryFailure::TimedOut { sent } => TryEnd::Failed(Fault { cause: Cause::Timeout, sent }),
            TryFailure::Transport(fault)
            | TryFailure::BadAnswer(fault)
            | TryFailure::DoubtedError(fault)
            | TryFailure::Unserved { fault, .. } => TryEnd::Failed(fault),
            TryFailure::Busy | TryFailure::AtLimit => TryEnd::Stopped,
        }
    }

    /// Reports whether the same call may be sent again. `is_idempotent`: the call only reads.
    fn may_retry(self, is_idempotent: bool) -> bool {
        match self {
            TryFailure::IdleConnectionClosed { sent } | TryFailure::TimedOut { sent } => {
                !sent || is_idempotent
            }
            TryFailure::Transport(fault)
            | TryFailure::BadAnswer(fault)
            | TryFailure::DoubtedError(fault)
            | TryFailure::Unserved { fault, .. } => fault.may_retry(is_idempotent),
            TryFailure::Busy | TryFailure::AtLimit => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NextTry {
    /// No further try: the call fails.
    GiveUp,
    /// A try at the same node on a new connection.
    Reconnect,
    /// A try at another node, or at the same one if `or_same` and there is no other.
    MoveOn { or_same: bool },
}

#[derive(Debug)]
pub(super) struct Tries {
    /// The tries that count.
    made: u32,
    reconnected: bool,
}

impl Tries {
    /// Creates the state for the first try, which always takes place.
    pub(super) fn new() -> Self {
        Tries { made: 1, reconnected: false }
    }

    /// Reports whether no try may follow the present one, except on a new connection.
    fn is_last(&self, policy: &RetryPolicy) -> bool {
        self.made >= policy.attempts
    }

    /// Decides the step after `failure`. The caller checks the budget.
    pub(super) fn after(
        &mut self,
        failure: TryFailure,
        is_idempotent: bool,
        policy: &RetryPolicy,
    ) -> NextTry {
        if !failure.may_retry(is_idempotent) {
            return NextTry::GiveUp;
        }
        if matches!(failure, TryFailure::IdleConnectionClosed { .. }) && !self.reconnected {
            self.reconnected = true;
            return NextTry::Reconnect;
        }
        let is_broken =
            matches!(failure.error(), NodeRequestError::Fault(Fault { cause: Cause::Broken, .. }));
        self.move_on(is_broken, policy)
    }

    /// Moves to another node, or to the same one if `or_same`, unless the present try is the last.
    pub(super) fn move_on(&mut self, or_same: bool, policy: &RetryPolicy) -> NextTry {
        if self.is_last(policy) {
            return NextTry::GiveUp;
        }
        self.made += 1;
        NextTry::MoveOn { or_same }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROKEN: TryFailure = TryFailure::Transport(Fault::sent(Cause::Broken));
    const BAD_ANSWER: TryFailure = TryFailure::BadAnswer(Fault::sent(Cause::Undecodable));
    const CLOSED: TryFailure = TryFailure::IdleConnectionClosed { sent: true };
    const MOVE_ON: NextTry = NextTry::MoveOn { or_same: false };

    fn nexts(failures: &[TryFailure], is_idempotent: bool) -> Vec<NextTry> {
        let mut tries = Tries::new();
        let policy = RetryPolicy::default();
        failures.iter().map(|failure| tries.after(*failure, is_idempotent, &policy)).collect()
    }

    // Shows (Nodes and cache).
    #[test]
    fn a_read_is_retried_once_for_every_kind_of_failure() {
        let timed_out = TryFailure::TimedOut { sent: true };
        let unreachable = TryFailure::Transport(Fault::unsent(Cause::Connect));
        for first in [BROKEN, BAD_ANSWER, timed_out, unreachable] {
            for second in [BROKEN, BAD_ANSWER, timed_out, unreachable] {
                let [next, last] = nexts(&[first, second], true)[..] else { panic!("two decisions") };
                assert_eq!(next, NextTry::MoveOn { or_same: first == BROKEN }, "{first:?}");
                assert_eq!(last, NextTry::GiveUp, "{first:?}, {second:?}");
            }
        }
    }

    #[test]
    fn a_closed_idle_connection_costs_no_try_but_only_once() {
        let reconnected = [NextTry::Reconnect, MOVE_ON, NextTry::GiveUp];
        assert_eq!(nexts(&[CLOSED, BAD_ANSWER, BAD_ANSWER], true), reconnected);
        let moved = [MOVE_ON, NextTry::Reconnect, NextTry::GiveUp];
        assert_eq!(nexts(&[BAD_ANSWER, CLOSED, CLOSED], true), moved);
    }

    #[test]
    fn a_broadcast_is_tried_again_only_while_nothing_was_sent() {
        for failure in [BROKEN, BAD_ANSWER, CLOSED, TryFailure::TimedOut { sent: true }] {
            assert_eq!(nexts(&[failure], false), [NextTry::GiveUp], "{failure:?}");
        }
        let unsent = [
            (TryFailure::Transport(Fault::unsent(Cause::Connect)), MOVE_ON),
            (TryFailure::TimedOut { sent: false }, MOVE_ON),
            (TryFailure::IdleConnectionClosed { sent: false }, NextTry::Reconnect),
        ];
        for (failure, next) in unsent {
            assert_eq!(nexts(&[failure], false), [next], "{failure:?}");
        }
    }

    #[test]
    fn a_failure_that_another_node_cannot_repair_ends_the_call() {
        let faults = [Cause::Timeout, Cause::Oversize, Cause::NoNode].map(Fault::sent);
        for fault in faults {
            assert_eq!(nexts(&[TryFailure::Transport(fault)], true), [NextTry::GiveUp], "{fault:?}");
            assert_eq!(nexts(&[TryFailure::BadAnswer(fault)], true), [NextTry::GiveUp], "{fault:?}");
        }
        assert_eq!(nexts(&[TryFailure::Busy], true), [NextTry::GiveUp]);
    }

    #[test]
    fn the_policy_sets_the_number_of_tries() {
        for attempts in 0..5 {
            let policy = RetryPolicy { attempts, ..RetryPolicy::default() };
            let mut tries = Tries::new();
            let retries =
                (0..9).take_while(|_| tries.after(BROKEN, true, &policy) != NextTry::GiveUp).count();
            assert_eq!(retries, attempts.saturating_sub(1) as usize, "the first try always takes place");
        }
    }
}
