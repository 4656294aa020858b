//! Requests for another plan.

use super::actor::Actor;
use super::text;
use crate::management::app_state::AppState;
use crate::management::error::{ActionError, ErrorCode};
use crate::store::{LimitRequest, LimitRequestId, RequestStatus, StoreError, TenantPlan, fresh_id};
use rpcgate_core::plan::Tier;

/// Which plan is requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestedPlan {
    /// One of the four.
    Tier(Tier),
    /// A visible one of the operator's own, by its name.
    Custom(String),
}

/// Requests another plan.
///
/// # Errors
/// [`ErrorCode::LimitRequestPending`] while another request of the tenant is pending, [`ActionError::Invalid`] for an invalid
/// reason, and for a plan that the caller cannot see.
pub async fn create(
    app: &AppState,
    actor: &Actor,
    requested: RequestedPlan,
    reason: &str,
) -> Result<LimitRequest, ActionError> {
    let (tenant, now) = (actor.tenant()?, app.now());
    let (plan, name) = match requested {
        RequestedPlan::Tier(tier) => (TenantPlan::from(tier), tier.name().to_owned()),
        RequestedPlan::Custom(name) => {
            let unknown =
                || ActionError::Invalid("`requested_plan` names no plan that `GET /plans` lists".into());
            let mut custom = app.store.custom_plans().await?.into_iter();
            let found = custom.find(|plan| plan.is_visible && plan.name == name).ok_or_else(unknown)?;
            (found.plan(), found.name)
        }
    };
    let request = LimitRequest {
        id: LimitRequestId(fresh_id(now)),
        tenant,
        user: actor.user.id,
        requested_tier: plan.tier,
        custom_plan: plan.custom,
        reason: text::prose("reason", reason)?,
        status: RequestStatus::Pending,
        note: None,
        created_at: now,
        reviewed_at: None,
        reviewer: None,
    };
    let store =
        actor.audited_store(&app.store, Some(tenant), ("limit_request.created", request.id, name), now);
    match store.create_limit_request(&request).await {
        Ok(()) => Ok(request),
        Err(StoreError::Taken { .. }) => {
            let text = "a limit request is pending already";
            Err(ActionError::Refused(ErrorCode::LimitRequestPending, text))
        }
        Err(error) => Err(error.into()),
    }
}

/// The tenant's requests, the newest first.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState, actor: &Actor) -> Result<Vec<LimitRequest>, ActionError> {
    Ok(app.store.limit_requests(actor.tenant()?).await?)
}
