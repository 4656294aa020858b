//! Middleware for every request: a deadline, an identifier, security headers for browsers, and an answer even if a
//! handler panics.

use crate::MAX_BODY;
use crate::app_state::{AppState, Settings};
use crate::error::ActionError;
use crate::request_metrics::Requests;
use crate::request_traces::RequestTraces;
use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, CACHE_CONTROL,
    HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, VARY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, Method, StatusCode};
use rpcgate_core::caller::RequestId;
use rpcgate_core::clock::Clock;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;

const REQUEST_TIME: Duration = Duration::from_secs(30);

/// The deadline of an upload: for the file to arrive, to be checked and to be stored.
const UPLOAD_TIME: Duration = Duration::from_secs(180);

/// The ends of the upload routes of the API and of the pages.
const UPLOADS: [&str; 2] = ["/attachments", "/files"];

/// The header that identifies a request in logs.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The response headers that cross-origin pages may read.
const EXPOSED: &str =
    "content-disposition, etag, idempotency-replayed, link, retry-after, x-request-id, x-truncated";

struct Middleware {
    clock: Arc<dyn Clock>,
    /// The only other origin whose pages may call the API: the dashboard's, if it is configured.
    origin: Option<HeaderValue>,
    /// True if users connect over TLS.
    secure: bool,
    requests: Requests,
    traces: Option<RequestTraces>,
}

/// Adds the middleware to `router`, limits bodies to [`MAX_BODY`] bytes unless a route says otherwise, and gives the
/// handlers their state.
pub fn wrap(router: Router<Arc<AppState>>, app: &Arc<AppState>) -> Router {
    let settings = &app.settings;
    let middleware = Arc::new(Middleware {
        clock: app.clock.clone(),
        origin: origin(settings),
        secure: settings.dash_url.starts_with("https:"),
        requests: app.requests.clone(),
        traces: app.traces.clone(),
    });
    let router = router.layer(DefaultBodyLimit::max(MAX_BODY)).with_state(app.clone());
    router.layer(CatchPanicLayer::custom(panicked)).layer(from_fn_with_state(middleware, handle))
}

fn origin(settings: &Settings) -> Option<HeaderValue> {
    settings.config.admin.dash_url.as_ref()?;
    let (scheme, rest) = settings.dash_url.split_once("://")?;
    let host = rest.split('/').next().unwrap_or_default();
    HeaderValue::from_str(&format!("{scheme}://{host}")).ok()
}

#[expect(clippy::needless_pass_by_value, reason = "this is how a panic is handed over")]
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    ActionError::Broken(format!("a handler panicked: {}", message.unwrap_or("without a word")))
        .into_response()
}

async fn handle(State(middleware): State<Arc<Middleware>>, mut request: Request, next: Next) -> Response {
    let arrival = middleware.clock.now();
    let id = RequestId::new(arrival);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let of_api = request.uri().path().starts_with("/api/");
    let is_allowed_origin =
        request.headers().get(ORIGIN).is_some_and(|origin| middleware.origin.as_ref() == Some(origin));
    let is_preflight =
        method == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let traced = middleware.traces.as_ref().and_then(|traces| {
        let route = route.as_ref().map(MatchedPath::as_str);
        Some((traces, traces.begin(id, route, request.headers())?))
    });
    if let Some((_, (_, user))) = &traced {
        request.extensions_mut().insert(user.clone());
    }
    let began = middleware.clock.elapsed();
    let mut answer = if is_allowed_origin && is_preflight {
        preflight()
    } else {
        let span = tracing::info_span!("request", request_id = %id);
        let uploads =
            route.as_ref().is_some_and(|route| UPLOADS.iter().any(|end| route.as_str().ends_with(end)));
        let deadline = if uploads && method == Method::POST { UPLOAD_TIME } else { REQUEST_TIME };
        match tokio::time::timeout(deadline, next.run(request).instrument(span)).await {
            Ok(answer) => answer,
            Err(_) => ActionError::Unavailable("a request took too long".into()).into_response(),
        }
    };
    let took = middleware.clock.elapsed().saturating_sub(began);
    let route = route.as_ref().map(MatchedPath::as_str);
    middleware.requests.count(route, &method, answer.status(), took);
    if let Some((traces, trace)) = traced {
        traces.end(trace, (id, arrival, took), (&method, route), answer.status());
    }
    let millis = took.as_millis() as u64;
    tracing::debug!(request_id = %id, %method, status = answer.status().as_u16(), millis, "answered");
    let headers = answer.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
        headers.insert(REQUEST_ID, id);
    }
    middleware.set_security_headers(headers, of_api);
    if let Some(origin) = &middleware.origin {
        headers.append(VARY, HeaderValue::from_static("origin"));
        if is_allowed_origin {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            let shown = HeaderValue::from_static(EXPOSED);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, shown);
        }
    }
    answer
}

