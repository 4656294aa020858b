//! Changes of an account's address, which take effect once the new address is confirmed.
//!
//! A request does not reveal which addresses have an account: a taken address gets a mail too, which says that it is
//! taken.

use super::factors::expect_proof;
use super::me::check_password;
use super::sessions::limit_attempts;
use super::{audit, security};
use crate::access::AuthSession;
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::extract::Client;
use crate::identity::password::Typed;
use crate::identity::refresh::{Opaque, OpaqueHash, OpaqueKind};
use crate::mail::{self, Address, Mail, SecurityEvent};
use rpcgate_store::{AttemptKind, Audit, Digest, EmailChange, EmailChangeOutcome, Purpose};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// The validity of a link that confirms a new address.
pub const EMAIL_CHANGE_LIFE: Duration = Duration::from_secs(24 * 3_600);

fn stored(email: &str) -> Result<Address, ActionError> {
    mail::address(email).map_err(|error| ActionError::Broken(error.to_string()))
}

/// Sends a mail with a token to the new address and informs the current one. The password can be omitted if the session
/// has a recent proof. The work completes even if the client disconnects.
///
/// # Errors
/// [`ErrorCode::ProofRequired`] without a password or a proof; [`ActionError::Invalid`] for an invalid or
/// unchanged address; [`ErrorCode::EmailUnconfirmed`] if the current address is not confirmed;
/// [`ErrorCode::PasswordWrong`], or [`ErrorCode::AccountLocked`] after too many wrong passwords;
/// [`ActionError::TooMany`] after too many mails, or while too many passwords are being verified;
/// [`ActionError::Unavailable`].
pub async fn request(
    app: &Arc<AppState>,
    session: &AuthSession,
    email: &str,
    password: Option<Typed>,
    client: &Client,
) -> Result<Address, ActionError> {
    let user = &session.user;
    let now = app.now();
    if password.is_none() {
        expect_proof(session, now)?;
    }
    let email = mail::address(email).map_err(|error| ActionError::field("email", error))?;
    if user.confirmed_at.is_none() {
        let text = "confirm your e-mail address before you change it";
        return Err(ActionError::Refused(ErrorCode::EmailUnconfirmed, text));
    }
    if email.as_str() == user.email {
        return Err(ActionError::field("email", "this is your e-mail address already"));
    }
    let before = stored(&user.email)?;
    if let Some(password) = password {
        check_password(app, session, password, client, now).await?;
    }
    limit_attempts(app, AttemptKind::EmailChanges(&user.email), now).await?;
    limit_attempts(app, AttemptKind::NewEmails(email.as_str()), now).await?;
    let token = Opaque::make(OpaqueKind::EmailChange)?;
    let mut entry = audit::entry(session, client, "email.change_asked", user.id.to_string(), now);
    entry.detail = email.to_string();
    let app = app.clone();
    let user = user.id;
    let requested = email.clone();
    let work = async move {
        let change = EmailChange {
            user,
            email: email.as_str(),
            token: Digest(token.hash().0),
            expires_at: now.plus(EMAIL_CHANGE_LIFE),
        };
        let dash_url = &app.settings.dash_url;
        let mail = match app.store.put_email_change(&change, &entry).await? {
            EmailChangeOutcome::Pending => {
                Mail::email_change(email.clone(), dash_url, token.expose(), EMAIL_CHANGE_LIFE)
            }
            EmailChangeOutcome::HasAccount => Mail::email_change_in_vain(email.clone(), &before),
        };
        app.mails.send(&Mail::email_change_requested(before, &email, dash_url), now).await?;
        app.mails.send(&mail, now).await.map_err(ActionError::from)
    };
    let done = tokio::spawn(work.in_current_span()).await;
    done.map_err(|error| ActionError::Broken(format!("changing an address ended early: {error}")))??;
    Ok(requested)
}

/// Reports whether `token` is one that changes an account's address.
pub(super) fn is_change(token: &str) -> bool {
    OpaqueHash::of(OpaqueKind::EmailChange, token).is_some()
}

/// Changes the account of `token` to the address to which the token was mailed, and informs the previous address.
///
/// # Errors
/// [`ErrorCode::TokenInvalid`] for a token that is unknown or has expired; [`ActionError::Taken`] if another account
/// has taken the address; [`ActionError::Unavailable`].
pub(super) async fn apply_change(
    app: &Arc<AppState>,
    token: &str,
    client: &Client,
) -> Result<(), ActionError> {
    let hash = OpaqueHash::of(OpaqueKind::EmailChange, token).ok_or(ActionError::BAD_TOKEN)?;
    let hash = Digest(hash.0);
    let now = app.now();
    // Anyone can send any token, so an unknown one must not occupy the writer queue.
    if !app.store.is_mailed(Purpose::EmailChange, &hash, now).await? {
        return Err(ActionError::BAD_TOKEN);
    }
    let entry = Audit {
        tenant: None,
        user: None,
        action: "email.changed".into(),
        subject: String::new(),
        address: client.address.to_string(),
        at: now,
        detail: String::new(),
    };
    let changed = app.store.change_email(&hash, &entry, now).await?.ok_or(ActionError::BAD_TOKEN)?;
    let dash_url = &app.settings.dash_url;
    let notice = Mail::email_changed(stored(&changed.before)?, &stored(&changed.user.email)?, dash_url);
    app.mails.send(&notice, now).await?;
    let event = SecurityEvent::EmailChanged { before: &changed.before };
    security::notify(app, &changed.user, event, client.address).await;
    Ok(())
}
