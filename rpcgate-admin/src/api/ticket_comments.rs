//! Routes of comments on support tickets.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest, time_cursor};
use rpcgate_management::shape::ticket_comments::{NewTicketComment, TicketCommentJson};
use rpcgate_store::TicketId;
use std::sync::Arc;

/// Comment on a support ticket
///
/// The ticket then waits for the operators again. Members can write 200 comments on a ticket.
#[utoipa::path(post, path = "/support/tickets/{id}/comments", operation_id = "create_ticket_comment",
    tag = "support",
    request_body = NewTicketComment,
    responses((status = 201, description = "The comment.", body = TicketCommentJson),
        (status = 409, description = "The ticket is closed, or has too many comments.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TicketId>,
    Body(NewTicketComment { text }): Body<NewTicketComment>,
) -> Result<(StatusCode, Json<TicketCommentJson>), ActionError> {
    let comment = action::ticket_comments::create(&app, &actor, id, &text).await?;
    Ok((StatusCode::CREATED, Json(comment.into())))
}

/// List the comments on a support ticket
///
/// Oldest first.
#[utoipa::path(get, path = "/support/tickets/{id}/comments", operation_id = "list_ticket_comments",
    tag = "support",
    params(Page),
    responses((status = 200, description = "The comments.", body = [TicketCommentJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
    Id(id): Id<TicketId>,
) -> Result<ListPage<TicketCommentJson>, ActionError> {
    let after = page.time_cursor()?;
    let comments = action::ticket_comments::list(&app, &actor, id, after, page.limit).await?;
    let page = page.cut(comments, |last| time_cursor(last.created_at, last.id));
    Ok(page.map(TicketCommentJson::from))
}

#[cfg(test)]
mod tests;
