//! What the tenants and users of a page are called.

use crate::management::action::operator::lookup;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use rpcgate_core::caller::TenantId;
use rpcgate_store::{Audit, UserId};
use std::collections::{BTreeMap, BTreeSet};

/// The names of tenants and users.
pub(super) struct NamesOfAll {
    tenants: BTreeMap<TenantId, String>,
    users: BTreeMap<UserId, String>,
}

impl NamesOfAll {
    /// Reads the names of these.
    pub(super) async fn read(
        app: &AppState,
        tenants: Vec<TenantId>,
        users: Vec<UserId>,
    ) -> Result<Self, ActionError> {
        // Each of them once.
        let tenants: Vec<_> = tenants.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let users: Vec<_> = users.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        Ok(NamesOfAll {
            tenants: lookup::tenant_names(app, &tenants).await?,
            users: lookup::user_names(app, &users).await?,
        })
    }

    /// The name of a tenant.
    pub(super) fn tenant(&self, id: TenantId) -> String {
        self.tenants.get(&id).cloned().unwrap_or_else(|| "deleted tenant".to_owned())
    }

    /// The name of a user.
    pub(super) fn user(&self, id: UserId) -> String {
        self.users.get(&id).cloned().unwrap_or_else(|| "former user".to_owned())
    }

    /// Who made an entry of the audit.
    pub(super) fn who(&self, entry: &Audit) -> String {
        match entry.user {
            Some(user) => self.user(user),
            None if entry.address.is_empty() => "the service".to_owned(),
            None if entry.address.starts_with("command line") => "command line".to_owned(),
            None => "nobody logged in".to_owned(),
        }
    }
}
