//! Addresses below the root of the pages, which stay relative, so that the pages can be served below a path.

use axum::response::{IntoResponse, Redirect, Response};

/// Leads to the page at `to` below the root that is `root` from here. The address stays relative.
pub(super) fn redirect(root: &str, to: &str) -> Response {
    let start = if root.is_empty() { "./" } else { root };
    let place =
        if to.is_empty() || to.starts_with('?') { format!("{start}{to}") } else { format!("{root}{to}") };
    Redirect::to(&place).into_response()
}

/// An address below the root that a browser has sent, or the root itself for one that leads elsewhere.
pub(super) fn below_root(path: &str) -> &str {
    let name = path.split(['?', '/']).next().unwrap_or_default();
    let is_below = !name.is_empty() && !name.contains([':', '\\', '%']) && !path.contains("..");
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic()) && path.len() < MAX_WAY;
    if is_plain && (is_below || path.starts_with('?')) { path } else { "" }
}

/// Bytes of an address that a form carries, at most.
const MAX_WAY: usize = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_a_browser_sends_stays_below_the_root() {
        for good in ["", "projects/7", "usage?period=7d&group=chain", "?period=7d", "explain?id=a:b"] {
            assert_eq!(below_root(good), good);
        }
        let elsewhere = [
            "/projects",
            "//evil.example",
            "https://evil.example",
            "javascript:alert(1)",
            "java%73cript:alert(1)",
            "\\\\evil",
            "a/../../..",
            "a b",
            "a\r\nb",
            "é",
        ];
        for bad in elsewhere {
            assert_eq!(below_root(bad), "", "{bad}");
        }
        assert_eq!(below_root(&"a".repeat(MAX_WAY)), "");
    }

    #[test]
    fn a_redirect_stays_relative() {
        for (root, to, place) in [
            ("", "", "./"),
            ("", "login", "login"),
            ("../", "", "../"),
            ("../", "projects/7?done=x", "../projects/7?done=x"),
            ("", "?done=x", "./?done=x"),
        ] {
            assert_eq!(redirect(root, to).headers()[http::header::LOCATION], place);
        }
    }
}
