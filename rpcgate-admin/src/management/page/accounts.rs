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
use crate::management::identity::verifier::{ACTION, Provider};
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "register.html")]
struct RegisterPage {
    problem: Option<String>,
    name: String,
    email: String,
    widget: Option<Widget>,
}

/// The widget of a provider of challenges.
struct Widget {
    /// Its script.
    script: &'static str,
    /// The class of the element in which the script shows it.
    class: &'static str,
    site_key: String,
    action: Option<&'static str>,
    /// What a page that shows it may load: our own files, and what the provider documents.
    policy: HeaderValue,
}

/// docs.hcaptcha.com, "Content-Security-Policy Settings".
const HCAPTCHA_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self' https://hcaptcha.com https://*.hcaptcha.com; \
     style-src 'self' https://hcaptcha.com https://*.hcaptcha.com; \
     frame-src https://hcaptcha.com https://*.hcaptcha.com; \
     connect-src 'self' https://hcaptcha.com https://*.hcaptcha.com; \
     img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

/// developers.cloudflare.com/turnstile, "Content Security Policy".
const TURNSTILE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self' https://challenges.cloudflare.com; style-src 'self'; \
     frame-src https://challenges.cloudflare.com; connect-src 'self'; img-src 'self'; form-action 'self'; \
     base-uri 'none'; frame-ancestors 'none'",
);

impl Widget {
    fn of(app: &AppState) -> Option<Self> {
        let verifier = app.verifier.as_ref()?;
        let site_key = verifier.site_key().to_owned();
        Some(match verifier.provider() {
            Provider::Hcaptcha => Widget {
                script: "https://js.hcaptcha.com/1/api.js",
                class: "h-captcha",
                site_key,
                action: None,
                policy: HCAPTCHA_POLICY,
            },
            Provider::Turnstile => Widget {
                script: "https://challenges.cloudflare.com/turnstile/v0/api.js",
                class: "cf-turnstile",
                site_key,
                action: Some(ACTION),
                policy: TURNSTILE_POLICY,
            },
        })
    }
}

/// A response with the registration form, which may load what its widget needs.
fn with_policy(app: &AppState, mut answer: Response) -> Response {
    if let Some(widget) = Widget::of(app) {
        answer.headers_mut().insert(CONTENT_SECURITY_POLICY, widget.policy);
    }
    answer
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
    /// The field that hCaptcha's widget adds.
    #[serde(default, rename = "h-captcha-response")]
    hcaptcha: String,
    /// The field that Turnstile's widget adds.
    #[serde(default, rename = "cf-turnstile-response")]
    turnstile: String,
}

/// The registration form.
pub(crate) async fn application(
    State(app): State<Arc<AppState>>,
    IsLoggedIn(is_logged_in): IsLoggedIn,
) -> Response {
    if is_logged_in {
        return Redirect::to(view::HOME).into_response();
    }
    let (name, email) = (String::new(), String::new());
    let page = RegisterPage { problem: None, name, email, widget: Widget::of(&app) };
    with_policy(&app, shown(StatusCode::OK, &page))
}

/// Registers a user.
pub(crate) async fn register(
    State(app): State<Arc<AppState>>,
    client: Client,
    Form(Register { name, email, password, challenge, hcaptcha, turnstile }): Form<Register>,
) -> Response {
    let challenge = [challenge, hcaptcha, turnstile].into_iter().find(|solution| !solution.is_empty());
    let challenge = challenge.unwrap_or_default();
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
        Err(error) => {
            let widget = Widget::of(&app);
            let page = |problem| RegisterPage { problem: Some(problem), name, email, widget };
            with_policy(&app, refused(error, page))
        }
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
