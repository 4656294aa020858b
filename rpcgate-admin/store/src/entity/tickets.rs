//! Support tickets.

use crate::query::{LimitRequestId, TicketCategory, TicketId, TicketStatus, UserId};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "tickets")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: TicketId,
    pub(crate) tenant_id: TenantId,
    pub(crate) user_id: UserId,
    pub(crate) category: TicketCategory,
    pub(crate) status: TicketStatus,
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) limit_request_id: Option<LimitRequestId>,
    pub(crate) rating: Option<i16>,
    pub(crate) rating_text: Option<String>,
    pub(crate) rated_at: Option<Time>,
    pub(crate) created_at: Time,
    pub(crate) updated_at: Time,
    pub(crate) closed_at: Option<Time>,
    /// The bytes of the subject, the text and all comments.
    #[sea_orm(default_value = 0)]
    pub(crate) text_bytes: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
