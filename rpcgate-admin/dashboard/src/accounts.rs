//! Registration and confirmation of the address.

use super::context::{GatePage, PageContext, PageResult};
use super::filters;
use super::form::{Form, PlainForm, QueryFields};
use super::frame::Frame;
use super::free_plan_offer::FreePlanOffer;
use super::outcome::Done;
use super::problems::{Labels, Problems};
use super::relative_address::redirect;
use super::submissions::shown_once;
use super::view::{Notice, ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use rpcgate_management::action::accounts::{self, Application};
use rpcgate_management::app_state::AppState;
use rpcgate_management::identity::password::{MIN_CHARACTERS, Typed};
use rpcgate_management::identity::verifier::{ACTION, Provider};
use rpcgate_management::routing::{get, post};
use serde::Deserialize;
use std::sync::Arc;

const LABELS: Labels = &[("name", "the name"), ("email", "the e-mail address"), ("password", "the password")];

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/register", get(application).merge(post(register)))
        .route("/confirm", get(link).merge(post(confirm)))
        .route("/confirm-again", post(confirm_again))
}

#[derive(Template)]
#[template(path = "register.html")]
struct RegisterPage {
    frame: Frame,
    problems: Problems,
    name: String,
    email: String,
    widget: Option<Widget>,
    offer: FreePlanOffer,
}

struct Widget {
    script: &'static str,
    /// The class of the element in which the script shows the widget.
    class: &'static str,
    site_key: String,
    action: Option<&'static str>,
    /// The content security policy of a page with the widget: our own files, and the sources that the provider
    /// documents.
    policy: HeaderValue,
}

/// Source: docs.hcaptcha.com, "Content-Security-Policy Settings".
const HCAPTCHA_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self' https://hcaptcha.com https://*.hcaptcha.com; \
     style-src 'self' https://hcaptcha.com https://*.hcaptcha.com; \
     frame-src https://hcaptcha.com https://*.hcaptcha.com; \
     connect-src 'self' https://hcaptcha.com https://*.hcaptcha.com; \
     img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

/// Source: developers.cloudflare.com/turnstile, "Content Security Policy".
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

/// Adds the widget's policy to a response with the registration form.
fn with_policy(app: &AppState, mut answer: Response) -> Response {
    if let Some(widget) = Widget::of(app) {
        answer.headers_mut().insert(CONTENT_SECURITY_POLICY, widget.policy);
    }
    answer
}

#[derive(Deserialize)]
struct Register {
    #[serde(default)]
    name: String,
    email: String,
    password: Typed,
    #[serde(default)]
    challenge: String,
    #[serde(default, rename = "h-captcha-response")]
    hcaptcha: String,
    #[serde(default, rename = "cf-turnstile-response")]
    turnstile: String,
}

async fn application(State(app): State<Arc<AppState>>, page: GatePage) -> PageResult {
    if page.session.is_some() {
        return Ok(redirect(&page.frame.root, ""));
    }
    // The offer is read from the database for anyone, so the API's limit on anonymous requests applies.
    app.limits.anonymous.admit(page.client.address)?;
    let name = String::new();
    let email = String::new();
    let widget = Widget::of(&app);
    let frame = page.frame;
    let problems = Problems::default();
    let offer = FreePlanOffer::of(&app).await?;
    let page = RegisterPage { frame, problems, name, email, widget, offer };
    Ok(with_policy(&app, ok(&page)))
}

async fn register(
    State(app): State<Arc<AppState>>,
    page: GatePage,
    Form(Register { name, email, password, challenge, hcaptcha, turnstile }): Form<Register>,
) -> PageResult {
    let challenge = [challenge, hcaptcha, turnstile].into_iter().find(|solution| !solution.is_empty());
    let challenge = challenge.unwrap_or_default();
    let application = Application { email: email.clone(), password, name: name.clone(), challenge };
    match accounts::register(&app, application, &page.client).await {
        Ok(applicant) => {
            let text = format!(
                "A mail is on its way to {}. Open the link in it to confirm that the address is yours.",
                applicant.email
            );
            let title = "Check your mail";
            let path = "login";
            let label = "Log in";
            let notice = Notice { frame: page.result_frame(), title, text, tone: "ok", path, label };
            Ok(shown_once(StatusCode::CREATED, &notice))
        }
        Err(error) => {
            let frame = page.frame;
            let widget = Widget::of(&app);
            let offer = FreePlanOffer::of(&app).await?;
            let form = |problems| RegisterPage { frame, problems, name, email, widget, offer };
            rejected(error, LABELS, form).map(|answer| with_policy(&app, answer))
        }
    }
}

#[derive(Template)]
#[template(path = "confirm_address.html")]
struct ConfirmPage {
    frame: Frame,
    problems: Problems,
    token: String,
    needs_password: bool,
}

#[derive(Deserialize)]
struct Confirmation {
    #[serde(default)]
    token: String,
    #[serde(default)]
    password: Option<Typed>,
}

/// Handles the link in the mail. Opening it confirms nothing yet, because mail scanners open links too.
async fn link(
    State(app): State<Arc<AppState>>,
    page: GatePage,
    QueryFields(query): QueryFields,
) -> PageResult {
    let token = query.one("token").to_owned();
    let needs_password = accounts::needs_password(&app, &token, page.session.as_ref()).await?;
    Ok(ok(&ConfirmPage { frame: page.frame, problems: Problems::default(), token, needs_password }))
}

async fn confirm(
    State(app): State<Arc<AppState>>,
    page: GatePage,
    Form(Confirmation { token, password }): Form<Confirmation>,
) -> PageResult {
    let mut lacks_password = false;
    let confirmed = async {
        app.limits.anonymous.admit(page.client.address)?;
        let needs_password = accounts::needs_password(&app, &token, page.session.as_ref()).await?;
        let typed = password.unwrap_or_else(|| "".into());
        lacks_password = needs_password && typed.clone().choose().is_err();
        let password = needs_password.then_some(typed);
        accounts::confirm(&app, &token, password, &page.client).await
    };
    let (path, label) = if page.session.is_some() { ("./", "Go on") } else { ("login", "Log in") };
    match confirmed.await {
        Ok(()) => Ok(page.done(path.trim_start_matches("./"), Done::AddressConfirmed)),
        Err(error) if lacks_password => rejected(error, LABELS, |problems| ConfirmPage {
            frame: page.frame,
            problems,
            token,
            needs_password: true,
        }),
        Err(error) => rejected(error, LABELS, |problems| Notice {
            frame: page.frame,
            title: "The address was not confirmed",
            text: problems.all().iter().map(|problem| problem.text.as_str()).collect::<String>()
                + " If your address is not confirmed yet, log in to have another mail sent.",
            tone: "bad",
            path,
            label,
        }),
    }
}

async fn confirm_again(State(app): State<Arc<AppState>>, page: PageContext, _: PlainForm) -> PageResult {
    accounts::confirm_again(&app, &page.session, &page.client).await?;
    Ok(page.done("", Done::ConfirmationSent))
}
