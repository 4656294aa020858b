//! A client, for the examples' tests.

use crate::BoxError;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// A response.
#[derive(Debug)]
pub struct JsonResponse {
    /// The HTTP status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as JSON; null if it is not JSON.
    pub json: Value,
}

impl JsonResponse {
    /// Returns the text of a header; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the number of rate headers of the response.
    pub fn rate_headers(&self) -> usize {
        let is_rate = |name: &str| name.starts_with("x-ratelimit-") || name.starts_with("ratelimit-");
        self.headers.keys().filter(|name| is_rate(name.as_str())).count()
    }
}

/// Posts `json` over a new connection, with one more header.
///
/// # Errors
/// If the connection cannot be opened or breaks.
pub async fn post(
    to: SocketAddr,
    path: &str,
    header: (&str, &str),
    json: &Value,
) -> Result<JsonResponse, BoxError> {
    let request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .header(header.0, header.1)
        .body(Bytes::from(json.to_string()))?;
    let (head, body) = send(to, request).await?.into_parts();
    let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(JsonResponse { status: head.status, headers: head.headers, json })
}

/// Sends a request over a new connection.
///
/// # Errors
/// If the connection cannot be opened or breaks.
pub async fn send(to: SocketAddr, mut request: Request<Bytes>) -> Result<Response<Bytes>, BoxError> {
    let stream = TcpStream::connect(to).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    request.headers_mut().insert(HOST, to.to_string().parse()?);
    let (head, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
    Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
}
