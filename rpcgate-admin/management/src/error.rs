//! The errors of actions and their form for clients: the one place that decides the status and the body `{"error": "…",
//! "code": "…"}` (contract, "Accounts, second factors, money").
//!
//! The text is for people and may change. Programs read the code: [`ErrorCode`] lists all. An error that a program
//! should handle differently has its own code.

pub use self::invalid::InvalidRequest;
pub use self::invalid::{API_MOMENT, Part};
use crate::identity::challenge::BadSolution;
use crate::identity::limit::TooOften;
use crate::identity::passkey::PasskeyError;
use crate::identity::password::PasswordError;
use crate::identity::sealing::SealingError;
use crate::identity::token::TokenError;
use crate::identity::totp::UnshownSecret;
use crate::identity::verifier::TokenRefused;
use crate::mail::MailError;
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use rpcgate_core::secret::NoRandomness;
use rpcgate_store::StoreError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub mod invalid;

/// Seconds after which a client may retry when a service was unreachable.
const RETRY_UNAVAILABLE: u32 = 5;
/// Seconds after which a client may retry when too many passwords are being verified or usage queries run.
const RETRY_BUSY: u32 = 2;

macro_rules! codes {
    ($(#[doc = $meaning:literal] $code:ident = $status:ident,)*) => {
        /// The kind of an error, for programs: a word that stays the same while texts change.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorCode {
            $(#[doc = $meaning] $code,)*
        }

        impl ErrorCode {
            /// All codes.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$code,)*];

            /// Returns the status of an error with this code.
            pub const fn status(self) -> StatusCode {
                match self {
                    $(ErrorCode::$code => StatusCode::$status,)*
                }
            }

            /// Returns the meaning of the code.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(ErrorCode::$code => $meaning.trim_ascii(),)*
                }
            }
        }
    };
}

codes! {
    /// The request is invalid; `field` names the field or the parameter, if one is wrong.
    Invalid = BAD_REQUEST,
    /// The challenge is not solved, has expired, or was used before.
    ChallengeFailed = BAD_REQUEST,
    /// The token of a mail is not valid, was used, or has expired.
    TokenInvalid = BAD_REQUEST,
    /// There is no valid access token: log in, or refresh the token.
    Unauthenticated = UNAUTHORIZED,
    /// The password or a second factor has to be given again, here or at `POST /auth/proof`.
    ProofRequired = UNAUTHORIZED,
    /// The e-mail address or the password is wrong.
    CredentialsWrong = UNAUTHORIZED,
    /// The log-in waits no longer for a second factor: begin again.
    LogInExpired = UNAUTHORIZED,
    /// The passkey is unknown or was not accepted.
    PasskeyRefused = UNAUTHORIZED,
    /// The refresh token is not valid or has expired: log in.
    RefreshTokenInvalid = UNAUTHORIZED,
    /// The caller may not do this.
    Forbidden = FORBIDDEN,
    /// The scopes of the personal access token do not cover this.
    ScopeMissing = FORBIDDEN,
    /// A personal access token cannot do this: log in.
    LoginNeeded = FORBIDDEN,
    /// The e-mail address has to be confirmed before.
    EmailUnconfirmed = FORBIDDEN,
    /// Too many wrong passwords: the account is locked for a while.
    AccountLocked = FORBIDDEN,
    /// A second factor is required: add one to the account, or give one of those that it has.
    FactorRequired = FORBIDDEN,
    /// The second factor is wrong or was used before.
    FactorWrong = FORBIDDEN,
    /// An operator has disabled the account.
    AccountDisabled = FORBIDDEN,
    /// The current password is wrong.
    PasswordWrong = FORBIDDEN,
    /// It does not exist, or belongs to another tenant.
    NotFound = NOT_FOUND,
    /// The path has other methods, which `Allow` lists.
    MethodNotAllowed = METHOD_NOT_ALLOWED,
    /// The body took too long to arrive.
    RequestTimeout = REQUEST_TIMEOUT,
    /// The current state does not allow it.
    Conflict = CONFLICT,
    /// The permitted number has been reached.
    LimitReached = CONFLICT,
    /// Something else has a value that must be unique.
    AlreadyExists = CONFLICT,
    /// It has been decided already.
    AlreadyDecided = CONFLICT,
    /// The e-mail address is confirmed already.
    EmailConfirmed = CONFLICT,
    /// Another limit request of the tenant is pending.
    LimitRequestPending = CONFLICT,
    /// A tenant needs an owner.
    LastOwner = CONFLICT,
    /// The idempotency key was used for another request.
    IdempotencyKeyReused = CONFLICT,
    /// The same request is being carried out: send it again later.
    RequestInProgress = CONFLICT,
    /// The same request was carried out, but its answer is not known any more: look for what it made.
    AnswerLost = CONFLICT,
    /// It has another version than `If-Match` says, because it was changed. Read it again.
    PreconditionFailed = PRECONDITION_FAILED,
    /// The body is too large.
    BodyTooLarge = PAYLOAD_TOO_LARGE,
    /// Too many requests or attempts: `Retry-After` says when to retry.
    TooManyRequests = TOO_MANY_REQUESTS,
    /// An error of the server.
    Internal = INTERNAL_SERVER_ERROR,
    /// Something that is needed is unavailable: `Retry-After` says when to retry.
    Unavailable = SERVICE_UNAVAILABLE,
    /// The provider of the challenge gives no verdict: `Retry-After` says when to retry.
    VerifierAway = SERVICE_UNAVAILABLE,
}

