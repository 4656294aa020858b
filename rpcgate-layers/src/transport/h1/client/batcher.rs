//! Batches: single reads of several clients, gathered for one node and sent to it in one array.
//!
//! A call joins the queue of its thread (one queue for all threads if the policy has a wait) and yields to the runtime,
//! as every call does before it is written. The first call that resumes takes all gathered calls, and a task sends
//! them. A call that is alone in the queue is sent without an array. The task belongs to no client: if one client
//! leaves, the others get their answers; if all have left, the connection is closed.
//!
//! Each call gets the outcome of its own try: its reply from the array, or the failure of the array. An array is
//! abandoned if the node does not accept it, if its answer is too large or names none of the calls, or if it times out.
//! Then each call is sent alone immediately if the retry budget allows it, and fails otherwise. For a while (see
//! [`Backoff`]) no arrays are sent to the node.

use super::{AnswerBody, Client, NodeAnswer, NodeRequest, Reuse};
use crate::coalesce::Coalesce;
use crate::nodes::backoff::Backoff;
use crate::nodes::batching::{ArrayCounters, BatchingCounts, BatchingPolicy};
use crate::nodes::error::NodeRequestError;
use crate::nodes::node::NodeIndex;
use crate::nodes::progress::CallProgress;
use crate::nodes::retry::TryFailure;
use crate::nodes::retry_budget::RetryBalance;
use crate::nodes::timers::TimerPool;
use crate::transport::h1::request::BatchableCall;
use bytes::Bytes;
use futures_util::future::{Either, select};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use rpcgate_core::envelope::{Replies, ReplyMembers, read_number, replies};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::json::DEEPEST;
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::node_try::NodeTries;
use smallvec::SmallVec;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::oneshot;

/// The maximum size of the answer to an array, in bytes. After a larger answer the calls are sent alone.
const MAX_ANSWER: usize = 1 << 20;

/// The number of queues for calls without a wait. Threads share a queue only if there are more of them.
const QUEUES: usize = 16;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD: usize = THREADS.fetch_add(1, Relaxed);
}

pub(super) struct NodeBatcher(Arc<Gathered>);

struct Gathered {
    /// The client for the arrays, with its own connections.
    client: Client,
    policy: BatchingPolicy,
    max_calls: usize,
    queues: Box<[Mutex<CallQueue>]>,
    /// The pause without arrays.
    rest: Backoff,
    /// The retries of all calls of the chain.
    retries: Arc<RetryBalance>,
    counters: ArrayCounters,
    timers: TimerPool,
}

/// The waiting calls. They are fewer than the maximum of an array, because the call that reaches it takes them all.
#[derive(Default)]
struct CallQueue {
    next: u64,
    waiting: Vec<WaitingCall>,
}

struct WaitingCall {
    ticket: u64,
    /// The number that is the call's id.
    number: usize,
    body: Bytes,
    path: Option<&'static str>,
    outcome: oneshot::Sender<BatchOutcome>,
}

enum BatchOutcome {
    /// The try has ended. `is_shared`: the failure is that of the whole array. Another call reports it for the node, or
    /// no call does, because it says nothing about the node.
    Ended { result: Result<NodeAnswer, TryFailure>, is_shared: bool },
    /// The call is to be sent alone.
    Alone,
}

pub(super) enum BatchedTry {
    /// The call was sent in an array, and this is the result.
    Ended(Result<NodeAnswer, TryFailure>),
    /// The call is to be sent alone. `has_yielded`: the call has just yielded to the runtime.
    Alone { has_yielded: bool },
}

impl NodeBatcher {
    /// Creates a batcher for the node of `client`, which sends the arrays; `None` if the node takes no arrays.
    pub(super) fn new(client: Client, policy: BatchingPolicy, retries: Arc<RetryBalance>) -> Option<Self> {
        let max_calls = client.node.config.max_batch.unwrap_or(usize::MAX).min(policy.max_calls);
        let queues = if policy.wait.is_zero() { QUEUES } else { 1 };
        (max_calls > 1).then(|| {
            NodeBatcher(Arc::new(Gathered {
                client,
                policy,
                max_calls,
                queues: (0..queues).map(|_| Mutex::default()).collect(),
                rest: Backoff::default(),
                retries,
                counters: ArrayCounters::default(),
                timers: TimerPool::default(),
            }))
        })
    }

    pub(super) fn counts(&self) -> BatchingCounts {
        self.0.counters.counts()
    }

    pub(super) fn idle(&self) -> usize {
        self.0.client.idle()
    }

    pub(super) fn sweep(&self, now: Duration) {
        self.0.client.sweep(now);
    }

