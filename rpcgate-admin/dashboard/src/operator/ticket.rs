//! A ticket of any tenant: its conversation, and the form for an answer.

use super::names::NamesOfAll;
use super::tickets::status_badge;
use crate::context::{OperatorPage, PageContext, PageResult};
use crate::filters;
use crate::form::{FieldList, FormGuard};
use crate::frame::{Frame, PageSection, initials};
use crate::outcome::Done;
use crate::parts::Choice;
use crate::problems::{Labels, Problems};
use crate::ticket_attachments::sent_file;
use crate::ticket_thread::{ThreadFile, ThreadItem, paragraphs};
use crate::tickets::category_text;
use crate::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::{Request, State};
use rpcgate_core::clock::Time;
use rpcgate_management::action::operator::tickets::{self, TicketAnswer};
use rpcgate_management::action::ticket_attachments::MAX_PER_TICKET;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Id, Ids};
use rpcgate_management::routing::{get, post};
use rpcgate_management::shape::ticket_attachments::download;
use rpcgate_store::{SupportTicket, TicketAttachmentId, TicketId, TicketStatus, UserId};
use std::sync::Arc;

const LABELS: Labels = &[("text", "the text"), ("status", "the status"), ("file", "the file")];

/// The maximum number of comments shown. A ticket cannot have as many.
const MAX_COMMENTS: u64 = 1_000;

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/operator/tickets/{id}", get(show))
        .route("/operator/tickets/{id}/comments", post(answer))
        .route("/operator/tickets/{id}/status", post(set_status))
        .route("/operator/tickets/{id}/files", post(attach))
        .route("/operator/tickets/{id}/files/{file}", get(read))
}

struct NotedItem {
    item: ThreadItem,
    /// True for a note that only operators see.
    is_internal: bool,
}

#[derive(Template)]
#[template(path = "operator_ticket.html")]
struct OperatorTicketPage {
    frame: Frame,
    problems: Problems,
    ticket: SupportTicket,
    tenant: String,
    author: String,
    badge: (&'static str, &'static str),
    category: &'static str,
    thread: Vec<NotedItem>,
    files: usize,
    max_files: u64,
    statuses: Vec<Choice>,
    status: String,
    /// The submitted text that was refused.
    text: String,
    is_internal: bool,
}

impl OperatorTicketPage {
    fn is_closed(&self) -> bool {
        self.ticket.status == TicketStatus::Closed
    }
}

/// Returns the texts and files, the oldest first, and the number of files.
async fn conversation(
    app: &AppState,
    ticket: &SupportTicket,
) -> Result<(Vec<NotedItem>, usize), ActionError> {
    let comments = tickets::comments(app, ticket.id, None, MAX_COMMENTS).await?;
    let files = tickets::attachments(app, ticket.id).await?;
    let authors = comments.iter().map(|comment| comment.user).chain(files.iter().map(|file| file.user));
    let names = NamesOfAll::read(app, Vec::new(), authors.chain([ticket.user]).collect()).await?;
    let item = |user: UserId, is_ours: bool, at: Time| {
        let author = names.user(user);
        ThreadItem { initials: initials(&author), author, is_ours, at, paragraphs: Vec::new(), file: None }
    };
    let seen = |item| NotedItem { item, is_internal: false };
    let first =
        ThreadItem { paragraphs: paragraphs(&ticket.text), ..item(ticket.user, false, ticket.created_at) };
    let mut all = vec![seen(first)];
    all.extend(comments.into_iter().map(|comment| NotedItem {
        is_internal: comment.internal,
        item: ThreadItem {
            paragraphs: paragraphs(&comment.text),
            ..item(comment.user, comment.by_operator, comment.created_at)
        },
    }));
    let count = files.len();
    all.extend(files.into_iter().map(|file| {
        let from = item(file.user, file.by_operator, file.created_at);
        seen(ThreadItem {
            file: Some(ThreadFile { id: file.id, name: file.name, bytes: file.bytes }),
            ..from
        })
    }));
    all.sort_by_key(|one| one.item.at);
    Ok((all, count))
}

