//! The names of the tenants and users on a page.

use rpcgate_core::caller::TenantId;
use rpcgate_management::action::operator::lookup;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_store::{Audit, UserId};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct NamesOfAll {
    tenants: BTreeMap<TenantId, String>,
    users: BTreeMap<UserId, String>,
}

impl NamesOfAll {
    pub(super) async fn read(
        app: &AppState,
        tenants: Vec<TenantId>,
        users: Vec<UserId>,
    ) -> Result<Self, ActionError> {
        // Removes duplicates.
        let tenants: Vec<_> = tenants.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let users: Vec<_> = users.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        Ok(NamesOfAll {
            tenants: lookup::tenant_names(app, &tenants).await?,
            users: lookup::user_names(app, &users).await?,
        })
    }

    pub(super) fn tenant(&self, id: TenantId) -> String {
        self.tenants.get(&id).cloned().unwrap_or_else(|| "deleted tenant".to_owned())
    }

    pub(super) fn user(&self, id: UserId) -> String {
        self.users.get(&id).cloned().unwrap_or_else(|| "former user".to_owned())
    }

    /// Returns the author of an audit entry.
    pub(super) fn who(&self, entry: &Audit) -> String {
        match entry.user {
            Some(user) => self.user(user),
            None if entry.address.is_empty() => "the service".to_owned(),
            None if entry.address.starts_with("command line") => "command line".to_owned(),
            None => "not logged in".to_owned(),
        }
    }
}
