//! JSON shapes of comments on support tickets.

use crate::shape::moment::Moment;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The kind of author of a comment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommentAuthor {
    /// A member of the tenant.
    Member,
    /// An operator of the service.
    Operator,
}

impl CommentAuthor {
    pub(crate) fn of(by_operator: bool) -> Self {
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
    /// The kind of author.
    pub author: CommentAuthor,
    /// The member who wrote it; null for an operator.
    #[schema(format = "uuid")]
    pub user_id: Option<String>,
    /// The text.
    pub text: String,
    /// The creation time.
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
