//! Sessions: logging in and out, and staying logged in.

use super::audit;
use crate::access::Session;
use crate::error::ActionError;
use crate::extract::Client;
use crate::house::House;
use crate::identity::password::Typed;
use crate::identity::refresh::{Kind, Opaque, OpaqueHash};
use crate::identity::token::Claims;
use crate::store::{self, Attempt, Audit, Digest, Rotation, SessionId, StoreError, Ticket, User, fresh_id};
use rpcgate_core::clock::Time;
use rpcgate_core::config::Secret;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

const WRONG: &str = "the e-mail address or the password is wrong";
const LOCKED: &str = "account temporarily locked";
const NO_REFRESH: &str = "the refresh token is not valid or has expired";

/// What somebody is given who is logged in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// The access token.
    pub token: Secret,
    /// How long it is good.
    pub ttl: Duration,
    /// What it can be renewed with, once.
    pub refresh_token: Secret,
}

/// Asks whether a password may be looked at for `email`, and counts it as wrong until [`pass`](store::Store::pass).
///
/// # Errors
/// [`ActionError::Forbidden`] while the address is locked, whether somebody has it or not; [`ActionError::Away`].
pub(super) async fn attempt(house: &House, email: &str, now: Time) -> Result<Ticket, ActionError> {
    match house.store.begin_attempt(email, now).await? {
        Attempt::May(ticket) => Ok(ticket),
        Attempt::Locked(_) => Err(ActionError::Forbidden(LOCKED)),
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
    house.attempts.admit(client.address)?;
    let now = house.now();
    let ticket = attempt(house, email, now).await?;
    let user = house.store.user_by_email(email).await?;
    let stored = user.as_ref().and_then(|user| user.password.as_deref());
    let is_right = verify(house, &ticket, password, stored).await?;
    let Some(user) = user else { return Err(ActionError::Unauthenticated(WRONG)) };
    match user.password.as_deref().filter(|_| is_right) {
        Some(verified) => open(house, &user, verified, client, now).await,
        None => {
            note_failure(house, entry(&user, client, "login.failed", String::new(), now));
            Err(ActionError::Unauthenticated(WRONG))
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

/// Leaves an entry without keeping the client waiting, who would learn from the time that there is such an account.
fn note_failure(house: &Arc<House>, entry: Audit) {
    let house = house.clone();
    let work = async move {
        if let Err(error) = house.store.note(&entry).await {
            tracing::warn!(%error, "a log-in that failed was not noted");
        }
    };
    drop(tokio::spawn(work.in_current_span()));
}

async fn open(
    house: &House,
    user: &User,
    verified: &str,
    client: &Client,
    now: Time,
) -> Result<Opened, ActionError> {
    let session = store::Session {
        id: SessionId(fresh_id(now)),
        user: user.id,
        created_at: now,
        seen_at: now,
        expires_at: now.plus(house.settings.refresh_ttl),
        address: client.address.to_string(),
        agent: client.agent.clone(),
    };
    let refresh = Opaque::make(Kind::Refresh)?;
    let entry = entry(user, client, "session.opened", session.id.to_string(), now);
    let is_open = house.store.open_session(&session, &Digest(refresh.hash().0), verified, &entry).await?;
    if is_open { opened(house, user, session.id, &refresh) } else { Err(ActionError::Unauthenticated(WRONG)) }
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
    let expires_at = now.plus(house.settings.refresh_ttl);
    match house.store.rotate(&Digest(old.0), &Digest(new.hash().0), expires_at, &reused, now).await? {
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
