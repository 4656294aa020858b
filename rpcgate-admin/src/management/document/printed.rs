//! A page made for printing, for clients of the API. It loads nothing and runs nothing: its only style is part of it.

use super::sheet::InvoiceSheet;
use super::view::shown;
use askama::Template;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use http::{HeaderMap, StatusCode};
use ring::digest::{SHA256, digest};
use std::sync::LazyLock;

const STYLE: &str = include_str!("../../../templates/invoice.css");

/// Allows the page's own style, which its digest identifies, and nothing else.
static POLICY: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let digest = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).ok()
});

/// A sheet without the frame of the pages.
#[derive(Template)]
#[template(path = "invoice.html")]
pub(super) struct PrintedPage {
    style: &'static str,
    title: String,
    sheet: InvoiceSheet,
}

impl PrintedPage {
    /// A page of a sheet.
    pub(super) fn new(title: String, sheet: InvoiceSheet) -> Self {
        PrintedPage { style: STYLE, title, sheet }
    }

    /// The page, with the policy that lets it have its style.
    pub(super) fn response(&self) -> Response {
        let mut headers = HeaderMap::new();
        if let Some(policy) = &*POLICY {
            headers.insert(CONTENT_SECURITY_POLICY, policy.clone());
        }
        (headers, shown(StatusCode::OK, self)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_cannot_end_its_element() {
        assert!(!STYLE.contains('<'));
        assert!(POLICY.is_some());
    }
}
