//! Requests of operations that take no body.
//!
//! A client does not notice that a member is ignored: a client that sends `{"all": true}` to end sessions must get an
//! error, because this means nothing. So the body of such a request must be empty, or an object without members, which
//! some clients send for an empty body. One check does this for all routes, based on the OpenAPI document.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::Method;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::read_body;
use rpcgate_management::strict_json;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::openapi::path::{PathItem, Paths};

/// The methods of some routes that take no body.
#[derive(Clone, Debug)]
pub(crate) struct WithoutBody(Arc<[Method]>);

impl WithoutBody {
    /// Collects the methods of the routes that `paths` describe. Read requests may have any body: it changes nothing,
    /// and caches and proxies drop it.
    pub(crate) fn of(paths: &Paths) -> Self {
        let mut methods = Vec::new();
        for PathItem { put, post, delete, .. } in paths.paths.values() {
            for (method, operation) in [(Method::PUT, put), (Method::POST, post), (Method::DELETE, delete)] {
                if operation.as_ref().is_some_and(|operation| operation.request_body.is_none()) {
                    methods.push(method);
                }
            }
        }
        WithoutBody(methods.into())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoMembers {}

pub(crate) async fn expect_empty(
    State((app, WithoutBody(methods))): State<(Arc<AppState>, WithoutBody)>,
    request: Request,
    next: Next,
) -> Response {
    if !methods.contains(request.method()) {
        return next.run(request).await;
    }
    match without_body(&app, request).await {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Returns the request if its body is empty or an object without members.
async fn without_body(app: &AppState, request: Request) -> Result<Request, ActionError> {
    let (parts, body) = request.into_parts();
    let body = read_body(Request::from_parts(parts.clone(), body), &app).await?;
    if !body.is_empty() {
        let NoMembers {} = strict_json::of_object(&body)?;
    }
    Ok(Request::from_parts(parts, Body::from(body)))
}

#[cfg(test)]
mod tests {
    use crate::testing::fixtures::{error_body, error_body_of_field as body_of_field};
    use crate::testing::{Site, Visitor};
    use axum::body::Body;
    use http::header::{AUTHORIZATION, CONTENT_TYPE};
    use http::{Method, StatusCode};
    use rpcgate_store::Role;
    use serde_json::Value;

    async fn send(site: &Site, visitor: &Visitor, method: Method, path: &str, body: &str) -> (u16, Value) {
        let answer = site.ask(Some(visitor), method, &format!("/api/v1{path}"), body.to_owned()).await;
        (answer.status.as_u16(), answer.body)
    }

    // Shows (Management): An operation without a body accepts nothing or `{}`, and names an unknown field.
    #[tokio::test]
    async fn an_operation_without_a_body_takes_nothing_or_an_empty_object_and_names_the_rest() {
        let site = Site::new().await;
        let owner = site.member(Role::Owner).await;
        let other = format!("/auth/sessions/{}", site.visitor(owner.user.tenant, Role::Owner).await.session);
        let unknown = "/notifications/0190163d-8694-739b-aea5-966c26f8ad91/read";
        let expected_none =
            |field: &str| (400, body_of_field(field, &format!("unknown field `{field}`: expected none")));
        for (method, path) in
            [(Method::POST, "/auth/logout-all"), (Method::POST, unknown), (Method::DELETE, other.as_str())]
        {
            let refused = send(&site, &owner, method.clone(), path, "{\"all\":true}").await;
            assert_eq!(refused, expected_none("all"), "{method} {path}");
            let refused = send(&site, &owner, method.clone(), path, "[]").await;
            assert_eq!(refused, (400, error_body("invalid", "the body must be a JSON object")));
            let refused = send(&site, &owner, method.clone(), path, "all=true").await;
            assert_eq!(refused, (400, error_body("invalid", "the body is not JSON")));
        }
        assert_eq!(send(&site, &owner, Method::POST, unknown, "").await.0, 404);
        assert_eq!(send(&site, &owner, Method::POST, unknown, "{ }").await.0, 404);
        let typed = http::Request::post("/api/v1/auth/logout-all")
            .header(AUTHORIZATION, format!("Bearer {}", owner.token))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let answer = site.send(typed.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{}", answer.body);
    }

    #[tokio::test]
    async fn a_request_without_a_valid_token_is_refused_before_its_body_is_read() {
        let site = Site::new().await;
        let request = http::Request::post("/api/v1/auth/logout-all").header(AUTHORIZATION, "Bearer x");
        let answer = site.send(request.body(Body::from("{\"all\":true}")).unwrap()).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    }
}
