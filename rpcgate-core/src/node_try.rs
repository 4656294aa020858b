//! The tries of a set's calls: chosen node, reason and end of each. The node pool writes them into the set's
//! [tally](crate::tally), only for [explanations](crate::recent).
//!
//! ```
//! use rpcgate_core::fault::{Cause, Fault};
//! use rpcgate_core::node_try::{NodeChoice, NodeTries, TryEnd};
//! use std::time::Duration;
//!
//! let mut tries = NodeTries::default();
//! tries.set_calls([0]);
//! tries.push((7, 2), NodeChoice::Turn);
//! tries.begin(Duration::from_millis(10));
//! tries.end(TryEnd::Failed(Fault::unsent(Cause::Connect)), Duration::from_millis(14));
//! let [only] = tries.as_slice() else { panic!("one try") };
//! assert_eq!((only.node, only.took), (2, Some(Duration::from_millis(4))));
//! ```

use crate::fault::Fault;
use crate::quota::Mask;
use crate::trace::{CallTrace, SpanId};
use http::HeaderMap;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of tries kept per set. A set has more only if many of its calls were retried.
pub const MOST_TRIES: usize = 64;

/// The reason why a node was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeChoice {
    /// The pool has no other node.
    Only,
    /// No other node in its tier was healthy.
    OnlyHealthy,
    /// Its turn in the rotation.
    Turn,
    /// It was likely to answer sooner than the node whose turn it was.
    Sooner,
    /// The alternatives cost more, or use up their monthly budgets too fast.
    Cheaper,
    /// The alternatives had reached their rate limits.
    Capacity,
    /// No node was healthy, and this one was the least behind.
    LeastBehind,
    /// All nodes were in backoff, and this one's backoff ended first.
    FirstBack,
    /// It was tried before, and its connection broke.
    Again,
    /// The previous node lacked the requested history, and this one is an archive.
    Archive,
    /// The previous node could not serve the call, as its error said.
    Elsewhere,
    /// The previous node did not have the block that the call names, and this one has reached its height.
    Ahead,
    /// It recently failed to be useful and gets an occasional call to show whether it recovered.
    Trial,
    /// The previous node exceeded the time that a read may take.
    Slow,
    /// The previous node took longer than most calls of the method.
    Hedge,
    /// A transaction is sent to several nodes at once.
    Broadcast,
}

impl NodeChoice {
    /// Every choice.
    pub const ALL: [NodeChoice; 16] = [
        NodeChoice::Only,
        NodeChoice::OnlyHealthy,
        NodeChoice::Turn,
        NodeChoice::Sooner,
        NodeChoice::Cheaper,
        NodeChoice::Capacity,
        NodeChoice::LeastBehind,
        NodeChoice::FirstBack,
        NodeChoice::Again,
        NodeChoice::Archive,
        NodeChoice::Elsewhere,
        NodeChoice::Ahead,
        NodeChoice::Trial,
        NodeChoice::Slow,
        NodeChoice::Hedge,
        NodeChoice::Broadcast,
    ];

    /// Returns its name in explanations and traces.
    pub const fn name(self) -> &'static str {
        match self {
            NodeChoice::Only => "only",
            NodeChoice::OnlyHealthy => "only_healthy",
            NodeChoice::Turn => "turn",
            NodeChoice::Sooner => "sooner",
            NodeChoice::Cheaper => "cheaper",
            NodeChoice::Capacity => "room",
            NodeChoice::LeastBehind => "least_behind",
            NodeChoice::FirstBack => "first_back",
            NodeChoice::Again => "again",
            NodeChoice::Archive => "archive",
            NodeChoice::Elsewhere => "elsewhere",
            NodeChoice::Ahead => "ahead",
            NodeChoice::Trial => "trial",
            NodeChoice::Slow => "slow",
            NodeChoice::Hedge => "hedge",
            NodeChoice::Broadcast => "broadcast",
        }
    }
}

/// The end of a try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryEnd {
    /// It had not ended when its request ended.
    Running,
    /// The gateway accepted the node's answer.
    Answered,
    /// The node closed the idle connection.
    IdleClosed,
    /// The gateway stopped it.
    Stopped,
    /// The node failed.
    Failed(Fault),
}

