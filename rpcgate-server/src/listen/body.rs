//! The bodies of requests and answers.

use super::connection_state::{Busy, ConnectionState};
use super::progress::Progress;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use rpcgate_process::unread::{UnreadBound, read_rest};
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower_http::compression::CompressionBody;

/// The maximum bytes of an answer that are handed to an HTTP/2 stream at a time. No more than that waits in the
/// connection beyond the client's window, because the time spent there cannot be measured.
const PIECE: usize = 16 << 10;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A request's body. If it is dropped before its end, it marks its connection as having unread bytes; over HTTP/2 the
/// [rest is read](rpcgate_process::unread) if it is short.
#[derive(Debug)]
pub(crate) struct RequestBody {
    /// `Some` until the drop.
    inner: Option<Incoming>,
    /// The end was read. A chunked body has no other sign of it.
    ended: bool,
    state: Arc<ConnectionState>,
    /// It is an HTTP/2 stream that ends by itself.
    is_short_stream: bool,
}

impl RequestBody {
    /// Wraps the body of a request. `is_short_stream` marks an HTTP/2 stream that ends by itself.
    pub(super) fn new(inner: Incoming, state: Arc<ConnectionState>, is_short_stream: bool) -> Self {
        RequestBody { inner: Some(inner), ended: false, state, is_short_stream }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(inner).poll_frame(cx));
        self.ended = frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.inner.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if self.is_end_stream() {
            return;
        }
        self.state.left_unread();
        if let Some(inner) = self.inner.take().filter(|_| self.is_short_stream) {
            read_rest(inner, UnreadBound::STREAM);
        }
    }
}

/// The part of a connection's state that an answer's body holds.
#[derive(Debug)]
pub(super) struct BodyHandle {
    pub(super) busy: Busy,
    pub(super) progress: Option<Arc<Progress>>,
}

pin_project! {
    /// An answer's body. While it lives, its connection is busy.
    pub(super) struct ResponseBody<B: Body> {
        #[pin]
        content: Content<B>,
        _busy: Busy,
        // Boxed, because an answer is moved several times, and over HTTP/1 this is empty.
        stream: Option<Box<Streamed>>,
    }
}

struct Streamed {
    progress: Arc<Progress>,
    /// The part of a large piece that is not passed on yet.
    rest: Bytes,
}

pin_project! {
    #[project = Projected]
    enum Content<B: Body> {
        Plain { #[pin] body: B },
        // Boxed, because it is six times as large as an uncompressed body.
        Compressed { body: Pin<Box<CompressionBody<B>>> },
        Builtin { #[pin] body: Full<Bytes> },
    }
}

impl<B: Body> ResponseBody<B> {
    pub(super) fn plain(body: B, handle: BodyHandle) -> Self {
        Self::new(Content::Plain { body }, handle)
    }

    pub(super) fn compressed(body: Pin<Box<CompressionBody<B>>>, handle: BodyHandle) -> Self {
        Self::new(Content::Compressed { body }, handle)
    }

    pub(super) fn builtin(body: Full<Bytes>, handle: BodyHandle) -> Self {
        Self::new(Content::Builtin { body }, handle)
    }

    fn new(content: Content<B>, handle: BodyHandle) -> Self {
        let stream = handle.progress.map(|progress| {
            progress.block();
            Box::new(Streamed { progress, rest: Bytes::new() })
        });
        ResponseBody { content, _busy: handle.busy, stream }
    }
}

type Piece = Poll<Option<Result<Frame<Bytes>, BoxError>>>;

impl<B> Content<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Piece {
        match self.project() {
            Projected::Plain { body } => body.poll_frame(cx).map_err(Into::into),
            Projected::Compressed { body } => body.as_mut().poll_frame(cx).map_err(Into::into),
            Projected::Builtin { body } => body.poll_frame(cx).map_err(Into::into),
        }
    }
}

impl Streamed {
    /// Passes on at most one piece at a time, and records the progress.
    fn poll(&mut self, next: impl FnOnce() -> Piece) -> Piece {
        if self.rest.is_empty() {
            let frame = match next() {
                Poll::Ready(Some(Ok(frame))) => frame,
                other => {
                    self.progress.wait();
                    return other;
                }
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => {
                    self.progress.wait();
                    return Poll::Ready(Some(Ok(trailers)));
                }
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        self.progress.take(piece.len());
        self.progress.block();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Piece {
        let this = self.project();
        match this.stream {
            None => this.content.poll(cx),
            Some(stream) => stream.poll(|| this.content.poll(cx)),
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_over = match &self.content {
            Content::Plain { body } => body.is_end_stream(),
            Content::Compressed { body } => body.is_end_stream(),
            Content::Builtin { body } => body.is_end_stream(),
        };
        is_over && self.stream.as_ref().is_none_or(|stream| stream.rest.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Plain { body } => body.size_hint(),
            Content::Compressed { body } => body.size_hint(),
            Content::Builtin { body } => body.size_hint(),
        }
    }
}
