//! API keys, by the hash of their text. A revoked key stays, so that its calls are distinguished from those with
//! unknown keys.

use rpcgate_core::caller::{KeyId, ProjectId};
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "keys")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: KeyId,
    pub(crate) project_id: ProjectId,
    pub(crate) description: String,
    pub(crate) prefix: String,
    #[sea_orm(unique)]
    pub(crate) hash: Vec<u8>,
    /// A JSON array of path names; null means every chain.
    pub(crate) chains: Option<String>,
    pub(crate) expires_at: Option<Time>,
    pub(crate) revoked_at: Option<Time>,
    pub(crate) created_at: Time,
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
