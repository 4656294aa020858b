//! The user who performs an action, as the action needs it and as the audit records it; or, at the command line of the
//! management side, the person who types there.

use super::versions::IfMatch;
use crate::management::access::AuthSession;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Client;
use crate::management::identity::role::Permission;
use crate::management::identity::token_scope::{TokenScope, TokenScopes};
use axum::extract::FromRequestParts;
use http::request::Parts;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_process::LocalAccount;
use rpcgate_store::{Audit, Expected, Role, Run, Store, StoreError, User, UserId, Versioned};
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Where commands of operators come from, for the audit; the account follows.
pub(super) const COMMAND_LINE: &str = "command line";

/// A logged-in user and its client address, or a person at the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Actor {
    /// The user. At the command line, a stand-in that no database holds: see [`Actor::at_command_line`].
    pub user: Arc<User>,
    /// The client's address; at the command line, that of this machine.
    pub address: IpAddr,
    /// The run to which the user's writes belong, if the request has an idempotency key.
    pub run: Option<Run>,
    /// What the user may do in this request, if it has a personal access token.
    pub scopes: Option<TokenScopes>,
    /// The versions of what it changes that the user accepts, if the request says so.
    pub if_match: Option<IfMatch>,
    /// The account of this machine, at the command line.
    pub command_line: Option<LocalAccount>,
    /// Whether the user has proven to be the account's owner as [`AuthSession::has_proof`] says.
    pub is_proved: bool,
}

impl FromRequestParts<Arc<AppState>> for Actor {
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, ActionError> {
        let session = AuthSession::from_request_parts(parts, app).await?;
        let is_proved = session.has_proof(app.now());
        let AuthSession { user, .. } = session;
        let Client { address, .. } = Client::from_request_parts(parts, app).await?;
        let (run, scopes) = (parts.extensions.get().copied(), parts.extensions.get().cloned());
        let if_match = IfMatch::of(&parts.headers)?;
        Ok(Actor { user, address, run, scopes, if_match, command_line: None, is_proved })
    }
}

impl Actor {
    /// The user of a page, without a proof.
    pub fn of_page(user: Arc<User>, client: &Client) -> Self {
        Actor {
            user,
            address: client.address,
            run: None,
            scopes: None,
            if_match: None,
            command_line: None,
            is_proved: false,
        }
    }

    /// A person who uses the command line on a machine that can open the database: an operator, or, with a `tenant`,
    /// an operator who does something in its name. The person has no account in the database, so [`user`](Actor::user)
    /// is a stand-in for what actions check of a user: a confirmed owner. It is never stored, and gets no mail.
    pub fn at_command_line(account: LocalAccount, tenant: Option<TenantId>, now: Time) -> Self {
        let user = User {
            id: UserId(0),
            tenant,
            email: String::new(),
            name: String::new(),
            role: Role::Owner,
            password: None,
            confirmed_at: Some(now),
            created_at: now,
        };
        Actor {
            user: Arc::new(user),
            address: Ipv4Addr::LOCALHOST.into(),
            run: None,
            scopes: None,
            if_match: None,
            command_line: Some(account),
            is_proved: true,
        }
    }

    /// The user, as rows of the database refer to it: none at the command line.
    pub fn user_id(&self) -> Option<UserId> {
        self.command_line.is_none().then_some(self.user.id)
    }

    /// Where the action came from, for the audit: the client's address, or the command line and the account there.
    fn origin(&self) -> String {
        match &self.command_line {
            Some(account) => format!("{COMMAND_LINE} ({account})"),
            None => self.address.to_string(),
        }
    }

    /// Whether the scopes of the request's token, if it has one, cover `permission`. The user's role is another matter.
    pub fn covers(&self, permission: Permission) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.contain(TokenScope::Member(permission)))
    }

    /// The store for writes by this user.
    pub fn store(&self, store: &Store) -> Store {
        self.run.map_or_else(|| store.clone(), |run| store.in_run(run))
    }

    /// Checks that the user's address is confirmed. Without that the account may belong to another person than the
    /// address, and is removed after a week, so it cannot order anything or invite anyone.
    ///
    /// # Errors
    /// [`ErrorCode::EmailUnconfirmed`](crate::management::error::ErrorCode::EmailUnconfirmed).
    pub fn expect_confirmed(&self) -> Result<(), ActionError> {
        self.user.confirmed_at.map(drop).ok_or(ActionError::UNCONFIRMED)
    }

    /// Checks that the user has proven to be the account's owner, before something that changes who may enter.
    ///
    /// # Errors
    /// [`ErrorCode::ProofRequired`](crate::management::error::ErrorCode::ProofRequired).
    pub fn expect_proof(&self) -> Result<(), ActionError> {
        if self.is_proved { Ok(()) } else { Err(ActionError::PROOF_REQUIRED) }
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

    /// The audit entry of something that this actor does to `tenant`: the short code of the action, the identifier of
    /// what it is done to, and further details.
    pub fn entry(
        &self,
        tenant: Option<TenantId>,
        (action, subject, detail): (&str, impl Display, impl Display),
        at: Time,
    ) -> Audit {
        Audit {
            tenant,
            user: self.user_id(),
            action: action.to_owned(),
            subject: subject.to_string(),
            address: self.origin(),
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
