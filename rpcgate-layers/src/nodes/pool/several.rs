//! Broadcasts to several nodes at once.
//!
//! Each copy is a task. After the first written byte it runs to its end, within the time limit of the call, whatever
//! the other nodes answer and even if the client leaves: many nodes drop a transaction whose sender has left.

use super::Pool;
use crate::nodes::choice::Candidates;
use crate::nodes::error::NodeRequestError;
use crate::nodes::exchange::{HttpExchange, TryAddress};
use crate::nodes::node::NodeIndex;
use crate::nodes::node_set::NodeSet;
use crate::nodes::progress::{JointProgress, OnSent};
use crate::nodes::reception::{Reception, ReceptionReader};
use crate::nodes::transport_health::{Judged, Verdict};
use crate::nodes::usefulness::MethodIndex;
use crate::transport::h1::{AnswerBody, NodeAnswer, NodeRequest};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::node_try::{NodeChoice, NodeTries};
use rpcgate_core::tally::Transport;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

/// The time to wait for other nodes after one has answered that it already had the transaction.
const KNOWN: Duration = Duration::from_secs(1);

struct TransactionCopy {
    request: NodeRequest,
    memory: MemoryPermit,
    tries: NodeTries,
}

struct CopyWatch {
    is_sent: Arc<AtomicBool>,
    address: Arc<TryAddress>,
    choice: Option<NodeChoice>,
    task: AbortHandle,
    is_over: bool,
}

/// The running copies. When the client leaves, those that were not written yet are aborted.
struct Copies(SmallVec<[CopyWatch; 4]>);

impl Drop for Copies {
    fn drop(&mut self) {
        for copy in self.0.iter().filter(|copy| !copy.is_sent.load(Relaxed)) {
            copy.task.abort();
        }
    }
}

struct CopyAnswer {
    reception: Reception,
    answer: NodeAnswer,
}

impl Judged for CopyAnswer {
    fn verdict(&self) -> Verdict {
        if self.reception == Reception::Taken { Verdict::Usable } else { Verdict::Neutral }
    }
}

struct CopyEnd {
    index: usize,
    result: Result<CopyAnswer, NodeRequestError>,
    copy: TransactionCopy,
}

struct Best<T> {
    reception: Option<Reception>,
    result: Result<T, NodeRequestError>,
    memory: MemoryPermit,
}

