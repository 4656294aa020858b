//! Requests for another plan. An index allows each tenant one pending request.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "limit_requests")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) tenant_id: Uuid,
    pub(crate) user_id: Uuid,
    pub(crate) requested_tier: String,
    pub(crate) reason: String,
    pub(crate) status: String,
    pub(crate) note: Option<String>,
    pub(crate) created_at: i64,
    pub(crate) reviewed_at: Option<i64>,
    pub(crate) reviewer_id: Option<Uuid>,
    /// The requested custom plan, whose base is `requested_tier`.
    pub(crate) custom_plan_id: Option<Uuid>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
