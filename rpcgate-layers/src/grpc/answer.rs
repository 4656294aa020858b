//! The body of an answer to a gRPC call, complete or still arriving from a node, with the account that is closed at its
//! end.

use super::account::{AnswerAccount, AnswerEnd, correct};
use super::counts::GrpcCounts;
use super::feed::Feed;
use super::judge::AnswerJudge;
use super::long_call::LongAnswer;
use super::messages::Messages;
use super::status::{UNAUTHENTICATED, UNAVAILABLE, of_node};
use crate::headers::stays_behind;
use crate::nodes::in_flight::InFlightPermit;
use crate::transport::h2::NodeBody;
use crate::transport::h2::client::H2Slot;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::refusal::Refusal;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// The body of an answer to a gRPC call. Its last frame has the trailers. It fails, which resets the client's stream,
/// only if the node aborts within a message.
pub struct GrpcBody(Content);

enum Content {
    /// Headers that include the status.
    None,
    Complete {
        pieces: VecDeque<Bytes>,
        trailers: Option<HeaderMap>,
    },
    Live(Box<Live>),
}

/// An answer that is still arriving.
pub(super) struct Live {
    pub(super) pieces: VecDeque<Bytes>,
    pub(super) body: NodeBody,
    pub(super) messages: Messages,
    pub(super) feed: Arc<Feed>,
    pub(super) account: Option<AnswerAccount>,
    /// Present until the node is judged.
    pub(super) judge: Option<AnswerJudge>,
    pub(super) counts: Arc<GrpcCounts>,
    pub(super) sent: u64,
    /// The client's deadline.
    pub(super) deadline: Option<Pin<Box<Sleep>>>,
    /// The maximum time for the next piece of a message.
    pub(super) patience: Duration,
    pub(super) stall: Option<Pin<Box<Sleep>>>,
    pub(super) lasting: LongAnswer,
    pub(super) is_over: bool,
    /// The places at the node and among the calls in flight, held until the end.
    pub(super) held: Option<(H2Slot, Option<InFlightPermit>)>,
}

impl GrpcBody {
    pub(super) const fn none() -> Self {
        GrpcBody(Content::None)
    }

    pub(super) fn complete(pieces: SmallVec<[Bytes; 2]>, trailers: Option<HeaderMap>) -> Self {
        GrpcBody(Content::Complete { pieces: pieces.into_iter().collect(), trailers })
    }

    pub(super) fn live(live: Live) -> Self {
        live.counts.opened();
        GrpcBody(Content::Live(Box::new(live)))
    }
}

/// Removes the node metadata that a client may not see.
pub(super) fn strip(metadata: &mut HeaderMap) {
    let behind: SmallVec<[HeaderName; 8]> =
        metadata.keys().filter(|name| stays_behind(name)).cloned().collect();
    for name in behind {
        metadata.remove(name);
    }
}

