//! Comments on support tickets: those of members, answers of operators, and notes that only operators see.

use crate::query::{TicketCommentId, TicketId, UserId};
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

/// A comment on a ticket.
#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "ticket_comments")]
pub struct Model {
    /// Its identifier.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: TicketCommentId,
    /// The ticket.
    #[sea_orm(column_name = "ticket_id", enum_name = "TicketId")]
    pub ticket: TicketId,
    /// The author.
    #[sea_orm(column_name = "user_id", enum_name = "UserId")]
    pub user: UserId,
    /// True if the author is an operator.
    #[sea_orm(column_name = "operator", enum_name = "Operator")]
    pub by_operator: bool,
    /// True if only operators see it.
    pub internal: bool,
    /// The text.
    pub text: String,
    /// The time when it was written.
    pub created_at: Time,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    #[sea_orm(
        belongs_to = "super::tickets::Entity",
        from = "Column::TicketId",
        to = "super::tickets::Column::Id"
    )]
    Ticket,
}

impl Related<super::tickets::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Ticket.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
