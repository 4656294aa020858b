//! Projects, the unit of metering. Method lists are JSON arrays of names.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "projects")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) tenant_id: Uuid,
    pub(crate) name: String,
    pub(crate) allowed_methods: String,
    pub(crate) blocked_methods: String,
    pub(crate) created_at: i64,
    /// The row stays, so that usage of a deleted project can still be shown.
    pub(crate) deleted_at: Option<i64>,
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
