//! The choice of the colour theme.

use super::context::{GatePage, PageResult, THEME};
use super::cookies::is_secure;
use super::form::FieldList;
use super::frame::Theme;
use super::relative_address::{below_root, redirect};
use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use http::header::{HeaderValue, SET_COOKIE};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::routing::post;
use std::sync::Arc;

/// The lifetime of the cookie in seconds: a year.
const KEPT: u32 = 31_536_000;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/theme", post(choose))
}

async fn choose(State(app): State<Arc<AppState>>, page: GatePage, fields: FieldList) -> PageResult {
    let theme = Theme::of(fields.one("theme"));
    let life = if theme.is_chosen() { KEPT } else { 0 };
    let secure = if is_secure(&app.settings) { "; Secure" } else { "" };
    let cookie = format!("{THEME}={}; Path=/; Max-Age={life}; HttpOnly; SameSite=Lax{secure}", theme.name());
    let cookie =
        HeaderValue::try_from(cookie).map_err(|_| ActionError::Broken("a theme fits no cookie".into()))?;
    let back = format!("{}./{}", page.frame.root, below_root(fields.one("back")));
    Ok(([(SET_COOKIE, cookie)], redirect("", &back)).into_response())
}
