//! The user who performs an action, as the action needs it and as the audit records it.

use crate::management::access::AuthSession;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Client;
use crate::store::{Audit, Store, User};
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
}

impl FromRequestParts<Arc<AppState>> for Actor {
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, ActionError> {
        let AuthSession { user, .. } = AuthSession::from_request_parts(parts, app).await?;
        let Client { address, .. } = Client::from_request_parts(parts, app).await?;
        Ok(Actor { user, address })
    }
}

impl Actor {
    /// The tenant that the user belongs to.
    ///
    /// # Errors
    /// [`ActionError::Forbidden`] for an operator.
    pub fn tenant(&self) -> Result<TenantId, ActionError> {
        self.user.tenant.ok_or(ActionError::Forbidden("this is for members of a tenant"))
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
        store.with_audit_entry(self.entry(tenant, event, at))
    }
}
