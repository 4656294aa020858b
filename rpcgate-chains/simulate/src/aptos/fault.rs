//! Errors of the node's REST API.

use crate::NodeReply;
use crate::json::{Json, object};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// The status code of the virtual machine, if the machine refused.
    pub(crate) vm: Option<u64>,
}

impl Fault {
    fn new(status: u16, code: &'static str, message: String) -> Self {
        Fault { status, code, message, vm: None }
    }

    /// Returns the error for a path or query that cannot be parsed.
    pub(crate) fn web(message: impl Into<String>) -> Self {
        Fault::new(400, "web_framework_error", message.into())
    }

    pub(crate) fn no_path() -> Self {
        Fault::new(404, "web_framework_error", "not found".into())
    }

    pub(crate) fn no_verb() -> Self {
        Fault::new(405, "web_framework_error", "method not allowed".into())
    }

    pub(crate) fn input(message: impl Into<String>) -> Self {
        Fault::new(400, "invalid_input", message.into())
    }

    /// Returns the error for a missing object, with the key of the look-up.
    pub(crate) fn missing(code: &'static str, what: &str, by: &str) -> Self {
        Fault::new(404, code, format!("{what} not found by {by}"))
    }

    /// Returns the error for a pruned version or block.
    pub(crate) fn pruned(code: &'static str, what: &str) -> Self {
        Fault::new(410, code, format!("{what} has been pruned"))
    }

    pub(crate) fn full() -> Self {
        Fault::new(507, "mempool_is_full", "Mempool is full".into())
    }

    /// Returns the error with which the virtual machine refuses a transaction before running it.
    pub(crate) fn machine(name: &str, code: u64) -> Self {
        let message = format!("Invalid transaction: Type: Validation Code: {name}");
        Fault { vm: Some(code), ..Fault::new(400, "vm_error", message) }
    }
}

impl From<Fault> for NodeReply {
    fn from(fault: Fault) -> Self {
        let vm = fault.vm.map_or(Json::Null, Json::from);
        let body = object! { "message": fault.message, "error_code": fault.code, "vm_error_code": vm };
        NodeReply::of(fault.status, &body)
    }
}
