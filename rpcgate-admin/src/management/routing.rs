//! Routes whose types do not name their handlers.
//!
//! axum's routes are generic over the handler, and its handlers are generic over their futures. For each of some fifteen
//! generic functions per route, the compiler proves again that the handler's future, with all futures that it awaits
//! down to the database driver, can be sent between threads. That took half of the time to build this package. Here the
//! handler becomes a trait object first, so the compiler proves it once per handler.

use super::app_state::AppState;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::MethodRouter;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use utoipa_axum::PathItemExt as _;
use utoipa_axum::router::UtoipaMethodRouter;

/// A route that answers GET and HEAD. For further methods, merge it with [`post`].
pub(crate) fn get<H, T>(handler: H) -> MethodRouter<Arc<AppState>>
where
    H: Handler<T, Arc<AppState>, Future = BoxFuture<'static, Response>> + Sync,
{
    axum::routing::get(BoxedHandler::new(handler))
}

/// A route that answers POST.
pub(crate) fn post<H, T>(handler: H) -> MethodRouter<Arc<AppState>>
where
    H: Handler<T, Arc<AppState>, Future = BoxFuture<'static, Response>> + Sync,
{
    axum::routing::post(BoxedHandler::new(handler))
}

/// Adds an operation, documented by `D`, to the operations of a path of the API.
pub(crate) fn with_operation<D, H, T>(routes: ApiRoutes, handler: H) -> ApiRoutes
where
    D: utoipa::Path + utoipa::__dev::SchemaReferences + utoipa::__dev::Tags<'static>,
    H: Handler<T, Arc<AppState>, Future = BoxFuture<'static, Response>> + Sync,
{
    let (mut schemas, mut paths, mut router) = routes;
    D::schemas(&mut schemas);
    let mut operation = D::operation();
    let tags = D::tags();
    if !tags.is_empty() {
        operation.tags.get_or_insert_default().extend(tags.into_iter().map(str::to_owned));
    }
    let methods = D::methods();
    let handler = BoxedHandler::new(handler);
    for method in &methods {
        router = router.on(method.to_method_filter(), handler.clone());
    }
    paths.add_path_operation(D::path(), methods, operation);
    (schemas, paths, router)
}

/// The operations of one path of the API, with their documentation.
pub(crate) type ApiRoutes = UtoipaMethodRouter<Arc<AppState>>;

type HandlerFn = dyn Fn(Request, Arc<AppState>) -> BoxFuture<'static, Response> + Send + Sync;

#[derive(Clone)]
struct BoxedHandler(Arc<HandlerFn>);

impl BoxedHandler {
    fn new<H, T>(handler: H) -> Self
    where
        H: Handler<T, Arc<AppState>, Future = BoxFuture<'static, Response>> + Sync,
    {
        BoxedHandler(Arc::new(move |request, state| handler.clone().call(request, state)))
    }
}

/// Tells [`BoxedHandler`]'s implementation of [`Handler`] from axum's implementations for functions.
enum Boxed {}

impl Handler<Boxed, Arc<AppState>> for BoxedHandler {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, state: Arc<AppState>) -> Self::Future {
        (self.0)(request, state)
    }
}

/// Declares the operations of one path of the API by the paths of their handlers, like `utoipa_axum::routes!`, but with
/// boxed handlers.
macro_rules! routes {
    (@add $routes:expr, [$($module:ident)*] $handler:ident) => {
        utoipa_axum::paste! {
            $crate::management::routing::with_operation::<$($module::)* [<__path_ $handler>], _, _>(
                $routes,
                $($module::)* $handler,
            )
        }
    };
    (@add $routes:expr, [$($module:ident)*] $next:ident $($rest:ident)+) => {
        $crate::management::routing::routes!(@add $routes, [$($module)* $next] $($rest)+)
    };
    ($($($segment:ident)::+),+ $(,)?) => {{
        let routes = $crate::management::routing::ApiRoutes::default();
        $(let routes = $crate::management::routing::routes!(@add routes, [] $($segment)+);)+
        routes
    }};
}
pub(crate) use routes;
