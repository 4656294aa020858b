//! Custom plans, and the columns that name one.

use sea_orm::DbErr;
use sea_orm::sea_query::{Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{
    big_integer, big_integer_null, boolean, string, text, text_null, uuid, uuid_null,
};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct CustomPlans;

impl MigrationName for CustomPlans {
    fn name(&self) -> &'static str {
        "0018_custom_plans"
    }
}

#[async_trait]
impl MigrationTrait for CustomPlans {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let plans = Table::create()
            .table("custom_plans")
            .col(uuid("id").primary_key())
            .col(string("name"))
            .col(string("base_tier"))
            .col(boolean("visible"))
            .col(text("figures"))
            .col(big_integer("created_at"))
            .col(big_integer_null("deleted_at"))
            .take();
        manager.create_table(plans).await?;
        for (table, column) in [
            ("tenants", uuid_null("custom_plan_id")),
            ("limit_requests", uuid_null("custom_plan_id")),
            ("tier_changes", uuid_null("custom_before")),
            ("tier_changes", uuid_null("custom_after")),
            ("invoice_lines", text_null("custom_plan")),
        ] {
            manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
        }
        let tenants =
            Index::create().name("tenants_of_custom_plan").table("tenants").col("custom_plan_id").take();
        manager.create_index(tenants).await
    }
}
