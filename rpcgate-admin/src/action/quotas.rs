//! Quotas of the caller's projects, as operators granted them.

use super::actor::Actor;
use crate::error::ActionError;
use crate::house::House;
use rpcgate_core::caller::{ProjectId, Quota};

/// The quota of a project of the caller's.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn get(house: &House, actor: &Actor, project: ProjectId) -> Result<Quota, ActionError> {
    house.store.quota(actor.tenant()?, project).await?.ok_or(ActionError::NotFound("project"))
}