async fn ticket_page(
    app: &AppState,
    page: &PageContext,
    id: TicketId,
    filled: &FieldList,
) -> Result<OperatorTicketPage, ActionError> {
    let ticket = tickets::get(app, id).await?;
    let (thread, files) = conversation(app, &ticket).await?;
    let names = NamesOfAll::read(app, vec![ticket.tenant], vec![ticket.user]).await?;
    let statuses = TicketStatus::ALL.map(|status| Choice::new(status.name(), status_badge(status).1));
    Ok(OperatorTicketPage {
        frame: page.frame(PageSection::OperatorTickets),
        problems: Problems::default(),
        tenant: names.tenant(ticket.tenant),
        author: names.user(ticket.user),
        badge: status_badge(ticket.status),
        category: category_text(ticket.category),
        thread,
        files,
        max_files: MAX_PER_TICKET,
        statuses: statuses.into(),
        status: filled.filled("status").unwrap_or(TicketStatus::Answered.name()).to_owned(),
        text: filled.one("text").to_owned(),
        is_internal: filled.has("internal"),
        ticket,
    })
}

async fn refused(
    app: &AppState,
    page: &PageContext,
    id: TicketId,
    filled: &FieldList,
    error: ActionError,
) -> PageResult {
    let shown = ticket_page(app, page, id, filled).await?;
    rejected(error, LABELS, |problems| OperatorTicketPage { problems, ..shown })
}

fn status_of(fields: &FieldList) -> Result<TicketStatus, ActionError> {
    let chosen = TicketStatus::ALL.into_iter().find(|status| status.name() == fields.one("status"));
    chosen.ok_or_else(|| ActionError::field("status", "choose a status from the list"))
}

async fn show(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<TicketId>,
) -> PageResult {
    Ok(ok(&ticket_page(&app, &page, id, &FieldList::default()).await?))
}

async fn answer(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<TicketId>,
    fields: FieldList,
) -> PageResult {
    let answered = async {
        let internal = fields.has("internal");
        // A note never changes the status; the form's status applies only to answers.
        let status = if internal { None } else { Some(status_of(&fields)?) };
        let answer = TicketAnswer { text: fields.one("text").to_owned(), internal, status };
        tickets::answer(&app, &page.actor, id, answer).await?;
        Ok(if internal { Done::NoteLeft } else { Done::TicketAnswered })
    };
    match answered.await {
        Ok(done) => Ok(page.done(&format!("operator/tickets/{id}"), done)),
        Err(error) => refused(&app, &page, id, &fields, error).await,
    }
}

async fn set_status(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<TicketId>,
    fields: FieldList,
) -> PageResult {
    let set = async { tickets::update(&app, &page.actor, id, status_of(&fields)?).await };
    match set.await {
        Ok(_) => Ok(page.done(&format!("operator/tickets/{id}"), Done::TicketStatusSet)),
        Err(error) => refused(&app, &page, id, &FieldList::default(), error).await,
    }
}

async fn attach(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(id): Id<TicketId>,
    guard: FormGuard,
    request: Request,
) -> PageResult {
    let attached = async {
        let permit = tickets::begin_upload(&app, id, false).await?;
        let (name, content) = sent_file(&guard, request).await?;
        tickets::attach(&app, &page.actor, id, &name, content).await?;
        drop(permit);
        Ok(())
    };
    match attached.await {
        Ok(()) => Ok(page.done(&format!("operator/tickets/{id}"), Done::FileAttached)),
        // A forged form must not get a page with the ticket.
        Err(error @ ActionError::Forbidden(_)) => Err(error),
        Err(error) => refused(&app, &page, id, &FieldList::default(), error).await,
    }
}

async fn read(
    State(app): State<Arc<AppState>>,
    OperatorPage(_): OperatorPage,
    Ids(ticket, id): Ids<TicketId, TicketAttachmentId>,
) -> PageResult {
    let file = tickets::attachment(&app, ticket, id).await?;
    download(app, file).await
}

#[cfg(test)]
mod tests;
