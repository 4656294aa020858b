use bytes::Bytes;
use h2::{Reason, RecvStream};
use http_body::{Body, Frame};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The data and the trailers of a node's answer. Taking a piece releases flow-control capacity. Dropping the body
/// before its end resets the stream.
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
                    // After an error the stream is over, which the next poll reports.
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::poll;
    use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
    use http_body_util::BodyExt;
    use std::pin::pin;
    use tokio::io::duplex;
    use tokio::task::yield_now;

    /// Reads an answer to a call that has not ended: its data, whether it has trailers, and whether it ends without an
    /// error. The node sends all of it and drops the call, or resets the stream with this reason after the data.
    async fn read(reset: Option<Reason>) -> (Vec<u8>, bool, bool) {
        let (near, far) = duplex(1 << 16);
        tokio::spawn(async move {
            let mut node = h2::server::handshake(far).await.unwrap();
            let (_, mut call) = node.accept().await.unwrap().unwrap();
            let mut stream = call.send_response(Response::new(()), false).unwrap();
            stream.send_data(Bytes::from_static(b"answer"), false).unwrap();
            match reset {
                None => {
                    let status = (HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
                    stream.send_trailers(HeaderMap::from_iter([status])).unwrap();
                }
                Some(reason) => {
                    // A reset discards data that is not written yet.
                    for _ in 0..20 {
                        let _ = poll!(pin!(node.accept()));
                        yield_now().await;
                    }
                    stream.send_reset(reason);
                }
            }
            drop((call, stream));
            while node.accept().await.is_some() {}
        });
        let (sender, connection) = h2::client::handshake(near).await.unwrap();
        tokio::spawn(connection);
        let mut sender = sender.ready().await.unwrap();
        let (answer, _open) = sender.send_request(Request::new(()), false).unwrap();
        let mut body = NodeBody::new(answer.await.unwrap().into_body());
        // All bytes of the node arrive before they are read.
        for _ in 0..200 {
            yield_now().await;
        }
        let mut data = Vec::new();
        let mut has_trailers = false;
        loop {
            match body.frame().await {
                None => return (data, has_trailers, true),
                Some(Err(_)) => return (data, has_trailers, false),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => data.extend_from_slice(&piece),
                    Err(_) => has_trailers = true,
                },
            }
        }
    }

    #[tokio::test]
    async fn an_answer_is_complete_although_the_node_takes_no_more_of_the_call() {
        let answer = b"answer".to_vec();
        assert_eq!(read(None).await, (answer.clone(), true, true));
        assert_eq!(read(Some(Reason::NO_ERROR)).await, (answer, false, true));
    }

    #[tokio::test]
    async fn an_answer_that_the_node_breaks_off_ends_with_an_error() {
        assert_eq!(read(Some(Reason::INTERNAL_ERROR)).await, (b"answer".to_vec(), false, false));
    }
}
