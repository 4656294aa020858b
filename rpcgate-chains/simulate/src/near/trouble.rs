//! Errors as a NEAR node returns them.

use crate::json::{Json, object};

/// An error with its kind and cause.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trouble {
    /// `HANDLER_ERROR` or `REQUEST_VALIDATION_ERROR`.
    kind: &'static str,
    cause: &'static str,
    info: Json,
    code: i64,
    message: &'static str,
    data: Json,
}

impl Trouble {
    pub(super) fn handler(cause: &'static str, info: Json, data: impl Into<Json>) -> Self {
        let data = data.into();
        Trouble { kind: "HANDLER_ERROR", cause, info, code: -32_000, message: "Server error", data }
    }

    /// Parameters or a body that cannot be parsed.
    pub(super) fn parse(why: impl Into<String>) -> Self {
        let why = why.into();
        Trouble {
            kind: "REQUEST_VALIDATION_ERROR",
            cause: "PARSE_ERROR",
            info: object! { "error_message": why.clone() },
            code: -32_700,
            message: "Parse error",
            data: why.into(),
        }
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        Trouble {
            kind: "REQUEST_VALIDATION_ERROR",
            cause: "METHOD_NOT_FOUND",
            info: object! { "method_name": method.to_owned() },
            code: -32_601,
            message: "Method not found",
            data: method.to_owned().into(),
        }
    }

    pub(super) fn unknown_block(what: &str) -> Self {
        let data = format!("DB Not Found Error: {what} \n Cause: Unknown");
        Trouble::handler("UNKNOWN_BLOCK", object! {}, data)
    }

    pub(super) fn status(&self) -> u16 {
        if self.kind == "REQUEST_VALIDATION_ERROR" { 400 } else { 200 }
    }

    pub(super) fn json(self) -> Json {
        object! {
            "name": self.kind,
            "cause": object! { "info": self.info, "name": self.cause },
            "code": self.code,
            "message": self.message,
            "data": self.data,
        }
    }
}
