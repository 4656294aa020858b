//! Quotas that operators granted to projects. A project without a row has the quota of its plan.
//!
//! The limits are unsigned 64-bit integers, stored with the same bits: those from 2⁶³ on are negative here.

use rpcgate_core::caller::ProjectId;
use sea_orm::entity::prelude::*;

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "quotas")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) project_id: ProjectId,
    pub(crate) cu_per_day: i64,
    pub(crate) cu_per_month: Option<i64>,
    pub(crate) rps_limit: Option<i64>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
