//! Statuses with which a node, or a proxy before it, answers about the connection to it.

use http::StatusCode;

/// Whether a status is about the connection to a node, and not about the call: a proxy's own time-outs and credentials.
pub(super) fn is_about_connection(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::PROXY_AUTHENTICATION_REQUIRED
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::MISDIRECTED_REQUEST
            | StatusCode::TOO_EARLY
    )
}
