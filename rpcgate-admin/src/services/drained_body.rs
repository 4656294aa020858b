//! A request body that a handler may leave partly unread. The rest is [read](rpcgate_process::unread) and discarded
//! while the answer is sent, within bounds.

use bytes::Bytes;
use http::header::EXPECT;
use http::{Request, Version};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use rpcgate_process::unread::{UnreadBound, read_rest};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A request body. If it is dropped before its end, the rest is read in the background. Until then its connection, or
/// its HTTP/2 stream, stays open.
pub(super) struct DrainedBody {
    /// `None` after the end.
    body: Option<Incoming>,
    /// The bound on the rest that is read. Nothing is read while the client waits for `100 Continue` before it sends
    /// the body.
    rest: Option<UnreadBound>,
    /// True if the client sends the body only when a handler asks for it.
    waits: bool,
}

impl DrainedBody {
    pub(super) fn of(request: Request<Incoming>) -> Request<Self> {
        let is_stream = request.version() >= Version::HTTP_2;
        let waits = !is_stream && request.headers().contains_key(EXPECT);
        let rest = match (is_stream, waits) {
            (true, _) => Some(UnreadBound::STREAM),
            (false, true) => None,
            (false, false) => Some(UnreadBound::CONNECTION),
        };
        request.map(|body| DrainedBody { body: Some(body), rest, waits })
    }
}

impl Body for DrainedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let Some(body) = this.body.as_mut() else { return Poll::Ready(None) };
        if this.waits {
            this.rest = Some(UnreadBound::CONNECTION);
        }
        let polled = Pin::new(body).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            this.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for DrainedBody {
    fn drop(&mut self) {
        let body = self.body.take().filter(|body| !body.is_end_stream());
        if let (Some(body), Some(bound)) = (body, self.rest) {
            read_rest(body, bound);
        }
    }
}
