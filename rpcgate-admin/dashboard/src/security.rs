//! The security settings of a user: factors and sessions.

use super::context::{PageContext, PageResult};
use super::factor_fields::takes_passkeys;
use super::filters;
use super::form::PlainForm;
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::view::ok;
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::clock::Time;
use rpcgate_management::action::passkeys;
use rpcgate_management::action::{factors, sessions};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::identity::device::device;
use rpcgate_management::identity::recovery_code::RECOVERY_CODES;
use rpcgate_management::routing::{get, post};
use rpcgate_store::{Factors, LogInMethod, Session, SessionId, StoredPasskey};
use std::sync::Arc;

pub(super) const SECURITY: &str = "account/security";

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/account/security", get(show))
        .route("/account/security/sessions/end-others", post(end_others))
        .route("/account/security/sessions/{id}/end", post(end))
}

#[derive(Template)]
#[template(path = "security.html")]
struct SecurityPage {
    frame: Frame,
    email: String,
    is_confirmed: bool,
    factors: Factors,
    takes_passkeys: bool,
    passkeys: Vec<StoredPasskey>,
    sessions: Vec<SessionRow>,
}

impl SecurityPage {
    /// Reports for each recovery code whether it is unused.
    fn pips(&self) -> impl Iterator<Item = bool> {
        (0..RECOVERY_CODES as u64).map(move |code| code < self.factors.recovery_codes)
    }

    fn codes(&self) -> usize {
        RECOVERY_CODES
    }
}

struct SessionRow {
    id: SessionId,
    device: String,
    icon: &'static str,
    address: String,
    method: &'static str,
    since: Time,
    seen_at: Time,
    /// True for the session of this request.
    is_this: bool,
}

impl SessionRow {
    fn of(session: Session, this: SessionId) -> Self {
        let device = device(&session.agent);
        let is_phone = ["iPhone", "Android"].iter().any(|name| device.contains(name));
        SessionRow {
            id: session.id,
            icon: if is_phone { "phone" } else { "laptop" },
            device,
            address: session.seen_address,
            method: method_text(session.method),
            since: session.created_at,
            seen_at: session.seen_at,
            is_this: session.id == this,
        }
    }
}

fn method_text(method: LogInMethod) -> &'static str {
    match method {
        LogInMethod::Password => "Password",
        LogInMethod::PasswordAndCode => "Password, app",
        LogInMethod::PasswordAndRecoveryCode => "Password, recovery code",
        LogInMethod::PasswordAndPasskey => "Password, passkey",
        LogInMethod::Passkey => "Passkey",
    }
}

async fn passkeys_of(app: &AppState, page: &PageContext) -> Result<Vec<StoredPasskey>, ActionError> {
    passkeys::list(app, &page.session).await
}

async fn show(State(app): State<Arc<AppState>>, page: PageContext) -> PageResult {
    let user = &page.actor.user;
    let sessions = sessions::list(&app, &page.session).await?.into_iter();
    Ok(ok(&SecurityPage {
        frame: page.frame(PageSection::Nowhere),
        email: user.email.clone(),
        is_confirmed: user.confirmed_at.is_some(),
        factors: factors::overview(&app, &page.session).await?,
        takes_passkeys: takes_passkeys(&app),
        passkeys: passkeys_of(&app, &page).await?,
        sessions: sessions.map(|session| SessionRow::of(session, page.session.id)).collect(),
    }))
}

/// Ends one session. The current one is ended by the log-out button instead.
async fn end(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<SessionId>,
    _: PlainForm,
) -> PageResult {
    sessions::end(&app, &page.session, id, &page.client).await?;
    Ok(page.done(SECURITY, Done::SessionEnded))
}

async fn end_others(State(app): State<Arc<AppState>>, page: PageContext, _: PlainForm) -> PageResult {
    sessions::end_others(&app, &page.session, &page.client).await?;
    Ok(page.done(SECURITY, Done::OtherSessionsEnded))
}

#[cfg(test)]
pub(crate) mod tests;
