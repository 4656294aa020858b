//! Contracts: limits that override those of a tenant's plan for a time.

use super::plans;
use crate::action::actor::Actor;
use crate::action::text;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_store::{ContractId, Figures, TenantContract, Versioned, fresh_id};

/// The properties of a new contract.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewContract {
    /// The figures.
    pub figures: Figures,
    /// The begin; now by default. A time in the past counts as now.
    pub from: Option<Time>,
    /// The end; `None` for no end.
    pub until: Option<Time>,
    /// A note for people.
    pub note: String,
}

/// Formats an end for the audit log, to the second.
fn until_text(until: Time) -> String {
    format!("until {}", text::moment(until))
}

/// Makes a contract with a tenant. Gateways apply it when it begins, and the plan's figures when it ends.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown tenant, [`ActionError::Invalid`] without a figure, for a figure that is out
/// of bounds, or for an end that is not later than the begin; [`ActionError::Full`] if there are too many.
pub async fn create(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    new: NewContract,
) -> Result<TenantContract, ActionError> {
    let NewContract { figures, from, until, note } = new;
    let mut details = plans::check(&figures)?;
    if details.is_empty() {
        return Err(ActionError::named("figures", "must not be empty"));
    }
    let now = app.now();
    let from = from.unwrap_or(now).max(now);
    if until.is_some_and(|until| until <= from) {
        return Err(ActionError::named("until", "must be later than the begin, and than now"));
    }
    details.extend(until.map(until_text));
    let note = text::line("note", &note)?;
    let id = ContractId(fresh_id(now));
    let contract = TenantContract { id, tenant, figures, from, until, note, created_at: now };
    let event = ("contract.created", id, details.join(", "));
    actor.audited_store(&app.store, Some(tenant), event, now).create_contract(&contract, now).await?;
    Ok(contract)
}

/// Lists the contracts of a tenant, including ended and future ones, the oldest first.
///
/// # Errors
/// [`ActionError::NotFound`] for an unknown tenant, [`ActionError::Unavailable`].
pub async fn list(app: &AppState, tenant: TenantId) -> Result<Vec<TenantContract>, ActionError> {
    app.store.tenant(tenant).await?.ok_or(ActionError::NotFound("tenant"))?;
    Ok(app.store.contracts(tenant).await?)
}

/// Returns a contract of a tenant.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant's contract, [`ActionError::Unavailable`].
pub async fn get(app: &AppState, tenant: TenantId, id: ContractId) -> Result<TenantContract, ActionError> {
    app.store.contract(tenant, id).await?.ok_or(ActionError::NotFound("contract"))
}

/// Changes the end of a contract; `None` removes it. The past does not change.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant's contract, [`ActionError::Invalid`] for an end that is not later than
/// now, [`ActionError::Conflict`] for a contract that has ended, and for an end before its begin.
pub async fn update(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    id: ContractId,
    until: Option<Time>,
) -> Result<TenantContract, ActionError> {
    let now = app.now();
    if until.is_some_and(|until| until <= now) {
        return Err(ActionError::named("until", "must be later than now"));
    }
    let detail = until.map_or_else(|| "without end".into(), until_text);
    let store = actor.audited_store(&app.store, Some(tenant), ("contract.changed", id, detail), now);
    let store = actor.expecting(&store, Versioned::Contract(tenant, id));
    Ok(store.set_contract_end(tenant, id, until, now).await?)
}

/// Ends a contract now. A contract that has not begun is deleted.
///
/// # Errors
/// [`ActionError::NotFound`] for another tenant's contract, [`ActionError::Conflict`] for one that has ended,
/// [`ActionError::Unavailable`].
pub async fn end(app: &AppState, actor: &Actor, tenant: TenantId, id: ContractId) -> Result<(), ActionError> {
    let now = app.now();
    let store = actor.audited_store(&app.store, Some(tenant), ("contract.ended", id, ""), now);
    Ok(actor.expecting(&store, Versioned::Contract(tenant, id)).end_contract(tenant, id, now).await?)
}
