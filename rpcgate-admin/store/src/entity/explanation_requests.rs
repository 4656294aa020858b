//! Requests to explain another request, and the answers of gateways. A row lives for a minute.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "explanation_requests")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) request: Uuid,
    pub(crate) tenant_id: Option<Uuid>,
    pub(crate) asked_at: i64,
    /// The tenant of the explained request, once a gateway has answered.
    pub(crate) owner_id: Option<Uuid>,
    /// A JSON object, once a gateway has answered. Empty without an owner if the search has ended.
    pub(crate) answer: Option<String>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