impl Live {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(piece) = self.pieces.pop_front() {
            self.sent += piece.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready()) {
            return self.close(AnswerEnd::Late);
        }
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending => match self.lasts(cx) {
                Poll::Ready(refusal) => self.close(AnswerEnd::Refused(refusal)),
                Poll::Pending => self.wait(cx),
            },
            Poll::Ready(Some(Ok(frame))) => {
                self.stall = None;
                match frame.into_data() {
                    Ok(data) if self.messages.pass(&data).is_err() => self.break_off(Cause::Oversize),
                    Ok(data) => {
                        if let Poll::Ready(refusal) = self.lasts(cx) {
                            return self.close(AnswerEnd::Refused(refusal));
                        }
                        if self.messages.are_several() {
                            self.begin_stream();
                        }
                        self.sent += data.len() as u64;
                        Poll::Ready(Some(Ok(Frame::data(data))))
                    }
                    Err(frame) => self.finish(frame.into_trailers().unwrap_or_default()),
                }
            }
            Poll::Ready(Some(Err(_)) | None) => match self.feed.refusal() {
                Some(refusal) => self.close(AnswerEnd::Refused(refusal)),
                None => self.break_off(Cause::Broken),
            },
        }
    }

    /// Returns the refusal once a long call has to end. During its first message the call may still be unary.
    fn lasts(&mut self, cx: &mut Context<'_>) -> Poll<Refusal> {
        let may_be_unary = self.messages.complete() == 0 && !self.messages.is_between();
        let refusal = self.lasting.poll(cx, !may_be_unary);
        if self.lasting.is_followed()
            && let Some(account) = &mut self.account
        {
            account.outlast();
        }
        refusal
    }

    /// Charges the answer as a stream, if not yet done.
    pub(super) fn begin_stream(&mut self) {
        if let Some(judge) = self.judge.take() {
            judge.record_stream();
        }
        if matches!(self.account, Some(AnswerAccount::Call(_))) {
            self.account = self.account.take().and_then(AnswerAccount::into_stream);
        }
    }

    /// Waits for the node. Between messages a node may be silent for any time. The time limit applies within a message,
    /// and before the first message once the node has the whole call.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        if self.messages.is_between() && self.messages.complete() > 0 {
            return Poll::Pending;
        }
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        loop {
            if stall.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            let until = match self.feed.ended() {
                _ if !self.messages.is_between() => now,
                // The node may be waiting for the client.
                None => now + self.patience,
                Some(ended) => ended + self.patience,
            };
            if until <= now {
                return self.break_off(Cause::Timeout);
            }
            stall.as_mut().reset(until);
        }
    }

    /// Ends the answer with the trailers of the node.
    fn finish(&mut self, mut trailers: HeaderMap) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let Some(status) = of_node(&trailers).filter(|_| self.messages.is_between()) else {
            return self.break_off(Cause::Undecodable);
        };
        if status == UNAUTHENTICATED {
            return self.close(AnswerEnd::Failed(Cause::Status(401)));
        }
        strip(&mut trailers);
        correct(&mut trailers, self.settle(AnswerEnd::Node(status)));
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    /// Ends an answer that the node aborted. The client gets a status, or a stream reset within a message.
    fn break_off(&mut self, cause: Cause) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        if self.messages.is_between() || cause == Cause::Oversize {
            return self.close(AnswerEnd::Failed(cause));
        }
        self.settle(AnswerEnd::Failed(cause));
        Poll::Ready(Some(Err(Fault::sent(cause))))
    }

    /// Ends the answer with a status of the gateway.
    fn close(&mut self, end: AnswerEnd) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        // A refusal after a message ends a stream, even without a second message. Status 14 counts as a failure for the
        // client.
        if matches!(end, AnswerEnd::Refused(_)) && end.number() != UNAVAILABLE && self.messages.complete() > 0
        {
            self.begin_stream();
        }
        let mut trailers = end.trailers();
        correct(&mut trailers, self.settle(end));
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    /// Ends the account before the last frame is passed on, and resets the node's stream if it has not ended. Returns
    /// the Compute Units charged if they differ from the head of the answer.
    fn settle(&mut self, end: AnswerEnd) -> Option<HeaderValue> {
        self.is_over = true;
        self.held = None;
        if let Some(judge) = self.judge.take() {
            judge.record(end, self.messages.complete() == 0 && self.feed.ended().is_some());
        }
        self.feed.end();
        let account = self.account.take()?;
        self.counts.count(account.chain(), end.number());
        account.end(end, self.feed.received().load(Relaxed) as u64, self.sent)
    }
}

impl Drop for Live {
    /// Records a client that disconnected, with the bytes passed on so far.
    fn drop(&mut self) {
        self.counts.closed();
        self.settle(AnswerEnd::Left);
    }
}

impl Body for GrpcBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        match &mut self.0 {
            Content::None => Poll::Ready(None),
            Content::Complete { pieces, trailers } => Poll::Ready(match pieces.pop_front() {
                Some(piece) => Some(Ok(Frame::data(piece))),
                None => trailers.take().map(|trailers| Ok(Frame::trailers(trailers))),
            }),
            Content::Live(live) => live.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::None => true,
            Content::Complete { pieces, trailers } => pieces.is_empty() && trailers.is_none(),
            Content::Live(live) => live.is_over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::None => SizeHint::with_exact(0),
            _ => SizeHint::default(),
        }
    }
}

impl fmt::Debug for GrpcBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Content::None => "GrpcBody(none)",
            Content::Complete { .. } => "GrpcBody(whole)",
            Content::Live(_) => "GrpcBody(live)",
        })
    }
}

/// Returns a timer for the remaining time; `None` without a deadline.
pub(super) fn timer(left: Option<Duration>) -> Option<Pin<Box<Sleep>>> {
    // Below the maximum of tokio's timers.
    const FAR: Duration = Duration::from_secs(365 * 86_400);
    left.map(|left| Box::pin(tokio::time::sleep_until(Instant::now() + left.min(FAR))))
}
