//! Answers that do not come from the stack: health, readiness, a panic, a bad head, and too many connections.

use super::connections::Connections;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use rpcgate_core::chain::Dialect;
use rpcgate_core::refusal::Refusal;

/// Answers `/healthz` and `/readyz`; returns `None` for every other path.
pub(super) fn health(
    connections: &Connections,
    method: &Method,
    path: &str,
) -> Option<Response<Full<Bytes>>> {
    let ready = match path {
        "/healthz" => false,
        "/readyz" => true,
        _ => return None,
    };
    if method != Method::GET && method != Method::HEAD {
        return Some(refused(Refusal::MethodNotAllowed { allow: "GET, HEAD" }));
    }
    let mut answer = match connections.unready().filter(|_| ready) {
        None => json(StatusCode::OK, Bytes::from_static(br#"{"status":"ok"}"#)),
        Some(reason) => json(
            Refusal::Overloaded.status(),
            format!(r#"{{"status":"unready","reason":"{reason}"}}"#).into(),
        ),
    };
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Some(answer)
}

/// Returns the answer to a request that made the gateway panic. It closes the connection, whose state is unknown.
pub(super) fn panicked() -> Response<Full<Bytes>> {
    let body = Bytes::from_static(br#"{"message":"internal error"}"#);
    let mut answer = json(StatusCode::INTERNAL_SERVER_ERROR, body);
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Returns the answer to a request that states its length twice. It closes the connection, whose next bytes
/// may be anything.
pub(super) fn ambiguous() -> Response<Full<Bytes>> {
    let mut answer = refused(Refusal::BadHead);
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Returns the whole answer to a connection beyond the limit.
pub(super) fn full() -> Vec<u8> {
    over_the_wire(Refusal::Overloaded)
}

/// Returns all bytes of an answer that ends its connection.
pub(super) fn over_the_wire(refusal: Refusal) -> Vec<u8> {
    let mut body = Vec::new();
    refusal.write_alone(Dialect::JsonRpc2, None, &mut body);
    let wait = refusal.retry_after().map(|wait| format!("retry-after: {wait}\r\n")).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{wait}\
         access-control-allow-origin: *\r\nconnection: close\r\n\r\n",
        refusal.status(),
        body.len(),
    );
    [head.into_bytes(), body].concat()
}

fn refused(refusal: Refusal) -> Response<Full<Bytes>> {
    let mut body = Vec::new();
    refusal.write_alone(Dialect::JsonRpc2, None, &mut body);
    let mut answer = json(refusal.status(), body.into());
    if let Some(methods) = refusal.allow() {
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    }
    if let Some(seconds) = refusal.retry_after() {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

fn json(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