/// One try at one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeTry {
    /// The indices, in their set, of the calls that were sent together.
    pub calls: Mask,
    /// The number of the pool.
    pub pool: u32,
    /// The index of the node in its pool.
    pub node: u16,
    /// The reason for this node.
    pub choice: NodeChoice,
    /// The end of the try.
    pub end: TryEnd,
    /// The start, by [`Clock::elapsed`](crate::clock::Clock::elapsed): before the connection exists (HTTP/1.1,
    /// WebSocket) or with it (HTTP/2). `None` if the try did not get that far.
    pub began: Option<Duration>,
    /// The duration; `None` if not measured.
    pub took: Option<Duration>,
    /// Its span, if the calls have a trace.
    pub span: Option<SpanId>,
}

/// The first [`MOST_TRIES`] tries of a set.
#[derive(Debug, Default)]
pub struct NodeTries {
    list: SmallVec<[NodeTry; 2]>,
    calls: Mask,
    left_out: u32,
    trace: Option<Arc<CallTrace>>,
    /// False if the last try that began did not fit into the list.
    is_listed: bool,
}

impl NodeTries {
    /// Returns an empty list for the same calls and the same trace.
    #[must_use]
    pub fn of_same_calls(&self) -> Self {
        NodeTries { calls: self.calls, trace: self.trace.clone(), ..NodeTries::default() }
    }

    /// Makes the following tries part of this trace.
    pub fn set_trace(&mut self, trace: Option<CallTrace>) {
        self.trace = trace.map(Arc::new);
    }

    /// Returns the trace of the calls, if they have one.
    pub fn trace(&self) -> Option<&Arc<CallTrace>> {
        self.trace.as_ref()
    }

    /// Writes the trace context of the last try into the headers for its node. Does nothing without a trace.
    pub fn write_trace(&self, headers: &mut HeaderMap) {
        let Some(trace) = &self.trace else { return };
        let listed = self.list.last().filter(|_| self.is_listed).and_then(|last| last.span);
        trace.write(listed.unwrap_or_else(SpanId::random), headers);
    }

    /// Sets the indices of the calls that the next tries are for.
    pub fn set_calls(&mut self, indexes: impl IntoIterator<Item = usize>) {
        self.calls = Mask::default();
        indexes.into_iter().for_each(|index| self.calls.set(index));
    }

