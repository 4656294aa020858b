//! Accounts: registration and confirmation of the address.
//!
//! Registration does not reveal which addresses have an account. A taken address gets the same work, the same answer
//! and a mail; only the text of the mail, which just its owner reads, differs.

use super::sessions::limit_attempts;
use super::{audit, emails, text};
use crate::access::AuthSession;
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::extract::Client;
use crate::identity::challenge::{Challenge, Solved};
use crate::identity::password::Typed;
use crate::identity::refresh::{Opaque, OpaqueHash, OpaqueKind};
use crate::identity::verifier::Provider;
use crate::mail::{self, Address, Mail};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use rpcgate_store::{
    Attempt, AttemptKind, Audit, Digest, Registered, Registration, Role, Tenant, User, UserId, fresh_id,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// The validity of a link that confirms an address.
pub const CONFIRMATION_LIFE: Duration = Duration::from_secs(24 * 3_600);

const CONFIRMED: ActionError =
    ActionError::Refused(ErrorCode::EmailConfirmed, "the e-mail address is confirmed already");

/// The data of a registration.
#[derive(Clone, Debug)]
pub struct Application {
    /// The address as it was typed.
    pub email: String,
    /// The password as it was typed.
    pub password: Typed,
    /// The person's name, or an empty text.
    pub name: String,
    /// The solution of a challenge.
    pub challenge: String,
}

/// The outcome of a registration. It is the same for a free and a taken address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applicant {
    /// The address to which a mail was sent.
    pub email: Address,
    /// The person's name.
    pub name: String,
}

/// The challenge that a client must solve to register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PosedChallenge {
    /// A challenge of our own.
    Own(Challenge),
    /// The challenge of a provider, which its widget shows.
    Hosted {
        /// The provider.
        provider: Provider,
        /// The public key for the widget.
        site_key: String,
    },
}

/// Returns a challenge that a client must solve to register.
///
/// # Errors
/// [`ActionError::Broken`].
pub fn challenge(app: &AppState) -> Result<PosedChallenge, ActionError> {
    Ok(match &app.verifier {
        None => PosedChallenge::Own(app.challenges.issue(app.now())?),
        Some(verifier) => {
            PosedChallenge::Hosted { provider: verifier.provider(), site_key: verifier.site_key().to_owned() }
        }
    })
}

async fn solved(app: &AppState, solution: &str, address: IpAddr, now: Time) -> Result<Solved, ActionError> {
    match &app.verifier {
        None => Ok(app.challenges.check(solution, now)?),
        Some(verifier) => Ok(verifier.check(solution, address, now).await?),
    }
}

/// Creates a tenant and its owner, and sends the owner a mail with the token that confirms the address. The work
/// completes even if the client disconnects, because an account without its mail would be useless.
///
/// # Errors
/// [`ActionError::TooMany`] after too many attempts from one client address, or while too many passwords are being
/// hashed; [`ActionError::Invalid`] for an invalid field, [`ActionError::Challenge`] for a wrong solution of the
/// challenge; [`ActionError::VerifierAway`] if the challenge provider gives no verdict; [`ActionError::Unavailable`].
pub async fn register(
    app: &Arc<AppState>,
    application: Application,
    client: &Client,
) -> Result<Applicant, ActionError> {
    app.admit_attempt(client.address).await?;
    let now = app.now();
    let email = mail::address(&application.email).map_err(|error| ActionError::field("email", error))?;
    let name = text::line("name", &application.name)?;
    let password = application.password.choose().map_err(|error| ActionError::field("password", error))?;
    let solved = solved(app, &application.challenge, client.address, now).await?;
    let password = app.passwords.hash(password).await?;
    let token = Opaque::make(OpaqueKind::Confirmation)?;
    let tenant = Tenant::new(
        TenantId(fresh_id(now)),
        if name.is_empty() { email.to_string() } else { name.clone() },
        Tier::Free,
        now,
    );
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
        let counted = AttemptKind::Registrations(&user.email);
        if let Attempt::Locked(_) = app.store.begin_attempt(counted, now).await? {
            // The client gets the same answer, but the address has received enough mails.
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
                let used = "the challenge's solution was used before, ask for a new challenge";
                return Err(ActionError::Challenge(used.into()));
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

/// Sends another mail with a token that replaces the previous one, at most a few in a quarter of an hour, so that no
/// address is flooded with mails.
///
/// # Errors
/// [`ErrorCode::EmailConfirmed`] if the address is confirmed, [`ActionError::TooMany`], [`ActionError::Unavailable`].
pub async fn confirm_again(
    app: &Arc<AppState>,
    session: &AuthSession,
    client: &Client,
) -> Result<(), ActionError> {
    let now = app.now();
    let user = &session.user;
    if user.confirmed_at.is_some() {
        return Err(CONFIRMED);
    }
    let email = mail::address(&user.email).map_err(|error| ActionError::Broken(error.to_string()))?;
    limit_attempts(app, AttemptKind::Confirmations(&user.email), now).await?;
    let token = Opaque::make(OpaqueKind::Confirmation)?;
    let expires_at = now.plus(CONFIRMATION_LIFE);
    if !app.store.renew_confirmation(user.id, &Digest(token.hash().0), expires_at).await? {
        return Err(CONFIRMED);
    }
    let entry = audit::entry(session, client, "account.confirmation_renewed", user.id.to_string(), now);
    app.store.note(&entry).await?;
    app.mails.send(&confirmation(app, email, &token), now).await.map_err(ActionError::from)
}

/// Reports whether the user who opens the link with `token` must choose a password. Only a user who is logged in to the
/// same account need not, because the person who reads the mails may not be the one who registered.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn needs_password(
    app: &AppState,
    token: &str,
    session: Option<&AuthSession>,
) -> Result<bool, ActionError> {
    let Some(hash) = OpaqueHash::of(OpaqueKind::Confirmation, token) else { return Ok(false) };
    let Some(session) = session else { return Ok(true) };
    let owner = app.store.confirmation(&Digest(hash.0), app.now()).await?;
    Ok(owner.is_some_and(|owner| owner != session.user.id))
}

/// Confirms the address to which `token` was sent: that of a new account, or the new address of an existing one. For a
/// new account, `password` becomes the account's password and ends all sessions, because the person who reads the mails
/// may not be the one who registered.
///
/// # Errors
/// [`ErrorCode::TokenInvalid`] for a token that is unknown or has expired, [`ActionError::Invalid`] for a weak
/// password; [`ActionError::TooMany`] after too many attempts with a password from one client address, or while too
/// many passwords are being hashed; [`ActionError::Taken`] if another account has taken the new address;
/// [`ActionError::Unavailable`].
pub async fn confirm(
    app: &Arc<AppState>,
    token: &str,
    password: Option<Typed>,
    client: &Client,
) -> Result<(), ActionError> {
    if emails::is_change(token) {
        return match password {
            None => emails::apply_change(app, token, client).await,
            Some(_) => Err(ActionError::named("password", "is for the confirmation of a new account")),
        };
    }
    let hash = OpaqueHash::of(OpaqueKind::Confirmation, token).ok_or(ActionError::BAD_TOKEN)?;
    let now = app.now();
    let password = match password {
        None => None,
        Some(typed) => {
            app.admit_attempt(client.address).await?;
            let chosen = typed.choose().map_err(|error| ActionError::field("password", error))?;
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
    confirmed.map(drop).ok_or(ActionError::BAD_TOKEN)
}
