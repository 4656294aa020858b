//! The user who performs an action, as the action needs it and as the audit records it.

use super::versions::IfMatch;
use crate::management::access::AuthSession;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Client;
use crate::management::identity::role::Permission;
use crate::management::identity::token_scope::{TokenScope, TokenScopes};
use crate::store::{Audit, Expected, Run, Store, StoreError, User, Versioned};
use axum::extract::FromRequestParts;
use http::request::Parts;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

/// A logged-in user and its client address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Actor {
    /// The user.
    pub user: Arc<User>,
    /// The client's address.
    pub address: IpAddr,
    /// The run to which the user's writes belong, if the request has an idempotency key.
    pub run: Option<Run>,
    /// What the user may do in this request, if it has a personal access token.
    pub scopes: Option<TokenScopes>,
    /// The versions of what it changes that the user accepts, if the request says so.
    pub if_match: Option<IfMatch>,
}

impl FromRequestParts<Arc<AppState>> for Actor {
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, ActionError> {
        let AuthSession { user, .. } = AuthSession::from_request_parts(parts, app).await?;
        let Client { address, .. } = Client::from_request_parts(parts, app).await?;
        let (run, scopes) = (parts.extensions.get().copied(), parts.extensions.get().cloned());
        Ok(Actor { user, address, run, scopes, if_match: IfMatch::of(&parts.headers)? })
    }
}

impl Actor {
    /// The user of a page.
    pub fn of_page(user: Arc<User>, client: &Client) -> Self {
        Actor { user, address: client.address, run: None, scopes: None, if_match: None }
    }

    /// Whether the scopes of the request's token, if it has one, cover `permission`. The user's role is another matter.
    pub fn covers(&self, permission: Permission) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.contain(TokenScope::Member(permission)))
    }

    /// The store for writes by this user.
    pub fn store(&self, store: &Store) -> Store {
        self.run.map_or_else(|| store.clone(), |run| store.in_run(run))
    }

    /// The tenant that the user belongs to.
    ///
    /// # Errors
    /// [`ActionError::Forbidden`] for an operator.
    pub fn tenant(&self) -> Result<TenantId, ActionError> {
        self.user.tenant.ok_or(ActionError::Forbidden("this is for members of a tenant"))
    }

    /// `store` for a write that changes `of`, which must have a version that the user accepts.
    pub fn expecting(&self, store: &Store, of: Versioned) -> Store {
        match &self.if_match {
            Some(IfMatch::OneOf(versions)) => store.expecting(Expected { of, versions: versions.clone() }),
            Some(IfMatch::Any) | None => store.clone(),
        }
    }

    /// Checks that `of` has a version that the user accepts, if there is nothing to change.
    ///
    /// # Errors
    /// [`ActionError::Refused`], [`ActionError::Unavailable`].
    pub async fn check_version(&self, store: &Store, of: &Versioned) -> Result<(), ActionError> {
        let Some(IfMatch::OneOf(versions)) = &self.if_match else { return Ok(()) };
        match store.version(of).await? {
            Some(version) if !versions.contains(&version) => Err(StoreError::Changed.into()),
            _ => Ok(()),
        }
    }

    /// The audit entry of something that this user does to `tenant`: the short code of the action, the identifier of
    /// what it is done to, and further details.
    pub fn entry(
        &self,
        tenant: Option<TenantId>,
        (action, subject, detail): (&str, impl Display, impl Display),
        at: Time,
    ) -> Audit {
        Audit {
            tenant,
            user: Some(self.user.id),
            action: action.to_owned(),
            subject: subject.to_string(),
            address: self.address.to_string(),
            at,
            detail: detail.to_string(),
        }
    }

    /// The store for a write by this user, which adds the [`entry`](Actor::entry) for `event` to the audit.
    pub fn audited_store(
        &self,
        store: &Store,
        tenant: Option<TenantId>,
        event: (&str, impl Display, impl Display),
        at: Time,
    ) -> Store {
        self.store(store).with_audit_entry(self.entry(tenant, event, at))
    }
}
