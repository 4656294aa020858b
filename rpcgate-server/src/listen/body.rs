//! The body of an answer as it leaves: the road's, compressed or not, or one of our own.

use super::guard::Busy;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use pin_project_lite::pin_project;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_http::compression::CompressionBody;

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

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
        Packed { #[pin] body: CompressionBody<B> },
        Own { #[pin] body: Full<Bytes> },
    }
}

impl<B: Body> Outgoing<B> {
    pub(super) fn plain(body: B, busy: Busy) -> Self {
        Outgoing { content: Content::Plain { body }, busy }
    }

    pub(super) fn packed(body: CompressionBody<B>, busy: Busy) -> Self {
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

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().content.project() {
            Projected::Plain { body } => body.poll_frame(cx).map_err(Into::into),
            Projected::Packed { body } => body.poll_frame(cx).map_err(Into::into),
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
