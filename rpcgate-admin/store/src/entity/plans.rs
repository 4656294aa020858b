//! Limits of plans that operators set; null means as configured.

use rpcgate_core::plan::Tier;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "plans")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) tier: Tier,
    pub(crate) per_minute: Option<i64>,
    pub(crate) per_hour: Option<i64>,
    pub(crate) per_day: Option<i64>,
    pub(crate) heavy_per_minute: Option<i64>,
    /// The price in 10⁻¹² US dollars.
    pub(crate) price: Option<i64>,
    pub(crate) projects: Option<i64>,
    pub(crate) keys_per_project: Option<i64>,
    pub(crate) members: Option<i64>,
    pub(crate) webhooks_per_project: Option<i64>,
    pub(crate) subscriptions_per_webhook: Option<i64>,
    /// The column keeps its first name: a gateway of an earlier version could not read its plans if it were renamed.
    #[sea_orm(column_name = "streams_per_project")]
    pub(crate) ws_connections: Option<i64>,
    pub(crate) ws_connections_per_key: Option<i64>,
    pub(crate) cu_per_day: Option<i64>,
    pub(crate) cu_per_month: Option<i64>,
    pub(crate) rps_limit: Option<i64>,
    pub(crate) monthly_fee_cents: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
