//! The user who performs an action, with the data that the action checks and the audit log records. At the command line
//! of the management side, the person who types there.

use super::versions::IfMatch;
use crate::access::AuthSession;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::extract::Client;
use crate::identity::role::Permission;
use crate::identity::token_scope::{TokenScope, TokenScopes};
use axum::extract::FromRequestParts;
use http::request::Parts;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_process::LocalAccount;
use rpcgate_store::{Audit, Expected, Role, Run, Store, StoreError, User, UserId, Versioned};
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The origin of operators' commands in the audit log; the local account follows.
pub(super) const COMMAND_LINE: &str = "command line";

/// A logged-in user and its client address, or a person at the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Actor {
    /// The user. At the command line, a placeholder that is not in the database: see [`Actor::at_command_line`].
    pub user: Arc<User>,
    /// The client's address; at the command line, the address of this machine.
    pub address: IpAddr,
    /// The run to which the user's writes belong, if the request has an idempotency key.
    pub run: Option<Run>,
    /// The scopes of the request's personal access token, if it has one.
    pub scopes: Option<TokenScopes>,
    /// The versions that the request accepts for the object that it changes, if it names any.
    pub if_match: Option<IfMatch>,
    /// The account of this machine, at the command line.
    pub command_line: Option<LocalAccount>,
    /// True if the user has given a proof, as [`AuthSession::has_proof`] reports.
    pub is_proved: bool,
}

impl FromRequestParts<Arc<AppState>> for Actor {
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, ActionError> {
        let session = AuthSession::from_request_parts(parts, app).await?;
        let is_proved = session.has_proof(app.now());
        let AuthSession { user, .. } = session;
        let Client { address, .. } = Client::from_request_parts(parts, app).await?;
        let run = parts.extensions.get().copied();
        let scopes = parts.extensions.get().cloned();
        let if_match = IfMatch::of(&parts.headers)?;
        Ok(Actor { user, address, run, scopes, if_match, command_line: None, is_proved })
    }
}

impl Actor {
    /// Makes the actor of a page's user, without a proof.
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

    /// Makes the actor for a person at the command line of a machine that can open the database: an operator, or, with
    /// a `tenant`, an operator who acts on its behalf. The person has no account in the database, so
    /// [`user`](Actor::user) is a placeholder that passes the checks of actions: a confirmed owner. It is never stored
    /// and gets no mail.
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

    /// Returns the user's identifier for rows of the database; `None` at the command line.
    pub fn user_id(&self) -> Option<UserId> {
        self.command_line.is_none().then_some(self.user.id)
    }

    /// Returns the origin for the audit log: the client's address, or the command line and its local account.
    fn origin(&self) -> String {
        match &self.command_line {
            Some(account) => format!("{COMMAND_LINE} ({account})"),
            None => self.address.to_string(),
        }
    }

    /// Reports whether the scopes of the request's token, if it has one, cover `permission`. The user's role is checked
    /// elsewhere.
    pub fn covers(&self, permission: Permission) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.contain(TokenScope::Member(permission)))
    }

    /// Returns the store for writes by this user.
    pub fn store(&self, store: &Store) -> Store {
        self.run.map_or_else(|| store.clone(), |run| store.in_run(run))
    }

    /// Checks that the user's address is confirmed. An unconfirmed account may not belong to the owner of the address
    /// and is removed after a week, so it cannot order anything or invite anyone.
    ///
    /// # Errors
    /// [`ErrorCode::EmailUnconfirmed`](crate::error::ErrorCode::EmailUnconfirmed).
    pub fn expect_confirmed(&self) -> Result<(), ActionError> {
        self.user.confirmed_at.map(drop).ok_or(ActionError::UNCONFIRMED)
    }

    /// Checks that the user has proven to be the account's owner, before a change of who may log in.
    ///
    /// # Errors
    /// [`ErrorCode::ProofRequired`](crate::error::ErrorCode::ProofRequired).
    pub fn expect_proof(&self) -> Result<(), ActionError> {
        if self.is_proved { Ok(()) } else { Err(ActionError::PROOF_REQUIRED) }
    }

    /// Returns the tenant that the user belongs to.
    ///
    /// # Errors
    /// [`ActionError::Forbidden`] for an operator.
    pub fn tenant(&self) -> Result<TenantId, ActionError> {
        self.user.tenant.ok_or(ActionError::Forbidden("only members of a tenant may do this"))
    }

    /// Returns `store` for a write that changes `of`, which must have a version that the user accepts.
    pub fn expecting(&self, store: &Store, of: Versioned) -> Store {
        match &self.if_match {
            Some(IfMatch::OneOf(versions)) => store.expecting(Expected { of, versions: versions.clone() }),
            Some(IfMatch::Any) | None => store.clone(),
        }
    }

    /// Checks that `of` has a version that the user accepts, for a request that changes nothing.
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

    /// Makes the audit entry of this actor's action on `tenant`: the short code of the action, the identifier of its
    /// object, and details.
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

    /// Returns the store for a write by this user, which adds the [`entry`](Actor::entry) for `event` to the audit log.
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
