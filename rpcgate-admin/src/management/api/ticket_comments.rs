//! Comments on support tickets.

use super::list::{ListPage, Page, PageRequest, time_cursor};
use super::moment::Moment;
use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Body, Id};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_store::TicketId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// Who wrote a comment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommentAuthor {
    /// A member of the tenant.
    Member,
    /// An operator of the service.
    Operator,
}

impl CommentAuthor {
    /// The author.
    pub(in crate::management::api) fn of(by_operator: bool) -> Self {
        if by_operator { CommentAuthor::Operator } else { CommentAuthor::Member }
    }
}

/// A comment on a ticket, as the tenant sees it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = TicketComment)]
pub struct TicketCommentJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// Who wrote it.
    pub author: CommentAuthor,
    /// The member who wrote it; null for an operator.
    #[schema(format = "uuid")]
    pub user_id: Option<String>,
    /// The text.
    pub text: String,
    /// When it was written.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl From<rpcgate_store::TicketComment> for TicketCommentJson {
    fn from(comment: rpcgate_store::TicketComment) -> Self {
        let by_operator = comment.by_operator;
        TicketCommentJson {
            id: comment.id.to_string(),
            author: CommentAuthor::of(by_operator),
            user_id: (!by_operator).then(|| comment.user.to_string()),
            text: comment.text,
            created_at: comment.created_at.into(),
        }
    }
}

/// A new comment.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTicketComment {
    /// The text, at most 5,000 characters.
    #[schema(min_length = 1, max_length = 5000)]
    pub text: String,
}

/// Comment on a support ticket
///
/// The ticket then waits for the operators again. Members can write 200 comments on a ticket.
#[utoipa::path(post, path = "/support/tickets/{id}/comments", operation_id = "create_ticket_comment",
    tag = "support",
    params(("id" = String, Path, format = "uuid", description = "The ticket.")),
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
/// The oldest first.
#[utoipa::path(get, path = "/support/tickets/{id}/comments", operation_id = "list_ticket_comments",
    tag = "support",
    params(Page, ("id" = String, Path, format = "uuid", description = "The ticket.")),
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
