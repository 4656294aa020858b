//! The logins at the management API: the user of the demo's account, and an operator.
//!
//! Both get the passwords in `state.json`. No start resets a changed password: `demo.json` keeps showing the first one,
//! and each start logs that. Hashing takes 19 MiB, so it is done only for a user without a password, or if the hash in
//! the database is not the one that the password was last verified with.

use super::enrolment::{EMAIL, Enrolment, own_address};
use super::state::{DemoState, Login};
use super::{DemoError, NAME};
use ring::digest::{SHA256, digest};
use rpcgate_core::caller::TenantId;
use rpcgate_management::identity::password::{Password, PasswordError, Passwords};
use rpcgate_store::{Audit, Role, Store, User};
use std::fmt;

/// The operator's address, unless another demo in the same database has it.
const OPERATOR: &str = "operator@example.com";

#[derive(Clone, PartialEq, Eq)]
pub(super) struct SignedIn {
    pub(super) email: String,
    pub(super) password: String,
}

impl fmt::Debug for SignedIn {
    /// The password is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedIn").field("email", &self.email).finish_non_exhaustive()
    }
}

/// Selects one of the two logins in the state.
type Pick = fn(&mut DemoState) -> &mut Login;

impl Enrolment<'_> {
    /// Returns the user of the demo's tenant, and gives a user without a password the stored one.
    pub(super) async fn owner(&mut self, store: &Store, tenant: TenantId) -> Result<SignedIn, DemoError> {
        let pick: Pick = |state| &mut state.owner;
        let password = self.state.owner.password.clone();
        for email in [EMAIL.to_owned(), own_address(EMAIL, tenant)] {
            let Some(user) = store.user_by_email(&email).await?.filter(|user| user.tenant == Some(tenant))
            else {
                continue;
            };
            match &user.password {
                Some(stored) => self.compare(pick, &user.email, stored).await?,
                None => {
                    let hash = self.hash(pick).await?;
                    store.set_password(user.id, &hash).await?;
                }
            }
            return Ok(SignedIn { email: user.email, password });
        }
        // Only the database's own tools can remove the user, and such a user is not created again.
        tracing::warn!("the demo's user is gone: the login in demo.json does not work");
        Ok(SignedIn { email: EMAIL.to_owned(), password })
    }

    /// Returns the operator, who is created if no user has its identifier.
    pub(super) async fn operator(&mut self, store: &Store) -> Result<SignedIn, DemoError> {
        let pick: Pick = |state| &mut state.operator;
        let id = self.state.operator_id;
        let password = self.state.operator.password.clone();
        if let Some(User { email, password: stored, .. }) = store.user(id).await? {
            // Only the database's own tools make an operator without a password.
            self.compare(pick, &email, stored.as_deref().unwrap_or_default()).await?;
            return Ok(SignedIn { email, password });
        }
        let email = match store.user_by_email(OPERATOR).await? {
            Some(_) => own_address(OPERATOR, self.state.tenant),
            None => OPERATOR.to_owned(),
        };
        let user = User {
            id,
            tenant: None,
            email: email.clone(),
            name: NAME.into(),
            role: Role::Viewer,
            password: Some(self.hash(pick).await?),
            confirmed_at: Some(self.now),
            created_at: self.now,
        };
        let entry = Audit {
            tenant: None,
            user: Some(id),
            action: "operator.created".into(),
            subject: id.to_string(),
            address: String::new(),
            at: self.now,
            detail: "by the demo".into(),
        };
        store.with_audit_entry(entry).create_user(&user).await?;
        Ok(SignedIn { email, password })
    }

    /// Hashes a stored password and stores the proof that they match.
    async fn hash(&mut self, pick: Pick) -> Result<String, DemoError> {
        let text = pick(self.state).password.clone();
        let password = Password::new(text.as_str()).map_err(|weak| {
            DemoState::unreadable(self.dir, format!("a password in it is not taken: {weak}"))
        })?;
        let hash = Passwords::new(1, 0).hash(password).await?;
        // Stored before the hash: if this is interrupted, the next start finds no password and creates another hash.
        self.remember(pick, proof(&text, &hash))?;
        Ok(hash)
    }

    /// Warns if the stored password does not match the hash in the database.
    async fn compare(&mut self, pick: Pick, email: &str, stored: &str) -> Result<(), DemoError> {
        let Login { password, proof: known } = pick(self.state).clone();
        let found = proof(&password, stored);
        if known.is_some_and(|known| known == found) {
            return Ok(());
        }
        match Passwords::new(1, 0).verify(password, Some(stored)).await {
            Ok(true) => self.remember(pick, found),
            Ok(false) | Err(PasswordError::Failed(_)) => {
                tracing::warn!(email, "this password was changed: the one in demo.json is no longer valid");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn remember(&mut self, pick: Pick, proof: String) -> Result<(), DemoError> {
        pick(self.state).proof = Some(proof);
        Ok(self.state.keep(self.dir)?)
    }
}

/// Returns a digest of a password and a hash that match. It is stored next to the password, so it need not be slow.
fn proof(password: &str, hash: &str) -> String {
    let digest = digest(&SHA256, format!("{password}\0{hash}").as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
