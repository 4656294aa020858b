//! The progress of a call, which decides whether it is charged and whether it may be tried again.

use super::error::NodeRequestError;
use super::in_flight::InFlightPermit;
use super::node::NodeIndex;
use super::spending::TakenAt;
use rpcgate_core::fault::Fault;
use rpcgate_core::node_try::NodeTries;
use std::borrow::Borrow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// A callback for whether a byte of a call may have reached a node: `true` when the first byte is about to be written,
/// and `false` if it turns out that none was.
pub(crate) type OnSent<'s> = dyn FnMut(bool) + Send + 's;

/// The progress of a call over all its tries.
pub(crate) struct CallProgress<'s> {
    /// True if a byte of the call may have reached a node.
    pub(crate) sent: bool,
    pub(crate) node: Option<NodeIndex>,
    /// The permit among the calls in flight. A streamed body takes it along.
    pub(crate) permit: Option<InFlightPermit>,
    /// The calls that the current try has taken from a node's limits.
    pub(crate) taken: Option<(NodeIndex, u32, TakenAt)>,
    /// The first error of an unusable answer.
    pub(crate) bad_answer: Option<Fault>,
    /// True if the last try failed together with the other calls of its array. At most one of them reports the failure
    /// for the node.
    pub(crate) is_shared_failure: bool,
    /// The time at which the current try began to wait for an answer, while it waits.
    pub(crate) waits_since: Option<Duration>,
    /// The latency of the last answer, if it is a measure of the node's speed.
    pub(crate) took: Option<Duration>,
    /// The record of the tries, for explanations.
    pub(crate) tries: &'s mut NodeTries,
    on_sent: &'s mut OnSent<'s>,
}

impl<'s> CallProgress<'s> {
    pub(crate) fn new(
        permit: Option<InFlightPermit>,
        on_sent: &'s mut OnSent<'_>,
        tries: &'s mut NodeTries,
    ) -> Self {
        let node = None;
        let taken = None;
        let bad_answer = None;
        CallProgress {
            sent: false,
            node,
            permit,
            taken,
            bad_answer,
            is_shared_failure: false,
            waits_since: None,
            took: None,
            tries,
            on_sent,
        }
    }

    pub(crate) fn begin(&mut self, now: Duration) {
        self.waits_since = Some(now);
        self.took = None;
        self.tries.begin(now);
    }

    /// Waits again, for more of an answer that has begun.
    pub(crate) fn wait_on(&mut self, now: Duration) {
        self.waits_since = Some(now.saturating_sub(self.took.unwrap_or_default()));
    }

    /// Records that the answer has arrived. It is not accepted yet. `is_complete`: no part of it is still to come.
    pub(crate) fn arrive(&mut self, now: Duration, is_complete: bool) {
        let since = self.waits_since.take().filter(|_| is_complete);
        self.took = since.map(|since| now.saturating_sub(since));
        self.tries.arrive(now);
    }

    pub(crate) fn set_sent(&mut self, is_sent: bool) {
        if self.sent != is_sent {
            self.sent = is_sent;
            (self.on_sent)(is_sent);
        }
    }
}

/// The sent state of several tries of one call that run at the same time.
pub(crate) struct JointProgress<'s, B: Borrow<AtomicBool>> {
    sent: &'s [B],
    reported: bool,
    on_sent: &'s mut OnSent<'s>,
}

impl<'s, B: Borrow<AtomicBool>> JointProgress<'s, B> {
    pub(crate) fn new(sent: &'s [B], on_sent: &'s mut OnSent<'_>) -> Self {
        JointProgress { sent, reported: false, on_sent }
    }

    fn any_sent(&self) -> bool {
        self.sent.iter().any(|sent| sent.borrow().load(Relaxed))
    }

    /// Notifies the listener of changes. The tries cannot all hold the listener, so this is called after each of their
    /// polls.
    pub(crate) fn notify(&mut self) {
        let is_sent = self.any_sent();
        if is_sent != self.reported {
            self.reported = is_sent;
            (self.on_sent)(is_sent);
        }
    }

    /// Returns the result of the call. Its fault says whether any of the tries has sent something.
    pub(crate) fn result<T>(&self, result: Result<T, NodeRequestError>) -> Result<T, NodeRequestError> {
        result.map_err(|error| match error {
            NodeRequestError::Fault(fault) => {
                NodeRequestError::Fault(Fault { sent: fault.sent || self.any_sent(), ..fault })
            }
            NodeRequestError::AtLimit | NodeRequestError::Busy => error,
        })
    }
}

impl<B: Borrow<AtomicBool>> Drop for JointProgress<'_, B> {
    /// Tries that are dropped with their call may learn only then that they were sent. They are dropped before this.
    fn drop(&mut self) {
        self.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::fault::Cause;

    #[test]
    fn a_listener_is_notified_of_changes_only_and_a_fault_of_any_sent_try() {
        let sent = [AtomicBool::new(false), AtomicBool::new(false)];
        let mut told = Vec::new();
        let mut on_sent = |is_sent| told.push(is_sent);
        let mut progress = JointProgress::new(&sent, &mut on_sent);
        let fault = Fault::unsent(Cause::Connect);
        let result = |progress: &JointProgress<'_, AtomicBool>| progress.result(Err::<(), _>(fault.into()));
        for (first, second) in [(false, false), (true, false), (true, true), (false, true), (false, false)] {
            sent[0].store(first, Relaxed);
            sent[1].store(second, Relaxed);
            progress.notify();
            progress.notify();
            let expected = Fault { sent: first || second, ..fault };
            assert_eq!(result(&progress), Err(expected.into()));
        }
        for error in [NodeRequestError::Busy, NodeRequestError::AtLimit] {
            assert_eq!(progress.result::<()>(Err(error)), Err(error));
        }
        sent[1].store(true, Relaxed);
        drop(progress);
        assert_eq!(told, [true, false, true]);
    }
}
