//! Recovery codes: shown once, and replaced on request.

use super::context::{PageContext, PageResult};
use super::factor_confirm::FactorConfirmPage;
use super::factor_fields::{self, FactorChoice};
use super::filters;
use super::form::FieldList;
use super::frame::{Frame, PageSection};
use super::problems::{Labels, Problems};
use super::submissions::shown_once;
use super::view::{ok, rejected};
use crate::management::action::{factors, recovery_codes};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::routing::{get, post};
use askama::Template;
use axum::Router;
use axum::extract::State;
use http::StatusCode;
use rpcgate_config::Secret;
use std::sync::Arc;

const LABELS: Labels = &[(factor_fields::CODE, "the code")];

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/account/security/recovery-codes", get(ask).merge(post(renew)))
}

#[derive(Template)]
#[template(path = "recovery_codes.html")]
pub(super) struct RecoveryCodesPage {
    pub(super) frame: Frame,
    /// The sentence about the previous action.
    pub(super) what: &'static str,
    pub(super) codes: Vec<Secret>,
}

async fn question(app: &AppState, page: &PageContext) -> Result<FactorConfirmPage, ActionError> {
    Ok(FactorConfirmPage {
        frame: page.frame(PageSection::Nowhere),
        problems: Problems::default(),
        choice: FactorChoice::of(app, factors::overview(app, &page.session).await?),
        question: "Make ten new recovery codes?".into(),
        consequences: vec!["All earlier codes are invalid from then on.", "The new ones are shown once."],
        act: "Make new codes",
        is_dangerous: false,
    })
}

async fn ask(State(app): State<Arc<AppState>>, page: PageContext) -> PageResult {
    Ok(ok(&question(&app, &page).await?))
}

async fn renew(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    let made = async {
        let given = factor_fields::of_form(&fields, factor_fields::CODE)?;
        recovery_codes::renew(&app, &page.session, &given, &page.client).await
    };
    match made.await {
        Ok(codes) => {
            let what = "Your earlier codes are invalid now.";
            let frame = page.result_frame(PageSection::Nowhere);
            Ok(shown_once(StatusCode::OK, &RecoveryCodesPage { frame, what, codes }))
        }
        Err(error) => {
            let form = question(&app, &page).await?;
            rejected(error, LABELS, |problems| FactorConfirmPage { problems, ..form })
        }
    }
}
