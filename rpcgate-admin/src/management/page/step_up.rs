//! Giving a second factor again before something that a browser which was left open must not do.
//!
//! A page that needs it has [`SteppedUp`] in place of [`PageContext`]. A user who has a factor and has not given it for a
//! while is led to the page of this module, and back after success.

use super::context::{PageContext, PageResult, sender};
use super::filters;
use super::form::{FieldList, QueryFields};
use super::frame::{Frame, Place};
use super::given_factor::{self, FactorChoice};
use super::problems::{Labels, Problems};
use super::view::{ok, rejected};
use super::way::below_root;
use crate::management::action::{factors, step_up};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use askama::Template;
use axum::Router;
use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::Method;
use http::request::Parts;
use std::sync::Arc;

const LABELS: Labels = &[(given_factor::CODE, "the code")];

/// The routes of this page.
pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/step-up", get(form).post(give))
}

/// A page for a user who has given a second factor in the last minutes, or has none. Others are led to give one, and
/// then back to this page, or to the page whose form was sent here.
#[derive(Clone, Debug)]
pub(crate) struct SteppedUp(pub(crate) PageContext);

impl FromRequestParts<Arc<AppState>> for SteppedUp {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Response> {
        let page = PageContext::from_request_parts(parts, app).await?;
        match step_up::is_needed(app, &page.session).await {
            Ok(false) => Ok(SteppedUp(page)),
            Ok(true) => {
                let next = way_back(&page, parts, app);
                let query =
                    form_urlencoded::Serializer::new(String::new()).append_pair("next", &next).finish();
                Err(page.to(&format!("step-up?{query}")))
            }
            Err(error) => Err(error.into_response()),
        }
    }
}

/// The page to which the user returns, below the root.
fn way_back(page: &PageContext, parts: &Parts, app: &AppState) -> String {
    if matches!(parts.method, Method::GET | Method::HEAD) {
        return page.frame(Place::Nowhere).here;
    }
    sender(parts, app).unwrap_or_default().to_owned()
}

#[derive(Template)]
#[template(path = "step_up.html")]
struct StepUpPage {
    frame: Frame,
    problems: Problems,
    choice: FactorChoice,
    /// Where to go on, below the root.
    next: String,
}

async fn form(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(query): QueryFields,
) -> PageResult {
    let next = below_root(query.one("next"));
    if !step_up::is_needed(&app, &page.session).await? {
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
    let form =
        |problems| StepUpPage { frame: page.frame(Place::Nowhere), problems, choice, next: next.to_owned() };
    match error {
        None => Ok(ok(&form(Problems::default()))),
        Some(error) => rejected(error, LABELS, form),
    }
}

/// Takes the factor and leads back.
async fn give(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    let next = below_root(fields.one("next"));
    let given = async {
        let factor = given_factor::of_form(&fields, given_factor::CODE)?;
        step_up::give(&app, &page.session, &factor, &page.client).await
    };
    match given.await {
        Ok(()) => Ok(page.to(next)),
        Err(error) => shown(&app, &page, next, Some(error)).await,
    }
}
