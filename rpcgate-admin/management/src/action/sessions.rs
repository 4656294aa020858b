//! Sessions: logging in, logging out, and refreshing tokens.

use super::{audit, security};
use crate::access::AuthSession;
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::extract::Client;
use crate::identity::password::{HashPermit, Typed};
use crate::identity::refresh::{Opaque, OpaqueHash, OpaqueKind};
use crate::identity::token::Claims;
use crate::mail::SecurityEvent;
use rpcgate_config::Secret;
use rpcgate_core::clock::Time;
use rpcgate_store::{
    self, Attempt, AttemptKind, AttemptTicket, Audit, Digest, Factors, LogInMethod, PENDING_LOG_IN_LIFE,
    Rotation, SessionId, SessionLifetimes, StoreError, User, fresh_id,
};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

const WRONG: &str = "the e-mail address or the password is wrong";
const LOCKED: &str = "account temporarily locked";
pub(super) const DISABLED: &str = "this account is disabled";
const NO_REFRESH: &str = "the refresh token is not valid or has expired";

/// The result of a correct password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogIn {
    /// A session, because the user has no second factor.
    Opened(SessionTokens),
    /// A log-in that waits for a second factor.
    Pending(PendingLogIn),
}

/// A log-in that waits for a second factor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingLogIn {
    /// The token that completes the log-in, once.
    pub token: Secret,
    /// The validity of the token.
    pub ttl: Duration,
    /// The user's factors.
    pub factors: Factors,
}

/// The tokens of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionTokens {
    /// The claims of the tokens.
    pub claims: Claims,
    /// The access token.
    pub token: Secret,
    /// The validity of the access token.
    pub ttl: Duration,
    /// The refresh token, which can be used once.
    pub refresh_token: Secret,
}

/// Counts a password attempt. It counts as failed until [`forgive_attempts`](rpcgate_store::Store::forgive_attempts).
///
/// # Errors
/// [`ErrorCode::AccountLocked`] while the address is locked, whether it has an account or not;
/// [`ActionError::Unavailable`].
pub(super) async fn begin_password_attempt(
    app: &AppState,
    counted: AttemptKind<'_>,
    now: Time,
) -> Result<AttemptTicket, ActionError> {
    match app.store.begin_attempt(counted, now).await? {
        Attempt::Allowed(ticket) => Ok(ticket),
        Attempt::Locked(_) => Err(ActionError::Refused(ErrorCode::AccountLocked, LOCKED)),
    }
}

/// Counts an action that a user may do only a few times in a quarter of an hour.
///
/// # Errors
/// [`ActionError::TooMany`] after too many attempts, [`ActionError::Unavailable`].
pub(super) async fn limit_attempts(
    app: &AppState,
    counted: AttemptKind<'_>,
    now: Time,
) -> Result<(), ActionError> {
    match app.store.begin_attempt(counted, now).await? {
        Attempt::Allowed(_) => Ok(()),
        Attempt::Locked(until) => {
            let wait = until.since(now).as_secs().saturating_add(1);
            Err(ActionError::TooMany { retry_after: u32::try_from(wait).unwrap_or(u32::MAX) })
        }
    }
}

/// Reserves a slot for hashing the password of this attempt. Without a free slot, the attempt is withdrawn.
///
/// # Errors
/// [`ActionError::TooMany`] while too many passwords are being verified, [`ActionError::Unavailable`].
pub(super) async fn reserve_hash(app: &AppState, ticket: &AttemptTicket) -> Result<HashPermit, ActionError> {
    match app.passwords.reserve() {
        Ok(permit) => Ok(permit),
        Err(error) => {
            app.store.withdraw_attempt(ticket).await?;
            Err(error.into())
        }
    }
}

/// Reports whether `password` matches the hash `stored`. A match forgives the failed attempts. The attempt is withdrawn
/// if the password could not be verified.
///
/// # Errors
/// [`ActionError::Broken`], [`ActionError::Unavailable`].
pub(super) async fn verify(
    app: &AppState,
    ticket: &AttemptTicket,
    permit: HashPermit,
    password: Typed,
    stored: Option<&str>,
) -> Result<bool, ActionError> {
    match app.passwords.verify_with(permit, password, stored).await {
        Ok(true) => app.store.forgive_attempts(ticket).await?,
        Ok(false) => return Ok(false),
        Err(error) => {
            app.store.withdraw_attempt(ticket).await?;
            return Err(error.into());
        }
    }
    Ok(true)
}

