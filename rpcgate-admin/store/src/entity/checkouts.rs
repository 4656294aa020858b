//! Payments that were begun at the payment provider.

use crate::query::{CheckoutId, UserId};
use rpcgate_core::caller::{CustomPlanId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "checkouts")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: CheckoutId,
    pub(crate) tenant_id: TenantId,
    pub(crate) user_id: Option<UserId>,
    pub(crate) invoice_year: Option<i32>,
    pub(crate) invoice_serial: Option<i64>,
    pub(crate) tier: Option<Tier>,
    pub(crate) cents: i64,
    /// The provider's page; null until the provider has answered.
    pub(crate) url: Option<String>,
    pub(crate) created_at: Time,
    pub(crate) completed_at: Option<Time>,
    /// True if nothing can be paid on the page any more.
    pub(crate) is_over: bool,
    /// The custom plan to move to, whose base is `tier`.
    pub(crate) custom_plan_id: Option<CustomPlanId>,
    pub(crate) session: Option<String>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