fn preflight() -> Response {
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE"),
        (ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, idempotency-key, if-match"),
        (ACCESS_CONTROL_MAX_AGE, "86400"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

impl Middleware {
    fn set_security_headers(&self, headers: &mut HeaderMap, of_api: bool) {
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("no-referrer"));
        if of_api {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        if self.secure {
            let year = HeaderValue::from_static("max-age=31536000");
            headers.insert(STRICT_TRANSPORT_SECURITY, year);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;
    use axum::body::Body;
    use axum::routing::{get, post};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    const DASH: &str = "https://dash.example.com";

    async fn site() -> Site {
        Site::of(&format!("[admin]\ndash_url = \"{DASH}/app/\"\n")).await
    }

    fn router(site: &Site) -> Router {
        let never = async || std::future::pending::<()>().await;
        let falls = async || -> &'static str { panic!("over the threshold") };
        let router = Router::new()
            .route("/api/v1/plain", get(async || "plain"))
            .route("/page", get(async || "page"))
            .route("/never", get(never))
            .route("/form", post(async || std::future::pending::<()>().await))
            .route("/api/v1/tickets/{id}/attachments", post(async || std::future::pending::<()>().await))
            .route("/support/{id}/files", post(async || std::future::pending::<()>().await))
            .route("/falls", get(falls));
        wrap(router, &site.app)
    }

    async fn call(site: &Site, request: http::request::Builder) -> (StatusCode, HeaderMap, String) {
        let answer = router(site).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn answers_have_an_identifier_and_headers_that_restrict_browsers() {
        let site = site().await;
        let (_, first, _) = call(&site, http::Request::get("/api/v1/plain")).await;
        let (_, second, _) = call(&site, http::Request::get("/page").header("x-request-id", "mine")).await;
        for headers in [&first, &second] {
            assert!(headers[REQUEST_ID].to_str().unwrap().parse::<RequestId>().is_ok());
            assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
            assert_eq!(headers[X_FRAME_OPTIONS], "DENY");
            assert_eq!(headers[STRICT_TRANSPORT_SECURITY], "max-age=31536000");
        }
        assert_ne!(first[REQUEST_ID], second[REQUEST_ID]);
        assert_eq!(first[CACHE_CONTROL], "no-store");
        assert!(!second.contains_key(CACHE_CONTROL));
    }

    #[tokio::test]
    async fn a_panic_costs_one_request() {
        let site = site().await;
        let (status, headers, body) = call(&site, http::Request::get("/falls")).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(body, "{\"error\":\"internal error\",\"code\":\"internal\"}");
        assert!(headers.contains_key(REQUEST_ID));
    }

    #[tokio::test]
    async fn a_request_has_its_time() {
        let site = site().await;
        tokio::time::pause();
        let (status, headers, body) = call(&site, http::Request::get("/never")).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body, "{\"error\":\"service temporarily unavailable\",\"code\":\"unavailable\"}");
        assert!(headers.contains_key(http::header::RETRY_AFTER));
    }

    #[tokio::test]
    async fn a_file_has_more_time_to_arrive_by_the_api_and_by_a_form() {
        let site = site().await;
        tokio::time::pause();
        for (path, time) in [
            ("/form", REQUEST_TIME),
            ("/api/v1/tickets/7/attachments", UPLOAD_TIME),
            ("/support/7/files", UPLOAD_TIME),
        ] {
            let began = tokio::time::Instant::now();
            let (status, ..) = call(&site, http::Request::post(path)).await;
            let took = began.elapsed().as_secs();
            assert_eq!((status, took), (StatusCode::SERVICE_UNAVAILABLE, time.as_secs()), "{path}");
        }
    }

    #[tokio::test]
    async fn only_the_dashboards_origin_may_call() {
        let site = site().await;
        let from = |origin| http::Request::get("/api/v1/plain").header(ORIGIN, origin);
        let (_, headers, _) = call(&site, from(DASH)).await;
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], DASH);
        assert_eq!(headers[ACCESS_CONTROL_EXPOSE_HEADERS], EXPOSED);
        assert_eq!(headers[VARY], "origin");
        for outsider in ["https://evil.example", "https://dash.example.com.evil.example", "null"] {
            let (_, headers, _) = call(&site, from(outsider)).await;
            assert!(!headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN), "{outsider}");
        }
        let closed = Site::new().await;
        let (_, headers, _) = call(&closed, from("http://127.0.0.1:8081")).await;
        assert!(!headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN), "no dashboard elsewhere is configured");
    }

    #[tokio::test]
    async fn a_preflight_of_the_dashboard_is_answered_without_a_handler() {
        let site = site().await;
        let request = |origin| {
            http::Request::options("/api/v1/plain")
                .header(ORIGIN, origin)
                .header(ACCESS_CONTROL_REQUEST_METHOD, "PUT")
        };
        let (status, headers, _) = call(&site, request(DASH)).await;
        assert_eq!(status, StatusCode::NO_CONTENT);
        assert_eq!(
            headers[ACCESS_CONTROL_ALLOW_HEADERS],
            "authorization, content-type, idempotency-key, if-match"
        );
        let (status, headers, _) = call(&site, request("https://evil.example")).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
        assert!(!headers.contains_key(ACCESS_CONTROL_ALLOW_METHODS));
    }
}
