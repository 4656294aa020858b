//! The messages of a call as they are written to a node.

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::{Body, Frame};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Writes `messages` to a stream as the node takes them. It ends with them, or when the node takes no more; an error of theirs
/// resets the stream.
pub(super) struct SendMessages<M> {
    messages: M,
    stream: SendStream<Bytes>,
    /// A piece for which the node has no room yet.
    waiting: Option<Bytes>,
}

impl<M> SendMessages<M> {
    pub(super) fn new(messages: M, stream: SendStream<Bytes>) -> Self {
        SendMessages { messages, stream, waiting: None }
    }
}

impl<M: Body<Data = Bytes, Error = h2::Error> + Unpin> Future for SendMessages<M> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let SendMessages { messages, stream, waiting } = &mut *self;
        loop {
            if let Some(piece) = waiting.take() {
                if stream.capacity() == 0 && stream.poll_reset(cx).is_ready() {
                    return Poll::Ready(());
                }
                while stream.capacity() == 0 {
                    match stream.poll_capacity(cx) {
                        Poll::Ready(Some(Ok(_))) => {}
                        Poll::Ready(_) => return Poll::Ready(()),
                        Poll::Pending => {
                            *waiting = Some(piece);
                            return Poll::Pending;
                        }
                    }
                }
                if stream.send_data(piece, false).is_err() {
                    return Poll::Ready(());
                }
            }
            let next = match Pin::new(&mut *messages).poll_frame(cx) {
                Poll::Ready(next) => next,
                Poll::Pending => {
                    ready!(stream.poll_reset(cx)).ok();
                    return Poll::Ready(());
                }
            };
            match next.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(piece))) => {
                    if messages.is_end_stream() {
                        // Nothing is held back by waiting for room: the piece is here, and no other comes.
                        let _ = stream.send_data(piece, true);
                        return Poll::Ready(());
                    }
                    // Only what is there is reserved: a byte that is not sent would be missing in the connection's window.
                    stream.reserve_capacity(piece.len());
                    *waiting = Some(piece);
                }
                // Calls of gRPC have no trailers.
                Some(Ok(Err(_))) => {}
                None => {
                    let _ = stream.send_data(Bytes::new(), true);
                    return Poll::Ready(());
                }
                Some(Err(error)) => {
                    stream.send_reset(error.reason().unwrap_or(Reason::CANCEL));
                    return Poll::Ready(());
                }
            }
        }
    }
}
