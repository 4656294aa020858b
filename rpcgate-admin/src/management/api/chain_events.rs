//! The logs of events.

use super::list::{ListPage, Page, PageRequest, time_cursor};
use super::moment::Moment;
use super::subscriptions::EventTypeJson;
use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Id, Query};
use axum::extract::State;
use rpcgate_core::caller::ProjectId;
use rpcgate_store::ChainEventFilter;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// An event that a subscription has matched.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = LoggedEvent)]
pub struct LoggedEventJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The path of its chain.
    pub chain: String,
    /// Its type.
    pub event_type: EventTypeJson,
    /// The number of its block.
    pub block_num: u64,
    /// The hash of its block.
    pub block_hash: String,
    /// Whether it takes back an earlier event, whose block is no longer part of the chain.
    pub removed: bool,
    /// Whether it was withheld from an endpoint, because too many of its deliveries waited. A replay sends it.
    pub withheld: bool,
    /// The `data` of its deliveries.
    #[schema(value_type = Object)]
    pub data: Value,
    /// When it was stored.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl LoggedEventJson {
    fn of(event: rpcgate_store::LoggedEvent, withheld: bool) -> Self {
        // Every body is an object with a `data`.
        let mut body: Value = serde_json::from_slice(&event.body).unwrap_or_default();
        LoggedEventJson {
            id: event.id.to_string(),
            chain: event.chain,
            event_type: event.kind.into(),
            block_num: event.block_num,
            block_hash: event.block_hash,
            removed: event.removed,
            withheld,
            data: body.get_mut("data").map(Value::take).unwrap_or_default(),
            created_at: event.created_at.into(),
        }
    }
}

/// Which events to list: those that match all given parameters.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LoggedEventQuery {
    /// Those of this chain, by its path or an alias.
    pub chain: Option<String>,
    /// Those of this type.
    #[param(inline)]
    pub event_type: Option<EventTypeJson>,
    /// Those stored at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    pub from: Option<Moment>,
    /// Those stored before this time.
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
/// Those that its subscriptions have matched, the newest first, for 30 days by default. A page may have fewer events than
/// `limit`, or none, although another page follows: the `Link` header says so.
#[utoipa::path(get, path = "/projects/{id}/events", operation_id = "list_project_events", tag = "webhooks",
    params(Page, LoggedEventQuery, ("id" = String, Path, format = "uuid", description = "The project.")),
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
