//! The quota and the fee that operators have set for a plan.

use sea_orm::DbErr;
use sea_orm::sea_query::Table;
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::big_integer_null;
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct PlanQuotas;

impl MigrationName for PlanQuotas {
    fn name(&self) -> &'static str {
        "0044_plan_quotas"
    }
}

#[async_trait]
impl MigrationTrait for PlanQuotas {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in ["cu_per_day", "cu_per_month", "rps_limit", "monthly_fee_cents"] {
            let added = Table::alter().table("plans").add_column(big_integer_null(column)).take();
            manager.alter_table(added).await?;
        }
        Ok(())
    }
}
