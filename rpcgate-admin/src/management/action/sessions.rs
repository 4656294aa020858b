//! Sessions: logging in and out, and staying logged in.

use super::audit;
use crate::management::access::AuthSession;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Client;
use crate::management::identity::password::Typed;
use crate::management::identity::refresh::{Opaque, OpaqueHash, OpaqueKind};
use crate::management::identity::token::Claims;
use crate::store::{
    self, Attempt, AttemptTicket, Audit, Counted, Digest, Lives, Rotation, SessionId, StoreError, User,
    fresh_id,
};
use rpcgate_core::clock::Time;
use rpcgate_core::config::Secret;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

const WRONG: &str = "the e-mail address or the password is wrong";
const LOCKED: &str = "account temporarily locked";
const DISABLED: &str = "this account is disabled";
const NO_REFRESH: &str = "the refresh token is not valid or has expired";

/// What somebody is given who is logged in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// What tokens of the session say.
    pub claims: Claims,
    /// The access token.
    pub token: Secret,
    /// How long it is good.
    pub ttl: Duration,
    /// What it can be renewed with, once.
    pub refresh_token: Secret,
}

/// Asks whether a password may be looked at, and counts it as wrong until [`pass`](store::Store::pass).
///
/// # Errors
/// [`ActionError::Forbidden`] while the address is locked, whether somebody has it or not; [`ActionError::Unavailable`].
pub(super) async fn attempt(
    app: &AppState,
    counted: Counted<'_>,
    now: Time,
) -> Result<AttemptTicket, ActionError> {
    match app.store.begin_attempt(counted, now).await? {
        Attempt::May(ticket) => Ok(ticket),
        Attempt::Locked(_) => Err(ActionError::Forbidden(LOCKED)),
    }
}

/// Counts what somebody may do a few times in a quarter of an hour.
///
/// # Errors
/// [`ActionError::TooMany`] after too many, [`ActionError::Unavailable`].
pub(super) async fn expect_few(app: &AppState, counted: Counted<'_>, now: Time) -> Result<(), ActionError> {
    match app.store.begin_attempt(counted, now).await? {
        Attempt::May(_) => Ok(()),
        Attempt::Locked(until) => {
            let wait = until.since(now).as_secs().saturating_add(1);
            Err(ActionError::TooMany { retry_after: u32::try_from(wait).unwrap_or(u32::MAX) })
        }
    }
}

/// Whether `password` is the one that `stored` was made of. The attempt ends well if it is; it is taken back if the
/// password could not be looked at.
///
/// # Errors
/// [`ActionError::TooMany`] while too many passwords are checked, [`ActionError::Unavailable`].
pub(super) async fn verify(
    app: &AppState,
    ticket: &AttemptTicket,
    password: Typed,
    stored: Option<&str>,
) -> Result<bool, ActionError> {
    match app.passwords.verify(password, stored).await {
        Ok(true) => app.store.pass(ticket).await?,
        Ok(false) => return Ok(false),
        Err(error) => {
            app.store.give_back(ticket).await?;
            return Err(error.into());
        }
    }
    Ok(true)
}

/// Logs somebody in. What is wrong, the address or the password, is not told, and takes the same time.
///
/// # Errors
/// [`ActionError::TooMany`] after too many attempts from one address, or while too many passwords are checked;
/// [`ActionError::Forbidden`] while the account is locked; [`ActionError::Unauthenticated`]; [`ActionError::Unavailable`].
pub async fn login(
    app: &Arc<AppState>,
    email: &str,
    password: Typed,
    client: &Client,
) -> Result<Opened, ActionError> {
    app.admit_attempt(client.address).await?;
    let now = app.now();
    let ticket = attempt(app, Counted::LogIns(email), now).await?;
    // The second time for the case that another log-in renews the hash at the very moment.
    for _ in 0..2 {
        let user = app.store.user_by_email(email).await?;
        let stored = user.as_ref().and_then(|user| user.password.as_deref());
        let is_right = verify(app, &ticket, password.clone(), stored).await?;
        let Some(user) = user else {
            note_failure(app, nobody(client, now), false);
            break;
        };
        let Some(verified) = user.password.as_deref().filter(|_| is_right) else {
            note_failure(app, entry(&user, client, "login.failed", String::new(), now), true);
            break;
        };
        let current = renewed(app, &user, verified, &password).await;
        if let Some(opened) = open(app, &user, &current, client, now).await? {
            return Ok(opened);
        }
        if app.store.is_disabled(user.id).await? {
            return Err(ActionError::Forbidden(DISABLED));
        }
    }
    Err(ActionError::Unauthenticated(WRONG))
}

