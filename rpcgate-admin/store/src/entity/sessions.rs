//! Active sessions.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "sessions")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) user_id: Uuid,
    pub(crate) created_at: i64,
    pub(crate) seen_at: i64,
    pub(crate) expires_at: i64,
    pub(crate) address: String,
    pub(crate) agent: String,
    #[sea_orm(default_value = "password")]
    pub(crate) method: String,
    #[sea_orm(default_value = "")]
    pub(crate) seen_address: String,
    /// The last time when the user gave a second factor in it.
    pub(crate) factor_at: Option<i64>,
    /// The last time when the user gave the password or a second factor in it.
    pub(crate) proved_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {
    #[sea_orm(belongs_to = "super::users::Entity", from = "Column::UserId", to = "super::users::Column::Id")]
    User,
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