/// Logs a user in, or begins a log-in if the user has a second factor. A failure takes the same time for a wrong
/// address and a wrong password, and does not reveal which of them is wrong.
///
/// # Errors
/// [`ActionError::TooMany`] after too many attempts from one client address, or while too many passwords are being
/// verified; [`ErrorCode::AccountLocked`] while the account is locked; [`ErrorCode::CredentialsWrong`];
/// [`ActionError::Unavailable`].
pub async fn login(
    app: &Arc<AppState>,
    email: &str,
    password: Typed,
    client: &Client,
) -> Result<LogIn, ActionError> {
    app.admit_attempt(client.address).await?;
    let now = app.now();
    let ticket = begin_password_attempt(app, AttemptKind::LogIns(email), now).await?;
    // A second round handles a concurrent log-in that renews the hash, or a factor that is added at the same time.
    for _ in 0..2 {
        let permit = reserve_hash(app, &ticket).await?;
        let user = app.store.user_by_email(email).await?;
        let stored = user.as_ref().and_then(|user| user.password.as_deref());
        let is_right = verify(app, &ticket, permit, password.clone(), stored).await?;
        let Some(user) = user else {
            note_failure(app, anonymous_entry(client, now), None, locked_by(&ticket), client);
            break;
        };
        let Some(verified) = user.password.as_deref().filter(|_| is_right) else {
            let entry = user_entry(&user, client, "login.failed", String::new(), now);
            note_failure(app, entry, Some(&user), locked_by(&ticket), client);
            break;
        };
        let current = renewed(app, &user, verified, &password).await;
        let factors = app.store.factors(user.id).await?;
        if factors.any() {
            if let Some(pending) = begin(app, &user, factors, &current, client, now).await? {
                return Ok(LogIn::Pending(pending));
            }
        } else if let Some(opened) = open(app, &user, &current, client, now).await? {
            return Ok(LogIn::Opened(opened));
        }
        if app.store.is_disabled(user.id).await? {
            return Err(ActionError::Refused(ErrorCode::AccountDisabled, DISABLED));
        }
    }
    Err(ActionError::Refused(ErrorCode::CredentialsWrong, WRONG))
}

/// Returns the hash that is now stored for `user`: `verified`, or a new one if `verified` was made with a lower cost
/// than the current one. An error here does not fail the log-in; the next one tries again.
async fn renewed<'v>(app: &AppState, user: &User, verified: &'v str, password: &Typed) -> Cow<'v, str> {
    if !app.passwords.needs_renewal(verified) {
        return verified.into();
    }
    let new = match app.passwords.renew(password.clone()).await {
        Ok(new) => new,
        Err(error) => {
            tracing::debug!(%error, "a weak hash could not be renewed");
            return verified.into();
        }
    };
    match app.store.renew_hash(user.id, verified, &new).await {
        Ok(true) => new.into(),
        Ok(false) => verified.into(),
        Err(error) => {
            tracing::warn!(%error, "a weak hash could not be renewed");
            verified.into()
        }
    }
}

pub(super) fn user_entry(user: &User, client: &Client, action: &str, subject: String, at: Time) -> Audit {
    Audit {
        tenant: user.tenant,
        user: Some(user.id),
        action: action.to_owned(),
        subject,
        address: client.address.to_string(),
        at,
        detail: String::new(),
    }
}

/// Makes an entry about a client that is not logged in and has given no known address.
fn anonymous_entry(client: &Client, at: Time) -> Audit {
    Audit {
        tenant: None,
        user: None,
        action: "login.failed".into(),
        subject: String::new(),
        address: client.address.to_string(),
        at,
        detail: String::new(),
    }
}

/// Returns the notification if this attempt locks the user's log-ins.
fn locked_by(ticket: &AttemptTicket) -> Option<SecurityEvent<'static>> {
    ticket.locks().then_some(SecurityEvent::Locked { tries: "wrong passwords at log-ins" })
}

