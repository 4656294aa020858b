//! Webhook endpoints.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "webhooks")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) project_id: Uuid,
    pub(crate) url: String,
    /// The current signing secret, sealed.
    pub(crate) secret: Vec<u8>,
    /// The next signing secret, sealed. It signs together with the other until `next_secret_at`, and alone afterwards.
    pub(crate) next_secret: Option<Vec<u8>>,
    pub(crate) next_secret_at: Option<i64>,
    pub(crate) active: bool,
    /// True if deliveries also have the headers of Standard Webhooks.
    pub(crate) standard_headers: bool,
    /// The start of the period without a successful delivery; null while the last one succeeded.
    pub(crate) failing_since: Option<i64>,
    /// The time when it was switched off because its deliveries failed for too long.
    pub(crate) disabled_at: Option<i64>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    /// The time of its deletion, alone or with its project. It is then inactive, and the sweep removes it with its
    /// dependent rows.
    pub(crate) deleted_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
}

impl Related<super::projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
