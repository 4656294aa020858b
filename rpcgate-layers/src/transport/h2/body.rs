//! The body of a node's answer.

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http_body::{Body, Frame};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// What follows the head of a node's answer: data, then trailers. A piece that has been taken is room for the node to send
/// more. Dropped before its end, it resets the stream.
#[derive(Debug)]
pub(crate) struct NodeBody {
    stream: RecvStream,
    has_data: bool,
}

impl NodeBody {
    pub(super) fn new(stream: RecvStream) -> Self {
        NodeBody { stream, has_data: true }
    }
}

impl Body for NodeBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if self.has_data {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(piece)) => {
                    // An error says that the stream is over, which the next poll says as well.
                    let _ = self.stream.flow_control().release_capacity(piece.len());
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
                // The answer is complete, and the node takes no more of the call (RFC 9113, section 8.1).
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {}
            }
            self.has_data = false;
        }
        Poll::Ready(match ready!(self.stream.poll_trailers(cx)) {
            Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
            Err(error) if error.reason() == Some(Reason::NO_ERROR) => None,
            Err(error) => Some(Err(error)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}
