//! Background requests made by page scripts.

use http::HeaderMap;
use http::header::HeaderName;

/// The header that marks a request of a page script. A client that sends it gains nothing: a request with it does not
/// renew the session, and no request ends one earlier. Other sites cannot add it to a request.
pub(super) const UNATTENDED: HeaderName = HeaderName::from_static("rpcgate-unattended");

/// Reports whether the request is a background refresh.
pub(super) fn is_unattended(headers: &HeaderMap) -> bool {
    headers.contains_key(UNATTENDED)
}
