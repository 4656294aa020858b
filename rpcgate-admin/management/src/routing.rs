//! Routes whose types do not name their handlers.
//!
//! axum's routes are generic over the handler, and its handlers are generic over their futures. For each of some fifteen
//! generic functions per route, the compiler proves again that the handler's future, with all futures that it awaits
//! down to the database driver, can be sent between threads. That took half of the time to build this package. Here the
//! handler becomes a trait object first, so the compiler proves it once per handler.

use crate::app_state::AppState;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::MethodRouter;
use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// A route that answers GET and HEAD. For further methods, merge it with [`post`].
pub fn get<H, T>(handler: H) -> MethodRouter<Arc<AppState>>
where
    H: Handler<T, Arc<AppState>, Future = BoxFuture<'static, Response>> + Sync,
{
    axum::routing::get(BoxedHandler::new(handler))
}

/// A route that answers POST.
pub fn post<H, T>(handler: H) -> MethodRouter<Arc<AppState>>
where
    H: Handler<T, Arc<AppState>, Future = BoxFuture<'static, Response>> + Sync,
{
    axum::routing::post(BoxedHandler::new(handler))
}

type HandlerFn = dyn Fn(Request, Arc<AppState>) -> BoxFuture<'static, Response> + Send + Sync;

/// A handler whose type does not name its function.
#[derive(Clone)]
pub struct BoxedHandler(Arc<HandlerFn>);

impl fmt::Debug for BoxedHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxedHandler")
    }
}

impl BoxedHandler {
    /// Boxes a handler.
    pub fn new<H, T>(handler: H) -> Self
    where
        H: Handler<T, Arc<AppState>, Future = BoxFuture<'static, Response>> + Sync,
    {
        BoxedHandler(Arc::new(move |request, state| handler.clone().call(request, state)))
    }
}

/// Tells [`BoxedHandler`]'s implementation of [`Handler`] from axum's implementations for functions.
#[derive(Debug)]
pub enum Boxed {}

impl Handler<Boxed, Arc<AppState>> for BoxedHandler {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, state: Arc<AppState>) -> Self::Future {
        (self.0)(request, state)
    }
}
