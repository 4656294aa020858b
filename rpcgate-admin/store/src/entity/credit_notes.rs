//! Credit notes, each for one invoice.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "credit_notes")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) year: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) serial: i64,
    pub(crate) invoice_year: i32,
    pub(crate) invoice_serial: i64,
    pub(crate) tenant_id: Uuid,
    pub(crate) issued_at: i64,
    pub(crate) net_cents: i64,
    pub(crate) tax_cents: i64,
    pub(crate) cents: i64,
    pub(crate) reason: String,
    pub(crate) user_id: Option<Uuid>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
