//! Sessions: logging in and out, and staying logged in.

use super::audit;
use crate::access::Session;
use crate::error::ActionError;
use crate::extract::Client;
use crate::house::House;
use crate::identity::password::Typed;
use crate::identity::refresh::{Kind, Opaque, OpaqueHash};
use crate::identity::token::Claims;
use crate::store::{
    self, Attempt, Audit, Counted, Digest, Lives, Rotation, SessionId, StoreError, Ticket, User, fresh_id,
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
/// [`ActionError::Forbidden`] while the address is locked, whether somebody has it or not; [`ActionError::Away`].
pub(super) async fn attempt(house: &House, counted: Counted<'_>, now: Time) -> Result<Ticket, ActionError> {
    match house.store.begin_attempt(counted, now).await? {
        Attempt::May(ticket) => Ok(ticket),
        Attempt::Locked(_) => Err(ActionError::Forbidden(LOCKED)),
    }
}

/// Counts what somebody may do a few times in a quarter of an hour.
///
/// # Errors
/// [`ActionError::TooMany`] after too many, [`ActionError::Away`].
pub(super) async fn expect_few(house: &House, counted: Counted<'_>, now: Time) -> Result<(), ActionError> {
    match house.store.begin_attempt(counted, now).await? {
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
/// [`ActionError::TooMany`] while too many passwords are checked, [`ActionError::Away`].
pub(super) async fn verify(
    house: &House,
    ticket: &Ticket,
    password: Typed,
    stored: Option<&str>,
) -> Result<bool, ActionError> {
    match house.passwords.verify(password, stored).await {
        Ok(true) => house.store.pass(ticket).await?,
        Ok(false) => return Ok(false),
        Err(error) => {
            house.store.give_back(ticket).await?;
            return Err(error.into());
        }
    }
    Ok(true)
}

/// Logs somebody in. What is wrong, the address or the password, is not told, and takes the same time.
///
/// # Errors
/// [`ActionError::TooMany`] after too many attempts from one address, or while too many passwords are checked;
/// [`ActionError::Forbidden`] while the account is locked; [`ActionError::Unauthenticated`]; [`ActionError::Away`].
pub async fn login(
    house: &Arc<House>,
    email: &str,
    password: Typed,
    client: &Client,
) -> Result<Opened, ActionError> {
    house.admit_attempt(client.address).await?;
    let now = house.now();
    let ticket = attempt(house, Counted::LogIns(email), now).await?;
    // The second time for the case that another log-in renews the hash at the very moment.
    for _ in 0..2 {
        let user = house.store.user_by_email(email).await?;
        let stored = user.as_ref().and_then(|user| user.password.as_deref());
        let is_right = verify(house, &ticket, password.clone(), stored).await?;
        let Some(user) = user else {
            note_failure(house, nobody(client, now), false);
            break;
        };
        let Some(verified) = user.password.as_deref().filter(|_| is_right) else {
            note_failure(house, entry(&user, client, "login.failed", String::new(), now), true);
            break;
        };
        let current = renewed(house, &user, verified, &password).await;
        if let Some(opened) = open(house, &user, &current, client, now).await? {
            return Ok(opened);
        }
        if house.store.is_disabled(user.id).await? {
            return Err(ActionError::Forbidden(DISABLED));
        }
    }
    Err(ActionError::Unauthenticated(WRONG))
}

/// The hash that is stored for `user` from here on: `verified`, or one of today's effort if that was made with less. A
/// log-in does not fail because of it; the next one tries again.
async fn renewed<'v>(house: &House, user: &User, verified: &'v str, password: &Typed) -> Cow<'v, str> {
    if !house.passwords.wants_renewal(verified) {
        return verified.into();
    }
    let new = match house.passwords.renew(password.clone()).await {
        Ok(new) => new,
        Err(error) => {
            tracing::debug!(%error, "a weak hash was not renewed");
            return verified.into();
        }
    };
    match house.store.renew_hash(user.id, verified, &new).await {
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
fn note_failure(house: &Arc<House>, entry: Audit, is_kept: bool) {
    let house = house.clone();
    let work = async move {
        let noted = if is_kept { house.store.note(&entry).await } else { house.store.feign(&entry).await };
        if let Err(error) = noted {
            tracing::warn!(%error, "a log-in that failed was not noted");
        }
    };
    drop(tokio::spawn(work.in_current_span()));
}

/// None if the hash of the password is another than `verified` by now.
async fn open(
    house: &House,
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
        expires_at: now.plus(house.settings.refresh_ttl.min(house.settings.session_ttl)),
        address: client.address.to_string(),
        agent: client.agent.clone(),
    };
    let refresh = Opaque::make(Kind::Refresh)?;
    let entry = entry(user, client, "session.opened", session.id.to_string(), now);
    let is_open = house.store.open_session(&session, &Digest(refresh.hash().0), verified, &entry).await?;
    is_open.then(|| opened(house, user, session.id, &refresh)).transpose()
}

/// The access token's time begins when it is made, not when its password was sent.
fn opened(house: &House, user: &User, session: SessionId, refresh: &Opaque) -> Result<Opened, ActionError> {
    let claims = Claims {
        sub: user.id,
        sid: session.0,
        tenant: user.tenant.unwrap_or_default(),
        role: user.role.into(),
        operator: user.is_operator(),
    };
    Ok(Opened {
        claims,
        token: Secret::new(house.tokens.issue(&claims, house.now())?),
        ttl: house.tokens.ttl(),
        refresh_token: Secret::new(refresh.expose()),
    })
}

/// Gives somebody a new access token, and a new refresh token in the place of `token`. One that was used before ends its
/// session, but that is not told.
///
/// # Errors
/// [`ActionError::Unauthenticated`], [`ActionError::Away`].
pub async fn refresh(house: &House, token: &str, client: &Client) -> Result<Opened, ActionError> {
    let refused = ActionError::Unauthenticated(NO_REFRESH);
    let Some(old) = OpaqueHash::of(Kind::Refresh, token) else { return Err(refused) };
    let new = Opaque::make(Kind::Refresh)?;
    let now = house.now();
    let reused = Audit {
        tenant: None,
        user: None,
        action: "session.token_reused".into(),
        subject: String::new(),
        address: client.address.to_string(),
        at: now,
        detail: "the session was ended".into(),
    };
    let lives = Lives { unused: house.settings.refresh_ttl, whole: house.settings.session_ttl };
    match house.store.rotate(&Digest(old.0), &Digest(new.hash().0), lives, &reused, now).await? {
        Rotation::Done(session, user) => opened(house, &user, session.id, &new),
        Rotation::Reused | Rotation::Unknown => Err(refused),
    }
}

/// Ends the session that is asked from.
///
/// # Errors
/// [`ActionError::Away`].
pub async fn logout(house: &House, session: &Session, client: &Client) -> Result<(), ActionError> {
    let entry = audit::entry(session, client, "session.ended", session.id.to_string(), house.now());
    match house.store.noting(entry).end_session(session.user.id, session.id).await {
        // It ended while we looked: that is what was asked for.
        Err(StoreError::NotFound(_)) => Ok(()),
        ended => Ok(ended?),
    }
}

/// Ends the session of a refresh token. Whether there was one is not told.
///
/// # Errors
/// [`ActionError::Away`].
pub async fn logout_by_refresh(house: &House, token: &str, client: &Client) -> Result<(), ActionError> {
    let Some(hash) = OpaqueHash::of(Kind::Refresh, token) else { return Ok(()) };
    let now = house.now();
    let Some((session, user)) = house.store.session_by_refresh(&Digest(hash.0), now).await? else {
        return Ok(());
    };
    logout(house, &Session { id: session.id, user: Arc::new(user) }, client).await
}

/// Ends all sessions, the one that is asked from too.
///
/// # Errors
/// [`ActionError::Away`].
pub async fn logout_all(house: &House, session: &Session, client: &Client) -> Result<(), ActionError> {
    let entry = audit::entry(session, client, "session.all_ended", session.user.id.to_string(), house.now());
    house.store.noting(entry).end_sessions(session.user.id, None).await?;
    Ok(())
}

/// The sessions of whoever asks, the newest first.
///
/// # Errors
/// [`ActionError::Away`].
pub async fn list(house: &House, session: &Session) -> Result<Vec<store::Session>, ActionError> {
    Ok(house.store.sessions(session.user.id, house.now()).await?)
}

/// Ends one of the sessions of whoever asks.
///
/// # Errors
/// [`ActionError::NotFound`] if it has ended, or is somebody else's; [`ActionError::Away`].
pub async fn end(
    house: &House,
    session: &Session,
    id: SessionId,
    client: &Client,
) -> Result<(), ActionError> {
    let entry = audit::entry(session, client, "session.ended", id.to_string(), house.now());
    Ok(house.store.noting(entry).end_session(session.user.id, id).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::house::tests::{NOON, Site, Visitor};
    use crate::store::{Role, Whose};
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
        assert!(site.house.store.renew_hash(visitor.user.id, &stored, &weak).await.unwrap());
        (visitor, weak)
    }

    async fn log_in(house: &Arc<House>, email: &str, password: &str) -> Result<Opened, ActionError> {
        let client = Client { address: "192.0.2.7".parse().unwrap(), agent: "a test".into() };
        login(house, email, password.into(), &client).await
    }

    async fn stored(site: &Site, visitor: &Visitor) -> String {
        site.house.store.user(visitor.user.id).await.unwrap().unwrap().password.unwrap()
    }

    #[tokio::test]
    async fn a_weak_hash_is_replaced_after_the_right_password_and_sessions_live_on() {
        let site = Site::new().await;
        let (visitor, weak) = old_hand(&site).await;
        let email = &visitor.user.email;
        log_in(&site.house, email, "swordfisH").await.unwrap_err();
        assert_eq!(stored(&site, &visitor).await, weak, "a wrong password renews nothing");
        log_in(&site.house, email, PASSWORD).await.unwrap();
        let strong = stored(&site, &visitor).await;
        assert!(!site.house.passwords.wants_renewal(&strong), "{strong}");
        assert!(site.house.passwords.verify(PASSWORD, Some(&strong)).await.unwrap());
        assert_eq!(site.house.store.sessions(visitor.user.id, NOON).await.unwrap().len(), 2);
        log_in(&site.house, email, PASSWORD).await.unwrap();
        assert_eq!(stored(&site, &visitor).await, strong, "once is enough");
        let told = site.house.store.audit(Whose::User(visitor.user.id), 9).await.unwrap();
        assert!(told.iter().all(|entry| entry.action != "password.changed"), "{told:?}");
    }

    #[tokio::test]
    async fn of_several_who_renew_a_hash_at_once_all_are_logged_in() {
        let site = Site::new().await;
        let (visitor, _) = old_hand(&site).await;
        // More at once would look like guesses.
        let many: Vec<_> = (0..4)
            .map(|_| {
                let (house, email) = (site.house.clone(), visitor.user.email.clone());
                tokio::spawn(async move { log_in(&house, &email, PASSWORD).await })
            })
            .collect();
        for one in many {
            one.await.unwrap().unwrap();
        }
        let strong = stored(&site, &visitor).await;
        assert!(!site.house.passwords.wants_renewal(&strong), "{strong}");
        assert_eq!(site.house.store.sessions(visitor.user.id, NOON).await.unwrap().len(), 5);
    }

    #[tokio::test]
    async fn who_has_got_another_password_meanwhile_is_not_logged_in() {
        let site = Site::new().await;
        let (visitor, weak) = old_hand(&site).await;
        let other = site.house.passwords.renew("another password".into()).await.unwrap();
        assert!(site.house.store.renew_hash(visitor.user.id, &weak, &other).await.unwrap());
        assert!(
            !site.house.store.renew_hash(visitor.user.id, &weak, "x").await.unwrap(),
            "it is another by now"
        );
        let user = User { password: Some(weak.clone()), ..visitor.user.clone() };
        let current = renewed(&site.house, &user, &weak, &PASSWORD.into()).await;
        let client = Client { address: "192.0.2.7".parse().unwrap(), agent: String::new() };
        assert_eq!(open(&site.house, &user, &current, &client, NOON).await.unwrap(), None);
        assert_eq!(stored(&site, &visitor).await, other);
        assert!(log_in(&site.house, &visitor.user.email, PASSWORD).await.is_err());
    }
}
