//! A whole gateway as one tower service, built from defaults.
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
mod housekeeping;

pub use builder::{BuildError, GatewayBuilder};
pub use housekeeping::Housekeeping;

use crate::reply_body::ReplyBody;
use crate::stack::HttpStack;
use bytes::Bytes;
use futures_util::future::AbortHandle;
use http::{Request, Response};
use http_body::Body;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// A gateway: from an HTTP request to its response. All clones share the state of its backends; a server keeps one
/// clone for each connection. When the last clone is dropped, its probes and sweeps stop.
#[derive(Clone)]
pub struct GatewayService {
    stack: HttpStack,
    _running: Option<Arc<Running>>,
}

impl GatewayService {
    /// Returns a builder with a default for everything except the chains and their callers.
    pub fn builder() -> GatewayBuilder {
        GatewayBuilder::new()
    }
}

impl fmt::Debug for GatewayService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayService").finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for GatewayService
where
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = <HttpStack as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<B>>::poll_ready(&mut self.stack, cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.stack.call(request)
    }
}

/// Stops the housekeeping of a gateway when it is dropped.
struct Running(AbortHandle);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests;