/// Adds the audit entry of a failed log-in of `user`, and notifies the user of a resulting lock, in the background: the
/// response time would otherwise reveal that the account exists. The client's next request could reveal it too, by
/// waiting for the writes; so if the account does not exist, equivalent work is done and nothing is stored.
pub(super) fn note_failure(
    app: &Arc<AppState>,
    entry: Audit,
    user: Option<&User>,
    lock: Option<SecurityEvent<'static>>,
    client: &Client,
) {
    let app = app.clone();
    let user = user.cloned();
    let address = client.address;
    let work = async move {
        let mut recorded = match user {
            Some(_) => app.store.note(&entry).await,
            None => app.store.simulate_note(&entry).await,
        };
        match (lock, user.filter(|user| user.confirmed_at.is_some())) {
            (Some(event), Some(user)) => security::notify(&app, &user, event, address).await,
            (Some(_), None) => {
                for _ in 0..security::WRITES {
                    recorded = recorded.and(app.store.simulate_note(&entry).await);
                }
            }
            (None, _) => {}
        }
        if let Err(error) = recorded {
            tracing::warn!(%error, "a failed log-in could not be recorded in the audit");
        }
    };
    drop(tokio::spawn(work.in_current_span()));
}

pub(super) fn new_session(
    app: &AppState,
    user: &User,
    method: LogInMethod,
    client: &Client,
    now: Time,
) -> rpcgate_store::Session {
    rpcgate_store::Session {
        id: SessionId(fresh_id(now)),
        user: user.id,
        created_at: now,
        seen_at: now,
        expires_at: now.plus(app.settings.refresh_ttl.min(app.settings.session_ttl)),
        address: client.address.to_string(),
        agent: client.agent.clone(),
        method,
        seen_address: client.address.to_string(),
        factor_at: method.has_second_factor().then_some(now),
        proved_at: None,
    }
}

/// Begins a log-in that waits for a second factor. Returns `None` if the hash of the password is no longer `verified`.
async fn begin(
    app: &AppState,
    user: &User,
    factors: Factors,
    verified: &str,
    client: &Client,
    now: Time,
) -> Result<Option<PendingLogIn>, ActionError> {
    let token = Opaque::make(OpaqueKind::PendingLogIn)?;
    let entry = user_entry(user, client, "login.factor_asked", user.id.to_string(), now);
    let is_pending = app.store.begin_log_in(user.id, &Digest(token.hash().0), verified, &entry).await?;
    let pending = PendingLogIn { token: Secret::new(token.expose()), ttl: PENDING_LOG_IN_LIFE, factors };
    Ok(is_pending.then_some(pending))
}

/// Opens a session. Returns `None` if the hash of the password is no longer `verified`, or the user has a second
/// factor.
async fn open(
    app: &AppState,
    user: &User,
    verified: &str,
    client: &Client,
    now: Time,
) -> Result<Option<SessionTokens>, ActionError> {
    let session = new_session(app, user, LogInMethod::Password, client, now);
    let refresh = Opaque::make(OpaqueKind::Refresh)?;
    let entry = user_entry(user, client, "session.opened", session.id.to_string(), now);
    let is_open = app.store.open_session(&session, &Digest(refresh.hash().0), verified, &entry).await?;
    if !is_open {
        return Ok(None);
    }
    security::note_device(app, user, client, now).await;
    opened(app, user, session.id, &refresh).map(Some)
}

/// Issues the tokens of an opened session. The access token's lifetime begins when it is issued, not when the password
/// was sent.
pub(super) fn opened(
    app: &AppState,
    user: &User,
    session: SessionId,
    refresh: &Opaque,
) -> Result<SessionTokens, ActionError> {
    let claims = Claims {
        sub: user.id,
        sid: session.0,
        tenant: user.tenant.unwrap_or_default(),
        role: user.role,
        operator: user.is_operator(),
    };
    Ok(SessionTokens {
        claims,
        token: Secret::new(app.tokens.issue(&claims, app.now())?),
        ttl: app.tokens.ttl(),
        refresh_token: Secret::new(refresh.expose()),
    })
}