    /// Records that a try at the node `(pool, node)` is about to be made.
    pub fn push(&mut self, (pool, node): (u32, usize), choice: NodeChoice) {
        self.is_listed = self.list.len() < MOST_TRIES;
        if !self.is_listed {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let node = u16::try_from(node).unwrap_or(u16::MAX);
        let calls = self.calls;
        let end = TryEnd::Running;
        let span = self.trace.is_some().then(SpanId::random);
        self.list.push(NodeTry { calls, pool, node, choice, end, began: None, took: None, span });
    }

    /// Records that the last try begins now.
    pub fn begin(&mut self, now: Duration) {
        if let Some(last) = self.last() {
            last.began = Some(now);
        }
    }

    /// Records that the answer to the last try arrived; it is not accepted yet.
    pub fn arrive(&mut self, now: Duration) {
        if let Some(last) = self.last() {
            last.took = last.began.map(|began| now.saturating_sub(began));
        }
    }

    /// Records that the answer to the last try is accepted.
    pub fn accept(&mut self) {
        if let Some(last) = self.last() {
            last.end = TryEnd::Answered;
        }
    }

    /// Records that the last try ends now without an accepted answer.
    pub fn end(&mut self, end: TryEnd, now: Duration) {
        if let Some(last) = self.last() {
            last.end = end;
            last.took = last.took.or(last.began.map(|began| now.saturating_sub(began)));
        }
    }

    /// Records that the last try is stopped now, unless it has ended.
    pub fn stop(&mut self, now: Duration) {
        if self.last().is_some_and(|last| last.end == TryEnd::Running) {
            self.end(TryEnd::Stopped, now);
        }
    }

    /// Returns the pool and the index in it of the last node that answered.
    pub fn answered_by(&self) -> Option<(u32, u16)> {
        let answered = |one: &&NodeTry| one.end == TryEnd::Answered;
        self.list.iter().rev().find(answered).map(|one| (one.pool, one.node))
    }

    /// Appends the tries of other calls of the same set.
    pub fn append(&mut self, other: &NodeTries) {
        let capacity = MOST_TRIES.saturating_sub(self.list.len()).min(other.list.len());
        let (fitting, others) = other.list.split_at(capacity);
        self.list.extend_from_slice(fitting);
        let others = u32::try_from(others.len()).unwrap_or(u32::MAX);
        self.left_out = self.left_out.saturating_add(other.left_out).saturating_add(others);
        self.is_listed = false;
    }

    /// Returns the kept tries in order. Tries of calls that were sent concurrently are grouped by call.
    pub fn as_slice(&self) -> &[NodeTry] {
        &self.list
    }

    /// Returns the number of tries that were not kept.
    pub fn left_out(&self) -> u32 {
        self.left_out
    }

    fn last(&mut self) -> Option<&mut NodeTry> {
        if self.is_listed { self.list.last_mut() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::RequestId;
    use crate::fault::Cause;
    use crate::trace::{TRACEPARENT, TraceContext, TraceSampling};

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn a_try_that_gets_no_connection_has_no_time() {
        let mut tries = NodeTries::default();
        tries.push((1, 0), NodeChoice::Only);
        tries.end(TryEnd::Failed(Fault::unsent(Cause::Connect)), MILLI);
        assert_eq!((tries.as_slice()[0].began, tries.as_slice()[0].took), (None, None));
    }

    #[test]
    fn the_time_of_a_rejected_answer_is_that_of_its_arrival() {
        let mut tries = NodeTries::default();
        tries.push((1, 0), NodeChoice::Only);
        tries.begin(MILLI);
        tries.arrive(3 * MILLI);
        tries.end(TryEnd::Failed(Fault::sent(Cause::Undecodable)), 9 * MILLI);
        assert_eq!(tries.as_slice()[0].took, Some(2 * MILLI));
    }

    #[test]
    fn a_try_is_stopped_unless_it_has_ended() {
        let mut tries = NodeTries::default();
        tries.set_calls([2]);
        tries.push((1, 0), NodeChoice::Turn);
        tries.begin(MILLI);
        let mut others = tries.of_same_calls();
        tries.stop(3 * MILLI);
        assert_eq!((tries.as_slice()[0].end, tries.as_slice()[0].took), (TryEnd::Stopped, Some(2 * MILLI)));
        others.push((1, 1), NodeChoice::Hedge);
        assert!(others.as_slice().len() == 1 && others.as_slice()[0].calls.has(2));
        others.accept();
        others.stop(3 * MILLI);
        assert_eq!(others.as_slice()[0].end, TryEnd::Answered);
    }

    // Shows (Traces, logs and metrics).
    #[test]
    fn a_set_keeps_its_first_tries_and_counts_the_others() {
        let mut tries = NodeTries::default();
        for node in 0..MOST_TRIES + 3 {
            tries.push((1, node), NodeChoice::Turn);
            tries.begin(MILLI);
            tries.end(TryEnd::IdleClosed, 2 * MILLI);
        }
        assert_eq!((tries.as_slice().len(), tries.left_out()), (MOST_TRIES, 3));
        let last = tries.as_slice()[MOST_TRIES - 1];
        assert_eq!((usize::from(last.node), last.took), (MOST_TRIES - 1, Some(MILLI)));
        let mut others = NodeTries::default();
        others.push((1, 0), NodeChoice::Turn);
        others.append(&tries);
        assert_eq!((others.as_slice().len(), others.left_out()), (MOST_TRIES, 4));
    }

    #[test]
    fn each_try_of_a_traced_call_has_a_span_that_its_node_receives() {
        let mut tries = NodeTries::default();
        let mut told = HeaderMap::new();
        tries.push((1, 0), NodeChoice::Turn);
        tries.write_trace(&mut told);
        assert!(told.is_empty() && tries.as_slice()[0].span.is_none());
        tries.set_trace(TraceSampling::of_millionths(1_000_000).root(RequestId(7)));
        for node in 1..MOST_TRIES + 2 {
            tries.push((1, node), NodeChoice::Turn);
            tries.write_trace(&mut told);
            let told = TraceContext::parse(told[TRACEPARENT].as_bytes()).unwrap();
            assert_eq!(told.trace, RequestId(7).into());
            if let Some(listed) = tries.as_slice().get(node) {
                assert_eq!(listed.span, Some(told.span));
            }
            assert_ne!(Some(told.span), tries.trace().map(|trace| trace.context.span));
        }
        let mut others = tries.of_same_calls();
        others.push((1, 1), NodeChoice::Hedge);
        assert!(others.as_slice()[0].span.is_some());
    }

    #[test]
    fn tries_name_the_calls_they_were_for() {
        let mut tries = NodeTries::default();
        tries.set_calls([1, 3]);
        tries.push((1, 0), NodeChoice::Turn);
        tries.set_calls([2]);
        tries.push((1, 0), NodeChoice::Turn);
        let of = |n: usize| (0..5).filter(|index| tries.as_slice()[n].calls.has(*index)).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (vec![1, 3], vec![2]));
    }
}
