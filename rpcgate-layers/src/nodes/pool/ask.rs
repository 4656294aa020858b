//! The retry loop for calls to the nodes of a chain, and probes.

use super::Pool;
use crate::nodes::choice::Candidates;
use crate::nodes::error::NodeRequestError;
use crate::nodes::exchange::{Exchange, HttpExchange, Rejected};
use crate::nodes::in_flight::{InFlightLimit, InFlightPermit};
use crate::nodes::node::{Node, NodeIndex};
use crate::nodes::node_set::NodeSet;
use crate::nodes::progress::{CallProgress, OnSent};
use crate::nodes::retry::{NextTry, Tries, TryFailure};
use crate::nodes::transport_health::{Judged, Verdict};
use crate::transport::h1::answer::unusable_body;
use crate::transport::h1::client::Reuse;
use crate::transport::h1::{NodeAnswer, NodeRequest};
use crate::transport::h2::client::H2Client;
use rpcgate_core::adapter::Unserved;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::node_try::{NodeChoice, NodeTries, TryEnd};
use rpcgate_core::tally::Transport;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// A call in progress. If it is dropped before a byte was sent, the calls that it took from the node's limits are given
/// back. If it is dropped while it waits for a node, the wait counts against the node.
struct CallInProgress<'p, 's> {
    pool: &'p Pool,
    transport: Transport,
    progress: CallProgress<'s>,
}

impl Drop for CallInProgress<'_, '_> {
    fn drop(&mut self) {
        let waited = self.progress.waits_since.take().zip(self.progress.node);
        if let Some((since, index)) = waited
            && let Some(node) = self.pool.nodes.get(index.0)
        {
            let waited = self.pool.clock.elapsed().saturating_sub(since);
            node.health.by(self.transport).usefulness().record_silence(waited);
        }
        let taken = self.progress.taken.take().filter(|_| !self.progress.sent);
        if let Some((index, calls, taken)) = taken
            && let Some(node) = self.pool.nodes.get(index.0)
        {
            node.give_back(calls, taken, &*self.pool.clock);
        }
    }
}

impl Pool {
    /// Sends the request to the nodes and returns an answer of any kind, with retries according to the
    /// [`RetryPolicy`](crate::nodes::RetryPolicy). The buffered part of the answer is taken from `memory`. Any answer
    /// counts as a success of its node.
    ///
    /// # Errors
    /// [`NodeRequestError::Busy`] if the chain, or the project of `memory`, has reached its limit of calls in flight,
    /// or if `memory` is exhausted. [`NodeRequestError::AtLimit`] if no node may get the call now. Otherwise the
    /// [`Fault`] of the last try, with `sent` set if a byte may have reached a node in any try.
    pub async fn ask(
        &self,
        request: &NodeRequest,
        memory: &mut MemoryPermit,
    ) -> Result<NodeAnswer, NodeRequestError> {
        let mut tries = NodeTries::default();
        self.ask_classified(request, None, memory, (&mut |_| {}, &mut tries), Ok).await
    }

