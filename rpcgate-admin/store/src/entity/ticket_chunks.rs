//! The content of attached files, in chunks, so that no statement carries a whole file.

use crate::query::TicketAttachmentId;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "ticket_chunks")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) attachment_id: TicketAttachmentId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) number: i32,
    pub(crate) content: Vec<u8>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
