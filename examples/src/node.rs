//! Nodes on local sockets. Your own gateway has real ones.

use axum::Router;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode, Uri};
use parking_lot::Mutex;
use rpcgate_core::clock::Clock;
use rpcgate_simulate::SimulatedRequest;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Starts the simulated node of a chain in the catalog (`eth`, `btc`, …) and returns its URL: `http://127.0.0.1:…`.
///
/// # Errors
/// If the chain has no simulated node, or the machine has no free port.
pub async fn simulated(chain: &str, clock: Arc<dyn Clock>) -> io::Result<String> {
    let node = rpcgate_simulate::node(chain, 7).ok_or(io::ErrorKind::NotFound)?;
    let node = Arc::new(Mutex::new(node));
    start(Router::new().fallback(async move |method: Method, uri: Uri, body: Bytes| -> Response {
        let request = SimulatedRequest { method: &method, path: uri.path(), body: &body };
        let reply = node.lock().handle(&request, clock.now());
        let status = StatusCode::from_u16(reply.status).unwrap_or_default();
        (status, [(CONTENT_TYPE, reply.content_type)], reply.body).into_response()
    }))
    .await
}

/// Starts any node that is written as an axum router.
///
/// # Errors
/// If the machine has no free port.
pub async fn start(node: Router) -> io::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(axum::serve(listener, node).into_future());
    Ok(url)
}