    /// Sends the call in an array, if others join in time. Its reply is taken from `memory`.
    pub(super) async fn send(
        &self,
        call: &BatchableCall,
        memory: &mut MemoryPermit,
        progress: &mut CallProgress<'_>,
    ) -> BatchedTry {
        let gathered = &self.0;
        let began = gathered.client.clock.elapsed();
        let Some((queue, ticket, mut receiver, is_full)) = gathered.join(call, began) else {
            return BatchedTry::Alone { has_yielded: false };
        };
        progress.begin(began);
        let sent_before = progress.sent;
        let mut joined = JoinedCall { queue, ticket, progress, is_over: false };
        let mut early = None;
        if !is_full {
            Coalesce::default().await;
            if !gathered.policy.wait.is_zero() {
                early = gathered.wait(&mut receiver).await;
            }
        }
        let outcome = match early {
            Some(outcome) => outcome,
            None => {
                if let Some(calls) = gathered.take(queue, ticket) {
                    if calls.len() < 2 {
                        joined.is_over = true;
                        return BatchedTry::Alone { has_yielded: !is_full };
                    }
                    tokio::spawn(gathered.clone().send(calls, memory.unshared()));
                }
                joined.progress.set_sent(true);
                // The task ends without an outcome only if its runtime ends.
                receiver.await.unwrap_or(BatchOutcome::Alone)
            }
        };
        joined.is_over = true;
        let progress = &mut *joined.progress;
        progress.set_sent(true);
        let BatchOutcome::Ended { result, is_shared } = outcome else {
            return BatchedTry::Alone { has_yielded: false };
        };
        progress.is_shared_failure = is_shared;
        BatchedTry::Ended(match result {
            Ok(answer) => {
                progress.arrive(gathered.client.clock.elapsed(), true);
                let bytes = if let AnswerBody::Complete(body) = &answer.body { body.len() } else { 0 };
                memory.take_complete(bytes).map(|()| answer).map_err(|_| TryFailure::Busy)
            }
            Err(failure) => {
                if matches!(failure.error(), NodeRequestError::Fault(fault) if !fault.sent) {
                    progress.set_sent(sent_before);
                }
                Err(failure)
            }
        })
    }
}

impl Gathered {
    /// Adds a call to the queue of this thread. Returns the queue, the call's ticket, the receiver of its outcome, and
    /// whether the array is full. `None` if the call has to be sent alone.
    fn join(
        &self,
        call: &BatchableCall,
        now: Duration,
    ) -> Option<(&Mutex<CallQueue>, u64, oneshot::Receiver<BatchOutcome>, bool)> {
        if self.rest.is_set() && !self.rest.remaining(now).is_zero() {
            return None;
        }
        let queue = self.queues.get(THREAD.with(|thread| *thread) % self.queues.len().max(1))?;
        let (outcome, receiver) = oneshot::channel();
        let mut held = queue.lock();
        let is_other = |other: &WaitingCall| other.number != call.number && other.path == call.path;
        if held.waiting.len() >= self.max_calls || !held.waiting.iter().all(is_other) {
            return None;
        }
        let ticket = held.next;
        held.next += 1;
        let number = call.number;
        let body = call.body.clone();
        let path = call.path;
        held.waiting.push(WaitingCall { ticket, number, body, path, outcome });
        let is_full = held.waiting.len() >= self.max_calls;
        drop(held);
        Some((queue, ticket, receiver, is_full))
    }

