//! Projects, the unit of metering. Method lists are JSON arrays of names.

use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "projects")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: ProjectId,
    pub(crate) tenant_id: TenantId,
    pub(crate) name: String,
    pub(crate) allowed_methods: String,
    pub(crate) blocked_methods: String,
    pub(crate) created_at: Time,
    /// The row stays, so that usage of a deleted project can still be shown.
    pub(crate) deleted_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {
    #[sea_orm(
        belongs_to = "super::tenants::Entity",
        from = "Column::TenantId",
        to = "super::tenants::Column::Id"
    )]
    Tenant,
    #[sea_orm(
        belongs_to = "super::quotas::Entity",
        from = "Column::Id",
        to = "super::quotas::Column::ProjectId"
    )]
    Quota,
}

impl Related<super::quotas::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Quota.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