/// The reason why an action was not done. The displayed text is sent to the client and reveals nothing about the
/// implementation.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    /// The request is invalid: 400.
    #[error("{0}")]
    Invalid(InvalidRequest),
    /// The answer would be too large: 400. The text says what to ask instead.
    #[error("{0}")]
    TooWide(String),
    /// The challenge for new accounts failed, and the text says why: 400.
    #[error("{0}")]
    Challenge(String),
    /// Any other error that has its own code.
    #[error("{1}")]
    Refused(ErrorCode, &'static str),
    /// The client is not authenticated: 401.
    #[error("{0}")]
    Unauthenticated(&'static str),
    /// The client is not permitted: 403.
    #[error("{0}")]
    Forbidden(&'static str),
    /// It does not exist, or belongs to another tenant: 404.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// The path supports only other methods, which the router lists in `Allow`: 405.
    #[error("method not allowed")]
    NotAllowed,
    /// The request did not arrive in time: 408.
    #[error("the request took too long to arrive")]
    TooSlow,
    /// The current state does not allow the action: 409.
    #[error("{0}")]
    Conflict(&'static str),
    /// The permitted number in the text has been reached: 409.
    #[error("{0}")]
    Full(String),
    /// Another object has a value that must be unique: 409.
    #[error("there is already a {what} with this {value}")]
    Taken {
        /// The existing object.
        what: &'static str,
        /// The property that both would share.
        value: &'static str,
    },
    /// The body is too large: 413.
    #[error("the body is larger than {} KiB", crate::MAX_BODY >> 10)]
    TooLarge,
    /// A file is larger than this number of bytes: 413.
    #[error("the file is larger than {} MiB", .0 >> 20)]
    LargeFile(usize),
    /// Too many requests in total or concurrently: 429.
    #[error("too many attempts, try again later")]
    TooMany {
        /// Seconds after which the client may retry.
        retry_after: u32,
    },
    /// A required service is unavailable: 503. The text is for the log.
    #[error("service temporarily unavailable")]
    Unavailable(String),
    /// The hosted challenge verifier gives no verdict: 503. The text is for the log.
    #[error("the challenge cannot be checked at the moment, try again later")]
    VerifierAway(String),
    /// An internal error: 500. The text is for the log.
    #[error("internal error")]
    Broken(String),
}

impl ActionError {
    pub(crate) const BAD_TOKEN: ActionError =
        ActionError::Refused(ErrorCode::TokenInvalid, "the token is not valid, was used, or has expired");

    /// The user must first prove to be the account's owner.
    pub const PROOF_REQUIRED: ActionError = ActionError::Refused(
        ErrorCode::ProofRequired,
        "give your password or a second factor first: at POST /auth/proof, or as `current_password` of a request that takes it",
    );

    /// The user's address is not confirmed, which orders, invitations and some other actions require.
    pub const UNCONFIRMED: ActionError =
        ActionError::Refused(ErrorCode::EmailUnconfirmed, "confirm your e-mail address first");

    /// Returns the error's code.
    pub const fn code(&self) -> ErrorCode {
        match self {
            ActionError::Invalid(_) | ActionError::TooWide(_) => ErrorCode::Invalid,
            ActionError::Challenge(_) => ErrorCode::ChallengeFailed,
            ActionError::Refused(code, _) => *code,
            ActionError::Unauthenticated(_) => ErrorCode::Unauthenticated,
            ActionError::Forbidden(_) => ErrorCode::Forbidden,
            ActionError::NotFound(_) => ErrorCode::NotFound,
            ActionError::NotAllowed => ErrorCode::MethodNotAllowed,
            ActionError::TooSlow => ErrorCode::RequestTimeout,
            ActionError::Conflict(_) => ErrorCode::Conflict,
            ActionError::Full(_) => ErrorCode::LimitReached,
            ActionError::Taken { .. } => ErrorCode::AlreadyExists,
            ActionError::TooLarge | ActionError::LargeFile(_) => ErrorCode::BodyTooLarge,
            ActionError::VerifierAway(_) => ErrorCode::VerifierAway,
            ActionError::TooMany { .. } => ErrorCode::TooManyRequests,
            ActionError::Unavailable(_) => ErrorCode::Unavailable,
            ActionError::Broken(_) => ErrorCode::Internal,
        }
    }

    /// Returns the HTTP status.
    pub const fn status(&self) -> StatusCode {
        self.code().status()
    }

    /// Returns the wrong field or parameter, if the error is about one.
    pub fn wrong_field(&self) -> Option<&str> {
        match self {
            ActionError::Invalid(wrong) => wrong.field(),
            _ => None,
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"rpcgate\""));
        }
        let wait = match (self, self.status()) {
            (ActionError::TooMany { retry_after }, _) => Some(*retry_after),
            (_, StatusCode::TOO_MANY_REQUESTS) => Some(RETRY_BUSY),
            (_, StatusCode::SERVICE_UNAVAILABLE) => Some(RETRY_UNAVAILABLE),
            _ => None,
        };
        headers.extend(wait.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
        headers
    }

    fn log(&self) {
        match self {
            ActionError::Unavailable(why) => tracing::warn!(why, "a request could not be served"),
            ActionError::VerifierAway(why) => {
                tracing::warn!(why, "the challenge of a registration cannot be checked");
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
            StoreError::Decided(_) => {
                ActionError::Refused(ErrorCode::AlreadyDecided, "this has been decided already")
            }
            StoreError::Changed => {
                ActionError::Refused(ErrorCode::PreconditionFailed, "it was changed in the meantime")
            }
            StoreError::Busy => ActionError::TooMany { retry_after: RETRY_BUSY },
            StoreError::TooLarge(field) => ActionError::bare(field, &error.to_string()),
            StoreError::TooWide(why) => ActionError::TooWide(why),
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

impl From<BadSolution> for ActionError {
    fn from(error: BadSolution) -> Self {
        ActionError::Challenge(error.to_string())
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
            MailError::Store(error) => error.into(),
            MailError::Unavailable(_) | MailError::Rejected(_) | MailError::Outbox { .. } => {
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
            error => ActionError::Challenge(error.to_string()),
        }
    }
}

impl From<SealingError> for ActionError {
    fn from(error: SealingError) -> Self {
        ActionError::Broken(error.to_string())
    }
}

impl From<PasskeyError> for ActionError {
    fn from(error: PasskeyError) -> Self {
        match error {
            PasskeyError::Broken(why) => ActionError::Broken(why),
            PasskeyError::Refused(_) | PasskeyError::Copied => {
                ActionError::Refused(ErrorCode::PasskeyRefused, "the passkey was not accepted")
            }
            PasskeyError::Malformed(field) => ActionError::named(field, "is not what a browser returns"),
            PasskeyError::Ceremony => ActionError::invalid(error.to_string()),
        }
    }
}

impl From<UnshownSecret> for ActionError {
    fn from(error: UnshownSecret) -> Self {
        ActionError::Broken(error.to_string())
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
    /// The error as a word for programs.
    pub code: ErrorCode,
    /// The field of the body, or the parameter, that is wrong. Left out if the error is about something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub field: Option<String>,
}

impl From<&ActionError> for ErrorBody {
    fn from(error: &ActionError) -> Self {
        ErrorBody {
            error: error.to_string(),
            code: error.code(),
            field: error.wrong_field().map(str::to_owned),
        }
    }
}

impl IntoResponse for ActionError {
    fn into_response(self) -> Response {
        self.log();
        let body = ErrorBody::from(&self);
        let mut answer = (self.status(), self.headers(), Json(&body)).into_response();
        // A page shows the error in its own layout instead.
        answer.extensions_mut().insert(body);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::{error_body as body, error_body_of_field as body_of_field};
    use http_body_util::BodyExt;
    use serde_json::Value;

    async fn shown(error: ActionError) -> (u16, HeaderMap, Value) {
        let (head, body) = error.into_response().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), head.headers, serde_json::from_slice(&body).unwrap())
    }

    // Shows (Management): Errors are `{error, code, field?}`: every refusal has a stable code of its status, which the
    // OpenAPI document lists with its meaning, and names the wrong field.
    #[tokio::test]
    async fn an_error_is_a_status_a_code_and_a_text() {
        for (error, status, code, text) in [
            (ActionError::invalid("a cursor"), 400, "invalid", "a cursor"),
            (ActionError::Refused(ErrorCode::TokenInvalid, "gone"), 400, "token_invalid", "gone"),
            (ActionError::Unauthenticated("log in"), 401, "unauthenticated", "log in"),
            (ActionError::Refused(ErrorCode::CredentialsWrong, "no"), 401, "credentials_wrong", "no"),
            (ActionError::Forbidden("no"), 403, "forbidden", "no"),
            (ActionError::NotFound("project"), 404, "not_found", "project not found"),
            (ActionError::NotAllowed, 405, "method_not_allowed", "method not allowed"),
            (ActionError::TooSlow, 408, "request_timeout", "the request took too long to arrive"),
            (ActionError::Conflict("pending"), 409, "conflict", "pending"),
            (ActionError::TooLarge, 413, "body_too_large", "the body is larger than 64 KiB"),
            (ActionError::LargeFile(10 << 20), 413, "body_too_large", "the file is larger than 10 MiB"),
            (
                ActionError::VerifierAway("late".into()),
                503,
                "verifier_away",
                "the challenge cannot be checked at the moment, try again later",
            ),
            (
                ActionError::TooMany { retry_after: 7 },
                429,
                "too_many_requests",
                "too many attempts, try again later",
            ),
            (
                ActionError::Unavailable("locked".into()),
                503,
                "unavailable",
                "service temporarily unavailable",
            ),
            (ActionError::Broken("at the wall".into()), 500, "internal", "internal error"),
        ] {
            let (shown_status, headers, shown_body) = shown(error).await;
            assert_eq!((shown_status, shown_body), (status, body(code, text)));
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

    // Shows (Management).
    #[tokio::test]
    async fn an_error_about_a_field_names_it() {
        for (error, field, text) in [
            (ActionError::named("a", "is missing"), "a", "`a` is missing"),
            (
                ActionError::field("b", "unknown field `b`: expected one of `c`, `d`"),
                "b",
                "unknown field `b`: expected one of `c`, `d`",
            ),
            (ActionError::field("password", "too common"), "password", "too common"),
        ] {
            let (status, _, shown_body) = shown(error).await;
            assert_eq!((status, shown_body), (400, body_of_field(field, text)));
        }
    }

    // Shows (Management): Every 429 and 503 has `Retry-After`.
    #[tokio::test]
    async fn every_code_has_a_word_a_meaning_and_the_headers_of_its_status() {
        for code in ErrorCode::ALL {
            assert!(code.meaning().ends_with('.'), "{code:?}");
            let (status, headers, body) = shown(ActionError::Refused(*code, "text")).await;
            assert_eq!(status, code.status().as_u16());
            assert!(matches!(status, 400..=599), "{code:?}");
            assert_eq!(serde_json::from_value::<ErrorBody>(body).unwrap().code, *code);
            assert_eq!(headers.contains_key(RETRY_AFTER), matches!(status, 429 | 503), "{code:?}");
            assert_eq!(headers.contains_key(WWW_AUTHENTICATE), status == 401, "{code:?}");
        }
    }

    // Shows (Usage).
    #[tokio::test]
    async fn errors_of_the_database_are_not_shown_to_clients() {
        let taken = StoreError::Taken { what: "user", value: "e-mail address" };
        for (error, status, code, text) in [
            (
                StoreError::Unavailable("disk I/O error".into()),
                503,
                "unavailable",
                "service temporarily unavailable",
            ),
            (StoreError::NotFound("key"), 404, "not_found", "key not found"),
            (StoreError::WrongState("closed"), 409, "conflict", "closed"),
            (StoreError::Full("at most 2".into()), 409, "limit_reached", "at most 2"),
            (StoreError::Decided("limit request"), 409, "already_decided", "this has been decided already"),
            (StoreError::Changed, 412, "precondition_failed", "it was changed in the meantime"),
            (taken, 409, "already_exists", "there is already a user with this e-mail address"),
            (StoreError::TooWide("ask for less".into()), 400, "invalid", "ask for less"),
            (StoreError::Busy, 429, "too_many_requests", "too many attempts, try again later"),
            (
                StoreError::Unreadable { what: "tier", value: "gold".into() },
                500,
                "internal",
                "internal error",
            ),
            (StoreError::Outdated("rpcgate.db".into()), 500, "internal", "internal error"),
        ] {
            let (shown_status, _, shown_body) = shown(error.into()).await;
            assert_eq!((shown_status, shown_body), (status, body(code, text)));
        }
        let (status, _, large) = shown(StoreError::TooLarge("per_day").into()).await;
        let text = "per_day must be at most 9223372036854775807";
        assert_eq!((status, large), (400, body_of_field("per_day", text)));
    }
}
