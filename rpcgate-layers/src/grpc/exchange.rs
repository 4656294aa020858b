//! One call at the nodes: the data that is sent, and the answers that are accepted.

use super::feed::Feed;
use super::judge::AnswerJudge;
use super::long_call::{Interrupted, LongCall};
use super::messages::Messages;
use super::status::{UNAUTHENTICATED, UNAVAILABLE, is_grpc, of_node, verdict};
use super::timeout;
use crate::nodes::Pool;
use crate::nodes::exchange::{Exchange, Rejected, TryAddress};
use crate::nodes::in_flight::InFlightPermit;
use crate::nodes::node::NodeIndex;
use crate::nodes::node_set::NodeSet;
use crate::nodes::progress::CallProgress;
use crate::nodes::retry::TryFailure;
use crate::nodes::transport_health::{Judged, Verdict};
use crate::nodes::usefulness::MethodIndex;
use crate::transport::h1::client::Reuse;
use crate::transport::h2::client::{H2Answer, H2Client, H2Slot};
use crate::transport::h2::{GrpcRequest, NodeBody};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Uri};
use http_body::Body;
use rpcgate_core::clock::Clock;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::node_try::NodeChoice;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Transport;
use smallvec::SmallVec;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// The maximum number of bytes of an answer that wait for its trailers, so that it is recorded as a whole.
const HELD: usize = 256 << 10;

/// The maximum time that the head of an answer waits for the first message. A node that aborts before that has not
/// begun to answer.
const HEAD_HELD: Duration = Duration::from_millis(500);

pub(super) struct GrpcExchange<'a, 'l> {
    pub(super) uri: &'a Uri,
    pub(super) metadata: &'a HeaderMap,
    /// The chain's own header for the client's key.
    pub(super) key_header: Option<&'static str>,
    pub(super) feed: &'a Arc<Feed>,
    pub(super) lasting: LongCall<'l>,
    /// The refusal that ended the call.
    pub(super) refusal: Option<Refusal>,
    /// The time at which the client stops waiting, by the clock.
    pub(super) deadline: Option<Duration>,
    /// The maximum time from the client's last message to the head of the answer.
    pub(super) timeout: Duration,
    pub(super) is_broadcast: bool,
    /// The current node of the call, published if the call may be sent to two nodes.
    pub(super) address: Option<Arc<TryAddress>>,
    /// The node that already has the call, if this is the second exchange of it.
    pub(super) avoid: Option<NodeIndex>,
    pub(super) among: NodeSet,
    /// The position of the method in a node's statistics.
    pub(super) method: MethodIndex,
    /// The nodes that may be the cause of their errors, because they answered nothing else recently, or ever.
    pub(super) doubted: NodeSet,
    /// A node on trial, which gets the call first, and its time limit.
    pub(super) trial: Option<(NodeIndex, Duration)>,
    /// The first answer in which a node said that it cannot serve the call now.
    pub(super) unserved: Option<NodeReply>,
    /// True if the nodes exceeded `timeout`.
    pub(super) is_slow: bool,
    pub(super) most: usize,
    pub(super) clock: &'a Arc<dyn Clock>,
}

/// A node's answer, or its beginning.
pub(super) struct NodeReply {
    pub(super) headers: HeaderMap,
    /// The pieces of the body that arrived with the head.
    pub(super) pieces: SmallVec<[Bytes; 2]>,
    pub(super) messages: Messages,
    pub(super) rest: Rest,
    pub(super) method: MethodIndex,
    pub(super) slot: H2Slot,
    pub(super) permit: Option<InFlightPermit>,
}

impl Judged for NodeReply {
    fn verdict(&self) -> Verdict {
        match self.rest {
            Rest::Complete { status, .. } => verdict(status, self.method),
            Rest::Open { .. } => Verdict::Begun,
        }
    }
}

impl NodeReply {
    pub(super) fn is_unserved(&self) -> bool {
        matches!(self.verdict(), Verdict::Unserved(_))
    }
}

pub(super) enum Rest {
    /// Nothing: the trailers have arrived, or the headers are the trailers.
    Complete { status: u8, trailers: Option<HeaderMap> },
    /// More frames, by which the node is judged.
    Open { body: NodeBody, judge: AnswerJudge },
}

impl Exchange for GrpcExchange<'_, '_> {
    type Client = H2Client;
    type Answer = NodeReply;