/// Issues a new access token, and a new refresh token that replaces `token`. A token that was used before ends its
/// session, which the error does not reveal.
///
/// # Errors
/// [`ErrorCode::RefreshTokenInvalid`], [`ActionError::Unavailable`].
pub async fn refresh(app: &AppState, token: &str, client: &Client) -> Result<SessionTokens, ActionError> {
    let refused = ActionError::Refused(ErrorCode::RefreshTokenInvalid, NO_REFRESH);
    let Some(old) = OpaqueHash::of(OpaqueKind::Refresh, token) else { return Err(refused) };
    let new = Opaque::make(OpaqueKind::Refresh)?;
    let now = app.now();
    let reused = Audit {
        tenant: None,
        user: None,
        action: "session.token_reused".into(),
        subject: String::new(),
        address: client.address.to_string(),
        at: now,
        detail: "the session was ended".into(),
    };
    let lifetimes = SessionLifetimes { idle: app.settings.refresh_ttl, absolute: app.settings.session_ttl };
    match app.store.rotate(&Digest(old.0), &Digest(new.hash().0), lifetimes, &reused, now).await? {
        Rotation::Done(session, user) => opened(app, &user, session.id, &new),
        Rotation::Reused(user) => {
            security::notify(app, &user, SecurityEvent::RefreshTokenReused, client.address).await;
            Err(refused)
        }
        Rotation::Unknown => Err(refused),
    }
}

/// Ends the current session.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn logout(app: &AppState, session: &AuthSession, client: &Client) -> Result<(), ActionError> {
    let entry = audit::entry(session, client, "session.ended", session.id.to_string(), app.now());
    match app.store.with_audit_entry(entry).end_session(session.user.id, session.id).await {
        // It ended at the same time, as requested.
        Err(StoreError::NotFound(_)) => Ok(()),
        ended => Ok(ended?),
    }
}

/// Ends the session of a refresh token, without revealing whether it existed.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn logout_by_refresh(app: &AppState, token: &str, client: &Client) -> Result<(), ActionError> {
    let Some(hash) = OpaqueHash::of(OpaqueKind::Refresh, token) else { return Ok(()) };
    let now = app.now();
    let Some((session, user)) = app.store.session_by_refresh(&Digest(hash.0), now).await? else {
        return Ok(());
    };
    logout(app, &AuthSession::of(session, user), client).await
}

/// Ends all sessions of the user, including the current one.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn logout_all(app: &AppState, session: &AuthSession, client: &Client) -> Result<(), ActionError> {
    let entry = audit::entry(session, client, "session.all_ended", session.user.id.to_string(), app.now());
    app.store.with_audit_entry(entry).end_sessions(session.user.id, None).await?;
    security::notify(app, &session.user, SecurityEvent::SessionsEnded, client.address).await;
    Ok(())
}

/// Ends all sessions of the user except the current one.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn end_others(app: &AppState, session: &AuthSession, client: &Client) -> Result<(), ActionError> {
    let entry = audit::entry(session, client, "session.others_ended", session.user.id.to_string(), app.now());
    if app.store.with_audit_entry(entry).end_sessions(session.user.id, Some(session.id)).await? > 0 {
        security::notify(app, &session.user, SecurityEvent::SessionsEnded, client.address).await;
    }
    Ok(())
}

/// Lists the sessions of the user, the newest first.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState, session: &AuthSession) -> Result<Vec<rpcgate_store::Session>, ActionError> {
    Ok(app.store.sessions(session.user.id, app.now()).await?)
}

