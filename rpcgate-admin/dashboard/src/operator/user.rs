//! A user: unlocking, resetting, disabling.

use super::names::NamesOfAll;
use crate::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use crate::context::{OperatorPage, PageContext, PageResult};
use crate::filters;
use crate::form::{FieldList, PlainForm};
use crate::frame::{Frame, PageSection};
use crate::outcome::Done;
use crate::problems::{Labels, Problems};
use crate::step_up::{for_missing_proof, to_step_up};
use crate::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_management::action::operator::users;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::routing::{get, post};
use rpcgate_store::{Account, UserId};
use std::sync::Arc;

const LABELS: Labels = &[("reason", "the reason")];

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/operator/users/{id}", get(show))
        .route("/operator/users/{id}/unlock", post(unlock))
        .route("/operator/users/{id}/reset", confirmed::<PasswordReset>())
        .route("/operator/users/{id}/factors", post(ask_factors))
        .route("/operator/users/{id}/remove-factors", post(remove_factors))
        .route("/operator/users/{id}/disable", confirmed::<UserDisabling>())
        .route("/operator/users/{id}/enable", post(enable))
}

/// A note about an unusual account: the tone and the text of a badge.
pub(super) type AccountBadge = (&'static str, String);

/// Returns the badges of a user; empty for an ordinary account.
pub(super) fn account_badges(account: &Account) -> Vec<AccountBadge> {
    let mut badges = Vec::new();
    if account.disabled_at.is_some() {
        badges.push(("bad", "Disabled".to_owned()));
    }
    if let Some(until) = account.locked_until {
        badges.push(("warn", format!("Locked until {}", filters::minute_text(until))));
    }
    if account.user.confirmed_at.is_none() {
        badges.push(("warn", "Not confirmed".to_owned()));
    }
    badges
}

#[derive(Template)]
#[template(path = "operator_user.html")]
struct AccountPage {
    frame: Frame,
    problems: Problems,
    account: Account,
    tenant: Option<String>,
    badges: Vec<AccountBadge>,
    /// True for the reader's own account.
    is_own: bool,
    reason: String,
}

impl AccountPage {
    fn name(&self) -> &str {
        shown_name(&self.account)
    }
}

/// Returns the name; the e-mail address if the name is empty.
fn shown_name(account: &Account) -> &str {
    if account.user.name.trim().is_empty() { &account.user.email } else { &account.user.name }
}

async fn account_page(
    app: &AppState,
    page: &PageContext,
    id: UserId,
    reason: &str,
) -> Result<AccountPage, ActionError> {
    let account = users::get(app, id).await?;
    let names = NamesOfAll::read(app, account.user.tenant.into_iter().collect(), Vec::new()).await?;
    Ok(AccountPage {
        frame: page.frame(PageSection::Users),
        problems: Problems::default(),
        tenant: account.user.tenant.map(|tenant| names.tenant(tenant)),
        badges: account_badges(&account),
        is_own: page.actor.user.id == id,
        reason: reason.to_owned(),
        account,
    })
}

async fn refused(
    app: &AppState,
    page: &PageContext,
    id: UserId,
    reason: &str,
    error: ActionError,
) -> PageResult {
    if let Some(step_up) = for_missing_proof(page, &error, &format!("operator/users/{id}")) {
        return Ok(step_up);
    }
    let shown = account_page(app, page, id, reason).await?;
    rejected(error, LABELS, |problems| AccountPage { problems, ..shown })
}

fn question(page: &PageContext, account: &Account, question: &str, act: &str) -> ConfirmQuestion {
    let path = format!("operator/users/{}", account.user.id);
    let name = shown_name(account);
    ConfirmQuestion::new(page.frame(PageSection::Users), format!("{question} {name}?"), act, path.clone())
        .crumb("Users", "operator/users")
        .crumb(name, path)
}

async fn show(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<UserId>,
) -> PageResult {
    Ok(ok(&account_page(&app, &page, id, "").await?))
}

async fn unlock(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<UserId>,
    _: PlainForm,
) -> PageResult {
    users::unlock(&app, &page.actor, id).await?;
    Ok(page.done(&format!("operator/users/{id}"), Done::UserUnlocked))
}

struct PasswordReset(Account);

impl Confirmed for PasswordReset {
    type Reader = OperatorPage;
    type Path = Id<UserId>;

    async fn load(request: ConfirmRequest<'_>, Id(id): Id<UserId>) -> Result<Self, ActionError> {
        users::get(request.app, id).await.map(PasswordReset)
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        question(page, &self.0, "Reset the password of", "Reset the password")
            .consequence("The password is removed at once, and all sessions of the user end.")
            .consequence(format!(
                "A mail is sent to {}. Its link sets a new password and is valid for an hour.",
                self.0.user.email
            ))
            .consequence("Open invitations that the user made are withdrawn.")
            .keep("Keep the password")
    }

    async fn act(self, ConfirmRequest { app, page, .. }: ConfirmRequest<'_>) -> PageResult {
        let id = self.0.user.id;
        users::reset(app, &page.actor, id).await?;
        Ok(page.done(&format!("operator/users/{id}"), Done::UserReset))
    }
}

/// Asks for confirmation before the second factors are removed, with the submitted reason.
async fn ask_factors(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<UserId>,
    fields: FieldList,
) -> PageResult {
    let account = users::get(&app, id).await?;
    let Some(reason) = fields.filled("reason") else {
        let error = ActionError::field("reason", "give a reason: it is sent to the user");
        return refused(&app, &page, id, "", error).await;
    };
    let confirmation = question(&page, &account, "Remove the second factors of", "Remove the second factors")
        .consequence(
            "The authenticator app, all passkeys and the recovery codes are removed, and all sessions end.",
        )
        .consequence("The password alone logs the user in until a factor is added again.")
        .consequence(format!("{} is notified by mail, with the reason: {reason}", account.user.email))
        .hidden("reason", reason)
        .target(format!("operator/users/{id}/remove-factors"))
        .keep("Keep them");
    Ok(ok(&confirmation))
}

async fn remove_factors(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<UserId>,
    fields: FieldList,
) -> PageResult {
    if !page.session.is_proved(app.now()) {
        return Ok(to_step_up(&page, &format!("operator/users/{id}")));
    }
    let reason = fields.one("reason");
    match users::remove_factors(&app, &page.actor, id, reason).await {
        Ok(_) => Ok(page.done(&format!("operator/users/{id}"), Done::FactorsRemoved)),
        Err(error) => refused(&app, &page, id, reason, error).await,
    }
}

struct UserDisabling(Account);

impl Confirmed for UserDisabling {
    type Reader = OperatorPage;
    type Path = Id<UserId>;

    async fn load(request: ConfirmRequest<'_>, Id(id): Id<UserId>) -> Result<Self, ActionError> {
        users::get(request.app, id).await.map(UserDisabling)
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        question(page, &self.0, "Disable", "Disable the user")
            .consequence("All sessions of the user end, and neither a log-in nor a password reset works.")
            .consequence("Invitations that the user made are withdrawn.")
            .consequence("The keys of the tenant keep working: suspend the tenant to stop them.")
            .consequence("The user is notified by mail. You can enable the user again.")
            .keep("Leave the user enabled")
    }

    async fn act(self, ConfirmRequest { app, page, .. }: ConfirmRequest<'_>) -> PageResult {
        let id = self.0.user.id;
        users::disable(app, &page.actor, id, true).await?;
        Ok(page.done(&format!("operator/users/{id}"), Done::UserDisabled))
    }
}

async fn enable(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<UserId>,
    _: PlainForm,
) -> PageResult {
    match users::disable(&app, &page.actor, id, false).await {
        Ok(_) => Ok(page.done(&format!("operator/users/{id}"), Done::UserEnabled)),
        Err(error) => refused(&app, &page, id, "", error).await,
    }
}

#[cfg(test)]
mod tests;
