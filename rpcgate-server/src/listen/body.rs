//! Bodies: of a request as it arrives, and of an answer as it leaves, which is the road's, compressed or not, or one
//! of our own.

use super::guard::{Busy, Presence};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower_http::compression::CompressionBody;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A request's body. Dropped before its end, it tells the connection that there is more to come.
#[derive(Debug)]
pub(crate) struct Arriving {
    inner: Incoming,
    /// Chunked bodies tell their end by nothing else.
    ended: bool,
    presence: Arc<Presence>,
}

impl Arriving {
    pub(super) fn new(inner: Incoming, presence: Arc<Presence>) -> Self {
        Arriving { inner, ended: false, presence }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        self.ended = frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if !self.is_end_stream() {
            self.presence.left_unread();
        }
    }
}

pin_project! {
    /// An answer's body. While it lives, its connection is busy.
    pub(super) struct Outgoing<B: Body> {
        #[pin]
        content: Content<B>,
        busy: Busy,
    }
}

pin_project! {
    #[project = Projected]
    enum Content<B: Body> {
        Plain { #[pin] body: B },
        // Boxed, because it is six times as large as what a client gets that asked for no packing.
        Packed { body: Pin<Box<CompressionBody<B>>> },
        Own { #[pin] body: Full<Bytes> },
    }
}

impl<B: Body> Outgoing<B> {
    pub(super) fn plain(body: B, busy: Busy) -> Self {
        Outgoing { content: Content::Plain { body }, busy }
    }

    pub(super) fn packed(body: Pin<Box<CompressionBody<B>>>, busy: Busy) -> Self {
        Outgoing { content: Content::Packed { body }, busy }
    }

    pub(super) fn own(body: Full<Bytes>, busy: Busy) -> Self {
        Outgoing { content: Content::Own { body }, busy }
    }
}

impl<B> Body for Outgoing<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().content.project() {
            Projected::Plain { body } => body.poll_frame(cx).map_err(Into::into),
            Projected::Packed { body } => body.as_mut().poll_frame(cx).map_err(Into::into),
            Projected::Own { body } => body.poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Plain { body } => body.is_end_stream(),
            Content::Packed { body } => body.is_end_stream(),
            Content::Own { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Plain { body } => body.size_hint(),
            Content::Packed { body } => body.size_hint(),
            Content::Own { body } => body.size_hint(),
        }
    }
}
