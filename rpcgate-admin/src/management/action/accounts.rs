//! Accounts: registering, and confirming the address.
//!
//! Whoever registers learns nothing of who has an account: for an address that is taken the same is computed, answered
//! and sent, only that the mail, which its owner alone reads, says something else.

use super::sessions::expect_few;
use super::{audit, emails, text};
use crate::management::access::AuthSession;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Client;
use crate::management::identity::challenge::Challenge;
use crate::management::identity::password::Typed;
use crate::management::identity::refresh::{Opaque, OpaqueHash, OpaqueKind};
use crate::management::mail::{self, Address, Mail};
use crate::store::{
    Attempt, Audit, Counted, Digest, Registered, Registration, Role, Tenant, User, UserId, fresh_id,
};
use rpcgate_core::caller::TenantId;
use rpcgate_core::plan::Tier;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// How long a link that confirms an address is good.
pub const CONFIRMATION_LIFE: Duration = Duration::from_secs(24 * 3_600);

const CONFIRMED: &str = "the e-mail address is confirmed already";
const BAD_TOKEN: &str = "the token is not valid, was used, or has expired";

/// What somebody registers with.
#[derive(Clone, Debug)]
pub struct Application {
    /// The address, as it was typed.
    pub email: String,
    /// The password, as it was typed.
    pub password: Typed,
    /// The person's name, or nothing.
    pub name: String,
    /// The solution of a challenge.
    pub challenge: String,
}

/// What somebody is told who has registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applicant {
    /// The address that a mail went to.
    pub email: Address,
    /// The name.
    pub name: String,
}

fn invalid(why: &(impl ToString + ?Sized)) -> ActionError {
    ActionError::Invalid(why.to_string())
}

/// A challenge that whoever registers must solve.
///
/// # Errors
/// [`ActionError::Broken`].
pub fn challenge(app: &AppState) -> Result<Challenge, ActionError> {
    Ok(app.challenges.pose(app.now())?)
}

/// Makes a tenant and its owner, and sends the owner a mail with the token that confirms the address. What has begun is
/// brought to an end also when nobody waits for it: an account whose mail was never sent would be of no use.
///
/// # Errors
/// [`ActionError::TooMany`] after too many attempts from one address, or while too many passwords are hashed;
/// [`ActionError::Invalid`] says what is wrong with the application; [`ActionError::Unavailable`].
pub async fn register(
    app: &Arc<AppState>,
    application: Application,
    client: &Client,
) -> Result<Applicant, ActionError> {
    app.admit_attempt(client.address).await?;
    let now = app.now();
    let email = mail::address(&application.email).map_err(|error| invalid(&error))?;
    let name = text::line("name", &application.name)?;
    let password = application.password.choose().map_err(|error| invalid(&error))?;
    let solved = app.challenges.check(&application.challenge, now).map_err(|error| invalid(&error))?;
    let password = app.passwords.hash(password).await?;
    let token = Opaque::make(OpaqueKind::Confirmation)?;
    let tenant = Tenant {
        id: TenantId(fresh_id(now)),
        name: if name.is_empty() { email.to_string() } else { name.clone() },
        tier: Tier::Free,
        suspended: false,
        created_at: now,
    };
    let user = User {
        id: UserId(fresh_id(now)),
        tenant: Some(tenant.id),
        email: email.to_string(),
        name: name.clone(),
        role: Role::Owner,
        password: Some(password),
        confirmed_at: None,
        created_at: now,
    };
    let entry = Audit {
        tenant: Some(tenant.id),
        user: Some(user.id),
        action: "account.registered".into(),
        subject: user.id.to_string(),
        address: client.address.to_string(),
        at: now,
        detail: String::new(),
    };
    let applicant = Applicant { email: email.clone(), name };
    let app = app.clone();
    let work = async move {
        let counted = Counted::Registrations(&user.email);
        if let Attempt::Locked(_) = app.store.begin_attempt(counted, now).await? {
            // The answer is the same: whoever reads the mails has had enough of them.
            return Ok(());
        }
        let registration = Registration {
            tenant: &tenant,
            user: &user,
            confirmation: Digest(token.hash().0),
            confirmation_expires_at: now.plus(CONFIRMATION_LIFE),
            solved: Some((Digest(solved.digest), solved.expires_at)),
        };
        let mail = match app.store.register(&registration, &entry, now).await? {
            Registered::Done => confirmation(&app, email, &token),
            Registered::AddressTaken => Mail::registered_already(email, &app.settings.dash_url),
            Registered::SolutionUsed => {
                return Err(invalid("the challenge's solution was used before, ask for a new challenge"));
            }
        };
        app.mails.send(&mail, now).await.map_err(ActionError::from)
    };
    let done = tokio::spawn(work.in_current_span()).await;
    done.map_err(|error| ActionError::Broken(format!("registering ended early: {error}")))??;
    Ok(applicant)
}

