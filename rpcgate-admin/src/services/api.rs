//! The service that serves the management API.

use super::connection::{Activity, ClientStream, serve};
use crate::metrics;
use crate::router::router;
use arc_swap::ArcSwap;
use axum::Router;
use rpcgate_core::backend::BoxFuture;
use rpcgate_management::app_state::AppState;
use rpcgate_process::accept::{Acceptor, ConnectionBound};
use rpcgate_process::proxy_protocol::ProxyPeers;
use rpcgate_process::tls::Certificate;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

const CONNECTIONS: usize = 1_024;
const SCRAPERS: usize = 16;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The number of connections that the system queues until they are accepted.
const BACKLOG: u32 = 1_024;
/// The whole response to a connection above the limit.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 64\r\n\
    retry-after: 1\r\nconnection: close\r\n\r\n{\"error\":\"service temporarily unavailable\",\"code\":\"unavailable\"}";

/// The running management API. Dropping it stops it at once.
#[derive(Debug)]
pub struct Api {
    addr: SocketAddr,
    router: Arc<ArcSwap<Router>>,
    grace: Duration,
    leave: CancellationToken,
    cut: DropGuard,
    tasks: TaskTracker,
}

impl Api {
    /// Serves `app` at `listen`, with TLS if there is a certificate. Port 0 picks a free one.
    ///
    /// # Errors
    /// The system's error for the address.
    pub fn start(
        app: &Arc<AppState>,
        listen: SocketAddr,
        certificate: Option<Arc<Certificate>>,
    ) -> io::Result<Self> {
        Api::within(app, listen, certificate, CONNECTIONS)
    }

    /// Serves the metrics at `listen`, including those of the certificate.
    ///
    /// # Errors
    /// The system's error for the address.
    pub fn metrics(
        app: &Arc<AppState>,
        listen: SocketAddr,
        certificate: Option<Arc<Certificate>>,
    ) -> io::Result<Self> {
        let preamble = Preamble { proxies: ProxyPeers::new(&[]), certificate: None };
        let router = metrics::router(app, certificate);
        Api::of(router, listen, preamble, SCRAPERS, CancellationToken::new(), Duration::ZERO)
    }

    fn within(
        app: &Arc<AppState>,
        listen: SocketAddr,
        certificate: Option<Arc<Certificate>>,
        connections: usize,
    ) -> io::Result<Self> {
        let leave = CancellationToken::new();
        let config = &app.settings.config;
        let preamble = Preamble { proxies: ProxyPeers::new(&config.admin.proxy_protocol), certificate };
        Api::of(router(app, &leave), listen, preamble, connections, leave, config.shutdown.grace)
    }

    fn of(
        router: Router,
        listen: SocketAddr,
        preamble: Preamble,
        connections: usize,
        leave: CancellationToken,
        grace: Duration,
    ) -> io::Result<Self> {
        let acceptor = Acceptor::bind(listen, BACKLOG)?;
        let addr = acceptor.addr();
        let cut = CancellationToken::new();
        let tasks = TaskTracker::new();
        let router = Arc::new(ArcSwap::from_pointee(router));
        // Over TLS an answer would need a handshake first.
        let full = if preamble.certificate.is_none() { FULL } else { b"" };
        let connections = ApiConnections {
            router: router.clone(),
            preamble,
            bound: ConnectionBound::new(connections).with_answer(full.to_vec()),
            leave: leave.clone(),
            cut: cut.clone(),
            tasks: tasks.clone(),
        };
        tasks.spawn(connections.accept(acceptor));
        Ok(Api { addr, router, grace, leave, cut: cut.drop_guard(), tasks })
    }

    /// Returns the address on which it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves `app` from the next request on, also on open connections.
    pub fn serve(&self, app: &Arc<AppState>) {
        self.router.store(Arc::new(router(app, &self.leave)));
    }

    /// Stops accepting requests and finishes the running ones for at most `shutdown.grace`, then cuts the remaining
    /// connections and returns their number. The databases stay open.
    pub fn drain(self) -> BoxFuture<'static, usize> {
        Box::pin(async move {
            self.leave.cancel();
            self.tasks.close();
            if tokio::time::timeout(self.grace, self.tasks.wait()).await.is_ok() {
                return 0;
            }
            let remaining = self.tasks.len();
            drop(self.cut);
            self.tasks.wait().await;
            remaining
        })
    }
}

/// The start of a connection, before HTTP.
#[derive(Clone)]
struct Preamble {
    /// The peers that may name their clients with the PROXY protocol.
    proxies: ProxyPeers,
    certificate: Option<Arc<Certificate>>,
}

struct ApiConnections {
    router: Arc<ArcSwap<Router>>,
    preamble: Preamble,
    bound: ConnectionBound,
    leave: CancellationToken,
    cut: CancellationToken,
    tasks: TaskTracker,
}

impl ApiConnections {
    async fn accept(self, acceptor: Acceptor) {
        let ApiConnections { router, preamble, bound, leave, cut, tasks } = self;
        let stop = async {
            tokio::select! {
                () = leave.cancelled() => {}
                () = cut.cancelled() => {}
            }
        };
        let connection = |stream, peer, permit| {
            let connection = converse(stream, peer, preamble.clone(), router.clone(), leave.clone());
            let cut = cut.clone();
            async move {
                cut.run_until_cancelled(connection).await;
                drop(permit);
            }
        };
        acceptor.serve(bound, &tasks, stop, connection).await;
    }
}

async fn converse(
    mut stream: TcpStream,
    peer: SocketAddr,
    Preamble { proxies, certificate }: Preamble,
    router: Arc<ArcSwap<Router>>,
    leave: CancellationToken,
) {
    let introduced = leave.run_until_cancelled(proxies.client(&mut stream, peer)).await;
    let Some(client) = introduced.flatten() else { return };
    let activity = Arc::new(Activity::default());
    let stream = ClientStream::new(stream, activity.clone());
    let Some(certificate) = certificate else {
        return serve(stream, client, router, activity, leave).await;
    };
    let handshake = tokio::time::timeout(HANDSHAKE, certificate.accept(stream));
    match leave.run_until_cancelled(handshake).await {
        Some(Ok(Ok(Some(stream)))) => serve(stream, client, router, activity, leave).await,
        Some(Ok(Ok(None))) => tracing::debug!(%client, "answered a check of the certificate authority"),
        Some(Ok(Err(error))) => tracing::debug!(%error, %client, "TLS handshake failed"),
        Some(Err(_)) => tracing::debug!(%client, "TLS handshake took too long"),
        None => {}
    }
}

#[cfg(test)]
mod tests;
