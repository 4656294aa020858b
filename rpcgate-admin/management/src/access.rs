//! Who may do what: the callers that a route admits, and the session of a request.

use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::extract::Client;
use crate::identity::role::{Permission, Role};
use crate::identity::token::{Claims, Tokens};
use crate::identity::token_scope::{TokenScope, TokenScopes};
use axum::extract::FromRequestParts;
use http::Method;
use http::request::Parts;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_store::{Session, SessionId, User};
use std::sync::Arc;
use std::time::Duration;

const INVALID: &str = "the token is not valid or has expired";
const LOGIN_NEEDED: &str = "a personal access token cannot do this: log in";

/// The error when the scopes of a personal access token do not suffice.
pub const SCOPE_MISSING: &str = "the scopes of the personal access token do not permit this";

const NO_MEMBER: &str = "only members of a tenant may do this";
const MEMBERS_NEED_FACTOR: &str = "your organisation requires a second factor: add one to your account first";
const OPERATORS_NEED_FACTOR: &str =
    "operators need a second factor to change anything: add one to your account first";

/// The callers that may use a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Any client, without a token.
    Anyone,
    /// Any logged-in user, including operators. Personal access tokens are refused.
    User,
    /// Any user, including operators. Personal access tokens may only read.
    Reader,
    /// A member of a tenant whose role has this permission.
    Member(Permission),
    /// An operator.
    Operator,
}

impl Access {
    /// Returns the names of the admitted roles, the least first.
    pub fn roles(self) -> Vec<&'static str> {
        match self {
            Access::Anyone => vec!["none"],
            Access::User | Access::Reader => vec!["user"],
            Access::Member(permission) => permission.roles().map(Role::as_str).collect(),
            Access::Operator => vec!["operator"],
        }
    }

    /// Checks whether `user` is admitted.
    ///
    /// # Errors
    /// [`ActionError::Forbidden`].
    pub fn admit(self, user: &User) -> Result<(), ActionError> {
        let is_operator = user.is_operator();
        match self {
            Access::Anyone | Access::User | Access::Reader => Ok(()),
            Access::Operator if is_operator => Ok(()),
            Access::Operator => Err(ActionError::Forbidden("only operators may do this")),
            Access::Member(_) if is_operator => Err(ActionError::Forbidden(NO_MEMBER)),
            Access::Member(permission) if permission.is_granted_to(user.role) => Ok(()),
            Access::Member(_) => Err(ActionError::Forbidden("your role does not permit this")),
        }
    }
}

impl Access {
    /// Returns the scope that a personal access token needs for a request with `method`. Returns `None` if a log-in is
    /// needed: for operations on the account itself, and for changes that every member may make.
    pub fn scope(self, method: &Method, is_operator: bool) -> Option<TokenScope> {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        match self {
            Access::Anyone | Access::User => None,
            Access::Reader if is_operator => reads.then_some(TokenScope::OperatorRead),
            Access::Reader | Access::Member(Permission::Read) => {
                reads.then_some(TokenScope::Member(Permission::Read))
            }
            Access::Member(permission) => Some(TokenScope::Member(permission)),
            Access::Operator if reads => Some(TokenScope::OperatorRead),
            Access::Operator => Some(TokenScope::OperatorWrite),
        }
    }

    /// Checks whether a personal access token with `scopes` is admitted for a request with `method`.
    pub fn admit_token(self, scopes: &TokenScopes, method: &Method, user: &User) -> Result<(), ActionError> {
        match self.scope(method, user.is_operator()) {
            None => Err(ActionError::Refused(ErrorCode::LoginNeeded, LOGIN_NEEDED)),
            Some(scope) if scopes.contain(scope) => Ok(()),
            Some(_) => Err(ActionError::Refused(ErrorCode::ScopeMissing, SCOPE_MISSING)),
        }
    }
}

/// The session of the request, with the current state of its user, not the state at the time the token was issued.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthSession {
    /// The session of the token. A request with a personal access token has no session, and this is the token's
    /// identifier, which no session has.
    pub id: SessionId,
    /// The session's user.
    pub user: Arc<User>,
    /// True if the user has given a second factor in the session.
    pub has_second_factor: bool,
    /// The time and address of the last recorded use before this request. `None` for a personal access token.
    pub seen: Option<(Time, Arc<str>)>,
    /// The time at which the user last gave a second factor in the session.
    pub factor_at: Option<Time>,
    /// The time at which the user last gave the password or a second factor in the session. In the API the log-in does
    /// not count, so that a token that was stolen right after it proves nothing.
    pub proved_at: Option<Time>,
    /// The time of the log-in.
    pub opened_at: Option<Time>,
}

/// The time for which a proof or a second factor suffices for the actions that [`step_up`](super::action::step_up)
/// protects.
pub const RECENT: Duration = Duration::from_secs(600);

/// The interval in which uses of a session from one address are recorded once, because each record is a write.
const SEEN_INTERVAL: Duration = Duration::from_secs(300);

