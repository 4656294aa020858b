//! Whether a call that failed is tried again, and how.

use super::error::NodeRequestError;
use super::retry_budget::RetryBudget;
use rpcgate_core::adapter::Unserved;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::node_try::TryEnd;
use std::time::Duration;

/// How often a call is tried, for how long, and how many retries the calls of a chain may cause altogether.
///
/// It holds for every way in which a try fails: a node that cannot be reached, a connection that breaks, a try that takes too
/// long, and an answer that is unusable. There is no other retry on the way to a node.
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
    /// How often a call that only reads is tried, the first try included. Each try goes to another node than the one
    /// before. A node without an alternative is tried again itself if its connection broke, since that may have been the
    /// connection's trouble, but not if it refuses connections or its answer is unusable.
    ///
    /// A broadcast is tried as often, but never again once a byte of it was written.
    ///
    /// One more try, once a call and at the same node, is not counted: that on a new connection, in place of one on an idle
    /// connection that the node had closed in the meantime.
    pub attempts: u32,
    /// How long a call may take over all its tries, from the choice of a node to the last byte that is collected. It
    /// also bounds how long the reader of a streamed answer is kept waiting for its next piece.
    pub deadline: Duration,
    /// How long one try may take; `None` for as long as the deadline leaves. A read whose try takes longer is tried at
    /// another node, unlike a call that reaches its deadline.
    pub per_try: Option<Duration>,
    /// After how long without an answer a read is sent to another node as well; `None` for never. The first try goes on, and
    /// the first usable answer is taken. It has no effect without another healthy node, without a retry in the budget, on
    /// broadcasts, and on gRPC calls whose client has not sent everything.
    pub next_node_after: Option<Duration>,
    /// How many tries of all calls may follow a try of which a byte was sent. Without such a byte, a try puts no load on a
    /// node and needs no budget.
    pub budget: RetryBudget,
}

impl Default for RetryPolicy {
    /// 2 tries within 30 s, with the default budget.
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
    /// The same with another number of tries, the first included.
    #[must_use]
    pub const fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// The same with another time for all tries together.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The same with a time for each try.
    #[must_use]
    pub const fn with_per_try(mut self, per_try: Duration) -> Self {
        self.per_try = Some(per_try);
        self
    }

    /// The same with a time after which a read is sent to another node as well.
    #[must_use]
    pub const fn with_next_node_after(mut self, time: Option<Duration>) -> Self {
        self.next_node_after = time;
        self
    }

    /// The same with another budget of retries.
    #[must_use]
    pub const fn with_budget(mut self, budget: RetryBudget) -> Self {
        self.budget = budget;
        self
    }
}

/// How a try failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TryFailure {
    /// The node had closed the idle connection that the try was on, which says nothing about the node. `sent`: a byte of
    /// the call may have reached it before.
    IdleConnectionClosed { sent: bool },
    /// The node could not be reached, or its answer did not arrive.
    Transport(Fault),
    /// The time of this try was over, but not that of the call.
    TimedOut { sent: bool },
    /// An answer arrived and is unusable.
    BadAnswer(Fault),
    /// An answer arrived in which the node says that it cannot serve the call now. If no other node can, the caller gets it.
    Unserved { why: Unserved, fault: Fault },
    /// An error arrived from a node that gave nothing else lately, or ever. The call or the node may be the cause. If no other
    /// node answers the call better, the caller gets this error.
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
    /// The error of a call whose last try failed like this.
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

    /// The end of a try that failed like this, for explanations.
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

    /// Whether the same call may be sent again. `is_idempotent`: it only reads.
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

/// The step after a failed try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NextTry {
    /// None: the call fails.
    GiveUp,
    /// The same node on a new connection.
    Reconnect,
    /// Another node, or the same one if `or_same` and there is no other.
    MoveOn { or_same: bool },
}

/// The tries of one call.
#[derive(Debug)]
pub(super) struct Tries {
    /// Those that count.
    made: u32,
    reconnected: bool,
}

impl Tries {
    /// Before the first try, which always takes place.
    pub(super) fn new() -> Self {
        Tries { made: 1, reconnected: false }
    }

    /// Whether no other try may follow the present one, save on a new connection.
    fn is_last(&self, policy: &RetryPolicy) -> bool {
        self.made >= policy.attempts
    }

    /// Decides the step after `failure`; the caller checks the budget.
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

    /// Another node, or the same one if `or_same`, unless the present try is the last.
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
