//! A project's event log.

use super::context::{PageContext, PageResult};
use super::cut_list::{cursor, cursor_links};
use super::filters;
use super::form::{FieldList, QueryFields};
use super::frame::{Frame, PageSection};
use super::parts::{Choice, PageLinks};
use super::problems::{Labels, Problems};
use super::subscriptions::kinds;
use super::utc_field::time_field;
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::event::EventType;
use rpcgate_management::action::{chain_events, projects};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::get;
use rpcgate_store::{ChainEventFilter, LogPage, LoggedEvent, Project};
use std::sync::Arc;

const LABELS: Labels =
    &[("chain", "the chain"), ("event_type", "the event"), ("from", "the begin"), ("to", "the end")];

const ENTRIES: u64 = 50;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/projects/{id}/events", get(list))
}

struct EventLine {
    at: Time,
    chain: String,
    kind: &'static str,
    block_num: u64,
    block_hash: String,
    removed: bool,
    /// True if the event was withheld from an endpoint.
    withheld: bool,
    /// The body of its deliveries.
    body: String,
}

impl EventLine {
    fn of(event: LoggedEvent, withheld: bool) -> Self {
        EventLine {
            withheld,
            at: event.created_at,
            chain: event.chain,
            kind: event.kind.name(),
            block_num: event.block_num,
            block_hash: event.block_hash,
            removed: event.removed,
            body: String::from_utf8_lossy(&event.body).into_owned(),
        }
    }
}

#[derive(Template)]
#[template(path = "project_events.html")]
struct EventsPage {
    frame: Frame,
    problems: Problems,
    project: Project,
    tab: &'static str,
    events: Vec<EventLine>,
    links: PageLinks,
    kinds: Vec<Choice>,
    is_filtered: bool,
    chain: String,
    kind: String,
    from: String,
    to: String,
}

async fn list(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<ProjectId>,
    QueryFields(query): QueryFields,
) -> PageResult {
    page.permitted(Permission::Read)?;
    let project = projects::get(&app, &page.actor, id).await?;
    match read(&app, &page, id, &query).await {
        Ok(LogPage { events, withheld, next }) => {
            let links = cursor_links(&query, &format!("projects/{id}/events"), next);
            let line = |event: LoggedEvent| {
                let is_withheld = withheld.contains(&event.id);
                EventLine::of(event, is_withheld)
            };
            let events = events.into_iter().map(line).collect();
            Ok(ok(&EventsPage { events, links, ..empty_page(&page, project, &query) }))
        }
        Err(error) => {
            let again = empty_page(&page, project, &query);
            rejected(error, LABELS, |problems| EventsPage { problems, ..again })
        }
    }
}

fn empty_page(page: &PageContext, project: Project, query: &FieldList) -> EventsPage {
    let text = |name| query.one(name).to_owned();
    EventsPage {
        frame: page.frame(PageSection::Projects),
        problems: Problems::default(),
        project,
        tab: "events",
        events: Vec::new(),
        links: PageLinks::default(),
        kinds: kinds(),
        is_filtered: ["chain", "event_type", "from", "to"].iter().any(|name| query.filled(name).is_some()),
        chain: text("chain"),
        kind: text("event_type"),
        from: text("from"),
        to: text("to"),
    }
}

async fn read(
    app: &AppState,
    page: &PageContext,
    project: ProjectId,
    query: &FieldList,
) -> Result<LogPage, ActionError> {
    let kind = query.filled("event_type").map(str::parse::<EventType>).transpose();
    let filter = ChainEventFilter {
        chain: query.filled("chain").map(str::to_owned),
        kind: kind.map_err(|_| ActionError::field("event_type", "choose an event"))?,
        from: time_field(query, "from")?,
        to: time_field(query, "to")?,
    };
    chain_events::list(app, &page.actor, project, filter, cursor(query)?, ENTRIES).await
}

#[cfg(test)]
mod tests;
