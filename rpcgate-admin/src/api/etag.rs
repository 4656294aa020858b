//! `ETag` and `If-Match` (RFC 9110, sections 8.8.3 and 13.1.1). A client that changes an object can name the version
//! that it has read, so that it does not overwrite another client's change.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{ETAG, HeaderValue};
use rpcgate_store::Version;
use serde::Serialize;
use utoipa::IntoParams;

/// The condition of a change, which [`Actor`](rpcgate_management::action::actor::Actor) reads.
#[derive(Clone, PartialEq, Eq, Debug, IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IfMatchHeader {
    /// The `ETag` of the version that is to be changed.
    #[param(rename = "If-Match", pattern = r#"^(\*|"[!#-~]*")$"#)]
    pub if_match: Option<String>,
}

/// An object with its version in the `ETag` header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tagged<T> {
    version: Option<Version>,
    body: T,
}

impl<T> Tagged<T> {
    /// Tags `body` with `version`, which was read before it. If the object changed in between, the client gets a tag
    /// that no longer matches, and must read the object again before it can change it.
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
