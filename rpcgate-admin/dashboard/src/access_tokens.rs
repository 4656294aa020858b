//! The personal access tokens of a user.

use super::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use super::context::{PageContext, PageResult};
use super::filters;
use super::form::FieldList;
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::parts::Choice;
use super::problems::{Labels, Problems};
use super::step_up::Proven;
use super::submissions::shown_once;
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use http::StatusCode;
use rpcgate_config::Secret;
use rpcgate_core::clock::Time;
use rpcgate_management::action::access_tokens::{self, NewAccessToken};
use rpcgate_management::action::step_up;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::identity::token_scope::TokenScope;
use rpcgate_management::routing::{get, post};
use rpcgate_store::{AccessToken, AccessTokenId};
use std::sync::Arc;
use std::time::Duration;

const LABELS: Labels = &[("name", "the name"), ("scopes", "the scopes"), ("days", "the validity")];

const TOKENS: &str = "account/tokens";

/// The validities that can be chosen, in days.
const DAYS: [u64; 4] = [7, 30, 90, 366];

const USUAL_DAYS: u64 = 90;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/account/tokens", get(list).merge(post(create)))
        .route("/account/tokens/{id}/revoke", confirmed::<TokenRevocation>())
}

#[derive(Template)]
#[template(path = "access_tokens.html")]
struct AccessTokensPage {
    frame: Frame,
    problems: Problems,
    tokens: Vec<AccessToken>,
    /// The scopes that the user can grant.
    scopes: Vec<Choice>,
    days: Vec<Choice>,
    filled: FilledToken,
    /// True if the user must first give the password or a factor.
    needs_proof: bool,
}

struct FilledToken {
    name: String,
    scopes: Vec<String>,
    days: String,
}

impl AccessTokensPage {
    fn is_over(&self, token: &AccessToken) -> bool {
        token.expires_at <= self.frame.now
    }
}

#[derive(Template)]
#[template(path = "access_token_created.html")]
struct AccessTokenCreatedPage {
    frame: Frame,
    name: String,
    expires_at: Time,
    text: Secret,
}

async fn form(
    app: &AppState,
    page: &PageContext,
    filled: FilledToken,
) -> Result<AccessTokensPage, ActionError> {
    let role = page.actor.user.tenant.map(|_| page.actor.user.role);
    let scopes = TokenScope::all().filter(|scope| scope.is_of(role));
    let days = |days: u64| Choice::new(days.to_string(), format!("{days} days"));
    Ok(AccessTokensPage {
        frame: page.frame(PageSection::Nowhere),
        problems: Problems::default(),
        tokens: access_tokens::list(app, &page.actor).await?,
        scopes: scopes.map(|scope| Choice::new(scope.as_str(), scope.as_str().replace('_', " "))).collect(),
        days: DAYS.map(days).into(),
        filled,
        needs_proof: !page.session.is_proved(app.now()) || step_up::is_needed(app, &page.session).await?,
    })
}

async fn list(State(app): State<Arc<AppState>>, page: PageContext) -> PageResult {
    let filled = FilledToken { name: String::new(), scopes: Vec::new(), days: USUAL_DAYS.to_string() };
    Ok(ok(&form(&app, &page, filled).await?))
}

async fn create(State(app): State<Arc<AppState>>, Proven(page): Proven, fields: FieldList) -> PageResult {
    let filled = FilledToken {
        name: fields.one("name").to_owned(),
        scopes: fields.all("scopes").map(str::to_owned).collect(),
        days: fields.one("days").to_owned(),
    };
    let made = async {
        let days = fields.number::<u64>("days")?.unwrap_or(USUAL_DAYS);
        let life = Duration::from_secs(days.saturating_mul(86_400));
        let new = NewAccessToken {
            name: filled.name.clone(),
            scopes: filled.scopes.clone(),
            expires_at: Some(app.now().plus(life)),
        };
        access_tokens::create(&app, &page.actor, new).await
    };
    match made.await {
        Ok((token, text)) => {
            let frame = page.result_frame(PageSection::Nowhere);
            let text = Secret::new(text.expose());
            let name = token.name;
            let expires_at = token.expires_at;
            let created = AccessTokenCreatedPage { frame, name, expires_at, text };
            Ok(shown_once(StatusCode::CREATED, &created))
        }
        Err(error) => {
            let form = form(&app, &page, filled).await?;
            rejected(error, LABELS, |problems| AccessTokensPage { problems, ..form })
        }
    }
}

struct TokenRevocation(AccessToken);

impl Confirmed for TokenRevocation {
    type Reader = PageContext;
    type Path = Id<AccessTokenId>;

    async fn load(request: ConfirmRequest<'_>, Id(id): Id<AccessTokenId>) -> Result<Self, ActionError> {
        let ConfirmRequest { app, page, .. } = request;
        let token = access_tokens::list(app, &page.actor).await?.into_iter().find(|token| token.id == id);
        token.map(TokenRevocation).ok_or(ActionError::NotFound("personal access token"))
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let TokenRevocation(AccessToken { name, used, .. }) = self;
        let last = |(at, from): &(Time, String)| {
            format!("It was last used at {}, from {from}.", filters::minute_text(*at))
        };
        let frame = page.frame(PageSection::Nowhere);
        ConfirmQuestion::new(frame, format!("Revoke {name}?"), "Revoke the token", TOKENS)
            .crumb("Access tokens", TOKENS)
            .consequence("Programs that use it are refused from now on.")
            .consequence("It cannot be restored. A new token has a different value.")
            .warning(used.as_ref().map(last))
    }

    async fn act(self, ConfirmRequest { app, page, .. }: ConfirmRequest<'_>) -> PageResult {
        page.actor.expect_proof()?;
        if step_up::is_needed(app, &page.session).await? {
            return Err(ActionError::PROOF_REQUIRED);
        }
        access_tokens::revoke(app, &page.actor, self.0.id).await?;
        Ok(page.done(TOKENS, Done::TokenRevoked))
    }
}
