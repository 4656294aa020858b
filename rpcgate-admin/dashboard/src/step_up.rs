//! Step-up authentication: asks for the password or a second factor before a sensitive action.
//!
//! A page that shows a key takes [`SteppedUp`] instead of [`PageContext`]: a user who has a factor and has not given it
//! recently is redirected to the page of this module, and back after success. A page that changes the access to the
//! account takes [`Proven`]: users without a factor must give their password. If the action decides whether it needs a
//! proof, the page follows its error ([`for_missing_proof`]).

use super::context::{PageContext, PageResult, sender};
use super::factor_fields::{self, FactorChoice};
use super::filters;
use super::form::{FieldList, QueryFields};
use super::frame::{Frame, PageSection};
use super::problems::{Labels, Problems};
use super::relative_address::below_root;
use super::submissions::NothingDone;
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse, Response};
use http::Method;
use http::request::Parts;
use rpcgate_management::action::step_up::GivenProof;
use rpcgate_management::action::{factors, step_up};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::{ActionError, ErrorCode};
use rpcgate_management::identity::password::Typed;
use rpcgate_management::routing::{get, post};
use std::sync::Arc;

const PASSWORD: &str = "current_password";

const LABELS: Labels = &[(factor_fields::CODE, "the code"), (PASSWORD, "the password")];

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/step-up", get(form).merge(post(give)))
}

/// A page for a user who recently gave a second factor, or has none. Other users are redirected to give one, and then
/// back to this page or to the page whose form was sent here.
#[derive(Clone, Debug)]
pub(crate) struct SteppedUp(pub(crate) PageContext);

impl FromRequestParts<Arc<AppState>> for SteppedUp {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Response> {
        let page = PageContext::from_request_parts(parts, app).await?;
        match step_up::is_needed(app, &page.session).await {
            Ok(false) => Ok(SteppedUp(page)),
            Ok(true) => Err(to_step_up(&page, &return_path(&page, parts, app))),
            Err(error) => Err(error.into_response()),
        }
    }
}

/// A page for a user who recently gave a second factor, or the password if the user has no factor. Other users are
/// redirected to give it, and then back to this page or to the page whose form was sent here.
#[derive(Clone, Debug)]
pub(crate) struct Proven(pub(crate) PageContext);

impl FromRequestParts<Arc<AppState>> for Proven {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Response> {
        let SteppedUp(page) = SteppedUp::from_request_parts(parts, app).await?;
        if page.session.is_proved(app.now()) {
            return Ok(Proven(page));
        }
        Err(to_step_up(&page, &return_path(&page, parts, app)))
    }
}

/// Redirects to the page of this module, which then leads to `next`, below the root.
pub(crate) fn to_step_up(page: &PageContext, next: &str) -> Response {
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish();
    let mut answer = page.to(&format!("step-up?{query}"));
    answer.extensions_mut().insert(NothingDone);
    answer
}

/// Redirects to the page of this module and then to `next`, below the root, if `error` reports a missing proof.
pub(crate) fn for_missing_proof(page: &PageContext, error: &ActionError, next: &str) -> Option<Response> {
    (error.code() == ErrorCode::ProofRequired).then(|| to_step_up(page, next))
}

/// Returns the page to which the user returns, below the root.
fn return_path(page: &PageContext, parts: &Parts, app: &AppState) -> String {
    if matches!(parts.method, Method::GET | Method::HEAD) {
        return page.frame(PageSection::Nowhere).here;
    }
    sender(parts, app).unwrap_or_default().to_owned()
}

#[derive(Template)]
#[template(path = "step_up.html")]
struct StepUpPage {
    frame: Frame,
    problems: Problems,
    /// The factors of the user, or the password of a user without factors.
    choice: FactorChoice,
    next: String,
}

async fn form(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(query): QueryFields,
) -> PageResult {
    let next = below_root(query.one("next"));
    let is_proved = page.session.is_proved(app.now());
    if is_proved && !step_up::is_needed(&app, &page.session).await? {
        return Ok(page.to(next));
    }
    shown(&app, &page, next, None).await
}

async fn shown(
    app: &Arc<AppState>,
    page: &PageContext,
    next: &str,
    error: Option<ActionError>,
) -> PageResult {
    let choice = FactorChoice::of(app, factors::overview(app, &page.session).await?);
    let form = |problems| StepUpPage {
        frame: page.frame(PageSection::Nowhere),
        problems,
        choice,
        next: next.to_owned(),
    };
    match error {
        None => Ok(ok(&form(Problems::default()))),
        Some(error) => rejected(error, LABELS, form),
    }
}

/// Checks the proof and redirects back.
async fn give(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    let next = below_root(fields.one("next"));
    let given = async {
        let proof = if factors::overview(&app, &page.session).await?.any() {
            GivenProof::Factor(factor_fields::of_form(&fields, factor_fields::CODE)?)
        } else {
            GivenProof::Password(Typed::from(fields.exact(PASSWORD)))
        };
        step_up::give(&app, &page.session, proof, &page.client).await
    };
    match given.await {
        Ok(_) => Ok(page.to(next)),
        Err(error) => shown(&app, &page, next, Some(error)).await,
    }
}
