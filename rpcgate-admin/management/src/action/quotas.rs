//! The quotas of the caller's projects, as operators have set them.

use super::actor::Actor;
use super::plans::in_force;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::{ProjectId, ProjectQuota};

/// Returns the quota of a project of the caller's tenant.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn get(app: &AppState, actor: &Actor, project: ProjectId) -> Result<ProjectQuota, ActionError> {
    let plans = in_force(app).await?;
    app.store
        .quota(actor.tenant()?, project, &plans, app.now())
        .await?
        .ok_or(ActionError::NotFound("project"))
}
