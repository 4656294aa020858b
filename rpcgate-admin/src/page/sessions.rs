//! Logging in and out.

use super::form::Form;
use super::view::{self, LOGIN, refused, shown};
use super::visit::{self, IsKnown, Visitor};
use crate::access::Session;
use crate::action::sessions;
use crate::error::ActionError;
use crate::extract::Client;
use crate::house::House;
use crate::identity::password::Typed;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use http::header::SET_COOKIE;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Template, Default)]
#[template(path = "login.html")]
struct LoginPage {
    problem: Option<String>,
    email: String,
}

/// What somebody logs in with.
#[derive(Deserialize)]
pub(crate) struct Login {
    email: String,
    password: Typed,
}

/// The form to log in.
pub(crate) async fn form(IsKnown(is_known): IsKnown) -> Response {
    if is_known {
        return Redirect::to(view::HOME).into_response();
    }
    shown(StatusCode::OK, &LoginPage::default())
}

/// Logs somebody in. The refresh token is given to nobody: see [`visit`].
pub(crate) async fn login(
    State(house): State<Arc<House>>,
    client: Client,
    Form(Login { email, password }): Form<Login>,
) -> Response {
    let opened = sessions::login(&house, &email, password, &client).await;
    let cookie = opened.and_then(|opened| visit::given_out(&house, &opened.claims));
    match cookie {
        Ok(cookie) => ([(SET_COOKIE, cookie)], Redirect::to(view::HOME)).into_response(),
        Err(error) => refused(error, |problem| LoginPage { problem: Some(problem), email }),
    }
}

/// Logs somebody out.
pub(crate) async fn logout(
    State(house): State<Arc<House>>,
    Visitor(session): Visitor,
    client: Client,
) -> Response {
    match ended(&house, &session, &client).await {
        Ok(answer) => answer,
        Err(error) => view::refusal(error),
    }
}

async fn ended(house: &House, session: &Session, client: &Client) -> Result<Response, ActionError> {
    sessions::logout(house, session, client).await?;
    let cookie = visit::forgotten(&house.settings)?;
    Ok(([(SET_COOKIE, cookie)], Redirect::to(LOGIN)).into_response())
}
