use http::StatusCode;

/// Reports whether a status is about the connection to a node and not about the call: timeouts and credentials of a
/// proxy.
pub(super) fn is_about_connection(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::PROXY_AUTHENTICATION_REQUIRED
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::MISDIRECTED_REQUEST
            | StatusCode::TOO_EARLY
    )
}
