//! The head of a node's answer: statuses that are not an answer of the chain, and headers that may pass to a client.

use crate::headers::stays_behind;
use http::{HeaderMap, StatusCode};
use rpcgate_core::fault::{Cause, Fault};
use smallvec::SmallVec;

/// The fault of an answer with this status whose body is not one.
pub(super) fn bad_body(status: StatusCode) -> Fault {
    let cause = if status.is_success() { Cause::Undecodable } else { Cause::Status(status.as_u16()) };
    Fault::sent(cause)
}

/// Removes the headers that a client may not see.
pub(super) fn strip(headers: &mut HeaderMap) {
    // Most nodes send no others, and removing each of many names costs more than clearing the table.
    if headers.keys().all(stays_behind) {
        headers.clear();
        return;
    }
    let behind: SmallVec<[_; 8]> = headers.keys().filter(|name| stays_behind(name)).cloned().collect();
    for name in behind {
        headers.remove(name);
    }
}
