use super::Pool;
use crate::nodes::choice::Candidates;
use crate::nodes::error::NodeRequestError;
use crate::nodes::node::NodeIndex;
use crate::nodes::node_set::NodeSet;
use crate::nodes::retry::{NextTry, Tries, TryFailure};
use crate::nodes::transport_health::{TransportHealth, Verdict};
use crate::nodes::usefulness::{MethodIndex, WaitingTry};
use crate::transport::ws::NodeMessages;
use crate::transport::ws::dial::NodeStream;
use http::HeaderValue;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Clock;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::node_try::{NodeChoice, NodeTries, TryEnd};
use rpcgate_core::tally::Transport;
use std::time::Duration;

impl Pool {
    /// Opens a stream to a node and offers these sub-protocols. If a node does not accept it, or does not answer the
    /// handshake in time, another node is asked, with as many tries as a read. Nodes that take every method are
    /// preferred, because the stream stays at its node. The opening counts as a call in flight; an open stream does
    /// not. Each try is recorded in `tries`.
    ///
    /// # Errors
    /// [`NodeRequestError::Busy`] if the chain or the project has reached its limit of calls in flight,
    /// [`NodeRequestError::AtLimit`] if no node may get the stream now; otherwise the [`Fault`] of the last try.
    pub(crate) async fn open_stream(
        &self,
        protocols: &[HeaderValue],
        project: Option<ProjectId>,
        tries: &mut NodeTries,
    ) -> Result<NodeStream, NodeRequestError> {
        let _permit = self.in_flight.acquire(project).map_err(|_| NodeRequestError::Busy)?;
        self.retries.deposit();
        let opening = self.try_to_open(protocols, tries);
        let opened = tokio::time::timeout(self.limits.retry.deadline, opening).await;
        opened.unwrap_or_else(|_| {
            let late = Fault::sent(Cause::Timeout);
            tries.end(TryEnd::Failed(late), self.clock.elapsed());
            Err(late.into())
        })
    }

    /// Opens a stream to one node only, regardless of its health, to read whole messages of up to `max` bytes. It is
    /// meant for the gateway's own calls and does not count as a call in flight. If no connection can be made, that
    /// does not change the health of a node that also has an HTTP address: its probes do.
    ///
    /// # Errors
    /// The [`Fault`] of the try; [`Cause::NoNode`] if the node has no address for WebSocket.
    pub async fn open_messages(
        &self,
        index: NodeIndex,
        max: usize,
    ) -> Result<NodeMessages, NodeRequestError> {
        let client = self.ws.iter().find(|client| client.as_ref().index == index);
        let client = client.ok_or(Fault::unsent(Cause::NoNode))?;
        let stream = client.open(&[], &NodeTries::default(), self.limits.connect).await;
        match &stream {
            Ok(_) => {
                client.as_ref().count(1, &*self.clock);
                client.as_ref().health.by(Transport::Ws).record_reachable();
            }
            Err(fault) if fault.cause == Cause::Connect && self.client(index).is_none() => {
                client.as_ref().health.by(Transport::Ws).record_unreachable(self.clock.elapsed());
            }
            Err(_) => {}
        }
        Ok(NodeMessages::new(stream?, max))
    }

    async fn try_to_open(
        &self,
        protocols: &[HeaderValue],
        noted: &mut NodeTries,
    ) -> Result<NodeStream, NodeRequestError> {
        let kind = (Transport::Ws, MethodIndex::OTHER);
        let choose = |failed| {
            let choose = |among| self.choose(&self.ws, Candidates { among, avoid: [None, failed], kind }, 1);
            choose(self.for_streams).or_else(|| choose(NodeSet::ALL))
        };
        let all = Candidates { among: NodeSet::ALL, avoid: [None, None], kind };
        let trial = self.on_trial(&self.ws, Candidates { among: self.for_streams, ..all }).and_then(|node| {
            let among = [node].into_iter().collect();
            let (client, _, taken) = self.choose(&self.ws, Candidates { among, ..all }, 1)?;
            Some((client, NodeChoice::Trial, taken))
        });
        let (mut client, mut choice, mut taken) =
            trial.or_else(|| choose(None)).ok_or_else(|| self.unchosen(&self.ws, all))?;
        let mut tries = Tries::new();
        loop {
            let node = client.as_ref();
            noted.push((self.number, node.index.0), choice);
            noted.begin(self.clock.elapsed());
            let health = node.health.by(Transport::Ws);
            // A client waits for a trial, so a node on trial has less time.
            let limit =
                self.limits.connect.min(if choice == NodeChoice::Trial { TRIAL } else { Duration::MAX });
            let waiting = Handshake::new(health, &*self.clock);
            let opened = match tokio::time::timeout(limit, self.confirm_network(node)).await {
                Ok(Ok(())) => client.open(protocols, noted, limit).await,
                Ok(Err(fault)) => Err(fault),
                Err(_) => Err(Fault::unsent(Cause::Timeout)),
            };
            let fault = match opened {
                Ok(stream) => {
                    waiting.end(true);
                    health.record_reachable();
                    noted.arrive(self.clock.elapsed());
                    noted.accept();
                    return Ok(stream);
                }
                Err(fault) => fault,
            };
            waiting.end(false);
            noted.end(TryEnd::Failed(fault), self.clock.elapsed());
            if fault.cause == Cause::Connect && !node.network.is_wrong() {
                health.record_unreachable(self.clock.elapsed());
            }
            node.health.record_failure(Transport::Ws, fault, None, self.clock.elapsed());
            // The time limit of this handshake was reached, but not that of the opening, and nothing was relayed yet.
            let failure = match fault.cause {
                Cause::Timeout => TryFailure::TimedOut { sent: fault.sent },
                _ => fault.into(),
            };
            let next = tries.after(failure, true, &self.limits.retry);
            if !fault.sent && next != NextTry::Reconnect {
                node.give_back(1, taken, &*self.clock);
            }
            if fault.sent && next != NextTry::GiveUp && !self.take_retry() {
                return Err(fault.into());
            }
            (client, choice, taken) = match next {
                NextTry::GiveUp => return Err(fault.into()),
                NextTry::Reconnect => (client, NodeChoice::Again, taken),
                NextTry::MoveOn { .. } => choose(Some(node.index)).ok_or(fault)?,
            };
        }
    }
}

/// The time limit of a handshake with a node on trial.
const TRIAL: Duration = Duration::from_secs(1);

/// A handshake that waits for its node. If the client leaves in the meantime, the wait counts against the node.
struct Handshake<'p> {
    health: &'p TransportHealth,
    clock: &'p dyn Clock,
    since: Option<Duration>,
    _waiting: WaitingTry<'p>,
}

impl<'p> Handshake<'p> {
    fn new(health: &'p TransportHealth, clock: &'p dyn Clock) -> Self {
        let since = clock.elapsed();
        let waiting = health.usefulness().wait(|| since);
        Handshake { health, clock, since: Some(since), _waiting: waiting }
    }

    /// Ends the wait: the node has accepted the stream, or the try has failed.
    fn end(mut self, is_open: bool) {
        let now = self.clock.elapsed();
        if let Some(since) = self.since.take_if(|_| is_open) {
            let took = Some(now.saturating_sub(since));
            self.health.record_answer(Verdict::Usable, MethodIndex::OTHER, took, || now);
        }
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            let waited = self.clock.elapsed().saturating_sub(since);
            self.health.usefulness().record_silence(waited);
        }
    }
}
