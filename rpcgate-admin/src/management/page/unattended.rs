//! Requests that a script makes while nobody looks.

use http::HeaderMap;
use http::header::HeaderName;

/// The header by which a script says that nobody has asked for the page. Whoever sends it is only served less: a request
/// with it does not renew the session, and no request ends one earlier. Another site cannot add it to a request.
pub(super) const UNATTENDED: HeaderName = HeaderName::from_static("rpcgate-unattended");

/// Whether a page asks for itself again and nobody looks for it.
pub(super) fn is_unattended(headers: &HeaderMap) -> bool {
    headers.contains_key(UNATTENDED)
}
