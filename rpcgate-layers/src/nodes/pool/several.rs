//! Sending a transaction to several nodes at once.

use super::Pool;
use crate::nodes::choice::Candidates;
use crate::nodes::error::NodeRequestError;
use crate::nodes::exchange::HttpExchange;
use crate::nodes::node::NodeIndex;
use crate::nodes::node_set::NodeSet;
use crate::nodes::progress::{JointProgress, OnSent};
use crate::nodes::reception::{Reception, ReceptionReader};
use crate::nodes::timers::PooledTimer;
use crate::transport::h1::{AnswerBody, NodeAnswer, NodeRequest};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::fault::Fault;
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::node_try::{NodeChoice, NodeTries};
use smallvec::SmallVec;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

/// How long the answer of the first node that took a transaction waits until it is written to the others.
const WRITTEN: Duration = Duration::from_millis(100);

/// How long other nodes are waited for once one had the transaction before.
const KNOWN: Duration = Duration::from_secs(1);

/// A transaction on its way to one node.
struct TransactionCopy {
    request: NodeRequest,
    memory: MemoryPermit,
    tries: NodeTries,
    is_sent: Arc<AtomicBool>,
}

type Sending<'c, T> = Pin<Box<dyn Future<Output = Result<(Reception, T), NodeRequestError>> + Send + 'c>>;

/// The best result so far, and the place of the copy that brought it.
struct Best<T> {
    place: usize,
    reception: Option<Reception>,
    result: Result<T, NodeRequestError>,
}

impl<T> Best<T> {
    /// The better of two results, the earlier one if they are equal. Any answer is better than none.
    fn or(self, place: usize, result: Result<(Reception, T), NodeRequestError>) -> Self {
        let rank = |reception: Option<Reception>| (reception.is_none(), reception);
        let (reception, result) = match result {
            Ok((reception, answer)) => (Some(reception), Ok(answer)),
            Err(error) => (None, Err(error)),
        };
        if rank(reception) < rank(self.reception) { Best { place, reception, result } } else { self }
    }
}

