//! The errors of actions, and their form for clients: the one place where a status and the body `{"error":
//! "…"}` are decided (specification, "Errors", "Management API").

use crate::management::identity::limit::TooOften;
use crate::management::identity::password::PasswordError;
use crate::management::identity::token::TokenError;
use crate::management::identity::verifier::TokenRefused;
use crate::management::mail::MailError;
use crate::store::StoreError;
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use rpcgate_core::secret::NoRandomness;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Seconds after which a request may be retried when a service was unreachable.
const RETRY_UNAVAILABLE: u32 = 5;
/// Seconds after which a request may be retried when too many passwords are verified or usage queries run.
const RETRY_BUSY: u32 = 2;

/// Why an action was not done. The displayed text is sent to the client and reveals nothing about the implementation.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    /// The request is invalid: 400.
    #[error("{0}")]
    Invalid(String),
    /// The client is not authenticated: 401.
    #[error("{0}")]
    Unauthenticated(&'static str),
    /// The client is not permitted: 403.
    #[error("{0}")]
    Forbidden(&'static str),
    /// It does not exist, or belongs to another tenant: 404.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// The path supports other methods, which the router lists in `Allow`: 405.
    #[error("method not allowed")]
    NotAllowed,
    /// The request did not arrive in time: 408.
    #[error("the request took too long to arrive")]
    TooSlow,
    /// The current state does not allow the action: 409.
    #[error("{0}")]
    Conflict(&'static str),
    /// The permitted number has been reached, which the text says: 409.
    #[error("{0}")]
    Full(String),
    /// Something else has a value that must be unique: 409.
    #[error("there is already a {what} with this {value}")]
    Taken {
        /// What exists already.
        what: &'static str,
        /// The property that both would share.
        value: &'static str,
    },
    /// The body is too large: 413.
    #[error("the body is larger than {} KiB", crate::management::strict_json::MAX_BODY >> 10)]
    TooLarge,
    /// A file is larger than this number of bytes: 413.
    #[error("the file is larger than {} MiB", .0 >> 20)]
    LargeFile(usize),
    /// Too many requests, or too many at once: 429.
    #[error("too many attempts, try again later")]
    TooMany {
        /// Seconds after which the request may be retried.
        retry_after: u32,
    },
    /// Something that is needed is unavailable at the moment: 503. The text is for the log.
    #[error("service temporarily unavailable")]
    Unavailable(String),
    /// The hosted verifier of challenges gives no verdict: 503. The text is for the log.
    #[error("the challenge cannot be checked at the moment, try again later")]
    VerifierAway(String),
    /// An internal error: 500. The text is for the log.
    #[error("internal error")]
    Broken(String),
}

impl ActionError {
    /// The HTTP status.
    pub const fn status(&self) -> StatusCode {
        match self {
            ActionError::Invalid(_) => StatusCode::BAD_REQUEST,
            ActionError::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            ActionError::Forbidden(_) => StatusCode::FORBIDDEN,
            ActionError::NotFound(_) => StatusCode::NOT_FOUND,
            ActionError::NotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            ActionError::TooSlow => StatusCode::REQUEST_TIMEOUT,
            ActionError::Conflict(_) | ActionError::Full(_) | ActionError::Taken { .. } => {
                StatusCode::CONFLICT
            }
            ActionError::TooLarge | ActionError::LargeFile(_) => StatusCode::PAYLOAD_TOO_LARGE,
            ActionError::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
            ActionError::Unavailable(_) | ActionError::VerifierAway(_) => StatusCode::SERVICE_UNAVAILABLE,
            ActionError::Broken(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Headers that go with the status.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        match self {
            ActionError::Unauthenticated(_) => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"rpcgate\""));
            }
            ActionError::TooMany { retry_after } => {
                headers.insert(RETRY_AFTER, HeaderValue::from(*retry_after));
            }
            ActionError::Unavailable(_) | ActionError::VerifierAway(_) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_UNAVAILABLE));
            }
            _ => {}
        }
        headers
    }

    /// Logs the part that the client does not get.
    fn log(&self) {
        match self {
            ActionError::Unavailable(why) => tracing::warn!(why, "a request could not be served"),
            ActionError::VerifierAway(why) => {
                tracing::warn!(why, "the challenge of a registration cannot be checked")
            }
            ActionError::Broken(why) => tracing::error!(why, "a request failed"),
            _ => {}
        }
    }
}

impl From<StoreError> for ActionError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(why) => ActionError::Unavailable(why),
            StoreError::NotFound(what) => ActionError::NotFound(what),
            StoreError::Taken { what, value } => ActionError::Taken { what, value },
            StoreError::Full(why) => ActionError::Full(why),
            StoreError::WrongState(why) => ActionError::Conflict(why),
            StoreError::Decided(_) => ActionError::Conflict("this has been decided already"),
            StoreError::Busy => ActionError::TooMany { retry_after: RETRY_BUSY },
            StoreError::TooLarge(_) | StoreError::TooWide(_) => ActionError::Invalid(error.to_string()),
            error => ActionError::Broken(error.to_string()),
        }
    }
}

