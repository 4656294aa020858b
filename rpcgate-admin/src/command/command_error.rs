//! The error of an operator's command: an exit code, a text for the user, and the API's error for programs.

use http::StatusCode;
use rpcgate_management::error::{ActionError, ErrorBody, ErrorCode};
use rpcgate_process::Failure;
use std::io::{self, Write};

/// The reason why an operator's command was not carried out.
#[derive(Debug)]
pub(super) struct CommandError {
    failure: Failure,
    body: ErrorBody,
    is_broken_pipe: bool,
}

impl CommandError {
    fn new(failure: Failure, code: ErrorCode, field: Option<String>) -> Self {
        let body = ErrorBody { error: failure.to_string(), code, field };
        CommandError { failure, body, is_broken_pipe: false }
    }

    pub(super) fn usage(text: impl Into<String>) -> Self {
        Failure::Configuration(text.into()).into()
    }

    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Failure::NotFound(text.into()).into()
    }

    /// Reports whether the reader of standard output has ended, as `head` does when it has enough.
    pub(super) const fn is_broken_pipe(&self) -> bool {
        self.is_broken_pipe
    }

    pub(super) const fn exit_code(&self) -> u8 {
        self.failure.code()
    }

    /// Writes the error to `out`, as text or as the JSON object of an error response.
    pub(super) fn report(&self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        if json {
            serde_json::to_writer(&mut *out, &self.body)?;
            return writeln!(out);
        }
        writeln!(out, "{}", self.failure)
    }
}

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> Self {
        let code = match failure {
            Failure::Configuration(_) => ErrorCode::Invalid,
            Failure::NotFound(_) => ErrorCode::NotFound,
            Failure::Refused(_) => ErrorCode::Conflict,
            Failure::Unavailable(_) => ErrorCode::Unavailable,
            Failure::Other(_) => ErrorCode::Internal,
        };
        CommandError::new(failure, code, None)
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        let is_broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        CommandError { is_broken_pipe, ..Failure::from(error).into() }
    }
}

impl From<ActionError> for CommandError {
    fn from(error: ActionError) -> Self {
        let ErrorBody { code, field, .. } = ErrorBody::from(&error);
        // API clients do not learn the cause of these errors. A user who can open the database may see it, and has no
        // log.
        let text = match &error {
            ActionError::Unavailable(why) | ActionError::Broken(why) => format!("{error}: {why}"),
            error => error.to_string(),
        };
        let failure = match error.status() {
            StatusCode::NOT_FOUND => Failure::NotFound(text),
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => Failure::Configuration(text),
            StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::CONFLICT
            | StatusCode::PRECONDITION_FAILED => Failure::Refused(text),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Failure::Unavailable(text),
            _ => Failure::Other(text),
        };
        CommandError::new(failure, code, field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(error: impl Into<CommandError>, json: bool) -> (u8, String) {
        let error = error.into();
        let mut out = Vec::new();
        error.report(json, &mut out).unwrap();
        (error.exit_code(), String::from_utf8(out).unwrap())
    }

    // Shows (Commands and configuration).
    #[test]
    fn an_error_has_the_exit_code_of_its_kind() {
        for (error, code, text) in [
            (ActionError::named("cents", "must be at least 1"), 2, "`cents` must be at least 1\n"),
            (ActionError::NotFound("tenant"), 3, "tenant not found\n"),
            (ActionError::Conflict("the invoice is cancelled"), 4, "the invoice is cancelled\n"),
            (ActionError::Full("at most 2".into()), 4, "at most 2\n"),
            (ActionError::Unavailable("locked".into()), 5, "service temporarily unavailable: locked\n"),
            (ActionError::Broken("a tier".into()), 1, "internal error: a tier\n"),
        ] {
            assert_eq!(reported(error, false), (code, text.into()));
        }
        assert_eq!(reported(io::Error::other("disk full"), false), (1, "disk full\n".into()));
    }

    #[test]
    fn programs_get_the_error_of_the_api() {
        let expected = r#"{"error":"`cents` must be at least 1","code":"invalid","field":"cents"}"#;
        let error = ActionError::named("cents", "must be at least 1");
        assert_eq!(reported(error, true), (2, format!("{expected}\n")));
        let expected = r#"{"error":"no key begins with rpcg_0123456","code":"not_found"}"#;
        let error = CommandError::not_found("no key begins with rpcg_0123456");
        assert_eq!(reported(error, true), (3, format!("{expected}\n")));
    }
}
