//! Refusals of the node's REST API.

use crate::NodeReply;
use crate::json::{Json, object};

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// The code of the virtual machine, where it was the one to refuse.
    pub(crate) vm: Option<u64>,
}

impl Fault {
    fn new(status: u16, code: &'static str, message: String) -> Self {
        Fault { status, code, message, vm: None }
    }

    /// The path or the query cannot be read.
    pub(crate) fn web(message: impl Into<String>) -> Self {
        Fault::new(400, "web_framework_error", message.into())
    }

    /// There is no such path.
    pub(crate) fn no_path() -> Self {
        Fault::new(404, "web_framework_error", "not found".into())
    }

    /// The path is for another verb.
    pub(crate) fn no_verb() -> Self {
        Fault::new(405, "web_framework_error", "method not allowed".into())
    }

    /// What was sent cannot be taken.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Fault::new(400, "invalid_input", message.into())
    }

    /// A thing that is not there, and what it was looked for by.
    pub(crate) fn missing(code: &'static str, what: &str, by: &str) -> Self {
        Fault::new(404, code, format!("{what} not found by {by}"))
    }

    /// A version or block that is not here any more.
    pub(crate) fn pruned(code: &'static str, what: &str) -> Self {
        Fault::new(410, code, format!("{what} has been pruned"))
    }

    /// The node holds as much as it can.
    pub(crate) fn full() -> Self {
        Fault::new(507, "mempool_is_full", "Mempool is full".into())
    }

    /// The virtual machine refuses a transaction before it runs.
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
