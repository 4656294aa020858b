//! Second requests while the first node still works on a read: because the read takes unusually long (a hedge), because
//! it takes longer than the configured limit, or because the first node is on trial.
//!
//! Each try is a lane. All lanes continue until one brings a usable answer.

use super::Pool;
use crate::nodes::choice::Candidates;
use crate::nodes::error::NodeRequestError;
use crate::nodes::exchange::{HttpExchange, TryAddress};
use crate::nodes::health::Grade;
use crate::nodes::hedge::Hedging;
use crate::nodes::node::{Node, NodeIndex};
use crate::nodes::node_set::NodeSet;
use crate::nodes::progress::{JointProgress, OnSent};
use crate::nodes::second_requests::SecondReason;
use crate::nodes::timers::PooledTimer;
use crate::nodes::transport_health::{Judged, Verdict};
use crate::nodes::usefulness::MethodIndex;
use crate::transport::h1::{NodeAnswer, NodeRequest};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::fault::Fault;
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::node_try::{NodeChoice, NodeTries};
use rpcgate_core::tally::Transport;
use smallvec::SmallVec;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

/// The maximum number of nodes that work on a call at the same time.
const MOST: usize = 3;

/// The time that a node on trial has before another node gets the call as well: this multiple of the latency of the
/// fastest other node, within these bounds.
const TRIAL: u32 = 8;
const SHORTEST_TRIAL: Duration = Duration::from_millis(50);
const LONGEST_TRIAL: Duration = Duration::from_secs(1);

/// The reasons for which more than one node may work on a call.
pub(super) struct ParallelTries<'p> {
    /// The hedges of the pool and the method of the call, if it may be hedged.
    hedging: Option<(&'p Hedging, &'static str)>,
    /// The node on trial, which gets the call first, and its time limit.
    trial: Option<(NodeIndex, Duration)>,
    next_node_after: Option<Duration>,
}

/// One try in addition to the first.
struct Lane {
    memory: MemoryPermit,
    tries: NodeTries,
    request: Option<NodeRequest>,
}

type Asking<'l, T> = Pin<Box<dyn Future<Output = Result<T, NodeRequestError>> + Send + 'l>>;

enum Event<T> {
    Over(usize, Result<T, NodeRequestError>),
    Late,
}

