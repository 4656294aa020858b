//! Payments that were begun at the payment provider.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "checkouts")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) tenant_id: Uuid,
    pub(crate) user_id: Option<Uuid>,
    pub(crate) invoice_year: Option<i32>,
    pub(crate) invoice_serial: Option<i64>,
    pub(crate) tier: Option<String>,
    pub(crate) cents: i64,
    /// The provider's page; null until the provider has answered.
    pub(crate) url: Option<String>,
    pub(crate) created_at: i64,
    pub(crate) completed_at: Option<i64>,
    /// True if nothing can be paid on the page any more.
    pub(crate) is_over: bool,
    /// The custom plan to move to, whose base is `tier`.
    pub(crate) custom_plan_id: Option<Uuid>,
    pub(crate) session: Option<String>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