/// Ends one of the user's sessions.
///
/// # Errors
/// [`ActionError::NotFound`] if it has ended or is another user's; [`ActionError::Unavailable`].
pub async fn end(
    app: &AppState,
    session: &AuthSession,
    id: SessionId,
    client: &Client,
) -> Result<(), ActionError> {
    let entry = audit::entry(session, client, "session.ended", id.to_string(), app.now());
    app.store.with_audit_entry(entry).end_session(session.user.id, id).await?;
    // Ending the current session is a log-out.
    if id != session.id {
        security::notify(app, &session.user, SecurityEvent::SessionEnded, client.address).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOON, Site, Visitor};
    use argon2::password_hash::CustomizedPasswordHasher;
    use argon2::{Argon2, Params};
    use rpcgate_store::{AuditSubject, Role};

    /// Shorter than a new password may be.
    const PASSWORD: &str = "swordfish";

    /// Makes a hash of [`PASSWORD`] with a former cost.
    fn weak() -> String {
        let params = Params::new(64, 1, 1, None).unwrap();
        let salt = b"a salt of sixtee";
        let hash = Argon2::default().hash_password_customized(PASSWORD.as_bytes(), salt, None, None, params);
        hash.unwrap().to_string()
    }

    async fn user_with_weak_hash(site: &Site) -> (Visitor, String) {
        let visitor = site.member(Role::Owner).await;
        let weak = weak();
        let stored = visitor.user.password.clone().unwrap();
        assert!(site.app.store.renew_hash(visitor.user.id, &stored, &weak).await.unwrap());
        (visitor, weak)
    }

    async fn log_in(app: &Arc<AppState>, email: &str, password: &str) -> Result<LogIn, ActionError> {
        let client = Client { address: "192.0.2.7".parse().unwrap(), agent: "a test".into() };
        login(app, email, password.into(), &client).await
    }

    async fn stored(site: &Site, visitor: &Visitor) -> String {
        site.app.store.user(visitor.user.id).await.unwrap().unwrap().password.unwrap()
    }

    #[tokio::test]
    async fn a_weak_hash_is_replaced_after_the_right_password_and_sessions_live_on() {
        let site = Site::new().await;
        let (visitor, weak) = user_with_weak_hash(&site).await;
        let email = &visitor.user.email;
        log_in(&site.app, email, "swordfisH").await.unwrap_err();
        assert_eq!(stored(&site, &visitor).await, weak, "a wrong password renews nothing");
        log_in(&site.app, email, PASSWORD).await.unwrap();
        let strong = stored(&site, &visitor).await;
        assert!(!site.app.passwords.needs_renewal(&strong), "{strong}");
        assert!(site.app.passwords.verify(PASSWORD, Some(&strong)).await.unwrap());
        assert_eq!(site.app.store.sessions(visitor.user.id, NOON).await.unwrap().len(), 2);
        log_in(&site.app, email, PASSWORD).await.unwrap();
        assert_eq!(stored(&site, &visitor).await, strong, "once is enough");
        let reported = site.app.store.audit(AuditSubject::User(visitor.user.id), 9).await.unwrap();
        assert!(reported.iter().all(|entry| entry.action != "password.changed"), "{reported:?}");
    }

    #[tokio::test]
    async fn parallel_log_ins_that_renew_a_hash_all_succeed() {
        let site = Site::new().await;
        let (visitor, _) = user_with_weak_hash(&site).await;
        // More at once would look like guesses.
        let many: Vec<_> = (0..4)
            .map(|_| {
                let app = site.app.clone();
                let email = visitor.user.email.clone();
                tokio::spawn(async move { log_in(&app, &email, PASSWORD).await })
            })
            .collect();
        for one in many {
            one.await.unwrap().unwrap();
        }
        let strong = stored(&site, &visitor).await;
        assert!(!site.app.passwords.needs_renewal(&strong), "{strong}");
        assert_eq!(site.app.store.sessions(visitor.user.id, NOON).await.unwrap().len(), 5);
    }

    #[tokio::test]
    async fn a_log_in_fails_if_the_password_changes_at_the_same_time() {
        let site = Site::new().await;
        let (visitor, weak) = user_with_weak_hash(&site).await;
        let other = site.app.passwords.renew("another password".into()).await.unwrap();
        assert!(site.app.store.renew_hash(visitor.user.id, &weak, &other).await.unwrap());
        assert!(
            !site.app.store.renew_hash(visitor.user.id, &weak, "x").await.unwrap(),
            "it is another by now"
        );
        let user = User { password: Some(weak.clone()), ..visitor.user.clone() };
        let current = renewed(&site.app, &user, &weak, &PASSWORD.into()).await;
        let client = Client { address: "192.0.2.7".parse().unwrap(), agent: String::new() };
        assert_eq!(open(&site.app, &user, &current, &client, NOON).await.unwrap(), None);
        assert_eq!(stored(&site, &visitor).await, other);
        assert!(log_in(&site.app, &visitor.user.email, PASSWORD).await.is_err());
    }
}