impl Pool {
    /// Sends a transaction to a node as [`ask_classified`](Pool::ask_classified) does, and at the same time to other healthy
    /// nodes, each of which gets it once. The first node that takes it answers. That a node had it before is an answer only if
    /// no node takes it. The call has one record, whatever was sent.
    pub(super) async fn ask_several<T, F>(
        &self,
        reader: &ReceptionReader,
        request: &NodeRequest,
        limit: Duration,
        memory: &mut MemoryPermit,
        (on_sent, tries): (&mut OnSent<'_>, &mut NodeTries),
        classify: &F,
    ) -> Result<T, NodeRequestError>
    where
        T: Send,
        F: Fn(NodeAnswer) -> Result<T, Fault> + Send + Sync,
    {
        let project = memory.project();
        let others = self.others(request);
        let copy = |among: NodeSet, choice: Option<NodeChoice>| TransactionCopy {
            request: NodeRequest { among, choice, ..request.clone() },
            memory: memory.sibling(),
            tries: tries.of_same_calls(),
            is_sent: Arc::default(),
        };
        let set = |nodes: &[NodeIndex]| nodes.iter().copied().collect::<NodeSet>();
        let mut copies: SmallVec<[TransactionCopy; 4]> = SmallVec::new();
        copies.push(copy(request.among.without(set(&others)), request.choice));
        copies.extend(others.iter().map(|node| copy(set(&[*node]), Some(NodeChoice::Broadcast))));
        let sent: SmallVec<[Arc<AtomicBool>; 4]> = copies.iter().map(|copy| copy.is_sent.clone()).collect();
        let mut progress = JointProgress::new(&sent, on_sent);
        let read = |answer: NodeAnswer| {
            let reception = match &answer.body {
                AnswerBody::Whole(body) => reader.read(answer.status.is_success(), body),
                // No error is as large.
                AnswerBody::Larger { .. } => Reception::Taken,
            };
            classify(answer).map(|answer| (reception, answer))
        };
        let (best, unfinished) = {
            let send = |copy| Some(Box::pin(self.send_copy(copy, limit, project, &read)) as Sending<'_, T>);
            let mut sendings: SmallVec<[Option<Sending<'_, T>>; 4]> = copies.iter_mut().map(send).collect();
            let mut best: Option<Best<T>> = None;
            let mut timer: Option<PooledTimer> = None;
            poll_fn(|cx| {
                for (place, slot) in sendings.iter_mut().enumerate() {
                    let Some(sending) = slot else { continue };
                    let Poll::Ready(result) = sending.as_mut().poll(cx) else { continue };
                    *slot = None;
                    let before = best.as_ref().and_then(|best| best.reception);
                    let first = Best { place, reception: None, result: Err(NodeRequestError::Busy) };
                    best = Some(match (best.take(), result) {
                        (Some(best), result) => best.or(place, result),
                        (None, Err(error)) => Best { result: Err(error), ..first },
                        (None, result) => first.or(place, result),
                    });
                    let now = best.as_ref().and_then(|best| best.reception);
                    if now != before {
                        timer = match now {
                            Some(Reception::Taken) => Some(self.timers.after(WRITTEN)),
                            Some(Reception::Known) => Some(self.timers.after(KNOWN)),
                            _ => None,
                        };
                    }
                }
                progress.tell();
                let is_taken = best.as_ref().is_some_and(|best| best.reception == Some(Reception::Taken));
                let mut left = sendings.iter().zip(&sent).filter(|(sending, _)| sending.is_some());
                let is_done = match is_taken {
                    true => left.all(|(_, sent)| sent.load(Relaxed)),
                    false => left.next().is_none(),
                };
                let is_late = timer.as_mut().is_some_and(|timer| timer.poll(cx).is_ready());
                if is_done || is_late { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            if let Some(timer) = timer {
                self.timers.keep(timer);
            }
            let unfinished: SmallVec<[bool; 4]> = sendings.iter().map(Option::is_some).collect();
            (best, unfinished)
        };
        progress.tell();
        let now = self.clock.elapsed();
        let winner = best.as_ref().map(|best| best.place);
        for (place, (mut copy, is_unfinished)) in copies.into_iter().zip(unfinished).enumerate() {
            if is_unfinished {
                copy.tries.stop(now);
            }
            tries.append(&copy.tries);
            if Some(place) == winner {
                memory.absorb(copy.memory);
            }
        }
        progress.result(best.map_or(Err(NodeRequestError::Busy), |best| best.result))
    }

    /// Sends one copy to its node.
    async fn send_copy<T, F>(
        &self,
        copy: &mut TransactionCopy,
        limit: Duration,
        project: Option<ProjectId>,
        read: &F,
    ) -> Result<T, NodeRequestError>
    where
        T: Send,
        F: Fn(NodeAnswer) -> Result<T, Fault> + Send + Sync,
    {
        let TransactionCopy { request, memory, tries, is_sent } = copy;
        let mut told = |is: bool| is_sent.store(is, Relaxed);
        let mut exchange = HttpExchange { request, memory, classify: read, place: None };
        let noted = (&mut told as &mut OnSent<'_>, tries);
        self.exchange((&self.http, &self.in_flight), Some(limit), project, noted, &mut exchange).await
    }

    /// The other nodes that get a transaction as well: healthy ones, in their turns.
    fn others(&self, request: &NodeRequest) -> SmallVec<[NodeIndex; 4]> {
        let mut chosen: SmallVec<[NodeIndex; 4]> = SmallVec::new();
        let mut among = request.among.and(self.with_room(&self.http, request.calls));
        // One of those that are chosen is left to the first copy, which may go to any node that gets no other.
        for _ in 0..self.limits.broadcast_nodes {
            let candidates = Candidates { among, avoid: [request.avoid, None] };
            let Some((client, _)) = self.rotation.choose(&self.http, candidates, || self.clock.elapsed())
            else {
                break;
            };
            let node = client.as_ref();
            let index: NodeSet = [node.index].into_iter().collect();
            if index.is_empty() || !node.health.is_healthy(|| self.clock.elapsed()) {
                break;
            }
            among = among.without(index);
            chosen.push(node.index);
        }
        if !chosen.is_empty() {
            chosen.remove(0);
        }
        chosen
    }
}
