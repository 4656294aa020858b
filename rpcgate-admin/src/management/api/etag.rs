//! `ETag` and `If-Match` (RFC 9110, sections 8.8.3 and 13.1.1): a client that changes something can say which version
//! of it it has seen, so that it does not overwrite a change of somebody else.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{ETAG, HeaderValue};
use rpcgate_store::Version;
use serde::Serialize;

/// An object with its version in the `ETag` header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tagged<T> {
    version: Option<Version>,
    body: T,
}

impl<T> Tagged<T> {
    /// `body`, whose version was `version` before it was read. If it was changed in between, the client gets a tag
    /// that does not match any more, and has to read it again before it can change it.
    pub fn new(version: Option<Version>, body: T) -> Self {
        Tagged { version, body }
    }
}

impl<T: Serialize> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let mut answer = Json(self.body).into_response();
        let tag = self.version.map(|Version(bytes)| format!("\"{}\"", hex::encode(bytes)));
        if let Some(tag) = tag.and_then(|tag| HeaderValue::try_from(tag).ok()) {
            answer.headers_mut().insert(ETAG, tag);
        }
        answer
    }
}

#[cfg(test)]
mod tests;
