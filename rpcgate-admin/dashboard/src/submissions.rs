//! The layer that carries out each submission of a form once, and the page that shows a result once.
//!
//! Every form has a hidden field with a unique value ([`SubmissionIds`](super::submission_ids::SubmissionIds)), which
//! the macro of the form token writes. A form with a file has the value in its address instead, because its body is not
//! read here. The layer remembers forms that redirect. A form that is answered with a page, such as an error, had no
//! effect that could be repeated.
//!
//! Some results may be shown only once, such as the text of a key. Their handler renders them with
//! [`PageContext::result_frame`](super::context::PageContext::result_frame) and marks them with [`shown_once`]. The
//! layer stores the page encrypted and redirects the browser to it, so that reloading it creates nothing again.

use super::cookies::VisitorCookie;
use super::form::FormGuard;
use super::frame::root_of;
use super::relative_address::{below_root, page_of_form, redirect};
use super::view::shown;
use crate::context::PageResult;
use crate::form::{QueryFields, TOKEN};
use askama::Template;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts as _, Request, State};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION, SET_COOKIE};
use http::request::Parts;
use http::{Extensions, HeaderMap, Method, StatusCode};
use rpcgate_management::access::AuthSession;
use rpcgate_management::action::idempotency::RequestParts;
use rpcgate_management::action::submissions::{
    FormRun, Redirection, begin, keep, let_go, put_result, take_result,
};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Client, PathParams, read_body};
use rpcgate_management::routing::get;
use rpcgate_store::{Digest, Run};
use std::sync::Arc;
use tracing::Instrument;
use uuid::Uuid;

/// The name of the hidden field, and of the parameter in the address of a form with a file.
const VALUE: &str = "once";

/// The path of results below the root; the identifier follows.
const RESULT: &str = "result";

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/result/{id}", get(show))
}

/// The mark of a page that shows the result of a form once.
#[derive(Clone, Copy, Debug)]
struct ShownOnce;

/// The mark of a redirect to a question before anything was done, such as the one for a proof. The form is not
/// remembered, so that a user who goes back to it can send it again.
#[derive(Clone, Copy, Debug)]
pub(super) struct NothingDone;

/// Renders a page that shows the result of a form once. The page needs a result frame.
pub(crate) fn shown_once(status: StatusCode, page: &impl Template) -> Response {
    let mut answer = shown(status, page);
    answer.extensions_mut().insert(ShownOnce);
    answer
}

/// Returns the user or the visitor who sends a form or requests a result.
fn owner(extensions: &Extensions) -> Option<u128> {
    if let Some(session) = extensions.get::<AuthSession>() {
        return Some(session.user.id.0);
    }
    let VisitorCookie(value) = extensions.get::<VisitorCookie>()?;
    let Digest(digest) = Digest::of(&format!("visitor {value}"));
    digest.first_chunk::<16>().map(|half| u128::from_be_bytes(*half))
}

pub(super) async fn once(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    match sent(&app, request, next).await {
        Ok(answer) => answer,
        Err(error) => error.into_response(),
    }
}

async fn sent(app: &Arc<AppState>, request: Request, next: Next) -> Result<Response, ActionError> {
    let (mut parts, body) = request.into_parts();
    let Some(owner) = owner(&parts.extensions) else {
        return Ok(next.run(Request::from_parts(parts, body)).await);
    };
    let (value, compared, body) = if is_with_file(&parts.headers) {
        let length = parts.headers.get(CONTENT_LENGTH).map_or(&b""[..], HeaderValue::as_bytes);
        (field(parts.uri.query().unwrap_or_default(), VALUE), Bytes::copy_from_slice(length), body)
    } else {
        let bytes = read_body(Request::from_parts(parts.clone(), body), app).await?;
        let text = str::from_utf8(&bytes).unwrap_or_default();
        let token = field(text, TOKEN).unwrap_or_default();
        // The handler reports an invalid token.
        let is_ours = FormGuard::of(&parts, app).check(&token).is_ok();
        (field(text, VALUE).filter(|_| is_ours), bytes.clone(), Body::from(bytes))
    };
    let Some(value) = value else { return Ok(next.run(Request::from_parts(parts, body)).await) };
    if parts.extensions.get::<AuthSession>().is_none() {
        // A submission is a write, so those of visitors are rate-limited before it.
        let client = Client::from_request_parts(&mut parts, app).await?;
        app.limits.anonymous.admit(client.address)?;
    }
    let target = parts.uri.path().to_owned();
    let run = {
        let request = RequestParts { method: parts.method.as_str(), target: &target, body: &compared };
        match begin(app, owner, &value, request).await? {
            FormRun::First(run) => run,
            FormRun::Repeated(redirection) => return repeated(&redirection),
        }
    };
    parts.extensions.insert(run);
    let app = app.clone();
    let request = Request::from_parts(parts, body);
    // The work completes even if the browser disconnects, as it does on a second click. The second request waits for
    // it.
    let work = async move {
        let answer = next.run(request).await;
        settle(&app, owner, &run, &target, answer).await
    };
    let done = tokio::spawn(work.in_current_span()).await;
    done.map_err(|error| ActionError::Broken(format!("a form ended early: {error}")))?
}