impl From<PasswordError> for ActionError {
    fn from(error: PasswordError) -> Self {
        match error {
            PasswordError::Busy => ActionError::TooMany { retry_after: RETRY_BUSY },
            error => ActionError::Broken(error.to_string()),
        }
    }
}

impl From<TooOften> for ActionError {
    fn from(TooOften { retry_after }: TooOften) -> Self {
        ActionError::TooMany { retry_after }
    }
}

impl From<MailError> for ActionError {
    fn from(error: MailError) -> Self {
        match error {
            MailError::Unavailable(_) | MailError::Outbox { .. } => {
                ActionError::Unavailable(error.to_string())
            }
            error => ActionError::Broken(error.to_string()),
        }
    }
}

impl From<TokenError> for ActionError {
    fn from(error: TokenError) -> Self {
        ActionError::Broken(error.to_string())
    }
}

impl From<TokenRefused> for ActionError {
    fn from(error: TokenRefused) -> Self {
        match error {
            TokenRefused::Undecided(why) => ActionError::VerifierAway(why),
            error => ActionError::Invalid(error.to_string()),
        }
    }
}

impl From<NoRandomness> for ActionError {
    fn from(error: NoRandomness) -> Self {
        ActionError::Broken(error.to_string())
    }
}

/// The body of every error response.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Error)]
pub struct ErrorBody {
    /// The error as text for people.
    pub error: String,
}

impl IntoResponse for ActionError {
    fn into_response(self) -> Response {
        self.log();
        (self.status(), self.headers(), Json(ErrorBody { error: self.to_string() })).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    async fn shown(error: ActionError) -> (u16, HeaderMap, String) {
        let (head, body) = error.into_response().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), head.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn an_error_is_a_status_and_a_text() {
        for (error, status, text) in [
            (ActionError::Invalid("`a` is missing".into()), 400, "`a` is missing"),
            (ActionError::Unauthenticated("log in"), 401, "log in"),
            (ActionError::Forbidden("no"), 403, "no"),
            (ActionError::NotFound("project"), 404, "project not found"),
            (ActionError::NotAllowed, 405, "method not allowed"),
            (ActionError::TooSlow, 408, "the request took too long to arrive"),
            (ActionError::Conflict("pending"), 409, "pending"),
            (ActionError::TooLarge, 413, "the body is larger than 64 KiB"),
            (ActionError::LargeFile(10 << 20), 413, "the file is larger than 10 MiB"),
            (ActionError::TooMany { retry_after: 7 }, 429, "too many attempts, try again later"),
            (ActionError::Unavailable("locked".into()), 503, "service temporarily unavailable"),
            (
                ActionError::VerifierAway("late".into()),
                503,
                "the challenge cannot be checked at the moment, try again later",
            ),
            (ActionError::Broken("at the wall".into()), 500, "internal error"),
        ] {
            let (shown_status, headers, body) = shown(error).await;
            assert_eq!((shown_status, body), (status, format!("{{\"error\":\"{text}\"}}")));
            assert_eq!(headers[http::header::CONTENT_TYPE], "application/json");
            assert_eq!(headers.contains_key(WWW_AUTHENTICATE), status == 401);
            let wait = match status {
                429 => Some("7"),
                503 => Some("5"),
                _ => None,
            };
            assert_eq!(headers.get(RETRY_AFTER).map(|value| value.to_str().unwrap()), wait);
        }
    }

    #[tokio::test]
    async fn errors_of_the_database_are_not_shown_to_clients() {
        let taken = StoreError::Taken { what: "user", value: "e-mail address" };
        for (error, status, text) in [
            (StoreError::Unavailable("disk I/O error".into()), 503, "service temporarily unavailable"),
            (StoreError::NotFound("key"), 404, "key not found"),
            (StoreError::Full("at most 2".into()), 409, "at most 2"),
            (StoreError::WrongState("it is closed"), 409, "it is closed"),
            (StoreError::Decided("limit request"), 409, "this has been decided already"),
            (taken, 409, "there is already a user with this e-mail address"),
            (StoreError::TooWide("ask for less".into()), 400, "ask for less"),
            (StoreError::Busy, 429, "too many attempts, try again later"),
            (StoreError::TooLarge("per_day"), 400, "per_day must be at most 9223372036854775807"),
            (StoreError::Unreadable { what: "tier", value: "gold".into() }, 500, "internal error"),
            (StoreError::Outdated("rpcgate.db".into()), 500, "internal error"),
        ] {
            let (shown_status, _, body) = shown(error.into()).await;
            assert_eq!((shown_status, body), (status, format!("{{\"error\":\"{text}\"}}")));
        }
    }
}
