//! A whole gateway as one tower service, built from defaults. It answers HTTP requests, opens WebSocket streams and
//! serves gRPC calls.
//!
//! ```
//! use rpcgate_core::plan::{Plan, Tier};
//! use rpcgate_core::toy::Toy;
//! use rpcgate_layers::gateway::GatewayService;
//! use std::sync::Arc;
//! use tower::ServiceExt;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let gateway = GatewayService::builder()
//!     .chain(Arc::new(Toy), ["http://127.0.0.1:8545"])
//!     .key("secret", Plan::of(Tier::Free))
//!     .build()?;
//! // The service of axum's `Router::fallback_service`, or of hyper behind `TowerToHyperService`.
//! let call = http_body_util::Full::new(bytes::Bytes::from(r#"{"jsonrpc":"2.0","id":1,"method":"admin_stop"}"#));
//! let request = http::Request::post("/toy").header("apikey", "secret").body(call)?;
//! let response = gateway.oneshot(request).await?;
//! assert_eq!((response.status().as_u16(), &response.headers()["x-ratelimit-remaining-minute"]), (200, &"9".parse()?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod builder;
mod handle;
mod housekeeping;

pub use builder::{BuildError, GatewayBuilder};
pub use handle::GatewayHandle;
pub use housekeeping::Housekeeping;

use crate::stack::{GatewayBody, GatewayStack};
use bytes::Bytes;
use futures_util::future::AbortHandle;
use http::{Request, Response};
use http_body::Body;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// A gateway: from a request of any transport to its response. All clones share the state of its backends; a server
/// keeps one clone for each connection or makes one for each request. When the last clone is
/// dropped, its probes and sweeps stop.
///
/// The server decides which transports clients can use: WebSocket needs connections with upgrades (HTTP/1.1) or the
/// extended CONNECT of RFC 8441 (HTTP/2), gRPC needs HTTP/2. `axum::serve` and the `auto` builder of hyper-util offer
/// all of them.
#[derive(Clone, Debug)]
pub struct GatewayService {
    stack: GatewayStack,
    _running: Option<Arc<Running>>,
}

impl GatewayService {
    /// Returns a builder with a default for everything except the chains and their callers.
    pub fn builder() -> GatewayBuilder {
        GatewayBuilder::new()
    }

    /// Returns a handle with which a program watches and drains the gateway. It does not keep the gateway running.
    pub fn handle(&self) -> GatewayHandle {
        GatewayHandle::new(self.stack.open_streams().clone())
    }
}

impl<B> Service<Request<B>> for GatewayService
where
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<GatewayBody>;
    type Error = Infallible;
    type Future = <GatewayStack as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<B>>::poll_ready(&mut self.stack, cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.stack.call(request)
    }
}

/// Stops the housekeeping of a gateway when it is dropped.
#[derive(Debug)]
struct Running(AbortHandle);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests;