fn is_with_file(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.trim_start().to_ascii_lowercase().starts_with("multipart/")
}

fn field(text: &str, name: &str) -> Option<String> {
    form_urlencoded::parse(text.as_bytes()).find(|(own, _)| own == name).map(|(_, value)| value.into_owned())
}

fn repeated(Redirection { location, cookies }: &Redirection) -> Result<Response, ActionError> {
    let header = |text: &str| {
        HeaderValue::try_from(text).map_err(|error| ActionError::Broken(format!("a kept header: {error}")))
    };
    let mut answer = StatusCode::SEE_OTHER.into_response();
    answer.headers_mut().insert(LOCATION, header(location)?);
    for cookie in cookies {
        answer.headers_mut().append(SET_COOKIE, header(cookie)?);
    }
    Ok(answer)
}

/// Stores the target of the redirect; before that, stores a page that is shown once.
async fn settle(
    app: &AppState,
    owner: u128,
    run: &Run,
    target: &str,
    answer: Response,
) -> Result<Response, ActionError> {
    let answer = if answer.extensions().get::<ShownOnce>().is_some() {
        stored(app, owner, target, answer).await?
    } else {
        answer
    };
    let status = answer.status();
    let is_remembered = status.is_redirection() && answer.extensions().get::<NothingDone>().is_none();
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
    match answer.headers().get(LOCATION).and_then(text).filter(|_| is_remembered) {
        Some(location) => {
            let cookies = answer.headers().get_all(SET_COOKIE).iter().filter_map(text).collect();
            keep(app, run, status, &Redirection { location, cookies }).await;
        }
        None => let_go(app, run, status).await,
    }
    Ok(answer)
}

/// Stores the page of a result and redirects to it. If it cannot be stored, it is shown at once, because its content
/// would be lost otherwise.
async fn stored(
    app: &AppState,
    owner: u128,
    target: &str,
    answer: Response,
) -> Result<Response, ActionError> {
    let (head, body) = answer.into_parts();
    let html = to_bytes(body, usize::MAX).await;
    let html = html.map_err(|error| ActionError::Broken(format!("a page broke off: {error}")))?;
    match put_result(app, owner, &html).await {
        Ok(id) => {
            let path = target.trim_start_matches('/');
            let back = page_of_form(path).unwrap_or(path);
            let query = form_urlencoded::Serializer::new(String::new()).append_pair("next", back).finish();
            let id = Uuid::from_u128(id);
            Ok(redirect(&root_of(target), &format!("{RESULT}/{id}?{query}")))
        }
        Err(error) => {
            tracing::warn!(%error, "the result of a form could not be stored and is shown at once");
            Ok(Response::from_parts(head, Body::from(html)))
        }
    }
}

/// Shows a result once. Afterwards the address redirects to the page of the form.
async fn show(
    State(app): State<Arc<AppState>>,
    PathParams(id): PathParams<String>,
    QueryFields(query): QueryFields,
    request: Request,
) -> PageResult {
    let (parts, _) = request.into_parts();
    let Parts { extensions, uri, .. } = parts;
    let unknown = ActionError::NotFound("page");
    let (Some(owner), Ok(id)) = (owner(&extensions), id.parse::<Uuid>()) else { return Err(unknown) };
    match take_result(&app, owner, id.as_u128()).await? {
        Some(html) => Ok(Html(html).into_response()),
        None => Ok(redirect(&root_of(uri.path()), below_root(query.one("next")))),
    }
}

#[cfg(test)]
mod tests;
