//! Support tickets of all tenants.

use crate::action::actor::Actor;
use crate::action::{text, ticket_attachments, tickets};
use crate::app_state::AppState;
use crate::attachment::UploadPermit;
use crate::error::ActionError;
use bytes::Bytes;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_store::{
    SupportTicket, TicketAttachment, TicketAttachmentId, TicketComment, TicketCommentId, TicketFilter,
    TicketId, TicketStatus, fresh_id,
};

/// An operator's comment on a ticket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TicketAnswer {
    /// The text.
    pub text: String,
    /// True if only operators see it.
    pub internal: bool,
    /// The new status of the ticket; `answered` by default. An internal comment has none.
    pub status: Option<TicketStatus>,
}

/// Lists at most `limit` tickets, of one tenant or of all, that match `filter`, the newest first, after the position
/// `before`.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(
    app: &AppState,
    tenant: Option<TenantId>,
    filter: TicketFilter,
    before: Option<(Time, TicketId)>,
    limit: u64,
) -> Result<Vec<SupportTicket>, ActionError> {
    Ok(app.store.all_tickets(tenant, filter, before, limit).await?)
}

/// Lists at most `limit` tickets that wait for an operator, the oldest first, after the position `after`.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn waiting(
    app: &AppState,
    after: Option<(Time, TicketId)>,
    limit: u64,
) -> Result<Vec<SupportTicket>, ActionError> {
    Ok(app.store.oldest_tickets(after, limit).await?)
}

/// Returns a ticket.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn get(app: &AppState, id: TicketId) -> Result<SupportTicket, ActionError> {
    app.store.any_ticket(id).await?.ok_or(ActionError::NotFound("ticket"))
}

/// Sets the status of a ticket. If that closes it, its author is notified by mail.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn update(
    app: &AppState,
    actor: &Actor,
    id: TicketId,
    status: TicketStatus,
) -> Result<SupportTicket, ActionError> {
    let tenant = get(app, id).await?.tenant;
    let now = app.now();
    let event = ("ticket.status_set", id, status);
    let store = actor.audited_store(&app.store, Some(tenant), event, now);
    // Of concurrent requests for the same status, only one changes it.
    let (ticket, has_changed) = store.set_ticket_status(id, status, now).await?;
    if has_changed && status == TicketStatus::Closed {
        tickets::notify_author(app, &ticket, None, now).await?;
    }
    Ok(ticket)
}

/// Lists at most `limit` comments on a ticket, including internal ones, the oldest first, after the position `after`.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn comments(
    app: &AppState,
    id: TicketId,
    after: Option<(Time, TicketCommentId)>,
    limit: u64,
) -> Result<Vec<TicketComment>, ActionError> {
    let ticket = get(app, id).await?;
    Ok(app.store.all_ticket_comments(ticket.id, after, limit).await?)
}

/// Answers a ticket and notifies its author by mail, or adds a note that only operators see.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Invalid`] for an invalid text or an internal comment with a status,
/// [`ActionError::Conflict`] for an answer to a closed ticket, [`ActionError::Full`] if it has too many comments.
pub async fn answer(
    app: &AppState,
    actor: &Actor,
    id: TicketId,
    answer: TicketAnswer,
) -> Result<TicketComment, ActionError> {
    let TicketAnswer { text, internal, status } = answer;
    if internal && status.is_some() {
        return Err(ActionError::named(
            "status",
            "must be left out for an internal comment, which the tenant does not see",
        ));
    }
    let ticket = get(app, id).await?;
    let now = app.now();
    let comment = TicketComment {
        id: TicketCommentId(fresh_id(now)),
        ticket: id,
        user: actor.user.id,
        by_operator: true,
        internal,
        text: text::letter("text", &text)?,
        created_at: now,
    };
    // The tenant reads its audit log, which must not reveal internal notes.
    let (tenant, action) =
        if internal { (None, "ticket.noted") } else { (Some(ticket.tenant), "ticket.answered") };
    let store = actor.audited_store(&app.store, tenant, (action, id, comment.id), now);
    let ticket = store.answer_ticket(&comment, status.unwrap_or(TicketStatus::Answered)).await?;
    if !internal {
        tickets::notify_author(app, &ticket, Some(&comment.text), now).await?;
    }
    Ok(comment)
}

/// Checks whether an operator may attach a file to a ticket, before the file is read. The upload ends when the result
/// is dropped. `is_keyed` has the same meaning as in [`ticket_attachments::begin`].
///
/// # Errors
/// [`ActionError::NotFound`], and those of [`ticket_attachments::begin`]: files of operators count as the tenant's.
pub async fn begin_upload(app: &AppState, id: TicketId, is_keyed: bool) -> Result<UploadPermit, ActionError> {
    let ticket = get(app, id).await?;
    ticket_attachments::begin_in(app, ticket.tenant, id, is_keyed).await
}

/// Attaches a file to a ticket. The tenant sees it like its own files.
///
/// # Errors
/// [`ActionError::NotFound`], and those of [`ticket_attachments::create`].
pub async fn attach(
    app: &AppState,
    actor: &Actor,
    id: TicketId,
    name: &str,
    content: Bytes,
) -> Result<TicketAttachment, ActionError> {
    let ticket = get(app, id).await?;
    ticket_attachments::create_in(app, actor, ticket.tenant, id, name, content).await
}

/// Lists the files of a ticket, the oldest first.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn attachments(app: &AppState, id: TicketId) -> Result<Vec<TicketAttachment>, ActionError> {
    let ticket = get(app, id).await?;
    Ok(app.store.all_ticket_attachments(ticket.id).await?)
}

/// Returns one file of a ticket.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn attachment(
    app: &AppState,
    ticket: TicketId,
    id: TicketAttachmentId,
) -> Result<TicketAttachment, ActionError> {
    let ticket = get(app, ticket).await?;
    let files = app.store.all_ticket_attachments(ticket.id).await?;
    files.into_iter().find(|file| file.id == id).ok_or(ActionError::NotFound("attachment"))
}
