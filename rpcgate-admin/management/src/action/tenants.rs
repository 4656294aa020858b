//! The caller's tenant.

use super::actor::Actor;
use super::text;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::TenantId;
use rpcgate_store::{BillingParty, Tenant, TenantChange, Versioned};

/// The maximum number of lines of an address.
pub const MAX_ADDRESS_LINES: usize = 10;

const UNKNOWN: ActionError = ActionError::NotFound("tenant");

/// Returns the caller's tenant, if it is the requested one.
///
/// # Errors
/// [`ActionError::NotFound`] for every other tenant, whether it exists or not.
pub(super) fn own_tenant(actor: &Actor, requested: TenantId) -> Result<TenantId, ActionError> {
    let tenant = actor.tenant()?;
    if tenant == requested { Ok(tenant) } else { Err(UNKNOWN) }
}

/// Lists the tenants that the caller belongs to, which is always one.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState, actor: &Actor) -> Result<Vec<Tenant>, ActionError> {
    Ok(app.store.tenant(actor.tenant()?).await?.into_iter().collect())
}

/// Returns the caller's tenant.
///
/// # Errors
/// [`ActionError::NotFound`] for another one.
pub async fn get(app: &AppState, actor: &Actor, id: TenantId) -> Result<Tenant, ActionError> {
    app.store.tenant(own_tenant(actor, id)?).await?.ok_or(UNKNOWN)
}

/// Returns the billing details of the caller's tenant for invoices.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant.
pub async fn billing_party(app: &AppState, actor: &Actor, id: TenantId) -> Result<BillingParty, ActionError> {
    Ok(app.store.billing_party(own_tenant(actor, id)?).await?)
}

/// Renames the caller's tenant.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant, [`ActionError::Invalid`] for an invalid name.
pub async fn rename(app: &AppState, actor: &Actor, id: TenantId, name: &str) -> Result<Tenant, ActionError> {
    update(app, actor, id, TenantUpdate { name: Some(name.to_owned()), ..TenantUpdate::default() }).await
}

/// A member's change to its tenant; `None` leaves a value unchanged.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TenantUpdate {
    /// The name.
    pub name: Option<String>,
    /// The name on invoices; an empty text means the tenant's name.
    pub billing_name: Option<String>,
    /// The lines of the address on invoices.
    pub billing_address: Option<Vec<String>>,
    /// The tax number; an empty text removes it.
    pub billing_tax_id: Option<String>,
}

impl TenantUpdate {
    fn changes_billing(&self) -> bool {
        self.billing_name.is_some() || self.billing_address.is_some() || self.billing_tax_id.is_some()
    }

    fn billing(self, before: BillingParty) -> Result<BillingParty, ActionError> {
        let optional = |field: &'static str, text: String| {
            text::line(field, &text).map(|line| Some(line).filter(|line| !line.is_empty()))
        };
        let name = self.billing_name.map_or(Ok(before.name), |name| optional("billing_name", name))?;
        let tax_id = self.billing_tax_id.map_or(Ok(before.tax_id), |id| optional("billing_tax_id", id))?;
        let address = match self.billing_address {
            None => before.address,
            Some(lines) if lines.len() > MAX_ADDRESS_LINES => {
                return Err(ActionError::named(
                    "billing_address",
                    format!("must have at most {MAX_ADDRESS_LINES} lines"),
                ));
            }
            Some(lines) => lines
                .iter()
                .map(|line| text::line("billing_address", line))
                .filter(|line| !line.as_ref().is_ok_and(String::is_empty))
                .collect::<Result<_, _>>()?,
        };
        Ok(BillingParty { name, address, tax_id })
    }
}

/// Changes the name and the billing details of the caller's tenant. Issued invoices stay as they are.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant, [`ActionError::Invalid`] for an invalid text.
pub async fn update(
    app: &AppState,
    actor: &Actor,
    id: TenantId,
    update: TenantUpdate,
) -> Result<Tenant, ActionError> {
    let tenant = own_tenant(actor, id)?;
    let now = app.now();
    let name = update.name.as_deref().map(|name| text::name("name", name)).transpose()?;
    let billing = if update.changes_billing() {
        Some(update.billing(app.store.billing_party(tenant).await?)?)
    } else {
        None
    };
    let event = match &name {
        Some(name) => ("tenant.renamed", tenant, name.clone()),
        None => ("tenant.billing_changed", tenant, String::new()),
    };
    let store = actor.audited_store(&app.store, Some(tenant), event, now);
    let change = TenantChange { name, billing, ..TenantChange::default() };
    Ok(actor.expecting(&store, Versioned::Tenant(tenant)).update_tenant(tenant, &change, now).await?)
}
