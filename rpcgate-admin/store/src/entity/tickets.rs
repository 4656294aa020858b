//! Support tickets.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "tickets")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) tenant_id: Uuid,
    pub(crate) user_id: Uuid,
    pub(crate) category: String,
    pub(crate) status: String,
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) limit_request_id: Option<Uuid>,
    pub(crate) rating: Option<i16>,
    pub(crate) rating_text: Option<String>,
    pub(crate) rated_at: Option<i64>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) closed_at: Option<i64>,
    /// The bytes of the subject, the text and all comments.
    #[sea_orm(default_value = 0)]
    pub(crate) text_bytes: i64,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
