//! API keys of the caller's tenant.

use super::actor::Actor;
use super::{projects, security, text};
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::mail::SecurityEvent;
use rpcgate_core::caller::{KeyId, ProjectId, Scope};
use rpcgate_core::clock::Time;
use rpcgate_core::secret::{KeyHash, shown};
use rpcgate_store::{Key, fresh_id};

/// The properties of a new key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NewKey {
    /// The description for people.
    pub description: String,
    /// The allowed chains, by name or alias; `None` for all.
    pub chains: Option<Vec<String>>,
    /// The expiry; `None` for never.
    pub expires_at: Option<Time>,
}

impl NewKey {
    /// Returns the properties of a new key.
    pub const fn new(description: String, chains: Option<Vec<String>>, expires_at: Option<Time>) -> Self {
        NewKey { description, chains, expires_at }
    }
}

/// Creates a key and returns its stored form and its text, which cannot be shown again.
///
/// # Errors
/// [`ErrorCode::EmailUnconfirmed`] if the caller's e-mail address is not confirmed, [`ActionError::NotFound`] for a
/// project that is not the tenant's, [`ActionError::Invalid`] for an unknown chain or an expiry in the past,
/// [`ActionError::Full`] if the project already has as many usable keys as the plan allows.
pub async fn create(
    app: &AppState,
    actor: &Actor,
    project: ProjectId,
    new: NewKey,
) -> Result<(Key, String), ActionError> {
    if actor.user.confirmed_at.is_none() {
        let text = "confirm your e-mail address before you create an API key";
        return Err(ActionError::Refused(ErrorCode::EmailUnconfirmed, text));
    }
    let project = projects::get(app, actor, project).await?;
    let now = app.now();
    if new.expires_at.is_some_and(|end| end <= now) {
        return Err(ActionError::named("expires_at", "must be in the future"));
    }
    let description = text::line("description", &new.description)?;
    let scope = scope(new.chains)?;
    let text = app.forge.make()?;
    let key = Key {
        description,
        scope,
        expires_at: new.expires_at,
        ..Key::new(KeyId(fresh_id(now)), project.id, shown(&text), KeyHash::of(&text), now)
    };
    let event = ("key.created", key.id, &key.prefix);
    actor.audited_store(&app.store, Some(project.tenant), event, now).create_key(&key, now).await?;
    let created = SecurityEvent::KeyCreated { prefix: &key.prefix, project: key.project };
    security::notify_actor(app, actor, created).await;
    Ok((key, text))
}

fn scope(chains: Option<Vec<String>>) -> Result<Scope, ActionError> {
    let Some(chains) = chains else { return Ok(Scope::All) };
    if chains.is_empty() {
        return Err(ActionError::named(
            "chains",
            "must name a chain: leave it out for a key that may use all",
        ));
    }
    let canonical = |(n, name): (usize, String)| {
        let found = rpcgate_chains::scoped(&name).map(|name| name.as_str().into());
        found.ok_or_else(|| {
            ActionError::named("chains", format!("has an unknown chain at position {}", n + 1))
        })
    };
    chains.into_iter().enumerate().map(canonical).collect::<Result<_, _>>().map(Scope::Only)
}

/// Lists the keys of a project, including revoked ones, the oldest first.
///
/// # Errors
/// [`ActionError::NotFound`] for a project that is not the tenant's.
pub async fn list(app: &AppState, actor: &Actor, project: ProjectId) -> Result<Vec<Key>, ActionError> {
    let project = projects::get(app, actor, project).await?;
    Ok(app.store.keys(project.tenant, project.id).await?)
}

/// Revokes a key permanently. Revoking it again has no effect.
///
/// # Errors
/// [`ActionError::NotFound`] for a key that is not the tenant's, or whose project was deleted.
pub async fn revoke(app: &AppState, actor: &Actor, id: KeyId) -> Result<(), ActionError> {
    const UNKNOWN: ActionError = ActionError::NotFound("key");
    let tenant = actor.tenant()?;
    let now = app.now();
    let key = app.store.key(tenant, id).await?.ok_or(UNKNOWN)?;
    app.store.project(tenant, key.project).await?.ok_or(UNKNOWN)?;
    if key.revoked_at.is_some() {
        return Ok(());
    }
    let store = actor.audited_store(&app.store, Some(tenant), ("key.revoked", id, &key.prefix), now);
    store.revoke_key(tenant, id, now).await?;
    let revoked = SecurityEvent::KeyRevoked { prefix: &key.prefix, project: key.project };
    security::notify_actor(app, actor, revoked).await;
    Ok(())
}
