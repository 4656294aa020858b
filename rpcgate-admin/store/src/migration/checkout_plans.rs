//! Payments for custom plans.

use sea_orm::DbErr;
use sea_orm::sea_query::Table;
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::uuid_null;
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct CheckoutPlans;

impl MigrationName for CheckoutPlans {
    fn name(&self) -> &'static str {
        "0020_checkout_plans"
    }
}

#[async_trait]
impl MigrationTrait for CheckoutPlans {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let plan = uuid_null("custom_plan_id").take();
        manager.alter_table(Table::alter().table("checkouts").add_column(plan).take()).await
    }
}
