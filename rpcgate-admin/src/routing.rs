//! Operations of the API: a route with its documentation.

use axum::handler::Handler;
use axum::response::Response;
use futures_util::future::BoxFuture;
use rpcgate_management::app_state::AppState;
use rpcgate_management::routing::BoxedHandler;
use std::sync::Arc;
use utoipa_axum::PathItemExt as _;
use utoipa_axum::router::UtoipaMethodRouter;

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

/// Declares the operations of one path of the API by the paths of their handlers, like `utoipa_axum::routes!`, but with
/// boxed handlers.
macro_rules! routes {
    (@add $routes:expr, [$($module:ident)*] $handler:ident) => {
        utoipa_axum::paste! {
            $crate::routing::with_operation::<$($module::)* [<__path_ $handler>], _, _>(
                $routes,
                $($module::)* $handler,
            )
        }
    };
    (@add $routes:expr, [$($module:ident)*] $next:ident $($rest:ident)+) => {
        $crate::routing::routes!(@add $routes, [$($module)* $next] $($rest)+)
    };
    ($($($segment:ident)::+),+ $(,)?) => {{
        let routes = $crate::routing::ApiRoutes::default();
        $(let routes = $crate::routing::routes!(@add routes, [] $($segment)+);)+
        routes
    }};
}
pub(crate) use routes;
