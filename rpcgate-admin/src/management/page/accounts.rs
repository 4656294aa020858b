//! Registration and confirmation of the address.

use super::form::Form;
use super::home;
use super::session_cookie::{CurrentSession, IsLoggedIn, Visitor};
use super::view::{self, LOGIN, Notice, refused, shown};
use crate::management::action::accounts::{self, Application};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Client, Query};
use crate::management::identity::password::{MIN_CHARACTERS, Typed};
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Template, Default)]
#[template(path = "register.html")]
struct RegisterPage {
    problem: Option<String>,
    name: String,
    email: String,
}

/// The fields of the registration form.
#[derive(Deserialize)]
pub(crate) struct Register {
    #[serde(default)]
    name: String,
    email: String,
    password: Typed,
    #[serde(default)]
    challenge: String,
}

/// The registration form.
pub(crate) async fn application(IsLoggedIn(is_logged_in): IsLoggedIn) -> Response {
    if is_logged_in {
        return Redirect::to(view::HOME).into_response();
    }
    shown(StatusCode::OK, &RegisterPage::default())
}

/// Registers a user.
pub(crate) async fn register(
    State(app): State<Arc<AppState>>,
    client: Client,
    Form(Register { name, email, password, challenge }): Form<Register>,
) -> Response {
    let application = Application { email: email.clone(), password, name: name.clone(), challenge };
    match accounts::register(&app, application, &client).await {
        Ok(applicant) => {
            let text = format!(
                "A mail is on its way to {}. Open the link in it to confirm that the address is yours.",
                applicant.email
            );
            let link = Some((LOGIN, "Log in"));
            shown(StatusCode::CREATED, &Notice { title: "Look into your mail", text, link, is_good: true })
        }
        Err(error) => refused(error, |problem| RegisterPage { problem: Some(problem), name, email }),
    }
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage {
    problem: Option<String>,
    token: String,
    needs_password: bool,
}

/// The parameters of the link in the mail.
#[derive(Deserialize)]
pub(crate) struct Link {
    #[serde(default)]
    token: String,
}

/// The fields of the confirmation form.
#[derive(Deserialize)]
pub(crate) struct Confirmation {
    #[serde(default)]
    token: String,
    #[serde(default)]
    password: Option<Typed>,
}

/// The target of the link in the mail. Opening it confirms nothing yet, because mail scanners open links as well.
pub(crate) async fn link(
    State(app): State<Arc<AppState>>,
    CurrentSession(session): CurrentSession,
    query: Result<Query<Link>, ActionError>,
) -> Response {
    let page = async {
        let Query(Link { token }) = query?;
        let needs_password = accounts::needs_password(&app, &token, session.as_ref()).await?;
        Ok(ConfirmPage { problem: None, token, needs_password })
    };
    match page.await {
        Ok(page) => shown(StatusCode::OK, &page),
        Err(error) => view::refusal(error),
    }
}

/// Confirms the address.
pub(crate) async fn confirm(
    State(app): State<Arc<AppState>>,
    CurrentSession(session): CurrentSession,
    client: Client,
    Form(Confirmation { token, password }): Form<Confirmation>,
) -> Response {
    let link = Some(if session.is_some() { (view::HOME, "Go on") } else { (LOGIN, "Log in") });
    let mut lacks_password = false;
    let confirmed = async {
        app.limits.anonymous.admit(client.address)?;
        let needs_password = accounts::needs_password(&app, &token, session.as_ref()).await?;
        let typed = password.unwrap_or_else(|| "".into());
        lacks_password = needs_password && typed.clone().choose().is_err();
        let password = needs_password.then_some(typed);
        accounts::confirm(&app, &token, password, &client).await
    };
    match confirmed.await {
        Ok(()) => {
            let text = "Thank you. From now on you can create API keys.".into();
            shown(StatusCode::OK, &Notice { title: "Your address is confirmed", text, link, is_good: true })
        }
        Err(error) if lacks_password => {
            refused(error, |problem| ConfirmPage { problem: Some(problem), token, needs_password: true })
        }
        Err(error) => refused(error, |mut text| {
            text.push_str(" If your address is not confirmed yet, log in to have another mail sent.");
            Notice { title: "The address was not confirmed", text, link, is_good: false }
        }),
    }
}

/// Sends the mail again.
pub(crate) async fn confirm_again(
    State(app): State<Arc<AppState>>,
    Visitor(session): Visitor,
    client: Client,
) -> Response {
    let sent = accounts::confirm_again(&app, &session, &client).await;
    home::page(&app, session, &client, Some(sent)).await
}
