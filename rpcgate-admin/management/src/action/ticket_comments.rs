//! Comments on support tickets of the caller's tenant.

use super::actor::Actor;
use super::{text, tickets};
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::clock::Time;
use rpcgate_store::{TicketComment, TicketCommentId, TicketId, fresh_id};

/// Comments on a ticket, which then waits for an operator again.
///
/// # Errors
/// [`ActionError::NotFound`] for a ticket that is not the tenant's, [`ActionError::Invalid`] for an invalid text,
/// [`ActionError::Conflict`] if the ticket is closed, [`ActionError::Full`] if it has too many comments.
pub async fn create(
    app: &AppState,
    actor: &Actor,
    ticket: TicketId,
    text: &str,
) -> Result<TicketComment, ActionError> {
    let tenant = actor.tenant()?;
    let now = app.now();
    let comment = TicketComment {
        id: TicketCommentId(fresh_id(now)),
        ticket,
        user: actor.user.id,
        by_operator: false,
        internal: false,
        text: text::letter("text", text)?,
        created_at: now,
    };
    let event = ("ticket.commented", ticket, comment.id);
    let store = actor.audited_store(&app.store, Some(tenant), event, now);
    let ticket = store.add_ticket_comment(tenant, &comment).await?;
    tickets::notify_operators(app, &ticket, "A support ticket has a new comment").await;
    Ok(comment)
}

/// Lists at most `limit` comments on a ticket that the tenant may see, the oldest first, after the position `after`.
///
/// # Errors
/// [`ActionError::NotFound`] for a ticket that is not the tenant's.
pub async fn list(
    app: &AppState,
    actor: &Actor,
    ticket: TicketId,
    after: Option<(Time, TicketCommentId)>,
    limit: u64,
) -> Result<Vec<TicketComment>, ActionError> {
    let ticket = tickets::get(app, actor, ticket).await?;
    Ok(app.store.ticket_comments(ticket.tenant, ticket.id, after, limit).await?)
}
