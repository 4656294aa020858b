//! The rendering of pages and of error pages.

use super::context::{frame, gate_frame};
use super::cookies::VisitorCookie;
use super::filters;
use super::frame::{Area, Frame};
pub(super) use super::problems::sentence;
use super::problems::{Labels, Problems};
use askama::Template;
use axum::body::Body;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use rpcgate_management::access::AuthSession;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::{ActionError, ErrorBody, ErrorCode};
use rpcgate_management::extract::Client;
use std::sync::Arc;

/// The page on which a second factor is added, below the root.
pub(super) const ADD_FACTOR: &str = "account/security";

/// A page without navigation that has a message and a link.
#[derive(Template)]
#[template(path = "notice.html")]
pub(super) struct Notice<'a> {
    pub(super) frame: Frame,
    pub(super) title: &'a str,
    pub(super) text: String,
    /// The class of the message: `ok`, `info`, `bad`.
    pub(super) tone: &'static str,
    /// The target, below the root, and the text of the link.
    pub(super) path: &'a str,
    pub(super) label: &'a str,
}

/// A message inside the navigation.
#[derive(Template)]
#[template(path = "problem_page.html")]
struct ProblemPage<'a> {
    frame: Frame,
    title: &'a str,
    text: String,
    tone: &'static str,
    path: &'a str,
    label: &'a str,
}

pub(crate) fn shown(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => ActionError::Broken(format!("a page cannot be written: {error}")).into_response(),
    }
}

/// Renders a page with the status 200.
pub(crate) fn ok(page: &impl Template) -> Response {
    shown(StatusCode::OK, page)
}

/// Renders the page of a form again after an action refused it, with the errors at the fields and the status of the
/// API's response. A missing object and an internal error have pages of their own.
///
/// # Errors
/// Those that are not about the form.
pub(crate) fn rejected<P: Template>(
    error: ActionError,
    labels: Labels,
    page: impl FnOnce(Problems) -> P,
) -> Result<Response, ActionError> {
    if matches!(error.code(), ErrorCode::NotFound | ErrorCode::Internal) {
        return Err(error);
    }
    let shown = shown(error.status(), &page(Problems::of(&error, labels)));
    Ok((headers(error), shown).into_response())
}

/// Returns the headers of the response to `error`, without those of the API's body and without an authentication
/// challenge, which browsers cannot answer.
fn headers(error: ActionError) -> HeaderMap {
    let (mut head, _) = error.into_response().into_parts();
    clear(&mut head.headers);
    head.headers
}

fn clear(headers: &mut HeaderMap) {
    for name in [CONTENT_TYPE, CONTENT_LENGTH, WWW_AUTHENTICATE] {
        headers.remove(name);
    }
}

/// Shows the errors of pages in the frame.
pub(super) async fn present(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let head = parts.clone();
    let answer = next.run(Request::from_parts(parts, body)).await;
    if answer.extensions().get::<ErrorBody>().is_none() {
        return answer;
    }
    problem(&app, head, answer).await
}

/// Returns the page for a response with an error.
pub(super) async fn problem(app: &Arc<AppState>, mut head: Parts, answer: Response) -> Response {
    let (mut parts, _) = answer.into_parts();
    let Some(error) = parts.extensions.remove::<ErrorBody>() else {
        return Response::from_parts(parts, Body::empty());
    };
    let session = parts.extensions.get::<AuthSession>().cloned();
    if let Some(visitor) = parts.extensions.get::<VisitorCookie>() {
        head.extensions.insert(visitor.clone());
    }
    let framed = match Client::from_request_parts(&mut head, app).await {
        Ok(client) => frame(app, &head, session.as_ref(), &client).await.ok(),
        Err(_) => None,
    };
    let frame = framed.unwrap_or_else(|| gate_frame(app, &head, session.as_ref()));
    clear(&mut parts.headers);
    (parts.status, parts.headers, error_page(frame, &error)).into_response()
}

fn error_page(frame: Frame, error: &ErrorBody) -> Html<String> {
    let title = match error.code {
        ErrorCode::NotFound => "Not found",
        ErrorCode::Forbidden | ErrorCode::ScopeMissing => "Not permitted",
        ErrorCode::Unavailable => "Not available at the moment",
        ErrorCode::TooManyRequests => "Too many attempts",
        ErrorCode::Internal => "Something went wrong on our side",
        _ => "That did not work",
    };
    let text = match error.code {
        ErrorCode::NotFound => {
            format!("{} It may have been deleted, or the address is not complete.", sentence(&error.error))
        }
        ErrorCode::Internal => {
            "The error is logged. Try again. If it persists, contact support and state the time.".to_owned()
        }
        _ => sentence(&error.error),
    };
    let tone = if error.code == ErrorCode::NotFound { "info" } else { "bad" };
    let path = "./";
    let label = "Go to the start page";
    let html = if frame.area == Area::Gate {
        Notice { title, text, tone, path, label, frame }.render()
    } else {
        ProblemPage { title, text, tone, path, label, frame }.render()
    };
    // The page logs its own rendering error; the title is enough here.
    Html(html.unwrap_or_else(|_| title.to_owned()))
}
