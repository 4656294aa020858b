//! Errors: gRPC codes, as grpc-gateway shows them over HTTP.

use crate::NodeReply;
use crate::json::{Json, object};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: u32,
    pub(crate) message: String,
}

impl Fault {
    /// Returns an error without a specific code.
    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Fault { code: 2, message: message.into() }
    }

    /// Returns the error for an invalid request.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Fault { code: 3, message: message.into() }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Fault { code: 5, message: message.into() }
    }

    /// Returns the error for a path that no module serves.
    pub(crate) fn not_implemented() -> Self {
        Fault { code: 12, message: "Not Implemented".into() }
    }

    /// Returns the HTTP status of grpc-gateway for the code.
    pub(crate) fn status(&self) -> u16 {
        match self.code {
            3 => 400,
            5 => 404,
            12 => 501,
            _ => 500,
        }
    }
}

impl From<Fault> for NodeReply {
    fn from(fault: Fault) -> Self {
        let status = fault.status();
        let details = Json::Array(Vec::new());
        let body = object! { "code": fault.code, "message": fault.message, "details": details };
        NodeReply::of(status, &body)
    }
}
