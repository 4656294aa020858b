//! Resets of forgotten passwords: the person who reads an address's mails can set the password of its account.
//!
//! A request does not reveal which addresses have an account: the answer is the same, and does not wait for the mail.

use super::security;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::extract::Client;
use crate::identity::password::Typed;
use crate::identity::refresh::{Opaque, OpaqueHash, OpaqueKind};
use crate::mail::{self, Address, Mail, SecurityEvent};
use rpcgate_core::clock::Time;
use rpcgate_store::{Attempt, AttemptKind, Audit, Digest, KeptByReset, Purpose};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// The validity of a link that sets a password.
pub const RESET_LIFE: Duration = Duration::from_secs(3_600);

/// The path of the page that the mail's link leads to; `?token=…` follows.
pub const RESET_PATH: &str = "/password/reset";

fn entry(action: &str, client: &Client, at: Time) -> Audit {
    Audit {
        tenant: None,
        user: None,
        action: action.to_owned(),
        subject: String::new(),
        address: client.address.to_string(),
        at,
        detail: String::new(),
    }
}

/// Sends the mail for setting a password to this address, if it has an account, at most a few in a quarter of an hour.
///
/// # Errors
/// [`ActionError::TooMany`] after too many attempts from one client, [`ActionError::Unavailable`].
pub async fn forgot(app: &Arc<AppState>, email: &str, client: &Client) -> Result<(), ActionError> {
    app.limits.attempts.admit(client.address)?;
    let Ok(email) = mail::address(email) else { return Ok(()) };
    let now = app.now();
    if let Attempt::Locked(_) = app.store.begin_attempt(AttemptKind::Resets(email.as_str()), now).await? {
        return Ok(());
    }
    let app = app.clone();
    let entry = entry("password.reset_asked", client, now);
    let work = async move {
        if let Err(error) = mail_reset(&app, email, &entry, now).await {
            tracing::warn!(%error, "a mail that sets a password could not be sent");
        }
    };
    drop(tokio::spawn(work.in_current_span()));
    Ok(())
}

async fn mail_reset(
    app: &Arc<AppState>,
    email: Address,
    entry: &Audit,
    now: Time,
) -> Result<(), ActionError> {
    let token = Opaque::make(OpaqueKind::Reset)?;
    let expires_at = now.plus(RESET_LIFE);
    if !app.store.put_reset(email.as_str(), &Digest(token.hash().0), expires_at, entry).await? {
        return Ok(());
    }
    app.mails.send(&reset_mail(app, email, &token), now).await.map_err(ActionError::from)
}

pub(in crate::action) fn reset_mail(app: &AppState, email: Address, token: &Opaque) -> Mail {
    let link = format!("{}{RESET_PATH}?token={}", app.settings.dash_url, token.expose());
    Mail::password_reset(email, &link, RESET_LIFE)
}

/// Sets the password of the account for which `token` was mailed. This also confirms the address, ends a lock, and ends
/// all sessions and access tokens of the account. It removes second factors that were added in the last seven days and
/// withdraws the user's open invitations, unless they are `kept`: a thief with a stolen session may have made them.
///
/// # Errors
/// [`ActionError::Refused`] for a token that is unknown or has expired, [`ActionError::Invalid`] for a weak
/// password; [`ActionError::TooMany`] after too many attempts from one client, or while too many passwords are being
/// hashed; [`ActionError::Unavailable`].
pub async fn reset(
    app: &AppState,
    token: &str,
    password: Typed,
    kept: KeptByReset,
    client: &Client,
) -> Result<(), ActionError> {
    app.limits.attempts.admit(client.address)?;
    let hash = OpaqueHash::of(OpaqueKind::Reset, token).ok_or(ActionError::BAD_TOKEN)?;
    let password = password.choose().map_err(|error| ActionError::field("password", error))?;
    let hash = Digest(hash.0);
    let now = app.now();
    // Hashing is expensive, so it is done only for a valid token.
    if !app.store.is_mailed(Purpose::Reset, &hash, now).await? {
        return Err(ActionError::BAD_TOKEN);
    }
    let password = app.passwords.hash(password).await?;
    let entry = entry("password.reset", client, now);
    let user = app.store.reset_password(&hash, &password, kept, &entry).await?;
    let user = user.ok_or(ActionError::BAD_TOKEN)?;
    security::notify(app, &user, SecurityEvent::PasswordReset, client.address).await;
    Ok(())
}