impl Pool {
    /// Sends a transaction to a node as [`ask_classified`](Pool::ask_classified) does, and at the same time once to
    /// each of several other healthy nodes. The first node that accepts it answers. The answer that a node already had
    /// it is used only if no node accepts it. The call has one record, regardless of the number of copies.
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
        let began = self.clock.elapsed();
        let others = self.others(request);
        let copy = |among: NodeSet, choice: Option<NodeChoice>| TransactionCopy {
            request: NodeRequest { among, choice, ..request.clone() },
            memory: memory.sibling(),
            tries: tries.of_same_calls(),
        };
        let set = |nodes: &[NodeIndex]| nodes.iter().copied().collect::<NodeSet>();
        let mut all: SmallVec<[TransactionCopy; 4]> = SmallVec::new();
        all.push(copy(request.among.without(set(&others)), request.choice));
        all.extend(others.iter().map(|node| copy(set(&[*node]), Some(NodeChoice::Broadcast))));
        let (mut copies, mut ends) = self.send_copies(reader, all, limit, project);
        let sent: SmallVec<[Arc<AtomicBool>; 4]> = copies.0.iter().map(|copy| copy.is_sent.clone()).collect();
        let progress = JointProgress::new(&sent, on_sent);
        let mut best: Option<Best<T>> = None;
        let mut until = Instant::now() + limit + KNOWN;
        while let Ok(Some(end)) = timeout_at(until, ends.recv()).await {
            let CopyEnd { index, result, copy } = end;
            tries.append(&copy.tries);
            if let Some(watch) = copies.0.get_mut(index) {
                watch.is_over = true;
            }
            let (reception, result) = match result {
                Ok(CopyAnswer { reception, answer }) => match classify(answer) {
                    Ok(answer) => (Some(reception), Ok(answer)),
                    Err(fault) => (None, Err(fault.into())),
                },
                Err(error) => (None, Err(error)),
            };
            // Any answer is better than no answer. Between equal answers, the earlier wins.
            let rank = |reception: Option<Reception>| (reception.is_none(), reception);
            if best.as_ref().is_none_or(|best| rank(reception) < rank(best.reception)) {
                best = Some(Best { reception, result, memory: copy.memory });
                match reception {
                    Some(Reception::Taken) => break,
                    Some(Reception::Known) => until = until.min(Instant::now() + KNOWN),
                    _ => {}
                }
            }
        }
        for copy in copies.0.drain(..).filter(|copy| !copy.is_over) {
            if let Some(node) = copy.address.node() {
                tries.push((self.number, node.get()), copy.choice.unwrap_or(NodeChoice::Turn));
                tries.begin(began);
            }
        }
        let result = match best {
            Some(best) => {
                memory.absorb(best.memory);
                best.result
            }
            None => Err(Fault::unsent(Cause::Timeout).into()),
        };
        progress.result(result)
    }

    /// Starts the copies. Each has a time limit of `limit`.
    fn send_copies(
        &self,
        reader: &ReceptionReader,
        all: SmallVec<[TransactionCopy; 4]>,
        limit: Duration,
        project: Option<ProjectId>,
    ) -> (Copies, UnboundedReceiver<CopyEnd>) {
        let (sender, ends) = unbounded_channel();
        let start = |(index, mut copy): (usize, TransactionCopy)| {
            let is_sent = Arc::new(AtomicBool::new(false));
            let tried = Arc::new(TryAddress::default());
            let choice = copy.request.choice;
            let pool = self.itself.clone();
            let reader = reader.clone();
            let sender = sender.clone();
            let reported = is_sent.clone();
            let at = tried.clone();
            let task = tokio::spawn(async move {
                // The client holds the pool while it waits for the copy.
                let Some(pool) = pool.upgrade() else { return };
                let result = {
                    let TransactionCopy { request, memory, tries } = &mut copy;
                    let classify = |answer| read(&reader, answer);
                    let mut exchange = HttpExchange { request, memory, classify, address: Some(&at) };
                    let mut on_sent = |is| reported.store(is, Relaxed);
                    let noted = (&mut on_sent as &mut OnSent<'_>, tries);
                    pool.exchange((&pool.http, &pool.in_flight), Some(limit), project, noted, &mut exchange)
                        .await
                };
                // If the client already has its answer, no task waits for this one.
                let _ = sender.send(CopyEnd { index, result, copy });
            });
            CopyWatch { is_sent, address: tried, choice, task: task.abort_handle(), is_over: false }
        };
        (Copies(all.into_iter().enumerate().map(start).collect()), ends)
    }

    /// Returns the other healthy nodes that get a copy, in rotation.
    fn others(&self, request: &NodeRequest) -> SmallVec<[NodeIndex; 4]> {
        let mut chosen: SmallVec<[NodeIndex; 4]> = SmallVec::new();
        let mut among = request.among.and(self.with_capacity(&self.http, request.calls));
        // One of the chosen nodes is left for the first copy, which may go to any node without a copy.
        for _ in 0..self.limits.broadcast_nodes {
            let kind = (Transport::Http, MethodIndex::of(request.method_name));
            let candidates = Candidates { among, avoid: [request.avoid, None], kind };
            let Some((client, _)) = self.rotation.choose(&self.http, candidates, || self.clock.elapsed())
            else {
                break;
            };
            let node = client.as_ref();
            let index: NodeSet = [node.index].into_iter().collect();
            if index.is_empty() || !self.has_healthy(std::slice::from_ref(client), candidates) {
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

fn read(reader: &ReceptionReader, answer: NodeAnswer) -> Result<CopyAnswer, Fault> {
    if answer.rejects_the_gateway() {
        return Err(Fault::sent(Cause::Status(answer.status.as_u16())));
    }
    let reception = match &answer.body {
        AnswerBody::Complete(body) => reader.read(answer.status.is_success(), body),
        // Errors are never this large.
        AnswerBody::Larger { .. } => Reception::Taken,
    };
    Ok(CopyAnswer { reception, answer })
}