    const TRANSPORT: Transport = Transport::Grpc;

    fn method(&self) -> MethodIndex {
        self.method
    }

    fn first(&self) -> Option<NodeIndex> {
        self.trial.map(|(node, _)| node)
    }

    fn first_limit(&self) -> Option<Duration> {
        self.trial.map(|(_, time)| time).filter(|_| self.may_repeat())
    }

    fn avoid(&self) -> Option<NodeIndex> {
        self.avoid
    }

    fn among(&self) -> NodeSet {
        self.among
    }

    fn choice(&self) -> Option<NodeChoice> {
        self.avoid.map(|_| NodeChoice::Slow)
    }

    fn address(&self) -> Option<&TryAddress> {
        self.address.as_deref()
    }

    fn may_repeat(&self) -> bool {
        self.avoid.is_none() && !self.is_broadcast && self.feed.is_repeatable()
    }

    fn is_limited_by_client(&self) -> bool {
        true
    }

    async fn try_once(
        &mut self,
        client: &H2Client,
        _: Reuse,
        progress: &mut CallProgress<'_>,
    ) -> Result<NodeReply, Rejected> {
        progress.is_shared_failure = false;
        if !self.feed.is_complete() {
            // The node gets no request.
            progress.is_shared_failure = true;
            return Err(Fault { cause: Cause::Broken, sent: true }.into());
        }
        let left = self.deadline.map(|deadline| deadline.saturating_sub(self.clock.elapsed()));
        let call = GrpcRequest {
            uri: self.uri,
            metadata: self.metadata,
            key_header: self.key_header,
            timeout: left.map(timeout::write),
            messages: self.feed.open(),
        };
        let H2Answer { response, slot } = match self.in_time(client.send(call, progress)).await {
            // The client has ended the call, and the node has not failed.
            Ok(Err(_)) if self.feed.is_broken() => {
                return Err(match self.feed.refusal() {
                    Some(refusal) => self.interrupted(Interrupted::Refused(refusal)),
                    None => TryFailure::Busy.into(),
                });
            }
            Ok(answer) => answer?,
            Err(interrupted) => return Err(self.interrupted(interrupted)),
        };
        let (head, mut body) = response.into_parts();
        if head.status != StatusCode::OK {
            return Err(bad_answer(Cause::Status(head.status.as_u16())));
        }
        if !is_grpc(&head.headers) {
            return Err(bad_answer(Cause::Undecodable));
        }
        let mut reply = NodeReply {
            headers: head.headers,
            pieces: SmallVec::new(),
            messages: Messages::new(self.most),
            rest: Rest::Complete { status: UNAVAILABLE, trailers: None },
            method: self.method,
            slot,
            permit: progress.permit.take(),
        };
        let mut read = match of_node(&reply.headers) {
            Some(status) => Ok(Some(Rest::Complete { status, trailers: None })),
            None => begin(&mut body, &mut reply, false).await,
        };
        if matches!(read, Ok(None))
            && reply.messages.complete() == 0
            && !self.is_broadcast
            && self.feed.is_repeatable()
        {
            // Another node may answer while nothing of this answer has been passed on.
            progress.wait_on(self.clock.elapsed());
            let until = Instant::now() + HEAD_HELD;
            let beginning = begin(&mut body, &mut reply, true);
            read = match self.lasting.during(beginning, || false, |_| until).await {
                Ok(read) => read,
                // It may be a stream without a first message yet.
                Err(Interrupted::Late) => Ok(None),
                Err(refused) => {
                    progress.permit = reply.permit;
                    return Err(self.interrupted(refused));
                }
            };
            progress.arrive(self.clock.elapsed(), true);
        }
        let read = read.map(|rest| {
            rest.unwrap_or_else(|| {
                let node = client.node().clone();
                let clock = self.clock.clone();
                let since = clock.elapsed().saturating_sub(progress.took.unwrap_or_default());
                Rest::Open { body, judge: AnswerJudge { node, method: self.method, clock, since } }
            })
        });
        let rest = match read {
            Ok(Rest::Complete { status: UNAUTHENTICATED, .. }) => Err(Cause::Status(401)),
            other => other,
        };
        match rest {
            Ok(rest) => {
                reply.rest = rest;
                // Nothing has been passed on, so another node may answer.
                let fault = Fault::sent(Cause::Status(503));
                let failure = match reply.verdict() {
                    Verdict::Unserved(why) => Some(TryFailure::Unserved { why, fault }),
                    // Another node's answer shows whether the call is the cause.
                    Verdict::Neutral if self.is_doubted(client.node().index) => {
                        Some(TryFailure::DoubtedError(fault))
                    }
                    _ => None,
                };
                if let Some(failure) = failure {
                    progress.permit = reply.permit.take();
                    self.unserved.get_or_insert(reply);
                    return Err(failure.into());
                }
                self.feed.commit();
                Ok(reply)
            }
            Err(cause) => {
                progress.permit = reply.permit;
                Err(bad_answer(cause))
            }
        }
    }
}