/// The hash that is stored for `user` from here on: `verified`, or one of today's effort if that was made with less. A
/// log-in does not fail because of it; the next one tries again.
async fn renewed<'v>(app: &AppState, user: &User, verified: &'v str, password: &Typed) -> Cow<'v, str> {
    if !app.passwords.wants_renewal(verified) {
        return verified.into();
    }
    let new = match app.passwords.renew(password.clone()).await {
        Ok(new) => new,
        Err(error) => {
            tracing::debug!(%error, "a weak hash was not renewed");
            return verified.into();
        }
    };
    match app.store.renew_hash(user.id, verified, &new).await {
        Ok(true) => new.into(),
        Ok(false) => verified.into(),
        Err(error) => {
            tracing::warn!(%error, "a weak hash was not renewed");
            verified.into()
        }
    }
}

/// An entry of what is done by `user`, who is not logged in yet.
fn entry(user: &User, client: &Client, action: &str, subject: String, at: Time) -> Audit {
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

/// An entry of what is done in the name of nobody we know.
fn nobody(client: &Client, at: Time) -> Audit {
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

/// Leaves an entry without keeping the client waiting, who would learn from the time that there is such an account. The
/// next request would tell him, if it had to wait for the write: so where there is none, as much is done and nothing
/// kept.
fn note_failure(app: &Arc<AppState>, entry: Audit, is_kept: bool) {
    let app = app.clone();
    let work = async move {
        let noted = if is_kept { app.store.note(&entry).await } else { app.store.feign(&entry).await };
        if let Err(error) = noted {
            tracing::warn!(%error, "a log-in that failed was not noted");
        }
    };
    drop(tokio::spawn(work.in_current_span()));
}

/// None if the hash of the password is another than `verified` by now.
async fn open(
    app: &AppState,
    user: &User,
    verified: &str,
    client: &Client,
    now: Time,
) -> Result<Option<Opened>, ActionError> {
    let session = store::Session {
        id: SessionId(fresh_id(now)),
        user: user.id,
        created_at: now,
        seen_at: now,
        expires_at: now.plus(app.settings.refresh_ttl.min(app.settings.session_ttl)),
        address: client.address.to_string(),
        agent: client.agent.clone(),
    };
    let refresh = Opaque::make(OpaqueKind::Refresh)?;
    let entry = entry(user, client, "session.opened", session.id.to_string(), now);
    let is_open = app.store.open_session(&session, &Digest(refresh.hash().0), verified, &entry).await?;
    is_open.then(|| opened(app, user, session.id, &refresh)).transpose()
}

/// The access token's time begins when it is made, not when its password was sent.
fn opened(app: &AppState, user: &User, session: SessionId, refresh: &Opaque) -> Result<Opened, ActionError> {
    let claims = Claims {
        sub: user.id,
        sid: session.0,
        tenant: user.tenant.unwrap_or_default(),
        role: user.role,
        operator: user.is_operator(),
    };
    Ok(Opened {
        claims,
        token: Secret::new(app.tokens.issue(&claims, app.now())?),
        ttl: app.tokens.ttl(),
        refresh_token: Secret::new(refresh.expose()),
    })
}

/// Gives somebody a new access token, and a new refresh token in the place of `token`. One that was used before ends its
/// session, but that is not told.
///
/// # Errors
/// [`ActionError::Unauthenticated`], [`ActionError::Unavailable`].
pub async fn refresh(app: &AppState, token: &str, client: &Client) -> Result<Opened, ActionError> {
    let refused = ActionError::Unauthenticated(NO_REFRESH);
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
    let lives = Lives { unused: app.settings.refresh_ttl, whole: app.settings.session_ttl };
    match app.store.rotate(&Digest(old.0), &Digest(new.hash().0), lives, &reused, now).await? {
        Rotation::Done(session, user) => opened(app, &user, session.id, &new),
        Rotation::Reused | Rotation::Unknown => Err(refused),
    }
}

/// Ends the session that is asked from.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn logout(app: &AppState, session: &AuthSession, client: &Client) -> Result<(), ActionError> {
    let entry = audit::entry(session, client, "session.ended", session.id.to_string(), app.now());
    match app.store.noting(entry).end_session(session.user.id, session.id).await {
        // It ended while we looked: that is what was asked for.
        Err(StoreError::NotFound(_)) => Ok(()),
        ended => Ok(ended?),
    }
}

/// Ends the session of a refresh token. Whether there was one is not told.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn logout_by_refresh(app: &AppState, token: &str, client: &Client) -> Result<(), ActionError> {
    let Some(hash) = OpaqueHash::of(OpaqueKind::Refresh, token) else { return Ok(()) };
    let now = app.now();
    let Some((session, user)) = app.store.session_by_refresh(&Digest(hash.0), now).await? else {
        return Ok(());
    };
    logout(app, &AuthSession { id: session.id, user: Arc::new(user) }, client).await
}

