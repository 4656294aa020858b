//! All tenants.

use crate::action::actor::Actor;
use crate::action::billing::closing::unbilled;
use crate::action::suspensions;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::TenantId;
use rpcgate_store::{Tenant, TenantChange, TenantFilter, Versioned};

/// Lists at most `limit` tenants that match `filter` by ascending identifier, after `after` if it is given.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(
    app: &AppState,
    filter: TenantFilter,
    after: Option<TenantId>,
    limit: u64,
) -> Result<Vec<Tenant>, ActionError> {
    Ok(app.store.tenants(filter, after, limit).await?)
}

/// Returns a tenant.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn get(app: &AppState, id: TenantId) -> Result<Tenant, ActionError> {
    app.store.tenant(id).await?.ok_or(ActionError::NotFound("tenant"))
}

/// Changes the plan of a tenant, suspends it or reactivates it, and returns the changed tenant. Gateways are notified,
/// and members are notified about a suspension and its end.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Invalid`] for two plans at once, and for an unknown plan.
pub async fn update(
    app: &AppState,
    actor: &Actor,
    id: TenantId,
    change: TenantChange,
) -> Result<Tenant, ActionError> {
    if change == TenantChange::default() {
        actor.check_version(&app.store, &Versioned::Tenant(id)).await?;
        return get(app, id).await;
    }
    if change.tier.is_some() && change.custom_plan.is_some() {
        return Err(ActionError::named("custom_plan_id", "and a tier exclude each other"));
    }
    let before = get(app, id).await?;
    let now = app.now();
    let plan = match change.custom_plan {
        Some(custom) => {
            let unknown = || ActionError::named("custom_plan_id", "names no plan");
            Some(app.store.custom_plan(custom).await?.ok_or_else(unknown)?.name)
        }
        None => change.tier.map(|tier| tier.name().to_owned()),
    };
    let status = change.suspended.map(|suspended| if suspended { "suspended" } else { "active" });
    let details: Vec<_> = status.map(str::to_owned).into_iter().chain(plan).collect();
    let store = actor.audited_store(&app.store, Some(id), ("tenant.changed", id, details.join(", ")), now);
    let tenant = actor.expecting(&store, Versioned::Tenant(id)).update_tenant(id, &change, now).await?;
    if tenant.suspended != before.suspended {
        suspensions::notify(app, id, tenant.suspended, None).await;
    }
    Ok(tenant)
}

/// Deletes a tenant with its users, projects, keys and tickets. Gateways are notified. Its usage and its audit entries
/// expire as usual, and its invoices stay.
///
/// # Errors
/// [`ActionError::NotFound`]; [`ActionError::Conflict`] while an invoice of it is open, and while it owes something for
/// a month that is not closed, because that would never be billed.
pub async fn delete(app: &AppState, actor: &Actor, id: TenantId) -> Result<(), ActionError> {
    let tenant = get(app, id).await?;
    if unbilled(app, &tenant).await?.0 > 0 {
        return Err(ActionError::Conflict(
            "this tenant owes something for a month that is not closed: suspend it and move it to a plan without a fee, and \
             delete it once the month is closed",
        ));
    }
    let now = app.now();
    let store = actor.audited_store(&app.store, Some(id), ("tenant.deleted", id, tenant.name), now);
    Ok(actor.expecting(&store, Versioned::Tenant(id)).delete_tenant(id, now).await?)
}
