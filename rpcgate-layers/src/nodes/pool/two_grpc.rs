//! Second requests for gRPC calls while the first node still works on them.

use super::Pool;
use crate::nodes::choice::Candidates;
use crate::nodes::error::NodeRequestError;
use crate::nodes::exchange::Exchange;
use crate::nodes::node::NodeIndex;
use crate::nodes::progress::{JointProgress, OnSent};
use crate::nodes::second_requests::SecondReason;
use crate::transport::h2::client::H2Client;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::node_try::NodeTries;
use rpcgate_core::tally::Transport;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

/// The second of two exchanges of a call.
pub(crate) struct SecondExchange<'e, E, N, P> {
    pub(crate) exchange: &'e mut E,
    /// Returns the node that has the call, if another node may get it now as well.
    pub(crate) busy_node: N,
    /// Makes the exchange avoid a node.
    pub(crate) avoid: P,
}

impl Pool {
    /// Returns the time after which a read is also sent to another node.
    pub(crate) fn next_node_after(&self) -> Option<Duration> {
        self.limits.retry.next_node_after.filter(|_| self.may_retry())
    }

    /// Sends a gRPC call as [`ask_grpc`](Pool::ask_grpc) does, and with the second exchange also to another node if it
    /// is not answered within `after`. Returns the first answer, and whether it came from the second exchange.
    pub(crate) async fn ask_two_grpc<E: Exchange<Client = H2Client>>(
        &self,
        (after, limit): (Duration, Option<Duration>),
        project: Option<ProjectId>,
        (on_sent, tries): (&mut OnSent<'_>, &mut NodeTries),
        first: &mut E,
        second: SecondExchange<
            '_,
            E,
            impl Fn() -> Option<NodeIndex> + Send,
            impl FnOnce(&mut E, NodeIndex) + Send,
        >,
    ) -> (Result<E::Answer, NodeRequestError>, bool) {
        self.retries.deposit();
        let began = self.clock.elapsed();
        let SecondExchange { exchange, busy_node, avoid } = second;
        let mut spare_tries = tries.of_same_calls();
        let sent = [AtomicBool::new(false), AtomicBool::new(false)];
        let mut progress = JointProgress::new(&sent, on_sent);
        let pools = (&self.grpc[..], &self.in_flight_grpc);
        let kind = (Transport::Grpc, first.method());
        let among = first.among();
        let (result, is_second, is_spare_over) = {
            let mut first_sent = |is_sent| sent[0].store(is_sent, Relaxed);
            let mut second_sent = |is_sent| sent[1].store(is_sent, Relaxed);
            let noted = (&mut first_sent as &mut OnSent<'_>, &mut *tries);
            let mut first = Box::pin(self.exchange(pools, limit, project, noted, first));
            let mut timer = self.timers.after(after);
            let early = poll_fn(|cx| {
                let polled = first.as_mut().poll(cx);
                progress.notify();
                match polled {
                    Poll::Ready(result) => Poll::Ready(Some(result)),
                    Poll::Pending => timer.poll(cx).map(|()| None),
                }
            })
            .await;
            self.timers.keep(timer);
            match early {
                Some(result) => (result, false, true),
                None => {
                    let busy = busy_node().filter(|busy| {
                        let others = Candidates { among, avoid: [Some(*busy), None], kind };
                        self.has_healthy(&self.grpc, others) && self.take_retry()
                    });
                    let mut other = None;
                    if let Some(busy) = busy {
                        self.second_requests.count(SecondReason::Slow);
                        avoid(exchange, busy);
                        let passed = self.clock.elapsed().saturating_sub(began);
                        let left = limit.map(|limit| limit.saturating_sub(passed));
                        let noted = (&mut second_sent as &mut OnSent<'_>, &mut spare_tries);
                        other = Some(Box::pin(self.exchange(pools, left, project, noted, exchange)));
                    }
                    let mut failed = None;
                    poll_fn(|cx| {
                        if failed.is_none()
                            && let Poll::Ready(result) = first.as_mut().poll(cx)
                        {
                            match result {
                                Ok(answer) => return Poll::Ready((Ok(answer), false, other.is_none())),
                                Err(error) => failed = Some(error),
                            }
                        }
                        if let Some(asking) = &mut other
                            && let Poll::Ready(result) = asking.as_mut().poll(cx)
                        {
                            other = None;
                            if let Ok(answer) = result {
                                return Poll::Ready((Ok(answer), true, true));
                            }
                        }
                        progress.notify();
                        match failed {
                            Some(error) if other.is_none() => Poll::Ready((Err(error), false, true)),
                            _ => Poll::Pending,
                        }
                    })
                    .await
                }
            }
        };
        progress.notify();
        let now = self.clock.elapsed();
        if is_second {
            tries.stop(now);
        } else if !is_spare_over {
            spare_tries.stop(now);
        }
        tries.append(&spare_tries);
        (progress.result(result), is_second)
    }
}
