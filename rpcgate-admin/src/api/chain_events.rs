//! Routes of the event log.

use axum::extract::State;
use rpcgate_core::caller::ProjectId;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Id, Query};
use rpcgate_management::shape::chain_events::LoggedEventJson;
use rpcgate_management::shape::list::{ListPage, Page, PageRequest, time_cursor};
use rpcgate_management::shape::moment::Moment;
use rpcgate_management::shape::subscriptions::EventTypeJson;
use rpcgate_store::ChainEventFilter;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// The filter of events: an event must match all given parameters.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LoggedEventQuery {
    /// Only events of this chain, by its path or an alias.
    pub chain: Option<String>,
    /// Only events of this type.
    #[param(inline)]
    pub event_type: Option<EventTypeJson>,
    /// Only events stored at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    pub from: Option<Moment>,
    /// Only events stored before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    pub to: Option<Moment>,
}

impl From<LoggedEventQuery> for ChainEventFilter {
    fn from(LoggedEventQuery { chain, event_type, from, to }: LoggedEventQuery) -> Self {
        let time = |moment: Option<Moment>| moment.map(|Moment(time)| time);
        ChainEventFilter { chain, kind: event_type.map(Into::into), from: time(from), to: time(to) }
    }
}

/// List the events of a project
///
/// The events that its subscriptions have matched, newest first. They are kept for 30 days by default. A page may have
/// fewer events than `limit`, or none, although another page follows; the `Link` header names it.
#[utoipa::path(get, path = "/projects/{id}/events", operation_id = "list_project_events", tag = "webhooks",
    params(Page, LoggedEventQuery),
    responses((status = 200, description = "The events.", body = [LoggedEventJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
    Id(project): Id<ProjectId>,
    Query(query): Query<LoggedEventQuery>,
) -> Result<ListPage<LoggedEventJson>, ActionError> {
    let before = page.time_cursor()?;
    let log = action::chain_events::list(&app, &actor, project, query.into(), before, page.limit).await?;
    let next = log.next.map(|(at, id)| time_cursor(at, id));
    let withheld = log.withheld;
    Ok(page.page(log.events, next).map(|event| {
        let is_withheld = withheld.contains(&event.id);
        LoggedEventJson::of(event, is_withheld)
    }))
}

#[cfg(test)]
mod tests;
