use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::{Body, Frame};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The future that writes `messages` to a stream as the node takes them. It completes with the last message, or when
/// the node takes no more. An error of the messages resets the stream.
pub(super) struct SendMessages<M> {
    messages: M,
    stream: SendStream<Bytes>,
    /// A piece that waits for flow-control capacity.
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
                        // No wait for capacity is needed: the piece is here, and no other comes.
                        let _ = stream.send_data(piece, true);
                        return Poll::Ready(());
                    }
                    // Reserves only the size of the piece: reserved bytes that are not sent would be missing in the
                    // connection's window.
                    stream.reserve_capacity(piece.len());
                    *waiting = Some(piece);
                }
                // gRPC calls have no trailers.
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

#[cfg(test)]
mod tests {
    use super::*;
    use h2::client::SendRequest;
    use http::{Request, Response};
    use std::collections::VecDeque;
    use std::pin::pin;
    use tokio::io::duplex;
    use tokio::task::JoinHandle;

    /// The number of bytes of a call that the node takes before it has read any.
    const WINDOW: u32 = 10;

    /// Messages that are all available.
    struct Pieces(VecDeque<Bytes>);

    impl Pieces {
        fn of(sizes: &[usize]) -> Self {
            Pieces(sizes.iter().map(|size| vec![b'x'; *size].into()).collect())
        }
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = h2::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty()
        }
    }

    /// A connection to a node that has announced a small window, and the sizes of the calls that the node gets.
    async fn connected() -> (SendRequest<Bytes>, JoinHandle<Vec<usize>>) {
        let (near, far) = duplex(1 << 16);
        let node = tokio::spawn(async move {
            let mut node = h2::server::Builder::new();
            let mut node = node.initial_window_size(WINDOW).handshake::<_, Bytes>(far).await.unwrap();
            let mut calls = Vec::new();
            while let Some(Ok((request, mut call))) = node.accept().await {
                calls.push(tokio::spawn(async move {
                    let mut body = request.into_body();
                    let mut size = 0;
                    while let Some(piece) = body.data().await {
                        let piece = piece.unwrap();
                        body.flow_control().release_capacity(piece.len()).unwrap();
                        size += piece.len();
                    }
                    call.send_response(Response::new(()), true).unwrap();
                    size
                }));
            }
            let mut sizes = Vec::new();
            for call in calls {
                sizes.push(call.await.unwrap());
            }
            sizes
        });
        let (sender, connection) = h2::client::handshake(near).await.unwrap();
        tokio::spawn(connection);
        // The settings of the node come before its first answer.
        let mut sender = sender.ready().await.unwrap();
        let (answer, _) = sender.send_request(Request::new(()), true).unwrap();
        answer.await.unwrap();
        (sender, node)
    }

    #[tokio::test]
    async fn the_last_piece_is_sent_without_a_window_for_it_and_earlier_ones_wait() {
        let (mut sender, node) = connected().await;
        for (sizes, waits) in [(&[2_000][..], false), (&[25, 25, 2_000], true)] {
            let (answer, stream) = sender.send_request(Request::new(()), false).unwrap();
            let mut sending = pin!(SendMessages::new(Pieces::of(sizes), stream));
            let is_over = futures_util::poll!(&mut sending).is_ready();
            assert_eq!(is_over, !waits, "{sizes:?}");
            if waits {
                sending.await;
            }
            assert_eq!(answer.await.unwrap().status(), 200);
        }
        drop(sender);
        assert_eq!(node.await.unwrap(), [0, 2_000, 2_050], "all of it has arrived");
    }
}
