//! Requests that no page answers.

use super::{guard, session_cookie, view};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, HeaderValue};
use http::request::Parts;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use std::sync::Arc;

pub(crate) async fn no_path(State(app): State<Arc<AppState>>, request: Request) -> Response {
    no_page(&app, request.into_parts().0, ActionError::NotFound("path")).await
}

pub(crate) async fn no_method(State(app): State<Arc<AppState>>, request: Request) -> Response {
    no_page(&app, request.into_parts().0, ActionError::NotAllowed).await
}

/// Answers a request for an unknown page or with a wrong method: with a page for a browser, with JSON for other
/// clients.
async fn no_page(app: &Arc<AppState>, head: Parts, error: ActionError) -> Response {
    let mut answer = error.into_response();
    if !wants_page(&head) {
        return answer;
    }
    if let Some(session) = session_cookie::current(app, &head.headers).await {
        answer.extensions_mut().insert(session);
    }
    guard::protected(view::problem(app, head, answer).await)
}

/// Reports whether the client is a browser that accepts HTML.
fn wants_page(head: &Parts) -> bool {
    let accept =
        head.headers.get_all(ACCEPT).into_iter().filter_map(|value: &HeaderValue| value.to_str().ok());
    let path = head.uri.path();
    accept.flat_map(|text| text.split(',')).any(|kind| kind.trim().starts_with("text/html"))
        && !["/api/", "/swagger/"].iter().any(|other| path.starts_with(other))
}
