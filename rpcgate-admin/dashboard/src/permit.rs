//! The permission check of pages: the counterpart of the access that the API's router declares.

use super::context::PageContext;
use rpcgate_core::caller::TenantId;
use rpcgate_management::access::Access;
use rpcgate_management::error::ActionError;
use rpcgate_management::identity::role::Permission;

impl PageContext {
    /// Returns the user's tenant, in which the user's role must have `permission`.
    ///
    /// # Errors
    /// [`ActionError::NotFound`] for operators, [`ActionError::Forbidden`] for another role.
    pub(crate) fn permitted(&self, permission: Permission) -> Result<TenantId, ActionError> {
        let tenant = self.tenant()?;
        Access::Member(permission).admit(&self.actor.user)?;
        Ok(tenant)
    }
}
