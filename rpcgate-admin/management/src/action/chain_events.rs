//! The event logs of the caller's tenant.

use super::actor::Actor;
use super::projects;
use super::subscriptions::known_chain;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::ProjectId;
use rpcgate_store::{ChainEventFilter, LogPage, LogPosition};

/// Lists at most `limit` entries of a project's log, the newest first, after the position `before`. The filter names
/// its chain by path or alias.
///
/// # Errors
/// [`ActionError::NotFound`] for a project that is not the tenant's, [`ActionError::Invalid`] for an unknown chain.
pub async fn list(
    app: &AppState,
    actor: &Actor,
    project: ProjectId,
    filter: ChainEventFilter,
    before: Option<LogPosition>,
    limit: u64,
) -> Result<LogPage, ActionError> {
    let project = projects::get(app, actor, project).await?;
    let chain = filter.chain.as_deref().map(known_chain).transpose()?;
    let chain = chain.map(|adapter| adapter.facts().name.as_str().to_owned());
    let filter = ChainEventFilter { chain, ..filter };
    Ok(app.store.project_events(project.tenant, project.id, &filter, before, limit).await?)
}
