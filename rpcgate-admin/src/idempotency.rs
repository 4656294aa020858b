//! The `Idempotency-Key` header of requests that create something.

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method};
use ring::digest::{Context, SHA256};
use rpcgate_management::action::idempotency::{KeptAnswer, MAX_KEY, Once, RequestParts, begin, forget, keep};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{read_body, read_file};
use rpcgate_store::{Run, User};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Required};

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The header that marks a repeated answer.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The maximum time for storing an upload with a key once its file has arrived. It is shorter than the time for which a
/// repeated request waits for the first one, so that a file is not stored twice.
const STORE_TIME: Duration = Duration::from_secs(100);

/// Reports whether the requests of an operation may have a key, because it creates something.
pub(crate) fn takes_key(operation: &Operation) -> bool {
    operation.responses.responses.contains_key("201")
}

/// Reports whether the body of an operation is a file. Not every such request may hold its file in memory, so its
/// handler applies the key with [`once_with_file`] instead of the middleware.
pub(crate) fn is_upload(operation: &Operation) -> bool {
    match &operation.request_body {
        None | Some(RefOr::Ref(_)) => false,
        Some(RefOr::T(body)) => !body.content.contains_key("application/json"),
    }
}

pub(crate) fn parameter() -> RefOr<Parameter> {
    let key = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(MAX_KEY));
    let key = key.pattern(Some("^[!-~]([ -~]*[!-~])?$"));
    RefOr::T(
        ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(
                "A value of the client's choice, new for each thing to create. If the same request is sent again with \
                 it within 24 hours, the first answer is given again, with the header `Idempotency-Replayed`, and \
                 nothing is created; another request with it is refused with 409.",
            ))
            .schema(Some(key.build()))
            .build(),
    )
}

/// Carries out a request with a small body only once, if it has a key and creates something.
pub(crate) async fn once(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST || !has_key(request.headers()) {
        return next.run(request).await;
    }
    once_by_key(app, request, next).await.unwrap_or_else(IntoResponse::into_response)
}

async fn once_by_key(app: Arc<AppState>, request: Request, next: Next) -> Result<Response, ActionError> {
    let user = request.extensions().get::<Arc<User>>().cloned();
    let user = user.ok_or_else(|| ActionError::Broken("a request with a key has no user".into()))?;
    let (mut parts, body) = request.into_parts();
    key(&parts.headers)?;
    let body = read_body(Request::from_parts(parts.clone(), body), &app).await?;
    let run = match begin_of(&app, &user, &parts, &body).await? {
        Once::Run(run) => run,
        Once::Answer(kept) => return again(kept),
    };
    parts.extensions.insert(run);
    let request = Request::from_parts(parts, Body::from(body));
    let work = async move { next.run(request).await };
    finish(app, run, work).await
}

/// Reads the file that is the body of a request of `user`, at most `max` bytes, and passes it to `work`. If the request
/// has a key, `work` also gets a run and is carried out only once. Files are compared by their digests.
pub(crate) async fn once_with_file<W>(
    app: Arc<AppState>,
    user: &User,
    request: Request,
    max: usize,
    work: impl FnOnce(Option<Run>, Bytes) -> W,
) -> Result<Response, ActionError>
where
    W: Future<Output = Result<Response, ActionError>> + Send + 'static,
{
    let (parts, body) = request.into_parts();
    if !has_key(&parts.headers) {
        let file = read_file(body, max, None).await?;
        return work(None, file).await;
    }
    key(&parts.headers)?;
    let mut digest = Context::new(&SHA256);
    let file = read_file(body, max, Some(&mut digest)).await?;
    let run = match begin_of(&app, user, &parts, digest.finish().as_ref()).await? {
        Once::Run(run) => run,
        Once::Answer(kept) => return again(kept),
    };
    let work = work(Some(run), file);
    let work = async move {
        let late = |_| ActionError::Unavailable("an upload took too long".into());
        let done = tokio::time::timeout(STORE_TIME, work).await.map_err(late).flatten();
        done.unwrap_or_else(IntoResponse::into_response)
    };
    finish(app, run, work).await
}

pub(crate) fn has_key(headers: &HeaderMap) -> bool {
    headers.contains_key(IDEMPOTENCY_KEY)
}

/// Decides whether a request of `user` with a key is carried out. `body` is its body, or the digest of a file.
async fn begin_of(app: &AppState, user: &User, parts: &Parts, body: &[u8]) -> Result<Once, ActionError> {
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    let compared = RequestParts { method: parts.method.as_str(), target, body };
    begin(app, user, key(&parts.headers)?, compared).await
}

/// Carries out the work of a run and stores its answer. The work is finished even if the client disconnects, so that
/// the answer is available when the client retries.
async fn finish(
    app: Arc<AppState>,
    run: Run,
    work: impl Future<Output = Response> + Send + 'static,
) -> Result<Response, ActionError> {
    let work = async move { settle(&app, &run, work.await).await };
    let done = tokio::spawn(work.in_current_span()).await;
    done.map_err(|error| ActionError::Broken(format!("a request with a key ended early: {error}")))?
}

fn key(headers: &HeaderMap) -> Result<&str, ActionError> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).into_iter();
    match (given.next().map(HeaderValue::to_str), given.next()) {
        (Some(Ok(key)), None) => Ok(key),
        _ => Err(ActionError::named("Idempotency-Key", "must be one text of printable ASCII characters")),
    }
}

fn again(kept: KeptAnswer) -> Result<Response, ActionError> {
    let mut answer = (kept.status, kept.body).into_response();
    let headers = answer.headers_mut();
    headers.remove(CONTENT_TYPE);
    if let Some(content_type) = kept.content_type {
        let value = HeaderValue::try_from(content_type);
        let value = value.map_err(|error| ActionError::Broken(format!("a kept media type: {error}")))?;
        headers.insert(CONTENT_TYPE, value);
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(answer)
}

async fn settle(app: &AppState, run: &Run, answer: Response) -> Result<Response, ActionError> {
    let status = answer.status();
    if !status.is_success() {
        warn(forget(app, run, status).await);
        return Ok(answer);
    }
    let (head, body) = answer.into_parts();
    let body = to_bytes(body, usize::MAX).await;
    let body = body.map_err(|error| ActionError::Broken(format!("an answer broke off: {error}")))?;
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let stored = KeptAnswer {
        status,
        content_type: content_type.map(str::to_owned),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    warn(keep(app, run, &stored).await);
    Ok(Response::from_parts(head, Body::from(body)))
}

/// Logs that an answer could not be stored. The request was carried out, so its client gets the answer.
fn warn(kept: Result<(), ActionError>) {
    if let Err(error) = kept {
        tracing::warn!(%error, "the answer to a request with an idempotency key could not be stored");
    }
}

#[cfg(test)]
mod tests;
