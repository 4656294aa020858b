//! The listener for Prometheus.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rpcgate_process::accept::{Acceptor, ConnectionBound};
use rpcgate_process::metrics::MetricsFormat;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The maximum number of open connections, for one Prometheus or a few.
const CONNECTIONS: usize = 16;
const BACKLOG: u32 = 16;
/// The limit for idle time and for reading a head; longer than the time between two scrapes.
const IDLE: Duration = Duration::from_secs(90);
/// The maximum lifetime of a connection.
const LIFE: Duration = Duration::from_secs(600);
/// The time limit of a connection's shutdown.
const CLOSE: Duration = Duration::from_secs(10);

pub(crate) type Write = Arc<dyn Fn() -> String + Send + Sync>;

#[derive(Debug)]
pub(crate) struct MetricsListener(Acceptor);

impl MetricsListener {
    pub(crate) fn bind(addr: SocketAddr) -> io::Result<Self> {
        Ok(MetricsListener(Acceptor::bind(addr, BACKLOG)?))
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.0.addr()
    }

    /// Answers requests with the page from `write`. Dropping the future cuts its connections.
    pub(crate) async fn serve(self, write: Write) {
        let cut = CancellationToken::new();
        let _cut_when_dropped = cut.clone().drop_guard();
        let connection = |stream, _, permit| {
            let write = write.clone();
            let cut = cut.clone();
            async move {
                cut.run_until_cancelled(converse(stream, write)).await;
                drop(permit);
            }
        };
        let bound = ConnectionBound::new(CONNECTIONS);
        self.0.serve(bound, &TaskTracker::new(), std::future::pending(), connection).await;
    }
}

async fn converse(stream: TcpStream, write: Write) {
    let service = service_fn(move |request: Request<Incoming>| {
        let write = write.clone();
        async move { Ok::<_, Infallible>(answer(&request, write).await) }
    });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE)
            .serve_connection(TokioIo::new(stream), service)
    );
    if tokio::time::timeout(LIFE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        // A client that does not read the rest in time is cut.
        let _ = tokio::time::timeout(CLOSE, connection).await;
    }
}

async fn answer(request: &Request<Incoming>, write: Write) -> Response<Full<Bytes>> {
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "ask with GET\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    let format = MetricsFormat::preferred(request.headers());
    // Writing a page costs about a hundred calls.
    match tokio::task::spawn_blocking(move || format.page(write())).await {
        Ok(page) => {
            let mut answer = Response::new(Full::new(page.into()));
            answer.headers_mut().insert(CONTENT_TYPE, format.content_type());
            answer
        }
        Err(error) => {
            tracing::error!("metrics could not be written: {error}");
            plain(StatusCode::INTERNAL_SERVER_ERROR, "metrics could not be written\n")
        }
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