    /// Asks the nodes for an answer that `classify` accepts. The time limit of all tries together is that of a call, or
    /// the time to `deadline` on the monotonic clock if that is shorter. `on_sent` is notified whether a byte may have
    /// reached a node, and each try is recorded in `tries`.
    ///
    /// Arguments are borrowed because a future is copied to where it is polled.
    ///
    /// # Errors
    /// As [`ask`](Pool::ask). If an answer was rejected, the fault of the first rejected answer, which is more
    /// informative than a missing second one.
    pub(crate) async fn ask_classified<T: Judged + Send>(
        &self,
        request: &NodeRequest,
        deadline: Option<Duration>,
        memory: &mut MemoryPermit,
        noted: (&mut OnSent<'_>, &mut NodeTries),
        classify: impl Fn(NodeAnswer) -> Result<T, Fault> + Send + Sync,
    ) -> Result<T, NodeRequestError> {
        let limit = match deadline {
            None => self.limits.retry.deadline,
            Some(deadline) => self.limits.retry.deadline.min(deadline.saturating_sub(self.clock.elapsed())),
        };
        self.retries.deposit();
        if let Some(lanes) = self.lanes(request) {
            // Boxed, so that the future of calls with one lane does not grow.
            return Box::pin(self.ask_in_lanes(lanes, request, limit, memory, noted, &classify)).await;
        }
        if let Some(reader) = &request.reader {
            let several = self.ask_several(reader, request, limit, memory, noted, &classify);
            return Box::pin(several).await;
        }
        let project = memory.project();
        let mut exchange = HttpExchange { request, memory, classify, address: None };
        self.exchange((&self.http, &self.in_flight), Some(limit), project, noted, &mut exchange).await
    }

    /// Sends a gRPC call to the nodes until one answers it, for at most `limit`.
    ///
    /// # Errors
    /// As [`ask_classified`](Pool::ask_classified).
    pub(crate) async fn ask_grpc<E: Exchange<Client = H2Client>>(
        &self,
        limit: Option<Duration>,
        project: Option<ProjectId>,
        noted: (&mut OnSent<'_>, &mut NodeTries),
        exchange: &mut E,
    ) -> Result<E::Answer, NodeRequestError> {
        self.retries.deposit();
        self.exchange((&self.grpc, &self.in_flight_grpc), limit, project, noted, exchange).await
    }

    /// Runs an exchange with the nodes of `clients` as a call in flight, for at most `limit`.
    pub(super) async fn exchange<E: Exchange>(
        &self,
        (clients, in_flight): (&[E::Client], &Arc<InFlightLimit>),
        limit: Option<Duration>,
        project: Option<ProjectId>,
        (on_sent, tries): (&mut OnSent<'_>, &mut NodeTries),
        exchange: &mut E,
    ) -> Result<E::Answer, NodeRequestError> {
        if limit.is_some_and(|limit| limit.is_zero()) {
            return Err(Fault::unsent(Cause::Timeout).into());
        }
        let permit = in_flight.acquire(project).map_err(|_| NodeRequestError::Busy)?;
        let progress = CallProgress::new(Some(permit), on_sent, tries);
        let mut in_progress = CallInProgress { pool: self, transport: E::TRANSPORT, progress };
        let progress = &mut in_progress.progress;
        let result = {
            // Boxed separately: two small boxes are allocated and filled faster than one large one.
            let again = || in_flight.acquire(project).map_err(|_| NodeRequestError::Busy);
            let mut tries = Box::pin(self.try_nodes(clients, exchange, &mut *progress, again));
            match limit {
                Some(limit) => self.timers.within(limit, tries.as_mut()).await,
                None => Some(tries.await),
            }
        };
        let result = result.unwrap_or_else(|| {
            let fault = Fault::sent(Cause::Timeout);
            let now = self.clock.elapsed();
            progress.tries.end(TryEnd::Failed(fault), now);
            if let Some(node) = progress.node.and_then(|index| self.nodes.get(index.0)) {
                record_silence::<E>(node, progress, now);
                if !exchange.is_limited_by_client() {
                    node.health.record_failure(E::TRANSPORT, fault, None, now);
                }
            }
            Err(Fault::unsent(Cause::Timeout).into())
        });
        result.map_err(|error| match (progress.bad_answer, error) {
            (Some(fault), _) => NodeRequestError::Fault(fault),
            (None, NodeRequestError::Fault(fault)) => {
                NodeRequestError::Fault(Fault { sent: fault.sent || progress.sent, ..fault })
            }
            (None, NodeRequestError::AtLimit | NodeRequestError::Busy) => error,
        })
    }

    /// The retry loop: tries a call at one node after another, until an answer is accepted or the
    /// [`RetryPolicy`](crate::nodes::RetryPolicy) allows no further try.
    async fn try_nodes<E: Exchange>(
        &self,
        clients: &[E::Client],
        exchange: &mut E,
        progress: &mut CallProgress<'_>,
        permit: impl Fn() -> Result<InFlightPermit, NodeRequestError> + Send,
    ) -> Result<E::Answer, NodeRequestError> {
        let among = exchange.among();
        let avoid = exchange.avoid();
        let calls = exchange.calls();
        let method = exchange.method();
        let candidates = |failed| Candidates { among, avoid: [avoid, failed], kind: (E::TRANSPORT, method) };
        let choose = |failed| self.choose(clients, candidates(failed), calls);
        let first = exchange.first().and_then(|first| {
            let among = [first].into_iter().collect::<NodeSet>().and(among);
            self.choose(clients, Candidates { among, ..candidates(None) }, calls)
        });
        let (mut client, mut choice, mut taken) =
            first.or_else(|| choose(None)).ok_or_else(|| self.unchosen(clients, candidates(None)))?;
        choice = exchange.choice().unwrap_or(choice);
        let mut limit = exchange.first_limit().filter(|_| exchange.first() == Some(client.as_ref().index));
        if limit.is_some() {
            choice = NodeChoice::Trial;
        }
        let mut tries = Tries::new();
        let mut reuse = Reuse::Idle;
        // A node whose error the call may have caused. If another node serves the call, this node was the cause: it
        // lacks the method, which the start of the next answer shows, or it fails at it.
        let mut doubted: Option<(&Node, bool)> = None;
        loop {
            let node = client.as_ref();
            progress.tries.push((self.number, node.index.0), choice);
            progress.taken = Some((node.index, calls, taken));
            let health = node.health.by(E::TRANSPORT);
            let waiting = health.usefulness().wait(|| self.clock.elapsed());
            let Rejected { failure, pause } =
                match self.try_once(client, reuse, exchange, progress, limit.take()).await {
                    Ok(accepted) => {
                        progress.taken = None;
                        let took = progress.took.take();
                        let verdict = accepted.verdict();
                        health.record_answer(verdict, method, took, || self.clock.elapsed());
                        if let Some((node, _)) = doubted.filter(|(_, is_unknown)| {
                            verdict == Verdict::Usable || (*is_unknown && verdict == Verdict::Begun)
                        }) {
                            node.health.by(E::TRANSPORT).usefulness().record_method_failed(method);
                        }
                        progress.tries.accept();
                        return Ok(accepted);
                    }
                    Err(rejected) => rejected,
                };
            drop(waiting);
            progress.tries.end(failure.end(), self.clock.elapsed());
            let error = failure.error();
            tracing::debug!(chain = %self.chain, node = %node.config.name(), ?failure, "a try at a node failed: {error}");
            let NodeRequestError::Fault(fault) = error else {
                // The gateway has stopped the try, so the node is not responsible.
                progress.waits_since = None;
                return Err(error);
            };
            progress.taken = None;
            let now = self.clock.elapsed();
            if fault.cause == Cause::Timeout {
                record_silence::<E>(node, progress, now);
            }
            progress.waits_since = None;
            match failure {
                TryFailure::IdleConnectionClosed { .. } => {}
                TryFailure::Unserved { why, .. } => {
                    progress.bad_answer.get_or_insert(fault);
                    health.record_answer(Verdict::Unserved(why), method, None, || now);
                }
                TryFailure::DoubtedError(_) => {
                    progress.bad_answer.get_or_insert(fault);
                    health.record_answer(Verdict::Neutral, method, None, || now);
                }
                TryFailure::BadAnswer(_) => {
                    progress.bad_answer.get_or_insert(fault);
                    if !progress.is_shared_failure {
                        node.health.record_failure(E::TRANSPORT, fault, pause, now);
                    }
                }
                _ if progress.is_shared_failure => {}
                _ => node.health.record_failure(E::TRANSPORT, fault, None, now),
            }
            let mut next = tries.after(failure, exchange.may_repeat(), &self.limits.retry);
            // An answer that is not from the chain's API can be due to the call's path, or to a node that gives no
            // other answers.
            let is_suspect = fault.cause == Cause::Unanswered
                && exchange.may_repeat()
                && !self.better_than(node.index, E::TRANSPORT).is_empty();
            if is_suspect && next == NextTry::GiveUp {
                next = tries.move_on(false, &self.limits.retry);
            }
            if !fault.sent && next != NextTry::Reconnect {
                node.give_back(calls, taken, &*self.clock);
            }
            // Only a node that has served calls shows the cause of an error.
            let better =
                || candidates(Some(node.index)).among.and(self.better_than(node.index, E::TRANSPORT));
            let choose = |failed| match failure {
                TryFailure::DoubtedError(_) if !better().is_empty() => {
                    self.choose(clients, Candidates { among: better(), ..candidates(failed) }, calls)
                }
                _ => choose(failed),
            };
            (client, choice, taken) = match next {
                NextTry::GiveUp => return Err(error),
                NextTry::Reconnect => (client, NodeChoice::Again, taken),
                NextTry::MoveOn { or_same } => {
                    let again = || {
                        let taken = if or_same { node.take_now(calls, &*self.clock) } else { None };
                        taken.map(|taken| (client, NodeChoice::Again, taken))
                    };
                    choose(Some(node.index)).or_else(again).ok_or(error)?
                }
            };
            // A node that answers has working connections. After any other failure no idle one is trusted.
            let has_answered = matches!(
                failure,
                TryFailure::BadAnswer(_) | TryFailure::Unserved { .. } | TryFailure::DoubtedError(_)
            );
            reuse = if has_answered { Reuse::Idle } else { Reuse::No };
            let has_doubted = matches!(failure, TryFailure::DoubtedError(_));
            let is_unknown = matches!(failure, TryFailure::Unserved { why: Unserved::UnknownMethod, .. });
            let may_be_callers = is_suspect || has_doubted || is_unknown;
            if may_be_callers {
                doubted = Some((node, is_unknown));
            }
            // A client whose calls are wrong leaves retries for others.
            let take_retry = || if may_be_callers { self.take_spare_retry() } else { self.take_retry() };
            if fault.sent && !take_retry() {
                if next != NextTry::Reconnect {
                    client.as_ref().give_back(calls, taken, &*self.clock);
                }
                return Err(error);
            }
            // A rejected answer that was streamed has taken the permit along.
            if progress.permit.is_none() {
                let again = permit().inspect_err(|_| client.as_ref().give_back(calls, taken, &*self.clock));
                progress.permit = Some(again?);
            }
        }
    }

    async fn try_once<E: Exchange>(
        &self,
        client: &E::Client,
        reuse: Reuse,
        exchange: &mut E,
        progress: &mut CallProgress<'_>,
        limit: Option<Duration>,
    ) -> Result<E::Answer, Rejected> {
        let node = client.as_ref();
        if let Some(address) = exchange.address() {
            address.enter(node.index);
        }
        if node.network.is_unknown() {
            // A node that is slow to answer this question delays the call.
            (progress.node, progress.waits_since) = (Some(node.index), Some(self.clock.elapsed()));
            self.confirm_network(node).await?;
            progress.waits_since = None;
        }
        let Some(limit) = [limit, self.limits.retry.per_try].into_iter().flatten().min() else {
            return exchange.try_once(client, reuse, progress).await;
        };
        let sent = {
            let sending = pin!(exchange.try_once(client, reuse, progress));
            self.timers.within(limit, sending).await
        };
        sent.unwrap_or_else(|| Err(TryFailure::TimedOut { sent: progress.sent }.into()))
    }

    /// Sends a call to one node only, regardless of its health and limits, for at most `limit`. It is meant for the
    /// gateway's own calls, such as probes. These do not count as calls in flight, so that a busy chain is not mistaken
    /// for a dead one. They are not retried, except on a new connection after the node had closed the idle one.
    ///
    /// If the request has a [number](NodeRequest::with_number), the answer must be the reply to that call.
    ///
    /// # Errors
    /// The [`Fault`] of the try; [`Cause::NoNode`] if the node has no address for HTTP.
    pub async fn ask_node(
        &self,
        index: NodeIndex,
        request: &NodeRequest,
        limit: Duration,
    ) -> Result<NodeAnswer, NodeRequestError> {
        let client = self.client(index).ok_or(Fault::unsent(Cause::NoNode))?;
        client.as_ref().count(request.calls, &*self.clock);
        let mut ignored = |_| {};
        let mut unexplained = NodeTries::default();
        let mut progress = CallProgress::new(None, &mut ignored, &mut unexplained);
        let mut memory = MemoryPermit::default();
        let tries = async {
            match client.send(request, &mut memory, Reuse::Idle, &mut progress).await {
                Err(TryFailure::IdleConnectionClosed { .. }) => {
                    client.send(request, &mut memory, Reuse::No, &mut progress).await
                }
                result => result,
            }
        };
        match tokio::time::timeout(limit.min(self.limits.retry.deadline), tries).await {
            Ok(result) => {
                let mut answer = result.map_err(TryFailure::error)?;
                if !answer.is_that_to(request.number) {
                    return Err(unusable_body(answer.status).into());
                }
                client.give_back(answer.take_connection());
                Ok(answer)
            }
            Err(_) => Err(Fault::sent(Cause::Timeout).into()),
        }
    }
}

/// Records that a try ended without an answer, which counts against the node if the wait was unusual.
fn record_silence<E: Exchange>(node: &Node, progress: &mut CallProgress<'_>, now: Duration) {
    if let Some(since) = progress.waits_since.take() {
        node.health.by(E::TRANSPORT).usefulness().record_silence(now.saturating_sub(since));
    }
}