impl<'a, 'l> GrpcExchange<'a, 'l> {
    /// Determines the doubted nodes and the node on trial. Returns the refusal if the client's messages are too large.
    pub(super) async fn look_at_nodes(&mut self, pool: &Pool) -> Option<Refusal> {
        if self.is_broadcast {
            return None;
        }
        self.doubted = pool.grpc_doubted(self.among);
        if !pool.has_failed_over_grpc(self.among, self.method) {
            return None;
        }
        // Only a call whose message has arrived can be sent to another node as well.
        self.feed.take_in().await;
        if self.may_repeat() {
            self.trial = pool.grpc_trial(self.among, self.method);
        }
        self.feed.refusal()
    }

    pub(super) fn another(&self) -> GrpcExchange<'a, 'l> {
        GrpcExchange {
            lasting: self.lasting.another(),
            refusal: None,
            address: None,
            trial: None,
            unserved: None,
            is_slow: false,
            ..*self
        }
    }

    /// Reports whether another node may get the call as well after this one answered it with an error.
    fn is_doubted(&self, index: NodeIndex) -> bool {
        let is_on_trial = self.trial.is_some_and(|(node, _)| node == index);
        (is_on_trial || self.doubted.has(index)) && self.may_repeat()
    }

    fn interrupted(&mut self, interrupted: Interrupted) -> Rejected {
        match interrupted {
            Interrupted::Late => {
                self.is_slow = true;
                Fault::sent(Cause::Timeout).into()
            }
            Interrupted::Refused(refusal) => {
                self.refusal = Some(refusal);
                // The node has not failed; no other node is tried.
                TryFailure::Busy.into()
            }
        }
    }

    /// Returns the output of `sending`, unless the nodes exceed `timeout` after the client's last message.
    async fn in_time<T>(&mut self, sending: impl Future<Output = T>) -> Result<T, Interrupted> {
        let feed = self.feed;
        let timeout = self.timeout;
        let until = |now: Instant| feed.ended().map_or(now, |ended| ended.min(now)) + timeout;
        self.lasting.during(sending, || feed.ended().is_none(), until).await
    }
}

fn bad_answer(cause: Cause) -> Rejected {
    TryFailure::BadAnswer(Fault::sent(cause)).into()
}

/// Reads the frames that arrived with the head of an answer, or with `waits` the frames up to the end of the first
/// message. Returns `None` if more follows.
async fn begin(body: &mut NodeBody, reply: &mut NodeReply, waits: bool) -> Result<Option<Rest>, Cause> {
    let mut held = reply.pieces.iter().map(Bytes::len).sum::<usize>();
    poll_fn(|cx| {
        while held < HELD {
            let frame = match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending if waits && reply.messages.complete() == 0 => return Poll::Pending,
                Poll::Pending => return Poll::Ready(Ok(None)),
                Poll::Ready(None) => return Poll::Ready(Err(Cause::Undecodable)),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(Cause::Broken)),
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            match frame.into_data() {
                Ok(data) => {
                    if reply.messages.pass(&data).is_err() {
                        return Poll::Ready(Err(Cause::Oversize));
                    }
                    held += data.len();
                    reply.pieces.push(data);
                    if reply.messages.complete() > 1 {
                        return Poll::Ready(Ok(None));
                    }
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    return Poll::Ready(match of_node(&trailers) {
                        Some(_) if !reply.messages.is_between() => Err(Cause::Broken),
                        Some(status) => Ok(Some(Rest::Complete { status, trailers: Some(trailers) })),
                        None => Err(Cause::Undecodable),
                    });
                }
            }
        }
        Poll::Ready(Ok(None))
    })
    .await
}
