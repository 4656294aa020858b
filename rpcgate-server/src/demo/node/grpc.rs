//! The gRPC sockets of simulated nodes: HTTP/2 without TLS on a free port, with the health service and reflection of
//! the chain's services. They serve the same chain as the node's HTTP.

mod answer;
mod raw;

use super::{BACKLOG, NodeServer, Shared};
use answer::disturbed;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use raw::RawCodec;
use rpcgate_process::accept::{Acceptor, ConnectionBound};
use rpcgate_simulate::{Disturbance, GrpcFailure, grpc_descriptors, grpc_services};
use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

/// A fault of the answers of a chain's services. Faults of whole calls (delays, no answer, HTTP errors, cut
/// connections) are those of the node's [`Dial`](rpcgate_simulate::Dial).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrpcDisturbance {
    /// The call ends with this status, for any message.
    Status(u32),
    /// The stream is reset (RST_STREAM) after half of the answer.
    Reset,
    /// The answer is whole, and its connection takes no further call (GOAWAY).
    GoAway,
    /// The answer comes byte by byte, with this pause before each.
    Slow(Duration),
    /// The answer's message is repeated without end.
    Flood,
}

/// A bound gRPC socket that queues connections for a later node.
#[derive(Debug)]
pub struct GrpcNodeListener {
    acceptor: Acceptor,
}

impl GrpcNodeListener {
    /// Binds a free port of 127.0.0.1.
    ///
    /// # Errors
    /// The operating system's, if no port is free.
    pub fn bind() -> io::Result<Self> {
        Ok(GrpcNodeListener { acceptor: Acceptor::bind((Ipv4Addr::LOCALHOST, 0).into(), BACKLOG)? })
    }

    /// Returns the URL for a gateway.
    pub fn url(&self) -> String {
        format!("grpc://{}", self.acceptor.addr())
    }
}

/// The gRPC socket of a simulated node. Dropping it cuts every connection.
#[derive(Debug)]
pub struct GrpcNodeServer {
    url: String,
    accepting: JoinHandle<()>,
    disturbance: Arc<Mutex<Option<GrpcDisturbance>>>,
}

impl GrpcNodeServer {
    /// Returns the URL for a gateway.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sets the fault of all later answers; `None` for none.
    pub fn disturb(&self, disturbance: Option<GrpcDisturbance>) {
        *self.disturbance.lock() = disturbance;
    }
}

impl Drop for GrpcNodeServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl NodeServer {
    /// Serves gRPC of this node, which is one of `chain`, at `listener` too, with the same chain and dial.
    pub fn serve_grpc(&self, chain: &'static str, listener: GrpcNodeListener) -> GrpcNodeServer {
        let url = listener.url();
        let disturbance = Arc::default();
        let node = GrpcNode { shared: self.shared.clone(), disturbance: Arc::clone(&disturbance), chain };
        let accepting = tokio::spawn(node.accept(listener.acceptor));
        GrpcNodeServer { url, accepting, disturbance }
    }
}

/// A service in addition to those of the chain.
type ExtraService = BoxCloneSyncService<Request<Incoming>, Response<Body>, Infallible>;

struct GrpcNode {
    shared: Arc<Shared>,
    disturbance: Arc<Mutex<Option<GrpcDisturbance>>>,
    chain: &'static str,
}

impl GrpcNode {
    async fn accept(self, acceptor: Acceptor) {
        let health = health(self.chain).await;
        let reflection = reflection(self.chain);
        let calls = Arc::new(Calls { node: self, health, reflection });
        let cut = CancellationToken::new();
        let _cut_when_dropped = cut.clone().drop_guard();
        let connection = |stream, _, permit| {
            let calls = calls.clone();
            let cut = cut.child_token();
            async move {
                cut.clone().run_until_cancelled(connection(stream, calls, cut)).await;
                drop(permit);
            }
        };
        acceptor.serve(ConnectionBound::NONE, &TaskTracker::new(), std::future::pending(), connection).await;
    }
}

