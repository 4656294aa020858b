//! Requests for another plan.

use super::actor::Actor;
use super::plans::RequestedPlan;
use super::text;
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use rpcgate_store::{LimitRequest, LimitRequestId, RequestStatus, StoreError, fresh_id};

/// Requests another plan.
///
/// # Errors
/// [`ErrorCode::LimitRequestPending`] while another request of the tenant is pending, [`ActionError::Invalid`] for an
/// invalid reason, and for a plan that the caller cannot see, [`ErrorCode::EmailUnconfirmed`] if the caller's address
/// is not confirmed.
pub async fn create(
    app: &AppState,
    actor: &Actor,
    requested: &RequestedPlan,
    reason: &str,
) -> Result<LimitRequest, ActionError> {
    let tenant = actor.tenant()?;
    let now = app.now();
    actor.expect_confirmed()?;
    let plan = requested.find(app, actor, "requested_plan").await?;
    let request = LimitRequest {
        id: LimitRequestId(fresh_id(now)),
        tenant,
        user: actor.user.id,
        requested_tier: plan.of.tier,
        custom_plan: plan.of.custom,
        reason: text::prose("reason", reason)?,
        status: RequestStatus::Pending,
        note: None,
        created_at: now,
        reviewed_at: None,
        reviewer: None,
    };
    let event = ("limit_request.created", request.id, plan.name);
    let store = actor.audited_store(&app.store, Some(tenant), event, now);
    match store.create_limit_request(&request).await {
        Ok(()) => Ok(request),
        Err(StoreError::Taken { .. }) => {
            let text = "a limit request is pending already";
            Err(ActionError::Refused(ErrorCode::LimitRequestPending, text))
        }
        Err(error) => Err(error.into()),
    }
}

/// Lists the tenant's requests, the newest first.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState, actor: &Actor) -> Result<Vec<LimitRequest>, ActionError> {
    Ok(app.store.limit_requests(actor.tenant()?).await?)
}
