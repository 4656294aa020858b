//! Another address for an account, which counts once somebody reads its mails.
//!
//! Whoever asks learns nothing of who has an account: an address that is taken gets a mail as well, which says so.

use super::audit;
use super::me::expect_password;
use super::sessions::expect_few;
use crate::management::access::AuthSession;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Client;
use crate::management::identity::password::Typed;
use crate::management::identity::refresh::{Opaque, OpaqueHash, OpaqueKind};
use crate::management::mail::{self, Address, Mail};
use crate::store::{Audit, Counted, Digest, EmailAsked, EmailChange, Purpose};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// How long a link that gives an account another address is good.
pub const EMAIL_CHANGE_LIFE: Duration = Duration::from_secs(24 * 3_600);

const BAD_TOKEN: &str = "the token is not valid, was used, or has expired";

fn invalid(why: &(impl ToString + ?Sized)) -> ActionError {
    ActionError::Invalid(why.to_string())
}

fn stored(email: &str) -> Result<Address, ActionError> {
    mail::address(email).map_err(|error| ActionError::Broken(error.to_string()))
}

/// Sends a mail with a token to the address that whoever asks wants to have, and tells the one before. What has begun is
/// brought to an end also when nobody waits for it.
///
/// # Errors
/// [`ActionError::Invalid`] for an address that is none, or the same; [`ActionError::Forbidden`] before the address now is
/// confirmed, if the password is wrong, or after too many wrong ones; [`ActionError::TooMany`] after too many mails, or
/// while too many passwords are checked; [`ActionError::Unavailable`].
pub async fn ask(
    app: &Arc<AppState>,
    session: &AuthSession,
    email: &str,
    password: Typed,
    client: &Client,
) -> Result<Address, ActionError> {
    let email = mail::address(email).map_err(|error| invalid(&error))?;
    let (user, now) = (&session.user, app.now());
    if user.confirmed_at.is_none() {
        return Err(ActionError::Forbidden("confirm your e-mail address before you change it"));
    }
    if email.as_str() == user.email {
        return Err(invalid("this is your e-mail address already"));
    }
    let before = stored(&user.email)?;
    expect_password(app, session, password, client, now).await?;
    expect_few(app, Counted::EmailChanges(&user.email), now).await?;
    expect_few(app, Counted::NewEmails(email.as_str()), now).await?;
    let token = Opaque::make(OpaqueKind::EmailChange)?;
    let mut entry = audit::entry(session, client, "email.change_asked", user.id.to_string(), now);
    entry.detail = email.to_string();
    let (app, user, asked) = (app.clone(), user.id, email.clone());
    let work = async move {
        let change = EmailChange {
            user,
            email: email.as_str(),
            token: Digest(token.hash().0),
            expires_at: now.plus(EMAIL_CHANGE_LIFE),
        };
        let dash_url = &app.settings.dash_url;
        let mail = match app.store.put_email_change(&change, &entry).await? {
            EmailAsked::Waits => {
                Mail::email_change(email.clone(), dash_url, token.expose(), EMAIL_CHANGE_LIFE)
            }
            EmailAsked::HasAccount => Mail::email_change_in_vain(email.clone(), &before),
        };
        app.mails.send(&Mail::email_change_asked(before, &email), now).await?;
        app.mails.send(&mail, now).await.map_err(ActionError::from)
    };
    let done = tokio::spawn(work.in_current_span()).await;
    done.map_err(|error| ActionError::Broken(format!("changing an address ended early: {error}")))??;
    Ok(asked)
}

/// Whether `token` is one that gives an account another address.
pub(super) fn is_change(token: &str) -> bool {
    OpaqueHash::of(OpaqueKind::EmailChange, token).is_some()
}

/// Gives the account of `token` the address that it was mailed to, and tells the one before.
///
/// # Errors
/// [`ActionError::Invalid`] for a token that is none, or not any more; [`ActionError::Taken`] if somebody has the address
/// by now; [`ActionError::Unavailable`].
pub(super) async fn take_effect(
    app: &Arc<AppState>,
    token: &str,
    client: &Client,
) -> Result<(), ActionError> {
    let hash = OpaqueHash::of(OpaqueKind::EmailChange, token).ok_or_else(|| invalid(BAD_TOKEN))?;
    let (hash, now) = (Digest(hash.0), app.now());
    // Anybody may send anything: what was never a token costs no place in the row of those who write.
    if !app.store.is_mailed(Purpose::EmailChange, &hash, now).await? {
        return Err(invalid(BAD_TOKEN));
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
    let changed = app.store.change_email(&hash, &entry, now).await?.ok_or_else(|| invalid(BAD_TOKEN))?;
    let told = Mail::email_changed(stored(&changed.before)?, &stored(&changed.user.email)?);
    app.mails.send(&told, now).await.map_err(ActionError::from)
}
