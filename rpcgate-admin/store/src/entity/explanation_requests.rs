//! Requests whose explanation somebody has asked for, and the answers of gateways. A row lives for a minute.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "explanation_requests")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    /// The request that is to be explained.
    pub(crate) request: Uuid,
    /// The tenant of the user who asks; `None` for an operator.
    pub(crate) tenant_id: Option<Uuid>,
    pub(crate) asked_at: i64,
    /// The tenant whose request it is, once a gateway has answered.
    pub(crate) owner_id: Option<Uuid>,
    /// A JSON object, once a gateway has answered; nothing, if there is no owner and nobody waits any more.
    pub(crate) answer: Option<String>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
