//! Attempts to deliver.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "delivery_attempts")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) delivery_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) number: i16,
    pub(crate) started_at: i64,
    pub(crate) duration_ms: i32,
    pub(crate) http_status: Option<i16>,
    pub(crate) error: Option<String>,
    pub(crate) answer: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {
    #[sea_orm(
        belongs_to = "super::deliveries::Entity",
        from = "Column::DeliveryId",
        to = "super::deliveries::Column::Id"
    )]
    Delivery,
}

impl Related<super::deliveries::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Delivery.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
