//! The body of a request, of which a handler may leave a part.
//!
//! Many clients write the whole request before they read the answer. If the connection were closed with a part of the
//! request unread, as after an early 401 or 413, the kernel would take the answer back (RFC 9112, section 9.6). So what is
//! left is read and thrown away while the answer is sent, within bounds.

use bytes::Bytes;
use http::header::EXPECT;
use http::{Request, Version};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;

/// Bytes of the rest of a request that are read, at most.
const MAX_REST: usize = 16 << 20;
/// How long the rest of a request is read, at most.
const REST_TIME: Duration = Duration::from_secs(10);

/// The body of a request. When it is dropped before its end, the rest is read in the background, and its connection stays
/// open for so long.
pub(super) struct DrainedBody {
    /// `None` after the end.
    body: Option<Incoming>,
    /// Whether the rest is to be read. Not over HTTP/2, where an answer does not depend on it, nor as long as the client
    /// waits for `100 Continue` before it sends the body.
    reads_rest: bool,
    /// Whether the client sends the body once a handler asks for it.
    waits: bool,
}

impl DrainedBody {
    /// The same request with such a body.
    pub(super) fn of(request: Request<Incoming>) -> Request<Self> {
        let is_apart = request.version() >= Version::HTTP_2;
        let waits = !is_apart && request.headers().contains_key(EXPECT);
        request.map(|body| DrainedBody { body: Some(body), reads_rest: !is_apart && !waits, waits })
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
        this.reads_rest |= this.waits;
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
        let rest = self.body.take().filter(|body| self.reads_rest && !body.is_end_stream());
        if let (Some(rest), Ok(runtime)) = (rest, Handle::try_current()) {
            runtime.spawn(read_rest(rest));
        }
    }
}

/// Reads the rest of a body until it ends, breaks off, or is too much.
async fn read_rest(mut body: Incoming) {
    let read = async {
        let mut left = MAX_REST;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let Some(fewer) = left.checked_sub(bytes) else { return };
            left = fewer;
        }
    };
    if tokio::time::timeout(REST_TIME, read).await.is_err() {
        tracing::debug!("the rest of a request did not arrive in time");
    }
}
