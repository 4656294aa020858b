//! Asking a second node while the first still works on a read.

use super::Pool;
use crate::nodes::choice::Candidates;
use crate::nodes::error::NodeRequestError;
use crate::nodes::exchange::{HttpExchange, TryPlace};
use crate::nodes::hedge::Hedging;
use crate::nodes::progress::{JointProgress, OnSent};
use crate::transport::h1::{NodeAnswer, NodeRequest};
use rpcgate_core::fault::Fault;
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::node_try::{NodeChoice, NodeTries};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

/// Which of two tries has brought the answer, if one has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Winner {
    First,
    Second,
    Neither,
}

impl Pool {
    /// Asks as [`ask_classified`](Pool::ask_classified) does, and a second node as well if the call takes unusually long at the
    /// first. The call has one record, whatever was sent.
    pub(super) async fn ask_hedged<T, F>(
        &self,
        (hedging, method): (&Hedging, &'static str),
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
        let (began, project) = (self.clock.elapsed(), memory.project());
        let delay = hedging.begin(method).filter(|delay| *delay < limit);
        let (mut spare_memory, mut spare_tries) = (memory.sibling(), tries.of_same_calls());
        let (place, sent) = (TryPlace::default(), [AtomicBool::new(false), AtomicBool::new(false)]);
        let mut progress = JointProgress::new(&sent, on_sent);
        let mut first_sent = |is_sent| sent[0].store(is_sent, Relaxed);
        let mut second_sent = |is_sent| sent[1].store(is_sent, Relaxed);
        let mut second = None;
        let (result, winner, is_second_over) = {
            let mut exchange = HttpExchange { request, memory: &mut *memory, classify, place: Some(&place) };
            let pools = (&self.http[..], &self.in_flight);
            let mut first = pin!(self.exchange(
                pools,
                Some(limit),
                project,
                (&mut first_sent, &mut *tries),
                &mut exchange
            ));
            let mut timer = delay.map(|delay| self.timers.after(delay));
            let early = poll_fn(|cx| {
                let polled = first.as_mut().poll(cx);
                progress.tell();
                match (polled, &mut timer) {
                    (Poll::Ready(result), _) => Poll::Ready(Some(result)),
                    (Poll::Pending, Some(timer)) => timer.poll(cx).map(|()| None),
                    (Poll::Pending, None) => Poll::Pending,
                }
            })
            .await;
            if let Some(timer) = timer {
                self.timers.keep(timer);
            }
            match early {
                Some(result) => (result, Winner::First, false),
                None => {
                    second = self.hedge(hedging, request, &place);
                    let Some(request) = &second else {
                        let result = poll_fn(|cx| {
                            let polled = first.as_mut().poll(cx);
                            progress.tell();
                            polled
                        });
                        let result = result.await;
                        if result.is_ok() {
                            hedging.record(method, self.clock.elapsed().saturating_sub(began));
                        }
                        return result;
                    };
                    let left = limit.saturating_sub(self.clock.elapsed().saturating_sub(began));
                    let memory = &mut spare_memory;
                    let mut exchange = HttpExchange { request, memory, classify, place: None };
                    let noted = (&mut second_sent as &mut OnSent<'_>, &mut spare_tries);
                    let mut other = Box::pin(self.exchange(pools, Some(left), project, noted, &mut exchange));
                    let (mut failed, mut is_other_over) = (None, false);
                    poll_fn(|cx| {
                        if failed.is_none()
                            && let Poll::Ready(result) = first.as_mut().poll(cx)
                        {
                            match result {
                                Ok(answer) => return Poll::Ready((Ok(answer), Winner::First, is_other_over)),
                                Err(error) => failed = Some(error),
                            }
                        }
                        if !is_other_over && let Poll::Ready(result) = other.as_mut().poll(cx) {
                            is_other_over = true;
                            if let Ok(answer) = result {
                                return Poll::Ready((Ok(answer), Winner::Second, true));
                            }
                        }
                        progress.tell();
                        match failed {
                            Some(error) if is_other_over => Poll::Ready((Err(error), Winner::Neither, true)),
                            _ => Poll::Pending,
                        }
                    })
                    .await
                }
            }
        };
        progress.tell();
        let now = self.clock.elapsed();
        let took = now.saturating_sub(began);
        if result.is_ok() {
            hedging.record(method, took);
        }
        if second.is_none() {
            return result;
        }
        if winner == Winner::Second {
            hedging.count_won();
            memory.absorb(spare_memory);
            // The first may have failed by itself; what is over is not ended again.
            tries.stop(now);
            // Its answer would have taken longer: otherwise a node that always loses would be chosen on and on.
            if let Some(node) = place.node().and_then(|index| self.nodes.get(index.0)) {
                node.health.record_latency(took);
            }
        } else if !is_second_over {
            spare_tries.stop(now);
        }
        tries.append(&spare_tries);
        progress.result(result)
    }

    /// The request for a second node, if there is a healthy one and the bounds allow it.
    fn hedge(&self, hedging: &Hedging, request: &NodeRequest, place: &TryPlace) -> Option<NodeRequest> {
        let first = place.node().filter(|_| place.is_first_try());
        let among = request.among.and(self.with_room(&self.http, request.calls));
        let others = |first| Candidates { among, avoid: [Some(first), None] };
        let first = first.filter(|first| self.has_healthy(&self.http, others(*first)));
        let Some(first) = first.filter(|_| self.take_hedge(hedging)) else {
            hedging.count_withheld();
            return None;
        };
        hedging.count_sent();
        Some(NodeRequest {
            avoid: Some(first),
            choice: Some(NodeChoice::Hedge),
            is_hedge: true,
            ..request.clone()
        })
    }

    /// Takes one hedge, and the retry that it needs; false if one of them is not left, and then neither is taken.
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
            let (answered, then) = (answered.clone(), then.clone());
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

    /// Measures so many calls.
    async fn warm(fixture: &PoolFixture, calls: usize) {
        for _ in 0..calls {
            assert_eq!(fixture.whole(read()).await.unwrap(), "{}");
        }
    }

    #[tokio::test]
    async fn a_read_that_a_node_does_not_answer_is_answered_by_another() {
        let (slow, good) = (lasting(32, silent).await, ScriptedNode::always(answer("{}")).await);
        let fixture = PoolFixture::with(&[slow.url(), good.url()], limits(PoolLimits::default()));
        warm(&fixture, 64).await;
        let before = fixture.pool.hedges().unwrap();
        for _ in 0..6 {
            assert_eq!(fixture.whole(read()).await.unwrap(), "{}");
        }
        let counts = fixture.pool.hedges().unwrap();
        assert!(counts.won > before.won && counts.sent >= counts.won, "{counts:?}");
        assert_eq!(fixture.pool.in_flight(), 0);
        assert_eq!(fixture.pool.nodes().map(|node| node.in_flight).sum::<usize>(), 0);
    }

    #[tokio::test]
    async fn a_hedge_counts_at_its_node_as_the_first_try_does_at_its_own() {
        let (slow, good) = (lasting(32, silent).await, ScriptedNode::always(answer("{}")).await);
        let allowance = NodeAllowance { monthly_calls: Some(1_000), ..NodeAllowance::default() };
        let node = |node: &ScriptedNode| {
            let config = NodeConfig::new(node.url().parse().unwrap());
            config.with_allowance(allowance, NodeSpending::default())
        };
        let fixture = PoolFixture::of(vec![node(&slow), node(&good)], limits(PoolLimits::default()));
        warm(&fixture, 64).await;
        for _ in 0..6 {
            assert_eq!(fixture.whole(read()).await.unwrap(), "{}");
        }
        let counts = fixture.pool.hedges().unwrap();
        let counted: u64 = fixture.pool.nodes().map(|node| node.spending.month_calls).sum();
        assert!(counts.sent > 0 && counted > 70 && counted <= 70 + counts.sent, "{counted} {counts:?}");
        // One that was stopped before a byte of it was sent does not count.
        fixture.until(|_| slow.seen().len() + good.seen().len() == counted as usize).await;
    }

    #[tokio::test]
    async fn nothing_is_hedged_without_another_node_or_without_a_policy() {
        let slow = lasting(32, silent).await;
        let fixture = PoolFixture::with(&[slow.url()], limits(ending_after(1_000)));
        warm(&fixture, 32).await;
        assert_eq!(fixture.whole(read()).await, Err(Fault::sent(Cause::Timeout).into()));
        let counts = fixture.pool.hedges().unwrap();
        assert_eq!((counts.sent, counts.withheld > 0), (0, true), "{counts:?}");
        let (slow, good) = (lasting(0, silent).await, ScriptedNode::always(answer("{}")).await);
        let fixture = PoolFixture::with(&[slow.url(), good.url()], ending_after(400));
        assert_eq!(fixture.whole(read()).await, Err(Fault::sent(Cause::Timeout).into()));
        assert_eq!((fixture.pool.hedges(), good.seen().len()), (None, 0));
    }

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
        let ask = fixture.whole(read());
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
