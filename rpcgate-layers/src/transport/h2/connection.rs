//! An open HTTP/2 connection to a node.

use super::request::OutgoingBody;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// Streams that a connection has at most.
pub(super) const STREAMS: usize = 100;

/// How long a connection is quiet before it is pinged, and how long the node then has. Servers of gRPC for Go and Java end
/// connections that are pinged more often than every 5 minutes.
pub(super) const PING: Duration = Duration::from_secs(310);
const PONG: Duration = Duration::from_secs(20);

/// Bytes that a node may send ahead on one stream. The connection's window has this for each stream.
const WINDOW: u32 = 64 << 10;

/// Bytes of all header fields of an answer.
const HEADERS: u32 = 64 << 10;

/// An open connection. It ends when it is dropped and its last stream has ended.
pub(super) struct H2Connection {
    sender: SendRequest<OutgoingBody>,
    streams: Arc<AtomicUsize>,
    /// Streams that the node allows.
    allowed: Arc<AtomicUsize>,
}

/// A stream of a connection, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct StreamGuard(Arc<AtomicUsize>);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl H2Connection {
    /// Makes a connection of a socket that is open.
    pub(super) async fn handshake<T>(socket: T) -> io::Result<Self>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW * STREAMS as u32)
            .initial_max_send_streams(STREAMS)
            .max_header_list_size(HEADERS)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .keep_alive_while_idle(false);
        let (sender, mut connection) =
            builder.handshake(TokioIo::new(socket)).await.map_err(io::Error::other)?;
        let allowed = Arc::new(AtomicUsize::new(STREAMS));
        let told = allowed.clone();
        let driver = poll_fn(move |cx| {
            let polled = Pin::new(&mut connection).poll(cx);
            told.store(connection.current_max_send_streams(), Relaxed);
            if let Poll::Ready(Err(error)) = &polled {
                tracing::debug!(%error, "a connection to a node ended");
            }
            polled.map(drop)
        });
        tokio::spawn(driver);
        Ok(H2Connection { sender, streams: Arc::default(), allowed })
    }

    /// A stream, unless the connection has none left or is ending.
    pub(super) fn take(&self) -> Option<StreamGuard> {
        if self.is_closed() {
            return None;
        }
        let allowed = self.allowed.load(Relaxed).clamp(1, STREAMS);
        let taken = self.streams.fetch_update(Relaxed, Relaxed, |open| (open < allowed).then_some(open + 1));
        taken.ok().map(|_| StreamGuard(self.streams.clone()))
    }

    /// Whether it takes no further calls.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request. The error holds the request again if no byte of it was written.
    pub(super) fn send(
        &self,
        request: Request<OutgoingBody>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<OutgoingBody>>>> + use<> {
        self.sender.clone().try_send_request(request)
    }
}
