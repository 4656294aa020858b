//! JSON shapes of support tickets for operators.

use crate::shape::moment::Moment;
use crate::shape::ticket_comments::CommentAuthor;
use crate::shape::tickets::TicketStatusJson;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A comment on a ticket, as operators see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = OperatorTicketComment)]
pub struct OperatorTicketCommentJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The kind of author.
    pub author: CommentAuthor,
    /// The user who wrote it.
    #[schema(format = "uuid")]
    pub user_id: String,
    /// True if only operators see it.
    pub internal: bool,
    /// The text.
    pub text: String,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl From<rpcgate_store::TicketComment> for OperatorTicketCommentJson {
    fn from(comment: rpcgate_store::TicketComment) -> Self {
        OperatorTicketCommentJson {
            id: comment.id.to_string(),
            author: CommentAuthor::of(comment.by_operator),
            user_id: comment.user.to_string(),
            internal: comment.internal,
            text: comment.text,
            created_at: comment.created_at.into(),
        }
    }
}

/// A change to a ticket.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperatorTicketUpdate {
    /// The new status.
    pub status: TicketStatusJson,
}

/// A new comment of an operator.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewOperatorTicketComment {
    /// The text, at most 5,000 characters.
    #[schema(min_length = 1, max_length = 5000)]
    pub text: String,
    /// True if only operators see it; false by default.
    #[serde(default)]
    pub internal: Option<bool>,
    /// The status that the ticket gets; `answered` by default. Not for an internal comment.
    pub status: Option<TicketStatusJson>,
}
