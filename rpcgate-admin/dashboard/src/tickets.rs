//! Support tickets.

use super::context::{PageContext, PageResult};
use super::form::{FieldList, PlainForm, QueryFields};
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::parts::{Choice, PageLinks};
use super::problems::{Labels, Problems};
use super::ticket_thread::{ThreadItem, thread};
use super::view::{ok, rejected};
use super::{cursor, filters};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::caller::RequestId;
use rpcgate_management::action::plans::{self, RequestedPlan};
use rpcgate_management::action::ticket_attachments::MAX_PER_TICKET;
use rpcgate_management::action::tickets::{self, NewTicket};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::{get, post};
use rpcgate_management::shape::list::time_cursor;
use rpcgate_store::{SupportTicket, TicketCategory, TicketFilter, TicketId, TicketStatus};
use std::sync::Arc;

const LABELS: Labels = &[
    ("category", "the category"),
    ("subject", "the subject"),
    ("text", "the text"),
    ("requested_plan", "the plan"),
    ("requested_tier", "the plan"),
    ("rating", "the rating"),
    ("file", "the file"),
];

const SHOWN: u64 = 50;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/support", get(list))
        .route("/support/new", get(form).merge(post(create)))
        .route("/support/{id}", get(show))
        .route("/support/{id}/close", post(close))
        .route("/support/{id}/reopen", post(reopen))
        .route("/support/{id}/rating", post(rate))
}

pub(super) fn category_text(category: TicketCategory) -> &'static str {
    match category {
        TicketCategory::Question => "Question",
        TicketCategory::Problem => "Problem",
        TicketCategory::Billing => "Bills and payments",
        TicketCategory::Account => "Account",
        TicketCategory::LimitIncrease => "Higher limit",
        TicketCategory::Other => "Something else",
    }
}

/// Returns the tone and the text of a ticket's badge, as its tenant sees it.
pub(super) fn status_badge(status: TicketStatus) -> (&'static str, &'static str) {
    match status {
        TicketStatus::Open => ("info", "Waiting for us"),
        TicketStatus::Answered => ("warn", "Waiting for you"),
        TicketStatus::Closed => ("", "Closed"),
    }
}

#[derive(Template)]
#[template(path = "tickets.html")]
struct TicketsPage {
    frame: Frame,
    tickets: Vec<SupportTicket>,
    /// The name of the selected status; empty for all.
    status: &'static str,
    links: PageLinks,
}

impl TicketsPage {
    fn badge(&self, ticket: &SupportTicket) -> (&'static str, &'static str) {
        status_badge(ticket.status)
    }

    fn category(&self, ticket: &SupportTicket) -> &'static str {
        category_text(ticket.category)
    }

    fn is_status(&self, name: &str) -> bool {
        self.status == name
    }
}

async fn list(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(query): QueryFields,
) -> PageResult {
    page.permitted(Permission::Read)?;
    let status = TicketStatus::ALL.into_iter().find(|status| status.name() == query.one("status"));
    let before = cursor::read(query.one(cursor::BEFORE))?;
    let filter = TicketFilter { status, category: None };
    let tickets = tickets::list(&app, &page.actor, filter, before, SHOWN).await?;
    let last = tickets.last().filter(|_| tickets.len() as u64 == SHOWN);
    let rest = query.query_without(&[cursor::BEFORE, "done"]);
    let older = last.map(|last| cursor::older("support", &rest, &time_cursor(last.created_at, last.id)));
    let status = status.map_or("", TicketStatus::name);
    let links = PageLinks { older, ..PageLinks::default() };
    Ok(ok(&TicketsPage { frame: page.frame(PageSection::Support), tickets, status, links }))
}

#[derive(Template)]
#[template(path = "ticket_new.html")]
struct NewTicketPage {
    frame: Frame,
    problems: Problems,
    is_confirmed: bool,
    categories: Vec<Choice>,
    plans: Vec<Choice>,
    category: String,
    subject: String,
    text: String,
    plan: String,
}

async fn new_page(
    app: &AppState,
    page: &PageContext,
    filled: &FieldList,
) -> Result<NewTicketPage, ActionError> {
    let categories = TicketCategory::ALL.into_iter();
    let plans = plans::plans(app, &page.actor).await?.into_iter();
    Ok(NewTicketPage {
        frame: page.frame(PageSection::Support),
        problems: Problems::default(),
        is_confirmed: page.actor.user.confirmed_at.is_some(),
        categories: categories.map(|one| Choice::new(one.name(), category_text(one))).collect(),
        plans: [Choice::new("", "None")]
            .into_iter()
            .chain(plans.map(|plan| Choice::new(plan.name.clone(), plan.name)))
            .collect(),
        category: filled.one("category").to_owned(),
        subject: filled.one("subject").to_owned(),
        text: filled.one("text").to_owned(),
        plan: filled.one("plan").to_owned(),
    })
}

