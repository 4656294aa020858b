//! Open invitations: one for each address and tenant, with a token by its hash.

use crate::query::{InvitationId, Role, UserId};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "invitations")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: InvitationId,
    pub(crate) tenant_id: TenantId,
    pub(crate) user_id: UserId,
    pub(crate) email: String,
    pub(crate) role: Role,
    #[sea_orm(unique)]
    pub(crate) hash: Vec<u8>,
    pub(crate) created_at: Time,
    pub(crate) expires_at: Time,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
