//! The demo's account in the management database: a tenant, a user, a project, a key and an operator.
//!
//! It is created before the gateway starts. Every start checks it, so that the next start completes one that was killed
//! halfway. The key is created last: if it exists, everything else does, and later changes stay. Nothing that was
//! revoked returns; an invalid key is replaced by a new one.

use super::enrolment::{EMAIL, Enrolment, own_address};
use super::login::SignedIn;
use super::state::DemoState;
use super::{DemoError, NAME};
use rpcgate_config::Plans;
use rpcgate_core::caller::{Caller, KeyId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use rpcgate_core::secret::{KeyForge, KeyHash, shown};
use rpcgate_store::{Key, Project, Role, Store, StoreError, StoredKey, Tenant, User, UserId, fresh_id};
use std::fmt;
use std::time::Duration;

/// The plan at the first start, unless an option names another.
const PLAN: Tier = Tier::Enterprise;
/// The attempts to reach a database before the start fails, and the pause between them.
const ATTEMPTS: u32 = 8;
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// The owner of the demo's key, as stored in the database.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) tenant: TenantId,
    pub(super) project: ProjectId,
    pub(super) key: KeyId,
    pub(super) api_key: String,
    pub(super) tier: Tier,
    pub(super) owner: SignedIn,
    pub(super) operator: SignedIn,
}

impl fmt::Debug for Account {
    /// Secrets are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("key", &self.key).field("tier", &self.tier).finish_non_exhaustive()
    }
}

impl Enrolment<'_> {
    /// Finds or creates the account in the configuration's database. A replaced key also goes to `state.json`.
    pub(super) async fn finish(mut self) -> Result<Account, DemoError> {
        let mut patience = RetryCount::new();
        loop {
            match self.attempt().await {
                // The next attempt finds what a failed one has written.
                Err(error) if patience.bears(&error) => tokio::time::sleep(PAUSE).await,
                done => return done,
            }
        }
    }

    async fn attempt(&mut self) -> Result<Account, DemoError> {
        let database = &self.config.database;
        let store = Store::open(database.url(), database.migrate).await?;
        let account = self.account(&store).await;
        store.close().await;
        account
    }

    async fn account(&mut self, store: &Store) -> Result<Account, DemoError> {
        let secret = self.config.gateway.key_secret.as_ref();
        let secret = secret.map_or(self.state.key_secret.as_str(), |secret| secret.expose());
        let forge = KeyForge::new(secret.as_bytes());
        let is_genuine = forge.is_genuine(&self.state.api_key);
        let caller = match find(store, self.state, self.now).await? {
            Some(StoredKey { caller, revoked: false, .. }) if is_genuine => caller,
            found => {
                // Revoked before it is replaced: if this is interrupted, the next start sees why.
                if let Some(StoredKey { caller, revoked: false, .. }) = &found {
                    store.revoke_key(caller.tenant, caller.key, self.now).await?;
                }
                if found.is_some() || !is_genuine {
                    self.state.renew(&forge)?;
                    self.state.keep(self.dir)?;
                }
                if found.is_some() {
                    let why =
                        if is_genuine { "was revoked" } else { "has another secret than gateway.key_secret" };
                    tracing::warn!("the demo has a new API key: the old one {why}");
                }
                self.make(store).await?;
                let made = find(store, self.state, self.now).await?;
                made.ok_or(StoreError::NotFound("key"))?.caller
            }
        };
        let tier = self.plan.unwrap_or(caller.plan.tier);
        if tier != caller.plan.tier {
            store.set_tier(caller.tenant, tier, self.now).await?;
        }
        if caller.suspended {
            tracing::warn!("the demo's tenant is suspended: its calls are refused");
        }
        let Caller { tenant, project, key, .. } = caller;
        let owner = self.owner(store, tenant).await?;
        let operator = self.operator(store).await?;
        Ok(Account { tenant, project, key, api_key: self.state.api_key.clone(), tier, owner, operator })
    }

    /// Creates everything that is missing, the key last.
    async fn make(&mut self, store: &Store) -> Result<(), DemoError> {
        let tenant = self.state.tenant;
        let created_at = self.now;
        let tier = self.plan.unwrap_or(PLAN);
        let made = Tenant::new(tenant, NAME, tier, created_at);
        there(store.create_tenant(&made).await)?;
        // The user is created before the project, and its address may have been changed.
        if !store.projects(tenant).await?.iter().any(|project| project.id == self.state.project) {
            self.make_user(store).await?;
            let project = Project::new(self.state.project, tenant, NAME, created_at);
            there(store.create_project(&project).await)?;
        }
        if store.key(tenant, self.state.key).await?.is_some() {
            // `state.json` was edited and has another key: the previous one is revoked.
            store.revoke_key(tenant, self.state.key, self.now).await?;
            self.state.renumber()?;
            self.state.keep(self.dir)?;
        }
        let key = Key {
            description: NAME.into(),
            ..Key::new(
                self.state.key,
                self.state.project,
                shown(&self.state.api_key),
                KeyHash::of(&self.state.api_key),
                created_at,
            )
        };
        Ok(store.create_key(&key, self.now).await?)
    }

    /// In a database that several demos share, later users have another address. The user has no password yet.
    async fn make_user(&self, store: &Store) -> Result<(), StoreError> {
        let tenant = self.state.tenant;
        let email = match store.user_by_email(EMAIL).await? {
            Some(user) if user.tenant == Some(tenant) => return Ok(()),
            Some(_) => own_address(EMAIL, tenant),
            None => EMAIL.to_owned(),
        };
        let user = User {
            id: UserId(fresh_id(self.now)),
            tenant: Some(tenant),
            email,
            name: NAME.into(),
            role: Role::Owner,
            password: None,
            confirmed_at: Some(self.now),
            created_at: self.now,
        };
        there(store.create_user(&user).await)
    }
}

pub(super) struct RetryCount(u32);

impl RetryCount {
    pub(super) fn new() -> Self {
        RetryCount(ATTEMPTS)
    }

    pub(super) fn bears(&mut self, error: &DemoError) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0 && matches!(error, DemoError::Store(StoreError::Unavailable(_)))
    }
}

async fn find(store: &Store, state: &DemoState, now: Time) -> Result<Option<StoredKey>, StoreError> {
    store.caller(KeyHash::of(&state.api_key), &Plans::default(), now).await
}

fn there(made: Result<(), StoreError>) -> Result<(), StoreError> {
    match made {
        Err(StoreError::Taken { .. }) => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_retries_only_a_briefly_unreachable_database() {
        let away = DemoError::Store(StoreError::Unavailable("locked".into()));
        let mut patience = RetryCount(ATTEMPTS);
        assert_eq!((1..ATTEMPTS).filter(|_| patience.bears(&away)).count(), 7);
        assert!(!patience.bears(&away));
        assert!(!RetryCount(ATTEMPTS).bears(&DemoError::Store(StoreError::Outdated("x.db".into()))));
    }
}
