//! Answers that are too large for the buffer: they are checked while they stream to the client.
//!
//! An answer is complete only if its content is: a body with correct framing may end before its JSON does, or continue
//! with the error page of a proxy. Then the last item of the stream is a fault, so that the client's stream does not
//! end cleanly, and the call is not charged.

use super::limits::ReplyLimits;
use crate::transport::h1::NodeBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use rpcgate_core::envelope::{ReplyPart, ReplyParts, ReplyStream};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::json::JsonStream;
use rpcgate_core::reply::Flow;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::time::{Sleep, sleep};

/// A streamed answer from its first byte.
pub(super) struct StreamedAnswer {
    rest: Box<NodeBody>,
    content: StreamContent,
    /// Checked pieces for the client.
    ready: VecDeque<Bytes>,
    id: Option<Bytes>,
    /// True if the client's body length differs from the node's by a known number.
    is_length_known: bool,
    bytes_left: u64,
    deadline: Pin<Box<Sleep>>,
    /// True after the end of the answer, with or without an error.
    is_over: bool,
    /// True if the whole answer was checked and is correct.
    is_complete: bool,
}

enum StreamContent {
    /// A reply to one call. `needs_id`: a reply without an id belongs to another call.
    Reply { reply: Box<ReplyStream>, needs_id: bool },
    /// One JSON text.
    Json(Box<JsonStream>),
    /// Bytes that are not JSON, which are not checked.
    Bytes,
}

/// A reply whose prefix was read, before its client's id is known.
pub(super) struct StreamedReply {
    answer: StreamedAnswer,
    parts: ReplyParts,
}

impl StreamedReply {
    /// Reads the prefix of the reply to the call with this number.
    ///
    /// # Errors
    /// If the prefix is not that of a reply, or if the reply belongs to another call.
    pub(super) fn new(
        prefix: &Bytes,
        rest: Box<NodeBody>,
        number: usize,
        needs_id: bool,
        limits: &ReplyLimits,
    ) -> Result<Self, Fault> {
        let mut reply = Box::new(ReplyStream::new(number));
        let parts = reply.read(prefix);
        let mut answer = StreamedAnswer::of(StreamContent::Reply { reply, needs_id }, rest, limits);
        answer.count(prefix.len() as u64)?;
        let parts = parts.map_err(|_| Fault::sent(Cause::Undecodable))?;
        Ok(StreamedReply { answer, parts })
    }

    pub(super) fn for_client(self, id: Option<Bytes>) -> Result<Flow, Fault> {
        let StreamedReply { mut answer, parts } = self;
        answer.id = id;
        answer.is_length_known = parts.contains(&ReplyPart::Id);
        answer.push(parts)?;
        answer.check_end()?;
        Ok(Box::pin(answer))
    }
}

impl StreamedAnswer {
    /// Creates the answer to a REST call. `is_json`: it must be one JSON text.
    ///
    /// # Errors
    /// If the prefix cannot start a JSON text.
    pub(super) fn rest(
        prefix: Bytes,
        rest: Box<NodeBody>,
        is_json: bool,
        limits: &ReplyLimits,
    ) -> Result<Flow, Fault> {
        let content =
            if is_json { StreamContent::Json(Box::new(JsonStream::new())) } else { StreamContent::Bytes };
        let mut answer = StreamedAnswer::of(content, rest, limits);
        answer.is_length_known = true;
        answer.take(prefix)?;
        answer.check_end()?;
        Ok(Box::pin(answer))
    }

    fn of(content: StreamContent, rest: Box<NodeBody>, limits: &ReplyLimits) -> Self {
        StreamedAnswer {
            rest,
            content,
            ready: VecDeque::new(),
            id: None,
            is_length_known: false,
            bytes_left: limits.stream_max,
            deadline: Box::pin(sleep(limits.stream_time)),
            is_over: false,
            is_complete: false,
        }
    }

    fn count(&mut self, bytes: u64) -> Result<(), Fault> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(Fault::sent(Cause::Oversize))?;
        Ok(())
    }

    /// Checks a piece of the node and makes it ready.
    fn take(&mut self, piece: Bytes) -> Result<(), Fault> {
        self.count(piece.len() as u64)?;
        let undecodable = Fault::sent(Cause::Undecodable);
        match &mut self.content {
            StreamContent::Reply { reply, .. } => {
                let parts = reply.read(&piece).map_err(|_| undecodable)?;
                return self.push(parts);
            }
            StreamContent::Json(json) => json.read(&piece).map_err(|_| undecodable)?,
            StreamContent::Bytes => {}
        }
        if !piece.is_empty() {
            self.ready.push_back(piece);
        }
        Ok(())
    }

    fn push(&mut self, parts: ReplyParts) -> Result<(), Fault> {
        for part in parts {
            match (part, &self.id) {
                (ReplyPart::Text(text), _) => self.ready.push_back(text),
                (ReplyPart::Id, Some(id)) => self.ready.push_back(id.clone()),
                (ReplyPart::Id, None) => self.ready.push_back(Bytes::from_static(b"null")),
                (ReplyPart::Missing, _)
                    if matches!(self.content, StreamContent::Reply { needs_id: true, .. }) =>
                {
                    return Err(Fault::sent(Cause::Undecodable));
                }
                (ReplyPart::Missing, Some(id)) => {
                    self.ready.push_back(Bytes::from_static(b",\"id\":"));
                    self.ready.push_back(id.clone());
                }
                (ReplyPart::Missing, None) => {}
            }
        }
        Ok(())
    }

    /// If the node's body has ended, checks that its content has ended too.
    fn check_end(&mut self) -> Result<(), Fault> {
        if !self.rest.is_end_stream() {
            return Ok(());
        }
        self.is_over = true;
        self.is_complete = match &self.content {
            StreamContent::Reply { reply, .. } => reply.is_complete(),
            StreamContent::Json(json) => json.is_complete(),
            StreamContent::Bytes => true,
        };
        if self.is_complete { Ok(()) } else { Err(Fault::sent(Cause::Undecodable)) }
    }

    /// Waits for the next piece of the node and checks it.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        if self.deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(Fault::sent(Cause::Timeout)));
        }
        let taken = match ready!(Pin::new(&mut *self.rest).poll_frame(cx)) {
            Some(Ok(frame)) => frame.into_data().map_or(Ok(()), |piece| self.take(piece)),
            Some(Err(fault)) => Err(fault),
            None => Ok(()),
        };
        Poll::Ready(taken.and_then(|()| self.check_end()))
    }
}

impl Drop for StreamedAnswer {
    fn drop(&mut self) {
        if !self.is_complete {
            self.rest.reject();
        }
    }
}

impl Body for StreamedAnswer {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let this = self.get_mut();
        loop {
            if let Some(piece) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if this.is_over {
                return Poll::Ready(None);
            }
            if let Err(fault) = ready!(this.poll_piece(cx)) {
                // Pieces that were ready before the bad one are dropped as well, because one of them may be the last of
                // the answer.
                this.ready.clear();
                (this.is_over, this.is_complete) = (true, false);
                return Poll::Ready(Some(Err(fault)));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over && self.ready.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        let rest = self.rest.size_hint();
        let ready = self.ready.iter().map(|piece| piece.len() as u64).sum::<u64>();
        if self.is_length_known
            && let Some(exact) = rest.exact().and_then(|rest| rest.checked_add(ready))
        {
            hint.set_upper(exact);
            hint.set_lower(exact);
        }
        hint
    }
}
