//! The body of a response: complete, or still arriving from a node, with the tally that is closed at its end.

use crate::call::join::HELD;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use rpcgate_core::call::CallState;
use rpcgate_core::fault::Fault;
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::reply::Flow;
use rpcgate_core::tally::Tally;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The body of a response.
///
/// A streamed body ends cleanly only if all of it has arrived from the node. If it breaks, its last item is the fault,
/// the server aborts the connection, and the call is not charged.
pub struct ReplyBody(Content);

enum Content {
    Complete(Bytes),
    Pieces(VecDeque<Bytes>),
    Flowing { flow: Flow, account: Option<Box<Tally>>, sent: u64 },
}

impl ReplyBody {
    /// Creates a complete body.
    pub const fn complete(body: Bytes) -> Self {
        ReplyBody(Content::Complete(body))
    }

    /// Creates a complete body in pieces. A large body keeps the memory in `held` until its last piece was written or
    /// dropped.
    pub(crate) fn held(first: Bytes, mut rest: Vec<Bytes>, held: &mut MemoryPermit) -> Self {
        let length = first.len() + bytes(&rest);
        if length < HELD && rest.is_empty() {
            return ReplyBody(Content::Complete(first));
        }
        if length >= HELD {
            let mut held = std::mem::take(held);
            held.keep(length);
            let Some(last) = rest.pop() else {
                return ReplyBody(Content::Complete(HeldBytes::hold(first, held)));
            };
            rest.push(HeldBytes::hold(last, held));
        }
        let mut pieces = VecDeque::from(rest);
        pieces.push_front(first);
        ReplyBody(Content::Pieces(pieces))
    }

    /// Creates a body that is still arriving. `account` is closed before the last piece is returned.
    pub const fn flowing(flow: Flow, account: Option<Box<Tally>>) -> Self {
        ReplyBody(Content::Flowing { flow, account, sent: 0 })
    }
}

fn bytes<'a>(pieces: impl IntoIterator<Item = &'a Bytes>) -> usize {
    pieces.into_iter().map(Bytes::len).sum()
}

/// Bytes that hold their memory permit while they exist: a server may write a piece long after it took the piece from
/// the body.
struct HeldBytes {
    bytes: Bytes,
    _held: MemoryPermit,
}

impl HeldBytes {
    fn hold(bytes: Bytes, held: MemoryPermit) -> Bytes {
        Bytes::from_owner(HeldBytes { bytes, _held: held })
    }
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Content::Complete(body) => f.debug_tuple("Complete").field(body).finish(),
            Content::Pieces(pieces) => f.debug_struct("Pieces").field("left", &bytes(pieces)).finish(),
            Content::Flowing { sent, .. } => {
                f.debug_struct("Flowing").field("sent", sent).finish_non_exhaustive()
            }
        }
    }
}

fn close(account: &mut Option<Box<Tally>>, sent: u64, fault: Option<Fault>) {
    if let Some(mut tally) = account.take()
        && let Some(entry) = tally.entries.first_mut()
    {
        entry.bytes_out = u32::try_from(sent).unwrap_or(u32::MAX);
        if let Some(fault) = fault {
            entry.state = CallState::Failed(fault);
        }
    }
}

impl Drop for ReplyBody {
    /// Records a client that disconnected, with the bytes returned so far.
    fn drop(&mut self) {
        if let Content::Flowing { account, sent, .. } = &mut self.0 {
            close(account, *sent, None);
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        match &mut self.0 {
            Content::Complete(body) if body.is_empty() => Poll::Ready(None),
            Content::Complete(body) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(body))))),
            Content::Pieces(pieces) => Poll::Ready(pieces.pop_front().map(|piece| Ok(Frame::data(piece)))),
            Content::Flowing { flow, account, sent } => {
                let next = ready!(flow.as_mut().poll_frame(cx));
                match &next {
                    Some(Ok(frame)) => {
                        *sent += frame.data_ref().map_or(0, |data| data.len() as u64);
                        if flow.is_end_stream() {
                            close(account, *sent, None);
                        }
                    }
                    Some(Err(fault)) => close(account, *sent, Some(*fault)),
                    None => close(account, *sent, None),
                }
                Poll::Ready(next)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Complete(body) => body.is_empty(),
            Content::Pieces(pieces) => pieces.is_empty(),
            Content::Flowing { flow, .. } => flow.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Complete(body) => SizeHint::with_exact(body.len() as u64),
            Content::Pieces(pieces) => SizeHint::with_exact(bytes(pieces) as u64),
            Content::Flowing { flow, .. } => flow.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use http::{HeaderMap, StatusCode};
    use http_body_util::{BodyExt, StreamBody};
    use rpcgate_core::backend::usage_sink::Outcome;
    use rpcgate_core::fault::Cause;
    use rpcgate_core::reply::{Form, Reply, Source, Streamed};

    fn flow(pieces: Vec<Result<&'static str, Fault>>) -> Flow {
        let frames = pieces.into_iter().map(|piece| piece.map(|text| Frame::data(Bytes::from(text))));
        Box::pin(StreamBody::new(futures_util::stream::iter(frames)))
    }

    fn answered(fixture: &Fixture) -> Box<Tally> {
        let mut calls = fixture.calls(br#"{"id":1,"method":"toy_scan"}"#);
        let streamed = Streamed::new(StatusCode::OK, HeaderMap::new(), false, flow(vec![]));
        calls.tally_mut().entries[0].state =
            CallState::Answered(Reply { form: Form::Stream(Box::new(streamed)), from: Source::Node });
        calls.into_tally()
    }

    #[tokio::test]
    async fn an_account_is_closed_when_the_whole_body_has_arrived() {
        let fixture = Fixture::new();
        let body = ReplyBody::flowing(flow(vec![Ok("abc"), Ok("de")]), Some(answered(&fixture)));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abcde");
        let line = &fixture.sink.records()[0].lines[0];
        assert_eq!((line.cu, line.bytes_out, line.outcome), (75, 5, Outcome::Answered));
    }

    #[tokio::test]
    async fn a_body_that_breaks_is_not_charged_and_has_no_clean_end() {
        let fixture = Fixture::new();
        let fault = Fault::sent(Cause::Broken);
        let body = ReplyBody::flowing(flow(vec![Ok("abc"), Err(fault)]), Some(answered(&fixture)));
        assert_eq!(body.collect().await.err(), Some(fault));
        let line = &fixture.sink.records()[0].lines[0];
        assert_eq!((line.cu, line.bytes_out, line.outcome), (0, 3, Outcome::Failed));
    }

    #[tokio::test]
    async fn a_client_that_leaves_half_way_is_charged() {
        let fixture = Fixture::new();
        let mut body = ReplyBody::flowing(flow(vec![Ok("abc"), Ok("de")]), Some(answered(&fixture)));
        assert!(body.frame().await.is_some());
        assert!(fixture.sink.records().is_empty());
        drop(body);
        let line = &fixture.sink.records()[0].lines[0];
        assert_eq!((line.cu, line.bytes_out), (75, 3), "and recorded with the bytes that it got");
    }
}
