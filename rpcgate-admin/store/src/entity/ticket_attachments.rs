//! Files that are attached to support tickets, without their content.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "ticket_attachments")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) ticket_id: Uuid,
    pub(crate) user_id: Uuid,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) bytes: i64,
    pub(crate) created_at: i64,
    /// The time when the whole content was stored; until then the file is not shown.
    pub(crate) stored_at: Option<i64>,
    #[sea_orm(default_value = false)]
    pub(crate) operator: bool,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {
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