impl Pool {
    /// Returns the reasons for which more than one node may work on the call; `None` if only one may.
    pub(super) fn lanes(&self, request: &NodeRequest) -> Option<ParallelTries<'_>> {
        if request.broadcast {
            return None;
        }
        let hedging = self.hedging.as_ref().zip(request.hedge);
        let next_node_after = self.limits.retry.next_node_after.filter(|_| self.limits.retry.attempts > 1);
        let trial = if request.choice.is_none() { self.trial(request) } else { None };
        let is_any = hedging.is_some() || next_node_after.is_some() || trial.is_some();
        is_any.then_some(ParallelTries { hedging, trial, next_node_after })
    }

    fn trial(&self, request: &NodeRequest) -> Option<(NodeIndex, Duration)> {
        let kind = (Transport::Http, MethodIndex::of(request.method_name));
        let candidates = Candidates { among: request.among, avoid: [request.avoid, None], kind };
        self.timed_trial(&self.http, candidates)
    }

    /// Returns the node on trial for a gRPC call, and its time limit.
    pub(crate) fn grpc_trial(&self, among: NodeSet, method: MethodIndex) -> Option<(NodeIndex, Duration)> {
        let candidates = Candidates { among, avoid: [None, None], kind: (Transport::Grpc, method) };
        self.timed_trial(&self.grpc, candidates)
    }

    /// Reports whether a node has failed lately at gRPC calls of this method. Otherwise no node is on trial.
    pub(crate) fn has_failed_over_grpc(&self, among: NodeSet, method: MethodIndex) -> bool {
        let mut nodes = self.grpc.iter().map(AsRef::<Node>::as_ref).filter(|node| among.has(node.index));
        nodes.any(|node| node.health.by(Transport::Grpc).usefulness().has_failed(method))
    }

    fn timed_trial<N: AsRef<Node>>(
        &self,
        nodes: &[N],
        candidates: Candidates,
    ) -> Option<(NodeIndex, Duration)> {
        let node = self.on_trial(nodes, candidates)?;
        let [avoid, _] = candidates.avoid;
        let others = Candidates { avoid: [avoid, Some(node)], ..candidates };
        let nodes = nodes.iter().map(AsRef::<Node>::as_ref).filter(|node| others.has(node));
        let latencies = nodes.map(|node| node.health.by(candidates.kind.0).usefulness().latency());
        let quickest = latencies.filter(|latency| !latency.is_zero()).min().unwrap_or(LONGEST_TRIAL);
        Some((node, (quickest * TRIAL).clamp(SHORTEST_TRIAL, LONGEST_TRIAL)))
    }

    /// Returns a node that has failed lately and gets the next call, to show whether it is useful again. A healthy node
    /// must exist, so that the call is not lost if the trial fails. A node is not on trial while the healthy ones are of
    /// a better tier.
    pub(super) fn on_trial<N: AsRef<Node>>(&self, nodes: &[N], candidates: Candidates) -> Option<NodeIndex> {
        let (transport, method) = candidates.kind;
        if self.limits.retry.attempts < 2 {
            return None;
        }
        let now = || self.clock.elapsed();
        let all = || nodes.iter().map(AsRef::<Node>::as_ref).filter(|node| candidates.has(node));
        let has_failed = |node: &&Node| node.health.by(transport).usefulness().has_failed(method);
        // Nearly always no node has failed.
        if !all().any(|node| has_failed(&node)) {
            return None;
        }
        let grade = |node: &Node| node.health.grade(candidates.kind, now);
        let healthy = all().filter(|node| grade(node) == Grade::Healthy).map(Node::tier).min()?;
        let takes = |node: &&Node| {
            grade(node) <= Grade::Doubtful
                && node.tier() <= healthy
                && node.health.by(transport).usefulness().takes_trial(method, now)
        };
        all().filter(has_failed).find(takes).map(|node| node.index)
    }

    /// Asks as [`ask_classified`](Pool::ask_classified) does, and also asks other nodes if the first takes too long.
    /// The call has one record, regardless of the number of lanes.
    pub(super) async fn ask_in_lanes<T, F>(
        &self,
        plan: ParallelTries<'_>,
        request: &NodeRequest,
        limit: Duration,
        memory: &mut MemoryPermit,
        (on_sent, tries): (&mut OnSent<'_>, &mut NodeTries),
        classify: &F,
    ) -> Result<T, NodeRequestError>
    where
        T: Judged + Send,
        F: Fn(NodeAnswer) -> Result<T, Fault> + Send + Sync,
    {
        let ParallelTries { hedging, trial, next_node_after } = plan;
        let began = self.clock.elapsed();
        let project = memory.project();
        let (first, choice) = match trial {
            Some((node, _)) => (Some(node), Some(NodeChoice::Trial)),
            None => (request.first, request.choice),
        };
        let hedge_after = hedging.and_then(|(hedging, method)| hedging.begin(method));
        let second_after = trial.map(|(_, time)| time).or(hedge_after);
        let delay =
            [second_after, next_node_after].into_iter().flatten().min().filter(|delay| *delay < limit);
        let is_hedge = trial.is_none() && delay.is_some() && delay == hedge_after;
        let mut reason = match trial {
            Some((_, time)) if delay == Some(time) => SecondReason::Trial,
            _ if is_hedge => SecondReason::Hedge,
            _ => SecondReason::Slow,
        };
        let new_lane = || Lane { memory: memory.sibling(), tries: tries.of_same_calls(), request: None };
        let mut spare: SmallVec<[Lane; MOST - 1]> = (1..MOST).map(|_| new_lane()).collect();
        let own = NodeRequest { first, choice, ..request.clone() };
        let addresses: [TryAddress; MOST] = Default::default();
        let sent: [AtomicBool; MOST] = Default::default();
        let mut progress = JointProgress::new(&sent, on_sent);
        let (winner, result, unfinished) = {
            let mut lanes = spare.iter_mut().zip(addresses.iter().zip(&sent).skip(1));
            let watched = (&addresses[0], &sent[0]);
            let first =
                self.ask_in_lane((&own, limit), (&mut *memory, &mut *tries), project, watched, classify);
            let mut running: SmallVec<[Option<Asking<'_, T>>; MOST]> = SmallVec::new();
            running.push(Some(Box::pin(first)));
            let mut timer: Option<PooledTimer> = delay.map(|delay| self.timers.after(delay));
            // The client's result if no usable answer comes.
            let mut best: Option<(usize, Result<T, NodeRequestError>)> = None;
            let ended = loop {
                let event = poll_fn(|cx| {
                    for (lane, slot) in running.iter_mut().enumerate() {
                        let Some(asking) = slot else { continue };
                        let polled = asking.as_mut().poll(cx);
                        progress.notify();
                        if let Poll::Ready(result) = polled {
                            *slot = None;
                            return Poll::Ready(Event::Over(lane, result));
                        }
                    }
                    match &mut timer {
                        Some(timer) => timer.poll(cx).map(|()| Event::Late),
                        None => Poll::Pending,
                    }
                })
                .await;
                match event {
                    Event::Late => {
                        timer = None;
                        let hedging = if is_hedge { hedging } else { None };
                        let left = limit.saturating_sub(self.clock.elapsed().saturating_sub(began));
                        if let Some(next) = self.next_lane(hedging, request, &addresses, running.len())
                            && let Some((lane, watched)) = lanes.next()
                        {
                            self.second_requests.count(reason);
                            if reason == SecondReason::Trial {
                                reason = SecondReason::Slow;
                            }
                            let Lane { memory, tries, request } = lane;
                            let next = &*request.insert(next);
                            let asking =
                                self.ask_in_lane((next, left), (memory, tries), project, watched, classify);
                            running.push(Some(Box::pin(asking)));
                            let again = next_node_after.filter(|again| *again < left);
                            let may_again = running.len() < MOST.min(self.limits.retry.attempts as usize);
                            timer = again.filter(|_| may_again).map(|again| self.timers.after(again));
                        }
                    }
                    Event::Over(lane, result) => {
                        let is_over = running.iter().all(Option::is_none);
                        let is_usable = result
                            .as_ref()
                            .is_ok_and(|answer| !matches!(answer.verdict(), Verdict::Unserved(_)));
                        if is_usable {
                            break (lane, result);
                        }
                        best = Some(match best.take() {
                            Some(best) if best.1.is_ok() || result.is_err() => best,
                            _ => (lane, result),
                        });
                        if is_over && let Some(best) = best.take() {
                            break best;
                        }
                    }
                }
            };
            if let Some(timer) = timer {
                self.timers.keep(timer);
            }
            let unfinished: SmallVec<[bool; MOST]> = running.iter().map(Option::is_some).collect();
            (ended.0, ended.1, unfinished)
        };
        progress.notify();
        let now = self.clock.elapsed();
        let took = now.saturating_sub(began);
        if let (Some((hedging, method)), Ok(answer)) = (hedging, &result)
            && answer.verdict() == Verdict::Usable
        {
            hedging.record(method, took);
        }
        if let Some((hedging, _)) = hedging.filter(|_| is_hedge && winner > 0 && result.is_ok()) {
            hedging.count_won();
        }
        if unfinished.len() < 2 {
            return result;
        }
        if winner > 0 {
            // The first try may have failed by itself. A try that is over is not ended again.
            tries.stop(now);
            // Its answer would have taken longer. Without this record, a node that always loses would be chosen again
            // and again.
            if unfinished[0]
                && let Some(node) = addresses[0].node().and_then(|index| self.nodes.get(index.0))
            {
                node.health.by(Transport::Http).usefulness().record_latency(took);
            }
        }
        for (index, lane) in (1..unfinished.len()).zip(spare) {
            let Lane { memory: own_memory, tries: mut own_tries, .. } = lane;
            if unfinished[index] {
                own_tries.stop(now);
            }
            tries.append(&own_tries);
            if index == winner {
                memory.absorb(own_memory);
            }
        }
        progress.result(result)
    }

    async fn ask_in_lane<T, F>(
        &self,
        (request, limit): (&NodeRequest, Duration),
        (memory, tries): (&mut MemoryPermit, &mut NodeTries),
        project: Option<ProjectId>,
        (address, sent): (&TryAddress, &AtomicBool),
        classify: &F,
    ) -> Result<T, NodeRequestError>
    where
        T: Judged + Send,
        F: Fn(NodeAnswer) -> Result<T, Fault> + Send + Sync,
    {
        let mut on_sent = |is_sent| sent.store(is_sent, Relaxed);
        let mut exchange = HttpExchange { request, memory, classify, address: Some(address) };
        let noted = (&mut on_sent as &mut OnSent<'_>, tries);
        self.exchange((&self.http, &self.in_flight), Some(limit), project, noted, &mut exchange).await
    }

    /// Returns the request for a node that does not have the call yet, if a healthy one exists and the bounds allow it.
    fn next_lane(
        &self,
        hedging: Option<(&Hedging, &'static str)>,
        request: &NodeRequest,
        addresses: &[TryAddress; MOST],
        used: usize,
    ) -> Option<NodeRequest> {
        let busy = addresses.iter().take(used).filter_map(TryAddress::node);
        let taken: NodeSet = busy.chain(request.avoid).collect();
        let avoid = addresses[0].node();
        let among = request.among.and(self.with_capacity(&self.http, request.calls)).without(taken);
        let kind = (Transport::Http, MethodIndex::of(request.method_name));
        let is_any = avoid.is_some()
            && self.has_healthy(&self.http, Candidates { among, avoid: [avoid, request.avoid], kind });
        match hedging {
            None if is_any && self.take_retry() => {}
            None => return None,
            Some((hedging, _)) => {
                if !is_any || !addresses[0].is_first_try() || !self.take_hedge(hedging) {
                    hedging.count_withheld();
                    return None;
                }
                hedging.count_sent();
            }
        }
        let choice = Some(if hedging.is_some() { NodeChoice::Hedge } else { NodeChoice::Slow });
        Some(NodeRequest { among, avoid, choice, is_hedge: true, ..request.clone() })
    }

    /// Takes one hedge and the retry that it needs. Returns false, and takes neither, if one of them is not left.
    fn take_hedge(&self, hedging: &Hedging) -> bool {
        if !hedging.take() {
            return false;
        }
        let has_retry = self.take_retry();
        if !has_retry {
            hedging.give_back();
        }
        has_retry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{HedgePolicy, NodeConfig, NodeSpending, PoolLimits, RetryBudget, RetryPolicy};
    use crate::testing::scripted_node::{PoolFixture, ScriptedNode, Wire, answer, call, ending_after};
    use rpcgate_core::chain::NodeAllowance;
    use rpcgate_core::fault::Cause;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    /// A node that answers its first `good` requests, and does `then` with every later one.
    async fn lasting<R>(good: usize, then: impl Fn(Wire) -> R + Clone + Send + Sync + 'static) -> ScriptedNode
    where
        R: Future<Output = ()> + Send + 'static,
    {
        let answered = Arc::new(AtomicUsize::new(0));
        ScriptedNode::serve(move |_, mut wire| {
            let answered = answered.clone();
            let then = then.clone();
            async move {
                while wire.request().await.is_some() {
                    if answered.fetch_add(1, Relaxed) >= good {
                        return then(wire).await;
                    }
                    wire.write(answer("{}")).await;
                }
            }
        })
        .await
    }

    async fn silent(_wire: Wire) {
        std::future::pending::<()>().await;
    }

    fn limits(base: PoolLimits) -> PoolLimits {
        base.with_hedge(Some(HedgePolicy::default().with_at_least(Duration::from_millis(20))))
    }

    fn read() -> NodeRequest {
        NodeRequest { hedge: Some("toy_read"), ..call("read") }
    }

    async fn warm(fixture: &PoolFixture, calls: usize) {
        for _ in 0..calls {
            assert_eq!(fixture.complete(read()).await.unwrap(), "{}");
        }
    }

    // Shows (Nodes and cache): A second node answers a read that takes unusually long; it is metered once, and both
    // tries are explained.
    #[tokio::test]
    async fn a_read_that_a_node_does_not_answer_is_answered_by_another() {
        let slow = lasting(32, silent).await;
        let good = ScriptedNode::always(answer("{}")).await;
        let fixture = PoolFixture::with(&[slow.url(), good.url()], limits(PoolLimits::default()));
        warm(&fixture, 64).await;
        let before = fixture.pool.hedges().unwrap();
        for _ in 0..6 {
            assert_eq!(fixture.complete(read()).await.unwrap(), "{}");
        }
        let counts = fixture.pool.hedges().unwrap();
        assert!(counts.won > before.won && counts.sent >= counts.won, "{counts:?}");
        assert_eq!(fixture.pool.in_flight(), 0);
        assert_eq!(fixture.pool.nodes().map(|node| node.in_flight).sum::<usize>(), 0);
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_hedge_counts_at_its_node_as_the_first_try_does_at_its_own() {
        let slow = lasting(32, silent).await;
        let good = ScriptedNode::always(answer("{}")).await;
        let allowance = NodeAllowance { monthly_calls: Some(1_000), ..NodeAllowance::default() };
        let node = |node: &ScriptedNode| {
            let config = NodeConfig::new(node.url().parse().unwrap());
            config.with_allowance(allowance, NodeSpending::default())
        };
        let fixture = PoolFixture::of(vec![node(&slow), node(&good)], limits(PoolLimits::default()));
        warm(&fixture, 64).await;
        for _ in 0..6 {
            assert_eq!(fixture.complete(read()).await.unwrap(), "{}");
        }
        let counts = fixture.pool.hedges().unwrap();
        let counted: u64 = fixture.pool.nodes().map(|node| node.spending.month_calls).sum();
        assert!(counts.sent > 0 && counted > 70 && counted <= 70 + counts.sent, "{counted} {counts:?}");
        // A hedge that was stopped before a byte of it was sent does not count.
        fixture.until(|_| slow.seen().len() + good.seen().len() == counted as usize).await;
    }

    #[tokio::test]
    async fn nothing_is_hedged_without_another_node_or_without_a_policy() {
        let slow = lasting(32, silent).await;
        let fixture = PoolFixture::with(&[slow.url()], limits(ending_after(1_000)));
        warm(&fixture, 32).await;
        assert_eq!(fixture.complete(read()).await, Err(Fault::sent(Cause::Timeout).into()));
        let counts = fixture.pool.hedges().unwrap();
        assert_eq!((counts.sent, counts.withheld > 0), (0, true), "{counts:?}");
        let slow = lasting(0, silent).await;
        let good = ScriptedNode::always(answer("{}")).await;
        let fixture = PoolFixture::with(&[slow.url(), good.url()], ending_after(400));
        assert_eq!(fixture.complete(read()).await, Err(Fault::sent(Cause::Timeout).into()));
        assert_eq!((fixture.pool.hedges(), good.seen().len()), (None, 0));
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_hedge_that_finds_no_retry_is_not_used_up() {
        let budget = RetryBudget::default().with_min_per_sec(0).with_calls_per_retry(u32::MAX);
        let limits = limits(PoolLimits::default()).with_retry(RetryPolicy::default().with_budget(budget));
        let fixture = PoolFixture::with(&["http://127.0.0.1:1".to_owned()], limits);
        let hedging = fixture.pool.hedging.as_ref().unwrap();
        assert!(!fixture.pool.take_hedge(hedging));
        assert_eq!((0..1_000).filter(|_| hedging.take()).count(), 10, "all that a new pool has saved");
    }

    #[tokio::test]
    async fn if_the_second_node_fails_the_answer_of_the_first_is_taken() {
        let failing = lasting(32, async |wire: Wire| wire.reset()).await;
        let asked = Arc::new(AtomicBool::new(false));
        let watched = asked.clone();
        let late = lasting(32, move |mut wire: Wire| {
            let watched = watched.clone();
            async move {
                while !watched.load(Relaxed) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                wire.write(answer("late")).await;
                wire.closed().await;
            }
        })
        .await;
        let fixture = PoolFixture::with(&[late.url(), failing.url()], limits(PoolLimits::default()));
        warm(&fixture, 64).await;
        let before = failing.seen().len();
        let ask = fixture.complete(read());
        let told = async {
            while failing.seen().len() == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            asked.store(true, Relaxed);
        };
        let (answered, ()) = tokio::join!(ask, told);
        assert_eq!(answered.unwrap(), "late");
    }
}