/// Ends all sessions, the one that is asked from too.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn logout_all(app: &AppState, session: &AuthSession, client: &Client) -> Result<(), ActionError> {
    let entry = audit::entry(session, client, "session.all_ended", session.user.id.to_string(), app.now());
    app.store.noting(entry).end_sessions(session.user.id, None).await?;
    Ok(())
}

/// The sessions of whoever asks, the newest first.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState, session: &AuthSession) -> Result<Vec<store::Session>, ActionError> {
    Ok(app.store.sessions(session.user.id, app.now()).await?)
}

/// Ends one of the sessions of whoever asks.
///
/// # Errors
/// [`ActionError::NotFound`] if it has ended, or is somebody else's; [`ActionError::Unavailable`].
pub async fn end(
    app: &AppState,
    session: &AuthSession,
    id: SessionId,
    client: &Client,
) -> Result<(), ActionError> {
    let entry = audit::entry(session, client, "session.ended", id.to_string(), app.now());
    Ok(app.store.noting(entry).end_session(session.user.id, id).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::management::app_state::tests::{NOON, Site, Visitor};
    use crate::store::{AuditSubject, Role};
    use argon2::password_hash::CustomizedPasswordHasher;
    use argon2::{Argon2, Params};

    /// Shorter than one may be that is chosen today.
    const PASSWORD: &str = "swordfish";

    /// A hash of [`PASSWORD`] as it was made when machines were slower.
    fn weak() -> String {
        let params = Params::new(64, 1, 1, None).unwrap();
        let salt = b"a salt of sixtee";
        let hash = Argon2::default().hash_password_customized(PASSWORD.as_bytes(), salt, None, None, params);
        hash.unwrap().to_string()
    }

    /// Somebody whose hash is weak.
    async fn old_hand(site: &Site) -> (Visitor, String) {
        let (visitor, weak) = (site.member(Role::Owner).await, weak());
        let stored = visitor.user.password.clone().unwrap();
        assert!(site.app.store.renew_hash(visitor.user.id, &stored, &weak).await.unwrap());
        (visitor, weak)
    }

    async fn log_in(app: &Arc<AppState>, email: &str, password: &str) -> Result<Opened, ActionError> {
        let client = Client { address: "192.0.2.7".parse().unwrap(), agent: "a test".into() };
        login(app, email, password.into(), &client).await
    }

    async fn stored(site: &Site, visitor: &Visitor) -> String {
        site.app.store.user(visitor.user.id).await.unwrap().unwrap().password.unwrap()
    }

    #[tokio::test]
    async fn a_weak_hash_is_replaced_after_the_right_password_and_sessions_live_on() {
        let site = Site::new().await;
        let (visitor, weak) = old_hand(&site).await;
        let email = &visitor.user.email;
        log_in(&site.app, email, "swordfisH").await.unwrap_err();
        assert_eq!(stored(&site, &visitor).await, weak, "a wrong password renews nothing");
        log_in(&site.app, email, PASSWORD).await.unwrap();
        let strong = stored(&site, &visitor).await;
        assert!(!site.app.passwords.wants_renewal(&strong), "{strong}");
        assert!(site.app.passwords.verify(PASSWORD, Some(&strong)).await.unwrap());
        assert_eq!(site.app.store.sessions(visitor.user.id, NOON).await.unwrap().len(), 2);
        log_in(&site.app, email, PASSWORD).await.unwrap();
        assert_eq!(stored(&site, &visitor).await, strong, "once is enough");
        let told = site.app.store.audit(AuditSubject::User(visitor.user.id), 9).await.unwrap();
        assert!(told.iter().all(|entry| entry.action != "password.changed"), "{told:?}");
    }

    #[tokio::test]
    async fn of_several_who_renew_a_hash_at_once_all_are_logged_in() {
        let site = Site::new().await;
        let (visitor, _) = old_hand(&site).await;
        // More at once would look like guesses.
        let many: Vec<_> = (0..4)
            .map(|_| {
                let (app, email) = (site.app.clone(), visitor.user.email.clone());
                tokio::spawn(async move { log_in(&app, &email, PASSWORD).await })
            })
            .collect();
        for one in many {
            one.await.unwrap().unwrap();
        }
        let strong = stored(&site, &visitor).await;
        assert!(!site.app.passwords.wants_renewal(&strong), "{strong}");
        assert_eq!(site.app.store.sessions(visitor.user.id, NOON).await.unwrap().len(), 5);
    }

    #[tokio::test]
    async fn who_has_got_another_password_meanwhile_is_not_logged_in() {
        let site = Site::new().await;
        let (visitor, weak) = old_hand(&site).await;
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