    /// Waits until another call has sent this one and its outcome is known, or until the wait is over.
    async fn wait(&self, receiver: &mut oneshot::Receiver<BatchOutcome>) -> Option<BatchOutcome> {
        let mut timer = self.timers.after(self.policy.wait);
        let early = poll_fn(|cx| match Pin::new(&mut *receiver).poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome.unwrap_or(BatchOutcome::Alone))),
            Poll::Pending => timer.poll(cx).map(|()| None),
        })
        .await;
        self.timers.keep(timer);
        early
    }

    /// Takes all calls of the queue, if the call with this ticket is still among them.
    fn take(&self, queue: &Mutex<CallQueue>, ticket: u64) -> Option<Vec<WaitingCall>> {
        let mut held = queue.lock();
        let is_in = held.waiting.iter().any(|call| call.ticket == ticket);
        is_in.then(|| std::mem::replace(&mut held.waiting, Vec::with_capacity(self.max_calls)))
    }

    async fn send(self: Arc<Self>, mut calls: Vec<WaitingCall>, mut memory: MemoryPermit) {
        let Some(path) = calls.first().map(|call| call.path) else { return };
        let request = NodeRequest {
            number: calls.first().map(|call| call.number),
            buffer: MAX_ANSWER,
            max: MAX_ANSWER,
            ..NodeRequest::json_rpc(array(&calls)).posted_to(path)
        };
        self.counters.count_sent(calls.len());
        let answered = {
            let exchange = self.exchange(&request, &mut memory);
            let sending = pin!(tokio::time::timeout(self.policy.timeout, exchange));
            let have_left = pin!(poll_fn(|cx| {
                let have_left = calls.iter_mut().all(|call| call.outcome.poll_closed(cx).is_ready());
                if have_left { Poll::Ready(()) } else { Poll::Pending }
            }));
            let first = select(sending, have_left).await;
            match first {
                Either::Left((answered, _)) => answered,
                Either::Right(_) => return,
            }
        };
        let node = &self.client.node;
        match answered {
            Ok(Ok(mut answer)) => {
                let connection = answer.take_connection();
                if self.settle(calls, &answer) {
                    self.client.give_back(connection);
                }
            }
            // No memory is left for the whole answer, but perhaps for each reply.
            Ok(Err(TryFailure::Busy)) => self.abandon(calls, Abandoned::NoMemory),
            Ok(Err(TryFailure::Transport(Fault { cause: Cause::Oversize, .. }))) => {
                self.abandon(calls, Abandoned::TooLarge);
            }
            Ok(Err(failure)) => {
                tracing::debug!(node = %node.config.name(), calls = calls.len(), ?failure, "an array of calls failed");
                give_all(calls, || Err(failure));
            }
            Err(_) => self.abandon(calls, Abandoned::TooLate),
        }
    }

    /// Sends the array, and sends it again on a new connection if the node had closed the idle one: all its calls only
    /// read.
    async fn exchange(
        &self,
        request: &NodeRequest,
        memory: &mut MemoryPermit,
    ) -> Result<NodeAnswer, TryFailure> {
        let mut ignored = |_| {};
        let mut unexplained = NodeTries::default();
        let mut progress = CallProgress::new(None, &mut ignored, &mut unexplained);
        match self.client.send_alone(request, memory, Reuse::Idle, false, &mut progress).await {
            Err(TryFailure::IdleConnectionClosed { .. }) => {
                // Boxed, because it is rare.
                Box::pin(self.client.send_alone(request, memory, Reuse::No, false, &mut progress)).await
            }
            result => result,
        }
    }

    /// Gives each call its reply. Returns whether the connection may be used again, which it may not after a reply to a
    /// call that was not in the array.
    fn settle(&self, calls: Vec<WaitingCall>, answer: &NodeAnswer) -> bool {
        let AnswerBody::Complete(body) = &answer.body else {
            self.abandon(calls, Abandoned::TooLarge);
            return false;
        };
        let mut is_of_array = true;
        let rejects_the_gateway = answer.rejects_the_gateway();
        let has_failed = answer.has_failed();
        match replies(body, DEEPEST) {
            Ok(Replies::Many(many)) if !rejects_the_gateway && is_refusal(&many, calls.len()) => {
                self.abandon(calls, Abandoned::NotAccepted);
            }
            Ok(Replies::Many(many)) if !rejects_the_gateway => match numbers(&calls, body, &many) {
                Ok(numbers) if numbers.iter().any(Option::is_some) => {
                    self.rest.clear();
                    give_each(calls, body, &many, &numbers, answer.node);
                }
                Ok(_) => self.abandon(calls, Abandoned::NotAccepted),
                Err(OtherCall) => {
                    is_of_array = false;
                    self.abandon(calls, Abandoned::OtherCalls);
                }
            },
            Ok(Replies::Single(_)) if !rejects_the_gateway => self.abandon(calls, Abandoned::NotAccepted),
            Err(_) if !rejects_the_gateway && !has_failed => self.abandon(calls, Abandoned::NotAccepted),
            // The node, or a proxy before it, answers nothing at all, which has nothing to do with the array.
            _ => give_all(calls, || {
                let status = answer.status;
                let headers = answer.headers.clone();
                let body = AnswerBody::Complete(Bytes::new());
                Ok(NodeAnswer { node: answer.node, status, headers, body, ..NodeAnswer::unconnected() })
            }),
        }
        is_of_array
    }

    /// Sends each call alone while retries last. Also pauses arrays to the node if it would answer the next one in the
    /// same way.
    fn abandon(&self, calls: Vec<WaitingCall>, why: Abandoned) {
        self.counters.count_abandoned();
        let now = self.client.clock.elapsed();
        let node = self.client.node.config.name();
        let number = calls.len();
        tracing::debug!(%node, calls = number, "an array of calls is abandoned: {}", why.text());
        if why != Abandoned::NoMemory {
            self.rest.fail(now);
        }
        // A client that left needs no outcome, here and below, and no retry.
        for call in calls.into_iter().filter(|call| !call.outcome.is_closed()) {
            let outcome = if self.retries.withdraw(now) {
                // The node has got the array, and gets the call again.
                self.client.node.count(1, &*self.client.clock);
                BatchOutcome::Alone
            } else {
                BatchOutcome::Ended { result: Err(why.failure()), is_shared: true }
            };
            let _ = call.outcome.send(outcome);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Abandoned {
    NotAccepted,
    OtherCalls,
    TooLarge,
    TooLate,
    NoMemory,
}

impl Abandoned {
    fn text(self) -> &'static str {
        match self {
            Abandoned::NotAccepted => "the node does not accept it",
            Abandoned::OtherCalls => "its answer is that to other calls",
            Abandoned::TooLarge => "its answer is too large",
            Abandoned::TooLate => "it takes too long",
            Abandoned::NoMemory => "there is no memory for its answer",
        }
    }

    fn failure(self) -> TryFailure {
        match self {
            Abandoned::NotAccepted | Abandoned::OtherCalls => {
                TryFailure::BadAnswer(Fault::sent(Cause::Undecodable))
            }
            Abandoned::TooLarge => TryFailure::BadAnswer(Fault::sent(Cause::Oversize)),
            Abandoned::TooLate => TryFailure::TimedOut { sent: true },
            Abandoned::NoMemory => TryFailure::Busy,
        }
    }
}

fn array(calls: &[WaitingCall]) -> Bytes {
    let mut body = Vec::with_capacity(calls.iter().map(|call| call.body.len() + 1).sum::<usize>() + 1);
    for call in calls {
        body.push(if body.is_empty() { b'[' } else { b',' });
        body.extend_from_slice(&call.body);
    }
    body.push(b']');
    body.into()
}

/// Gives the same result to all calls whose clients are still there. One of them reports it for the node.
fn give_all(calls: Vec<WaitingCall>, result: impl Fn() -> Result<NodeAnswer, TryFailure>) {
    let there = calls.into_iter().filter(|call| !call.outcome.is_closed());
    for (position, call) in there.enumerate() {
        let _ = call.outcome.send(BatchOutcome::Ended { result: result(), is_shared: position > 0 });
    }
}

/// Gives each call the reply with its number. A call without a reply fails, and so does a call with two, because it is
/// unknown which of them is right.
fn give_each(
    calls: Vec<WaitingCall>,
    body: &Bytes,
    many: &[ReplyMembers],
    numbers: &[Option<usize>],
    node: NodeIndex,
) {
    for call in calls {
        let mut its = numbers.iter().zip(many).filter(|(number, _)| **number == Some(call.number));
        let result = match (its.next(), its.next()) {
            (Some((_, reply)), None) => Ok(NodeAnswer {
                node,
                status: StatusCode::OK,
                headers: HeaderMap::new(),
                // A copy: a slice of the whole body would keep all other replies in memory while one client reads its
                // own.
                body: AnswerBody::Complete(Bytes::copy_from_slice(reply.span.of(body))),
                framed: true,
                ..NodeAnswer::unconnected()
            }),
            (None, _) => Err(TryFailure::BadAnswer(Fault::sent(Cause::Unanswered))),
            (Some(_), Some(_)) => Err(TryFailure::BadAnswer(Fault::sent(Cause::Undecodable))),
        };
        let _ = call.outcome.send(BatchOutcome::Ended { result, is_shared: false });
    }
}

/// Reports whether an answer to an array of `calls` calls refuses the array as a whole: it has fewer replies, and none
/// with a result. Geth refuses an array that is too long in this way, under the id of its first call.
fn is_refusal(many: &[ReplyMembers], calls: usize) -> bool {
    many.len() < calls && many.iter().all(|reply| reply.result.is_none())
}

/// An error: a reply in the answer to an array belongs to a call that was not in it.
struct OtherCall;

/// Returns the number of each reply's call; `None` for a reply without an id.
fn numbers(
    calls: &[WaitingCall],
    body: &[u8],
    many: &[ReplyMembers],
) -> Result<SmallVec<[Option<usize>; 16]>, OtherCall> {
    let number = |reply: &ReplyMembers| {
        let Some(id) = reply.id.map(|id| id.of(body)).filter(|id| *id != b"null") else { return Ok(None) };
        let number = read_number(id).filter(|number| calls.iter().any(|call| call.number == *number));
        number.map(Some).ok_or(OtherCall)
    };
    many.iter().map(number).collect()
}

/// A call in a queue or in an array, until it has its outcome. If it is dropped earlier, because its client left, it is
/// removed from the queue. If it is no longer in the queue, a node may have received it.
struct JoinedCall<'j, 's> {
    queue: &'j Mutex<CallQueue>,
    ticket: u64,
    progress: &'j mut CallProgress<'s>,
    is_over: bool,
}

impl Drop for JoinedCall<'_, '_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let left = {
            let mut held = self.queue.lock();
            let position = held.waiting.iter().position(|call| call.ticket == self.ticket);
            position.map(|position| held.waiting.remove(position))
        };
        if left.is_none() {
            self.progress.set_sent(true);
        }
    }
}

#[cfg(test)]
mod tests;
