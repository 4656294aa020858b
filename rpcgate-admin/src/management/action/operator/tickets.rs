//! Support tickets of all tenants.

use crate::management::action::actor::Actor;
use crate::management::action::{text, ticket_attachments, tickets};
use crate::management::app_state::AppState;
use crate::management::attachment::UploadPermit;
use crate::management::error::ActionError;
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
    /// Whether only operators see it.
    pub internal: bool,
    /// The status that the ticket gets; `answered` by default. Not for an internal comment.
    pub status: Option<TicketStatus>,
}

/// Tickets of one tenant or of all that `filter` matches, the newest first, starting behind `before` in this order: at
/// most `limit`.
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

/// The tickets that wait for an operator, the oldest first, starting behind `after` in this order: at most `limit`.
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

/// A ticket.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn get(app: &AppState, id: TicketId) -> Result<SupportTicket, ActionError> {
    app.store.any_ticket(id).await?.ok_or(ActionError::NotFound("ticket"))
}

/// Gives a ticket a status. If that closes it, its author is told by mail.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn update(
    app: &AppState,
    actor: &Actor,
    id: TicketId,
    status: TicketStatus,
) -> Result<SupportTicket, ActionError> {
    let (tenant, now) = (get(app, id).await?.tenant, app.now());
    let event = ("ticket.status_set", id, status);
    let store = actor.audited_store(&app.store, Some(tenant), event, now);
    // Of requests for the same status that arrive together, one changes it.
    let (ticket, has_changed) = store.set_ticket_status(id, status, now).await?;
    if has_changed && status == TicketStatus::Closed {
        tickets::tell_author(app, &ticket, None, now).await?;
    }
    Ok(ticket)
}

/// The comments on a ticket, internal ones too, the oldest first, starting behind `after` in this order: at most
/// `limit`.
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

/// Answers a ticket, of which its author is told by mail, or leaves a note that only operators see.
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
        let text = "`status` must be left out for an internal comment, which the tenant does not see";
        return Err(ActionError::Invalid(text.into()));
    }
    let (ticket, now) = (get(app, id).await?, app.now());
    let comment = TicketComment {
        id: TicketCommentId(fresh_id(now)),
        ticket: id,
        user: actor.user.id,
        by_operator: true,
        internal,
        text: text::letter("text", &text)?,
        created_at: now,
    };
    // The tenant reads its audit, which must not reveal that there is an internal note.
    let (tenant, action) =
        if internal { (None, "ticket.noted") } else { (Some(ticket.tenant), "ticket.answered") };
    let store = actor.audited_store(&app.store, tenant, (action, id, comment.id), now);
    let ticket = store.answer_ticket(&comment, status.unwrap_or(TicketStatus::Answered)).await?;
    if !internal {
        tickets::tell_author(app, &ticket, Some(&comment.text), now).await?;
    }
    Ok(comment)
}

/// Checks whether an operator may attach a file to a ticket, before the file is read. The upload ends when the result is
/// dropped. Of a request that `is_keyed` the same is true as in [`ticket_attachments::begin`].
///
/// # Errors
/// [`ActionError::NotFound`], and those of [`ticket_attachments::begin`]: files of operators count as the tenant's.
pub async fn begin_upload(app: &AppState, id: TicketId, is_keyed: bool) -> Result<UploadPermit, ActionError> {
    let ticket = get(app, id).await?;
    ticket_attachments::begin_in(app, ticket.tenant, id, is_keyed).await
}

/// Attaches a file to a ticket, which the tenant sees like its own ones.
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
    ticket_attachments::create_in(app, actor, (ticket.tenant, id), name, content).await
}

/// The files of a ticket, the oldest first.
///
/// # Errors
/// [`ActionError::NotFound`].
pub async fn attachments(app: &AppState, id: TicketId) -> Result<Vec<TicketAttachment>, ActionError> {
    let ticket = get(app, id).await?;
    Ok(app.store.all_ticket_attachments(ticket.id).await?)
}

/// One file of a ticket.
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
