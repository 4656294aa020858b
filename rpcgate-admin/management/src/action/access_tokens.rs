//! Personal access tokens, with which a user's programs call the API without a log-in.
//!
//! A token acts as its user, limited to its scopes and to the user's permissions at the time of each request. Only a
//! logged-in user can create one, so that a stolen token cannot create tokens that outlive it.

use super::actor::Actor;
use super::{security, text};
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::identity::refresh::{Opaque, OpaqueKind};
use crate::identity::token_scope::TokenScope;
use crate::mail::SecurityEvent;
use rpcgate_core::clock::Time;
use rpcgate_store::{AccessToken, AccessTokenId, Digest, fresh_id};
use std::time::Duration;

/// The default validity of a token.
pub const DEFAULT_LIFE: Duration = Duration::from_secs(90 * 86_400);

/// The maximum validity of a token.
pub const MAX_LIFE: Duration = Duration::from_secs(366 * 86_400);

/// The properties of a new token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewAccessToken {
    /// The displayed name.
    pub name: String,
    /// The names of its scopes.
    pub scopes: Vec<String>,
    /// The expiry; after [`DEFAULT_LIFE`] by default.
    pub expires_at: Option<Time>,
}

/// Creates a token of the caller and returns it with its text, which cannot be shown again.
///
/// # Errors
/// [`ErrorCode::EmailUnconfirmed`] if the caller's address is not confirmed, [`ActionError::Invalid`] for a scope that
/// the caller lacks or for an expiry in the past or too far in the future, [`ActionError::Full`] if the caller has too
/// many tokens, [`ActionError::Unavailable`].
pub async fn create(
    app: &AppState,
    actor: &Actor,
    new: NewAccessToken,
) -> Result<(AccessToken, Opaque), ActionError> {
    let user = &actor.user;
    let now = app.now();
    if user.confirmed_at.is_none() {
        let text = "confirm your e-mail address before you create an access token";
        return Err(ActionError::Refused(ErrorCode::EmailUnconfirmed, text));
    }
    let name = text::name("name", &new.name)?;
    let role = user.tenant.map(|_| user.role);
    let mut scopes = Vec::new();
    for scope in &new.scopes {
        let granted = scope.parse::<TokenScope>().ok().filter(|scope| scope.is_of(role));
        let granted = granted.ok_or_else(|| {
            let own: Vec<_> =
                TokenScope::all().filter(|scope| scope.is_of(role)).map(TokenScope::as_str).collect();
            let why = format!("must be some of those that you have: {}", own.join(", "));
            ActionError::named("scopes", why)
        })?;
        if !scopes.contains(&granted) {
            scopes.push(granted);
        }
    }
    if scopes.is_empty() {
        return Err(ActionError::named("scopes", "must not be empty"));
    }
    let expires_at = new.expires_at.unwrap_or_else(|| now.plus(DEFAULT_LIFE));
    if expires_at <= now || expires_at > now.plus(MAX_LIFE) {
        let days = MAX_LIFE.as_secs() / 86_400;
        return Err(ActionError::named(
            "expires_at",
            format!("must be in the future, at most {days} days ahead"),
        ));
    }
    let text = Opaque::make(OpaqueKind::Access)?;
    let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
    let granted = scopes.join(", ");
    let id = AccessTokenId(fresh_id(now));
    let token = AccessToken { id, user: user.id, name, scopes, created_at: now, expires_at, used: None };
    let event = ("access_token.created", id, format!("{}: {granted}", token.name));
    let store = actor.audited_store(&app.store, user.tenant, event, now);
    store.create_access_token(&token, &Digest(text.hash().0)).await?;
    let created = SecurityEvent::AccessTokenCreated { name: &token.name };
    security::notify(app, user, created, actor.address).await;
    Ok((token, text))
}

/// Lists the caller's tokens, the oldest first.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState, actor: &Actor) -> Result<Vec<AccessToken>, ActionError> {
    Ok(app.store.access_tokens(actor.user.id).await?)
}

/// Revokes a token of the caller.
///
/// # Errors
/// [`ActionError::NotFound`] for another user's token, [`ActionError::Unavailable`].
pub async fn revoke(app: &AppState, actor: &Actor, id: AccessTokenId) -> Result<(), ActionError> {
    let event = ("access_token.revoked", id, "");
    let store = actor.audited_store(&app.store, actor.user.tenant, event, app.now());
    Ok(store.revoke_access_token(actor.user.id, id).await?)
}
