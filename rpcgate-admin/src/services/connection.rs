//! A client's connection: HTTP/1 or HTTP/2 without TLS, which a proxy in front of a public service terminates.

use arc_swap::ArcSwap;
use axum::Router;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Deadline of a request head, and of the first request of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be idle, at least; at most twice as long.
const IDLE: Duration = Duration::from_secs(75);
/// How long a connection may take to end gracefully.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a head over HTTP/1, and of all header fields over HTTP/2.
const MAX_HEAD: usize = 32 << 10;
/// Concurrent streams of an HTTP/2 connection.
const STREAMS: u32 = 100;

/// The requests of a connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Activity {
    /// Waits until the connection has been idle for too long.
    async fn idle(&self) {
        let (mut timeout, mut before) = (HEAD_TIMEOUT, 0);
        loop {
            tokio::time::sleep(timeout).await;
            let begun = self.begun.load(Relaxed);
            if begun == before && begun == self.ended.load(Relaxed) {
                return;
            }
            (timeout, before) = (IDLE, begun);
        }
    }

    fn request(self: &Arc<Self>) -> RequestGuard {
        self.begun.fetch_add(1, Relaxed);
        RequestGuard(self.clone())
    }
}

/// Counts a request as running until it is dropped, which also happens when its client leaves.
struct RequestGuard(Arc<Activity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

/// Serves a connection until it ends, is idle for too long, or, once `leave` is cancelled, has answered its running
/// requests.
pub(super) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    router: Arc<ArcSwap<Router>>,
    activity: Arc<Activity>,
    leave: CancellationToken,
) {
    let requests = activity.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let requests = requests.request();
        request.extensions_mut().insert(ConnectInfo(peer));
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

/// Logs why a connection failed, for troubleshooting.
fn end(result: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = result {
        tracing::debug!(error, "connection failed");
    }
}
