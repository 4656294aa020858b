//! One client's connection: HTTP/1 or HTTP/2 without TLS, which whoever exposes this to the world puts before it.

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

/// How long a head may take, and a client that has asked nothing yet.
const HEAD: Duration = Duration::from_secs(10);
/// How long a connection may ask nothing, at least; at most twice as long.
const IDLE: Duration = Duration::from_secs(75);
/// How long a connection that is asked to end may take to.
const FAREWELL: Duration = Duration::from_secs(10);
/// Bytes of a head over HTTP/1, and of all its fields over HTTP/2.
const LARGEST_HEAD: usize = 32 << 10;
/// Streams of one HTTP/2 connection at a time.
const STREAMS: u32 = 100;

/// What happens on a connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Activity {
    /// Waits until nothing has happened for too long.
    async fn silence(&self) {
        let (mut patience, mut before) = (HEAD, 0);
        loop {
            tokio::time::sleep(patience).await;
            let begun = self.begun.load(Relaxed);
            if begun == before && begun == self.ended.load(Relaxed) {
                return;
            }
            (patience, before) = (IDLE, begun);
        }
    }

    fn request(self: &Arc<Self>) -> Running {
        self.begun.fetch_add(1, Relaxed);
        Running(self.clone())
    }
}

/// A request that is being answered; its client may leave, and then this ends too.
struct Running(Arc<Activity>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

/// Serves a connection until it ends, until nothing happens on it any more, or, once `leave` says so, until what was
/// asked is answered.
pub(super) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    router: Arc<ArcSwap<Router>>,
    activity: Arc<Activity>,
    leave: CancellationToken,
) {
    let running = activity.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let running = running.request();
        request.extensions_mut().insert(ConnectInfo(peer));
        let answer = Router::clone(&router.load()).oneshot(request);
        async move {
            let answer = answer.await;
            drop(running);
            answer
        }
    });
    let builder = builder();
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let is_bounded = tokio::select! {
        result = connection.as_mut() => return end(result),
        () = leave.cancelled() => false,
        () = activity.silence() => true,
    };
    connection.as_mut().graceful_shutdown();
    if is_bounded {
        match tokio::time::timeout(FAREWELL, connection).await {
            Ok(result) => end(result),
            Err(_) => tracing::debug!("connection cut: it did not end"),
        }
    } else {
        end(connection.await);
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(LARGEST_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(LARGEST_HEAD as u32);
    builder
}

/// Tells the log why a connection ended, where that is of interest to somebody who looks for a fault.
fn end(result: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = result {
        tracing::debug!(error, "connection failed");
    }
}
