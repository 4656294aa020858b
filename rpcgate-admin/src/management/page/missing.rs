//! What no page answers.

use super::{guard, session_cookie, view};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, HeaderValue};
use http::request::Parts;
use std::sync::Arc;

/// Answers a request for which there is no page, or none with its method: as a page to a browser, as JSON to others.
pub(crate) async fn no_page(app: &Arc<AppState>, head: Parts, error: ActionError) -> Response {
    let mut answer = error.into_response();
    if !wants_page(&head) {
        return answer;
    }
    if let Some(session) = session_cookie::current(app, &head.headers).await {
        answer.extensions_mut().insert(session);
    }
    guard::protected(view::problem(app, head, answer).await)
}

/// Whether the client is a browser that wants a page.
fn wants_page(head: &Parts) -> bool {
    let accept =
        head.headers.get_all(ACCEPT).into_iter().filter_map(|value: &HeaderValue| value.to_str().ok());
    let path = head.uri.path();
    accept.flat_map(|text| text.split(',')).any(|kind| kind.trim().starts_with("text/html"))
        && !["/api/", "/swagger/"].iter().any(|other| path.starts_with(other))
}