fn confirmation(app: &AppState, email: Address, token: &Opaque) -> Mail {
    Mail::confirmation(email, &app.settings.dash_url, token.expose(), CONFIRMATION_LIFE)
}

/// Sends another mail with a token, in the place of the one before: a few in a quarter of an hour, lest somebody be
/// pestered with them.
///
/// # Errors
/// [`ActionError::Conflict`] if the address is confirmed, [`ActionError::TooMany`], [`ActionError::Unavailable`].
pub async fn confirm_again(
    app: &Arc<AppState>,
    session: &AuthSession,
    client: &Client,
) -> Result<(), ActionError> {
    let now = app.now();
    let user = &session.user;
    if user.confirmed_at.is_some() {
        return Err(ActionError::Conflict(CONFIRMED));
    }
    let email = mail::address(&user.email).map_err(|error| ActionError::Broken(error.to_string()))?;
    expect_few(app, Counted::Confirmations(&user.email), now).await?;
    let token = Opaque::make(OpaqueKind::Confirmation)?;
    let expires_at = now.plus(CONFIRMATION_LIFE);
    if !app.store.renew_confirmation(user.id, &Digest(token.hash().0), expires_at).await? {
        return Err(ActionError::Conflict(CONFIRMED));
    }
    let entry = audit::entry(session, client, "account.confirmation_renewed", user.id.to_string(), now);
    app.store.note(&entry).await?;
    app.mails.send(&confirmation(app, email, &token), now).await.map_err(ActionError::from)
}

/// Whether whoever opens the link with `token` must choose a password: all but those who are logged in to the very account,
/// for whoever reads the mails may not be the one that registered.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn wants_password(
    app: &AppState,
    token: &str,
    session: Option<&AuthSession>,
) -> Result<bool, ActionError> {
    let Some(hash) = OpaqueHash::of(OpaqueKind::Confirmation, token) else { return Ok(false) };
    let Some(session) = session else { return Ok(true) };
    let owner = app.store.confirmation(&Digest(hash.0), app.now()).await?;
    Ok(owner.is_some_and(|owner| owner != session.user.id))
}

/// Confirms the address that `token` was sent to: that of a new account, or another one of an account. With a `password`,
/// which is for new accounts, that is the account's from then on, and nobody stays logged in: whoever reads the mails may
/// not be the one that registered.
///
/// # Errors
/// [`ActionError::Invalid`] for a token that is none, or not any more, or for a password that is too weak;
/// [`ActionError::TooMany`] after too many attempts with a password from one address, or while too many are hashed;
/// [`ActionError::Taken`] if somebody has the other address by now; [`ActionError::Unavailable`].
pub async fn confirm(
    app: &Arc<AppState>,
    token: &str,
    password: Option<Typed>,
    client: &Client,
) -> Result<(), ActionError> {
    if emails::is_change(token) {
        return match password {
            None => emails::take_effect(app, token, client).await,
            Some(_) => Err(invalid("`password` is for the confirmation of a new account")),
        };
    }
    let hash = OpaqueHash::of(OpaqueKind::Confirmation, token).ok_or_else(|| invalid(BAD_TOKEN))?;
    let now = app.now();
    let password = match password {
        None => None,
        Some(typed) => {
            app.admit_attempt(client.address).await?;
            let chosen = typed.choose().map_err(|error| invalid(&error))?;
            Some(app.passwords.hash(chosen).await?)
        }
    };
    let entry = Audit {
        tenant: None,
        user: None,
        action: "account.confirmed".into(),
        subject: String::new(),
        address: client.address.to_string(),
        at: now,
        detail: String::new(),
    };
    let confirmed = app.store.confirm(&Digest(hash.0), password.as_deref(), &entry, now).await?;
    confirmed.map(drop).ok_or_else(|| invalid(BAD_TOKEN))
}
