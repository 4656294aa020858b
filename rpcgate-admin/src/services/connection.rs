//! A client's connection: HTTP/1 or HTTP/2, according to its first bytes.

use super::drained_body::DrainedBody;
use arc_swap::ArcSwap;
use axum::Router;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The deadline of a request head, and of the first request of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The minimum idle time of a connection. The maximum is twice as long.
const IDLE: Duration = Duration::from_secs(75);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of an HTTP/1 head, and of all HTTP/2 header fields, in bytes.
const MAX_HEAD: usize = 32 << 10;
const STREAMS: u32 = 100;

/// Counters of the requests of a connection, and of the progress of their answers.
#[derive(Debug, Default)]
pub(super) struct Activity {
    begun: AtomicU64,
    /// Requests whose answer has started.
    ended: AtomicU64,
    /// Successful writes to the client.
    written: AtomicU64,
}

impl Activity {
    /// Waits until the connection has been idle for too long. A connection that is sending an answer is not idle, even
    /// if its client reads slowly, unless the client has stopped reading.
    async fn idle(&self) {
        let mut timeout = HEAD_TIMEOUT;
        let mut before = (0, 0);
        loop {
            tokio::time::sleep(timeout).await;
            let begun = self.begun.load(Relaxed);
            let written = self.written.load(Relaxed);
            // Before the first request, only HTTP/2 settings are written.
            let is_sending = begun > 0 && written != before.1;
            if begun == before.0 && begun == self.ended.load(Relaxed) && !is_sending {
                return;
            }
            (timeout, before) = (IDLE, (begun, written));
        }
    }

    fn request(self: &Arc<Self>) -> RequestGuard {
        self.begun.fetch_add(1, Relaxed);
        RequestGuard(self.clone())
    }
}

/// Counts a request as running until it is dropped, which also happens when its client disconnects.
struct RequestGuard(Arc<Activity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

/// A client's socket, whose writes count as activity.
pub(super) struct ClientStream {
    socket: TcpStream,
    activity: Arc<Activity>,
}

impl ClientStream {
    pub(super) fn new(socket: TcpStream, activity: Arc<Activity>) -> Self {
        ClientStream { socket, activity }
    }

    /// Counts a write of at least one byte.
    fn count(&self, write: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(1..)) = write {
            self.activity.written.fetch_add(1, Relaxed);
        }
        write
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.count(write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.count(write)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

/// Serves a connection until it ends, is idle for too long, or, once `leave` is cancelled, has answered its running
/// requests. `activity` counts the writes of its socket.
pub(super) async fn serve<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: T,
    client: SocketAddr,
    router: Arc<ArcSwap<Router>>,
    activity: Arc<Activity>,
    leave: CancellationToken,
) {
    let requests = activity.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let requests = requests.request();
        let mut request = DrainedBody::of(request);
        request.extensions_mut().insert(ConnectInfo(client));
        let answer = Router::clone(&router.load()).oneshot(request);
        async move {
            let answer = answer.await;
            drop(requests);
            answer
        }
    });
    let builder = builder();
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let is_idle = tokio::select! {
        result = connection.as_mut() => return end(result),
        () = leave.cancelled() => false,
        () = activity.idle() => true,
    };
    connection.as_mut().graceful_shutdown();
    if is_idle {
        match tokio::time::timeout(SHUTDOWN_TIMEOUT, connection).await {
            Ok(result) => end(result),
            Err(_) => tracing::debug!("connection cut: it did not end"),
        }
    } else {
        end(connection.await);
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(MAX_HEAD as u32);
    builder
}

fn end(result: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = result {
        tracing::debug!(error, "connection failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Returns the counters of a connection that is sending an answer to its first request.
    fn answering() -> Arc<Activity> {
        let activity = Arc::new(Activity::default());
        drop(activity.request());
        activity
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_still_sending_is_never_idle() {
        let activity = answering();
        let sending = async {
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_secs(60)).await;
                activity.written.fetch_add(1, Relaxed);
            }
        };
        tokio::select! {
            () = activity.idle() => panic!("it was cut while its client was reading"),
            () = sending => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_client_has_stopped_reading_is_idle_in_the_end() {
        let activity = answering();
        activity.written.fetch_add(1, Relaxed);
        tokio::time::timeout(IDLE * 2, activity.idle()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_soon_idle_even_after_writes() {
        let activity = Activity::default();
        activity.written.fetch_add(1, Relaxed);
        tokio::time::timeout(HEAD_TIMEOUT * 2, activity.idle()).await.unwrap();
    }

    // Shows (Hostile and odd traffic).
    #[tokio::test]
    async fn a_short_request_over_http2_that_is_answered_before_its_end_is_not_reset() {
        const RST_STREAM: u8 = 3;
        let frame = |kind: u8, flags: u8, stream: u8, content: &[u8]| {
            [&[0, 0, content.len() as u8, kind, flags, 0, 0, 0, stream], content].concat()
        };
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let router = Arc::new(ArcSwap::from_pointee(Router::new()));
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        tokio::spawn(serve(server, peer, router, Arc::default(), CancellationToken::new()));
        // `POST /`, whose body comes after its answer, and a ping, whose answer comes after all that was sent before
        // it.
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
        let head = [0x83, 0x86, 0x84];
        client.write_all(&[preface, &frame(4, 0, 0, &[]), &frame(1, 4, 1, &head)].concat()).await.unwrap();
        let mut kinds = Vec::new();
        for round in 0..3 {
            loop {
                let mut start = [0; 9];
                client.read_exact(&mut start).await.unwrap();
                let [high, middle, low, kind, flags, .., stream] = start;
                let length = u32::from_be_bytes([0, high, middle, low]) as usize;
                client.read_exact(&mut vec![0; length]).await.unwrap();
                kinds.push(kind);
                if (kind, flags) == (6, 1) || (stream == 1 && flags & 1 == 1 && kind < 2) {
                    break;
                }
            }
            if round == 0 {
                client.write_all(&frame(0, 1, 1, b"late")).await.unwrap();
            }
            client.write_all(&frame(6, 0, 0, &[7; 8])).await.unwrap();
        }
        assert!(kinds.contains(&1) && !kinds.contains(&RST_STREAM), "{kinds:?}");
    }

    #[tokio::test]
    async fn reading_by_the_client_counts_as_activity() {
        const BYTES: usize = 16 << 20;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let router = Router::new().route("/", get(async || vec![0_u8; BYTES]));
        let activity = Arc::new(Activity::default());
        let router = Arc::new(ArcSwap::from_pointee(router));
        let stream = ClientStream::new(stream, activity.clone());
        let serving = serve(stream, peer, router, activity.clone(), CancellationToken::new());
        let serving = tokio::spawn(serving);
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        client.read_exact(&mut [0; 100]).await.unwrap();
        while activity.begun.load(Relaxed) > activity.ended.load(Relaxed) {
            tokio::task::yield_now().await;
        }
        let before = activity.written.load(Relaxed);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() >= BYTES - 100);
        assert!(activity.written.load(Relaxed) > before, "the answer went on after its request had ended");
        serving.await.unwrap();
    }
}
