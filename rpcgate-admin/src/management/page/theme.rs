//! The choice of colours.

use super::context::{GatePage, PageResult, THEME, redirect};
use super::form::FieldList;
use super::frame::Theme;
use super::session_cookie::is_secure;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::post;
use http::header::{HeaderValue, SET_COOKIE};
use std::sync::Arc;

/// How long the choice is kept: a year.
const KEPT: u32 = 31_536_000;

/// The routes of this page.
pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/theme", post(choose))
}

/// Keeps the choice in a cookie and leads back to the page where it was made.
async fn choose(State(app): State<Arc<AppState>>, page: GatePage, fields: FieldList) -> PageResult {
    let theme = Theme::of(fields.one("theme"));
    let life = if theme.is_chosen() { KEPT } else { 0 };
    let secure = if is_secure(&app.settings) { "; Secure" } else { "" };
    let cookie = format!("{THEME}={}; Path=/; Max-Age={life}; HttpOnly; SameSite=Lax{secure}", theme.name());
    let cookie =
        HeaderValue::try_from(cookie).map_err(|_| ActionError::Broken("a theme fits no cookie".into()))?;
    let back = format!("{}./{}", page.frame.root, own(fields.one("back")));
    Ok(([(SET_COOKIE, cookie)], redirect("", &back)).into_response())
}

/// A way below the root, or the root itself for what leads elsewhere.
fn own(path: &str) -> &str {
    let name = path.split(['?', '/']).next().unwrap_or_default();
    let is_own = path.is_empty()
        || (!name.is_empty() && !name.contains([':', '\\']) && !path.contains(".."))
        || path.starts_with('?');
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic());
    if is_own && is_plain && path.len() < 2_000 { path } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_stays_below_the_root() {
        for good in ["", "projects/7", "usage?period=7d&group=chain", "?period=7d"] {
            assert_eq!(own(good), good);
        }
        for bad in [
            "/projects",
            "//evil.example",
            "https://evil.example",
            "javascript:alert(1)",
            "\\\\evil",
            "a/../..",
            "a b",
            "a\r\nb",
            "é",
        ] {
            assert_eq!(own(bad), "", "{bad}");
        }
        assert_eq!(own(&"a".repeat(2_000)), "");
    }
}