impl AuthSession {
    pub(crate) fn of(session: Session, user: User) -> Self {
        AuthSession {
            id: session.id,
            user: Arc::new(user),
            has_second_factor: session.method.has_second_factor(),
            seen: Some((session.seen_at, session.seen_address.into())),
            factor_at: session.factor_at,
            proved_at: session.proved_at,
            opened_at: Some(session.created_at),
        }
    }

    /// Makes the replacement for a session in a request with a personal access token of `user`.
    pub fn of_token(id: SessionId, user: User) -> Self {
        let user = Arc::new(user);
        let factor_at = None;
        let proved_at = None;
        let opened_at = None;
        AuthSession { id, user, has_second_factor: false, seen: None, factor_at, proved_at, opened_at }
    }

    /// Counts the log-in as a proof. This is for pages: their cookie is out of reach of scripts and of programs that
    /// handle access tokens.
    pub fn proved_by_log_in(self) -> Self {
        AuthSession { proved_at: self.proved_at.max(self.opened_at), ..self }
    }

    /// Reports whether the request has a personal access token instead of a session.
    pub(crate) fn is_of_token(&self) -> bool {
        self.seen.is_none()
    }

    /// Reports whether the user has given a proof in the session in the last ten minutes.
    pub fn is_proved(&self, now: Time) -> bool {
        self.proved_at.is_some_and(|at| now.since(at) < RECENT)
    }

    /// Reports whether the user may perform actions that need a proof. A personal access token needs none: its owner
    /// gave a proof to create it, and allowed its actions for its whole life.
    pub fn has_proof(&self, now: Time) -> bool {
        self.is_of_token() || self.is_proved(now)
    }

    /// Records that `client` uses the session, so that its user can recognise it. An error does not fail the request.
    pub async fn note_use(&self, app: &AppState, client: &Client) {
        let now = app.now();
        let address = client.address.to_string();
        let Some((seen_at, seen_address)) = &self.seen else { return };
        if now.since(*seen_at) < SEEN_INTERVAL && **seen_address == *address {
            return;
        }
        let before = Time::from_micros(now.micros().saturating_sub(SEEN_INTERVAL.as_micros() as u64));
        if let Err(error) = app.store.touch_session(self.id, &address, before, now).await {
            tracing::debug!(%error, "the use of a session could not be recorded");
        }
    }

    /// Refuses a request with `method` if its user lacks a required second factor. An operator needs one for changes if
    /// `admin.operator_mfa` is set. A member needs one for all requests if an owner of its tenant requires it.
    pub async fn demand_factor(&self, app: &AppState, method: &Method) -> Result<(), ActionError> {
        if self.has_second_factor {
            return Ok(());
        }
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let (is_required, why) = match self.user.tenant {
            Some(tenant) => (app.store.requires_factor(tenant).await?, MEMBERS_NEED_FACTOR),
            None => (app.settings.config.admin.operator_mfa && !reads, OPERATORS_NEED_FACTOR),
        };
        if !is_required || self.satisfies_factor(app).await? {
            return Ok(());
        }
        Err(ActionError::Refused(ErrorCode::FactorRequired, why))
    }

    /// Reports whether the user has given a second factor. The owner of a personal access token logged in to make it,
    /// with a factor if the account had one; tokens older than the first factor have ended.
    pub(crate) async fn satisfies_factor(&self, app: &AppState) -> Result<bool, ActionError> {
        Ok(self.has_second_factor || (self.seen.is_none() && app.store.factors(self.user.id).await?.any()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AuthSession {
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ActionError> {
        let session = parts.extensions.get::<AuthSession>().cloned();
        session.ok_or_else(|| ActionError::Broken("a route for anyone asks for a session".into()))
    }
}

/// A logged-in member of a tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// The member's tenant.
    pub tenant: TenantId,
    /// The member's session.
    pub session: AuthSession,
}

impl<S: Send + Sync> FromRequestParts<S> for Member {
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ActionError> {
        let session = AuthSession::from_request_parts(parts, state).await?;
        let tenant = session.user.tenant;
        let tenant = tenant.ok_or(ActionError::Forbidden(NO_MEMBER))?;
        Ok(Member { tenant, session })
    }
}

/// Returns the claims of a token and its session. The session is looked up, so that an ended session is refused and a
/// changed role takes effect at once. The request counts for the session's user.
pub async fn session_of(
    app: &AppState,
    tokens: &Tokens,
    token: &str,
) -> Result<(Claims, AuthSession), ActionError> {
    let invalid = || ActionError::Unauthenticated(INVALID);
    let now = app.now();
    let claims = tokens.check(token, now).map_err(|_| invalid())?;
    app.limits.users.admit(claims.sub)?;
    let (session, user) = app.store.session(SessionId(claims.sid), now).await?.ok_or_else(invalid)?;
    if user.id != claims.sub {
        return Err(invalid());
    }
    Ok((claims, AuthSession::of(session, user)))
}