async fn health(chain: &str) -> ExtraService {
    let (reporter, server) = tonic_health::server::health_reporter();
    for service in grpc_services(chain) {
        reporter.set_service_status(service, ServingStatus::Serving).await;
    }
    BoxCloneSyncService::new(server)
}

/// Returns reflection in version v1 and in v1alpha, which older clients use.
fn reflection(chain: &str) -> Option<(ExtraService, ExtraService)> {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(grpc_descriptors(chain).unwrap_or_default())
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let today = builder().build_v1().ok()?;
    let before = builder().build_v1alpha().ok()?;
    Some((BoxCloneSyncService::new(today), BoxCloneSyncService::new(before)))
}

struct Calls {
    node: GrpcNode,
    health: ExtraService,
    reflection: Option<(ExtraService, ExtraService)>,
}

async fn connection(stream: TcpStream, calls: Arc<Calls>, cut: CancellationToken) {
    let going_away = Arc::new(Notify::new());
    let service = service_fn(|request| {
        let calls = calls.clone();
        let cut = cut.clone();
        let going_away = going_away.clone();
        async move { Ok::<_, Infallible>(calls.answer(request, &cut, &going_away).await) }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new());
    let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = going_away.notified() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a gRPC connection of a simulated node failed");
    }
}

impl Calls {
    async fn answer(
        &self,
        request: Request<Incoming>,
        cut: &CancellationToken,
        going_away: &Notify,
    ) -> Response<Body> {
        let fate = self.node.shared.dial.lock().next();
        match fate {
            Disturbance::Hang => std::future::pending().await,
            Disturbance::Cut { delay } => {
                tokio::time::sleep(delay).await;
                cut.cancel();
                std::future::pending().await
            }
            Disturbance::Status { delay, status } => {
                tokio::time::sleep(delay).await;
                answer::page(status)
            }
            Disturbance::Answer { delay } => {
                if delay > Duration::ZERO {
                    tokio::time::sleep(delay).await;
                }
                let disturbance = *self.node.disturbance.lock();
                if let Some(GrpcDisturbance::Status(code)) = disturbance {
                    let status = Status::new(Code::from(code.cast_signed()), "the node is not well");
                    return status.into_http();
                }
                if disturbance == Some(GrpcDisturbance::GoAway) {
                    going_away.notify_one();
                }
                match self.extra_service(request.uri().path()) {
                    Some(extra_service) => {
                        let Ok(response) = extra_service.clone().oneshot(request).await;
                        response
                    }
                    None => disturbed(self.call(request).await, disturbance).await,
                }
            }
        }
    }

    fn extra_service(&self, path: &str) -> Option<&ExtraService> {
        match (path.split('/').nth(1)?, &self.reflection) {
            ("grpc.health.v1.Health", _) => Some(&self.health),
            ("grpc.reflection.v1.ServerReflection", Some((today, _))) => Some(today),
            ("grpc.reflection.v1alpha.ServerReflection", Some((_, before))) => Some(before),
            _ => None,
        }
    }

    async fn call(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let shared = &self.node.shared;
        let service = tower::service_fn(|request: tonic::Request<Bytes>| {
            let answer = shared.call(&path, request.get_ref());
            async move { answer.map(tonic::Response::new) }
        });
        tonic::server::Grpc::new(RawCodec).unary(service, request).await
    }
}

impl Shared {
    fn call(&self, path: &str, message: &[u8]) -> Result<Vec<u8>, Status> {
        let mut hosted = self.hosted.lock();
        if hosted.gone {
            return Err(Status::unavailable("the node is gone"));
        }
        let answer = hosted.node.handle_grpc(path, message, self.clock.now());
        self.store(&mut hosted);
        answer.map_err(|GrpcFailure { code, message }| Status::new(Code::from(code.cast_signed()), message))
    }
}

#[cfg(test)]
mod tests;
