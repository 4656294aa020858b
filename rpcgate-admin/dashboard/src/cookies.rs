//! The cookies of the pages, except the session cookie.

use http::HeaderMap;
use http::header::COOKIE;
use rpcgate_management::app_state::Settings;

/// The cookie of a browser that is not logged in: a random value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VisitorCookie(pub(super) String);

/// Returns the value of the cookie `name`.
pub(crate) fn of_name<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let cookies = headers.get_all(COOKIE).into_iter().filter_map(|header| header.to_str().ok());
    cookies
        .flat_map(|header| header.split(';'))
        .find_map(|cookie| cookie.trim().strip_prefix(name)?.strip_prefix('='))
}

/// Reports whether browsers reach the pages over TLS.
pub(super) fn is_secure(settings: &Settings) -> bool {
    settings.dash_url.starts_with("https:")
}
