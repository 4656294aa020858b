//! Recovery codes: shown once, and replaced on request.

use super::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use super::context::{PageContext, PageResult};
use super::factor_fields::{self, FactorChoice};
use super::filters;
use super::frame::{Frame, PageSection};
use super::problems::Labels;
use super::submissions::shown_once;
use askama::Template;
use axum::Router;
use http::StatusCode;
use rpcgate_config::Secret;
use rpcgate_management::action::{factors, recovery_codes};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use std::sync::Arc;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/account/security/recovery-codes", confirmed::<CodeRenewal>())
}

#[derive(Template)]
#[template(path = "recovery_codes.html")]
pub(super) struct RecoveryCodesPage {
    pub(super) frame: Frame,
    /// The sentence about the previous action.
    pub(super) what: &'static str,
    pub(super) codes: Vec<Secret>,
}

struct CodeRenewal(FactorChoice);

impl Confirmed for CodeRenewal {
    type Reader = PageContext;
    type Path = ();
    const LABELS: Labels = &[(factor_fields::CODE, "the code")];

    async fn load(request: ConfirmRequest<'_>, (): ()) -> Result<Self, ActionError> {
        let ConfirmRequest { app, page, .. } = request;
        Ok(CodeRenewal(FactorChoice::of(app, factors::overview(app, &page.session).await?)))
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        ConfirmQuestion::of_factors(page, self.0, "Make ten new recovery codes?", "Make new codes")
            .consequence("All earlier codes are invalid from then on.")
            .consequence("The new ones are shown once.")
            .harmless()
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        let given = factor_fields::of_form(fields, factor_fields::CODE)?;
        let codes = recovery_codes::renew(app, &page.session, &given, &page.client).await?;
        let frame = page.result_frame(PageSection::Nowhere);
        let what = "Your earlier codes are invalid now.";
        Ok(shown_once(StatusCode::OK, &RecoveryCodesPage { frame, what, codes }))
    }
}
