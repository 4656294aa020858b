//! Figures that override those of a tenant's plan for a period.

use crate::query::{ContractId, Figures};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

/// Figures that override those of a tenant's plan for a period.
#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "contracts")]
pub struct Model {
    /// Its identifier. The later of two contracts has the larger one.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: ContractId,
    /// The tenant.
    #[sea_orm(column_name = "tenant_id", enum_name = "TenantId")]
    pub tenant: TenantId,
    /// The start, inclusive.
    #[sea_orm(column_name = "starts_at", enum_name = "StartsAt")]
    pub from: Time,
    /// The end, exclusive.
    #[sea_orm(column_name = "ends_at", enum_name = "EndsAt")]
    pub until: Option<Time>,
    /// The figures; the others are the plan's.
    #[sea_orm(column_type = "Text")]
    pub figures: Figures,
    /// The operator's note, or empty.
    #[sea_orm(column_type = "Text")]
    pub note: String,
    /// The creation time.
    pub created_at: Time,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
