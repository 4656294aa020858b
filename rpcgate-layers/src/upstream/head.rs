//! The head of a node's answer: statuses that are not an answer of the chain, and headers that may pass to a client.

use crate::headers::may_pass;
use http::{HeaderMap, StatusCode};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::fault::{Cause, Fault};
use smallvec::SmallVec;

/// The fault of an answer with this status whose body is not one.
pub(super) fn bad_body(status: StatusCode) -> Fault {
    let cause = if status.is_success() { Cause::Undecodable } else { Cause::Status(status.as_u16()) };
    Fault::sent(cause)
}

/// Removes the headers of a node that the chain's API does not define.
pub(super) fn strip(headers: &mut HeaderMap, adapter: &dyn Adapter) {
    let allowed = adapter.reply_headers();
    // Most nodes send no others, and removing each of many names costs more than clearing the table.
    if allowed.is_empty() || !headers.keys().any(|name| may_pass(name, allowed)) {
        headers.clear();
        return;
    }
    let behind: SmallVec<[_; 8]> = headers.keys().filter(|name| !may_pass(name, allowed)).cloned().collect();
    for name in behind {
        headers.remove(name);
    }
}
