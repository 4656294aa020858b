//! Fees with effective dates, customers on invoices, announced suspensions, the sessions of checkouts, and unmatched
//! payments.

use sea_orm::DbErr;
use sea_orm::sea_query::{ColumnDef, ForeignKey, ForeignKeyAction, Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{
    big_integer, big_integer_null, integer_null, string, string_null, text, text_null, uuid, uuid_null,
};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct FeesAndPayments;

impl MigrationName for FeesAndPayments {
    fn name(&self) -> &'static str {
        "0043_billing_terms"
    }
}

#[async_trait]
impl MigrationTrait for FeesAndPayments {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in [
            ("tenants", text_null("billing_name")),
            ("tenants", text("billing_address").default("[]").take()),
            ("tenants", text_null("billing_tax_id")),
            ("invoices", text("customer_address").default("[]").take()),
            ("invoices", text_null("customer_tax_id")),
            ("invoices", big_integer_null("suspends_at")),
            ("checkouts", text_null("session")),
        ] {
            manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
        }
        let mut plan =
            ForeignKey::create().from("plan_fees", "custom_plan_id").to("custom_plans", "id").take();
        let fees = Table::create()
            .table("plan_fees")
            .col(ColumnDef::new("number").big_integer().not_null().auto_increment().primary_key())
            .col(string("tier"))
            .col(uuid_null("custom_plan_id"))
            .col(big_integer("since"))
            .col(big_integer_null("cents"))
            .foreign_key(plan.on_delete(ForeignKeyAction::Cascade))
            .take();
        manager.create_table(fees).await?;
        let payments = Table::create()
            .table("unmatched_payments")
            .col(uuid("id").primary_key())
            .col(string("session").unique_key().take())
            .col(big_integer("received_at"))
            .col(uuid_null("checkout_id"))
            .col(uuid_null("tenant_id"))
            .col(integer_null("invoice_year"))
            .col(big_integer_null("invoice_serial"))
            .col(big_integer("cents"))
            .col(string_null("currency"))
            .col(string_null("mode"))
            .col(text("reason"))
            .take();
        manager.create_table(payments).await?;
        let newest = Index::create()
            .name("unmatched_payments_by_time")
            .table("unmatched_payments")
            .col("received_at")
            .take();
        manager.create_index(newest).await
    }
}
