//! Organisations, which pay for their usage.

use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "tenants")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) tier: String,
    pub(crate) suspended: bool,
    pub(crate) created_at: i64,
    /// Whether its members need a second factor.
    pub(crate) requires_factor: bool,
    /// The plan of an operator's own that it is on, whose base is `tier`.
    pub(crate) custom_plan_id: Option<Uuid>,
    /// When it was deleted, after which nothing but the sweep works with it.
    pub(crate) deleted_at: Option<i64>,
    /// Whether it was deleted and nothing is left of it but its invoices.
    pub(crate) is_empty: bool,
    /// The name on invoices, if it is another one.
    pub(crate) billing_name: Option<String>,
    /// The lines of the address on invoices, a JSON array.
    pub(crate) billing_address: String,
    pub(crate) billing_tax_id: Option<String>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