/// Shows the form for a new ticket. A link can fill it in, including the identifier of a request.
async fn form(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(query): QueryFields,
) -> PageResult {
    page.permitted(Permission::ManageTickets)?;
    let mut form = new_page(&app, &page, &query).await?;
    if let Ok(request) = query.one("request").parse::<RequestId>()
        && form.text.is_empty()
    {
        form.category = TicketCategory::Problem.name().to_owned();
        form.text = format!("This is about the request {request}.\n\n");
    }
    Ok(ok(&form))
}

async fn create(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    page.permitted(Permission::ManageTickets)?;
    let written = async {
        let mut all = TicketCategory::ALL.into_iter();
        let category = all.find(|category| category.name() == fields.one("category"));
        let category = category.ok_or_else(|| ActionError::field("category", "choose what it is about"))?;
        // The plan is ignored unless the category is a limit increase.
        let plan = fields.filled("plan").filter(|_| category == TicketCategory::LimitIncrease);
        let requested = plan.map(|plan| RequestedPlan::of(plan.to_owned()));
        let subject = fields.one("subject").to_owned();
        let text = fields.one("text").to_owned();
        tickets::create(&app, &page.actor, NewTicket { category, subject, text, requested }).await
    };
    match written.await {
        Ok(ticket) => Ok(page.done(&format!("support/{}", ticket.id), Done::TicketWritten)),
        Err(error) => {
            let form = new_page(&app, &page, &fields).await?;
            rejected(error, LABELS, |problems| NewTicketPage { problems, ..form })
        }
    }
}

#[derive(Template)]
#[template(path = "ticket.html")]
struct TicketPage {
    frame: Frame,
    problems: Problems,
    ticket: SupportTicket,
    thread: Vec<ThreadItem>,
    files: usize,
    /// The submitted text that was refused.
    text: String,
}

impl TicketPage {
    fn badge(&self) -> (&'static str, &'static str) {
        status_badge(self.ticket.status)
    }

    fn category(&self) -> &'static str {
        category_text(self.ticket.category)
    }

    fn max_files(&self) -> u64 {
        MAX_PER_TICKET
    }

    fn is_closed(&self) -> bool {
        self.ticket.status == TicketStatus::Closed
    }
}

/// Shows a ticket with its conversation, and the error of a refused answer.
pub(super) async fn shown(
    app: &AppState,
    page: &PageContext,
    id: TicketId,
    text: &str,
    error: Option<ActionError>,
) -> PageResult {
    let ticket = tickets::get(app, &page.actor, id).await?;
    let (thread, files) = thread(app, page, &ticket).await?;
    let frame = page.frame(PageSection::Support);
    let text = text.to_owned();
    let whole = |problems| TicketPage { frame, problems, ticket, thread, files, text };
    match error {
        None => Ok(ok(&whole(Problems::default()))),
        Some(error) => rejected(error, LABELS, whole),
    }
}

async fn show(State(app): State<Arc<AppState>>, page: PageContext, Id(id): Id<TicketId>) -> PageResult {
    page.permitted(Permission::Read)?;
    shown(&app, &page, id, "", None).await
}

async fn close(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<TicketId>,
    _: PlainForm,
) -> PageResult {
    page.permitted(Permission::ManageTickets)?;
    match tickets::close(&app, &page.actor, id).await {
        Ok(_) => Ok(page.done(&format!("support/{id}"), Done::TicketClosed)),
        Err(error) => shown(&app, &page, id, "", Some(error)).await,
    }
}

async fn reopen(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<TicketId>,
    _: PlainForm,
) -> PageResult {
    page.permitted(Permission::ManageTickets)?;
    match tickets::reopen(&app, &page.actor, id).await {
        Ok(_) => Ok(page.done(&format!("support/{id}"), Done::TicketReopened)),
        Err(error) => shown(&app, &page, id, "", Some(error)).await,
    }
}

async fn rate(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<TicketId>,
    fields: FieldList,
) -> PageResult {
    page.permitted(Permission::ManageTickets)?;
    let rated = async {
        let rating = fields.number::<u8>("rating")?;
        let rating = rating.ok_or_else(|| ActionError::field("rating", "choose a rating"))?;
        tickets::rate(&app, &page.actor, id, rating, fields.filled("text")).await
    };
    match rated.await {
        Ok(_) => Ok(page.done(&format!("support/{id}"), Done::TicketRated)),
        Err(error) => shown(&app, &page, id, fields.one("text"), Some(error)).await,
    }
}

#[cfg(test)]
mod tests;
