//! Iterates over many tenants with one page of them in memory.

use super::command_error::CommandError;
use rpcgate_core::caller::TenantId;
use rpcgate_management::action::operator::tenants;
use rpcgate_management::app_state::AppState;
use rpcgate_management::shape::list::MAX;
use rpcgate_store::{Tenant, TenantFilter};
use std::vec::IntoIter;

pub(super) struct TenantPages {
    filter: TenantFilter,
    page: IntoIter<Tenant>,
    /// The last tenant of the current page. `None` before the first page.
    after: Option<TenantId>,
    is_last: bool,
}

impl TenantPages {
    pub(super) fn matching(filter: TenantFilter) -> Self {
        TenantPages { filter, page: Vec::new().into_iter(), after: None, is_last: false }
    }

    /// Iterates over one tenant, or over all for `None`.
    pub(super) fn of(tenant: Option<Tenant>) -> Self {
        let is_last = tenant.is_some();
        let page = Vec::from_iter(tenant).into_iter();
        TenantPages { page, is_last, ..TenantPages::matching(TenantFilter::default()) }
    }

    pub(super) async fn next(&mut self, app: &AppState) -> Result<Option<Tenant>, CommandError> {
        if let Some(tenant) = self.page.next() {
            return Ok(Some(tenant));
        }
        if self.is_last {
            return Ok(None);
        }
        let page = tenants::list(app, self.filter, self.after, MAX).await?;
        self.is_last = (page.len() as u64) < MAX;
        self.after = page.last().map(|tenant| tenant.id);
        self.page = page.into_iter();
        Ok(self.page.next())
    }
}
