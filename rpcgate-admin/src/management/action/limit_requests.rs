//! Requests for another plan.

use super::actor::Actor;
use super::text;
use crate::management::app_state::AppState;
use crate::management::error::{ActionError, ErrorCode};
use crate::store::{LimitRequest, LimitRequestId, RequestStatus, StoreError, fresh_id};
use rpcgate_core::plan::Tier;

/// Requests another plan.
///
/// # Errors
/// [`ErrorCode::LimitRequestPending`] while another request of the tenant is pending, [`ActionError::Invalid`] for an invalid
/// reason.
pub async fn create(
    app: &AppState,
    actor: &Actor,
    requested_tier: Tier,
    reason: &str,
) -> Result<LimitRequest, ActionError> {
    let (tenant, now) = (actor.tenant()?, app.now());
    let request = LimitRequest {
        id: LimitRequestId(fresh_id(now)),
        tenant,
        user: actor.user.id,
        requested_tier,
        reason: text::prose("reason", reason)?,
        status: RequestStatus::Pending,
        note: None,
        created_at: now,
        reviewed_at: None,
        reviewer: None,
    };
    let store = actor.audited_store(
        &app.store,
        Some(tenant),
        ("limit_request.created", request.id, requested_tier),
        now,
    );
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
