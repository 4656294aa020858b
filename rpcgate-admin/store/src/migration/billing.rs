//! Invoices, credit notes, checkouts, and the tables that closing a month needs: plan changes, invoice numbers, and the
//! billing position of each tenant.

use super::accounts::reference;
use sea_orm::DbErr;
use sea_orm::sea_query::{ColumnDef, ForeignKey, ForeignKeyAction, Index, Table, TableCreateStatement};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{
    big_integer, big_integer_null, boolean, integer, integer_null, string, string_null, text, text_null,
    uuid, uuid_null,
};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Billing;

impl MigrationName for Billing {
    fn name(&self) -> &'static str {
        "0011_billing"
    }
}

#[async_trait]
impl MigrationTrait for Billing {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in [tier_changes(), invoice_numbers(), billing_start(), billing_accounts()] {
            manager.create_table(table).await?;
        }
        for table in [invoices(), invoice_lines(), credit_notes(), checkouts()] {
            manager.create_table(table).await?;
        }
        for (name, table, columns) in [
            ("tier_changes_of_tenant", "tier_changes", &["tenant_id", "at"][..]),
            ("invoices_by_state", "invoices", &["status", "due_at"]),
            ("invoice_lines_of_tenant", "invoice_lines", &["tenant_id", "month"]),
            ("credit_notes_of_invoice", "credit_notes", &["invoice_year", "invoice_serial"]),
            ("checkouts_of_tenant", "checkouts", &["tenant_id", "created_at"]),
            ("checkouts_by_time", "checkouts", &["created_at"]),
        ] {
            let mut index = Index::create().name(name).table(table).take();
            for column in columns {
                index.col(*column);
            }
            manager.create_index(index).await?;
        }
        let one_each = Index::create()
            .name("invoices_of_tenant")
            .table("invoices")
            .col("tenant_id")
            .col("period")
            .unique()
            .take();
        manager.create_index(one_each).await
    }
}

fn tier_changes() -> TableCreateStatement {
    let mut tenant = reference("tier_changes", "tenant_id", "tenants");
    Table::create()
        .table("tier_changes")
        .col(ColumnDef::new("number").big_integer().not_null().auto_increment().primary_key())
        .col(uuid("tenant_id"))
        .col(big_integer("at"))
        .col(string("before"))
        .col(string("after"))
        .foreign_key(tenant.on_delete(ForeignKeyAction::Cascade))
        .take()
}

fn invoice_numbers() -> TableCreateStatement {
    Table::create()
        .table("invoice_numbers")
        .col(string("series"))
        .col(integer("year"))
        .col(big_integer("last"))
        .primary_key(Index::create().col("series").col("year"))
        .take()
}

fn billing_start() -> TableCreateStatement {
    Table::create().table("billing_start").col(integer("id").primary_key()).col(big_integer("month")).take()
}

fn billing_accounts() -> TableCreateStatement {
    let mut tenant = reference("billing_accounts", "tenant_id", "tenants");
    Table::create()
        .table("billing_accounts")
        .col(uuid("tenant_id").primary_key())
        .col(big_integer("closed_until"))
        .col(big_integer_null("suspended_at"))
        .foreign_key(tenant.on_delete(ForeignKeyAction::Cascade))
        .take()
}

fn invoices() -> TableCreateStatement {
    Table::create()
        .table("invoices")
        .col(integer("year"))
        .col(big_integer("serial"))
        .col(uuid("tenant_id"))
        .col(big_integer("period"))
        .col(big_integer("period_end"))
        .col(big_integer("issued_at"))
        .col(big_integer("due_at"))
        .col(string("status"))
        .col(text("customer"))
        .col(text("seller"))
        .col(big_integer("subtotal_cents"))
        .col(string("tax_name"))
        .col(integer("tax_basis_points"))
        .col(big_integer("tax_cents"))
        .col(big_integer("total_cents"))
        .col(big_integer("credited_cents"))
        .col(big_integer_null("settled_at"))
        .col(text_null("note"))
        .col(boolean("announced"))
        .col(integer("reminders"))
        .col(big_integer_null("suspended_at"))
        .primary_key(Index::create().col("year").col("serial"))
        .foreign_key(&mut reference("invoices", "tenant_id", "tenants"))
        .take()
}

fn invoice_lines() -> TableCreateStatement {
    let mut invoice = ForeignKey::create()
        .from("invoice_lines", ("year", "serial"))
        .to("invoices", ("year", "serial"))
        .take();
    Table::create()
        .table("invoice_lines")
        .col(integer("year"))
        .col(big_integer("serial"))
        .col(integer("position"))
        .col(uuid("tenant_id"))
        .col(big_integer("month"))
        .col(string("kind"))
        .col(text("chain"))
        .col(string("tier"))
        .col(big_integer("price"))
        .col(big_integer("calls"))
        .col(big_integer("units"))
        .col(text("amount"))
        .primary_key(Index::create().col("year").col("serial").col("position"))
        .foreign_key(&mut invoice)
        .take()
}

fn credit_notes() -> TableCreateStatement {
    let mut invoice = ForeignKey::create()
        .from("credit_notes", ("invoice_year", "invoice_serial"))
        .to("invoices", ("year", "serial"))
        .take();
    Table::create()
        .table("credit_notes")
        .col(integer("year"))
        .col(big_integer("serial"))
        .col(integer("invoice_year"))
        .col(big_integer("invoice_serial"))
        .col(uuid("tenant_id"))
        .col(big_integer("issued_at"))
        .col(big_integer("net_cents"))
        .col(big_integer("tax_cents"))
        .col(big_integer("cents"))
        .col(text("reason"))
        .col(uuid_null("user_id"))
        .primary_key(Index::create().col("year").col("serial"))
        .foreign_key(&mut invoice)
        .take()
}

fn checkouts() -> TableCreateStatement {
    let mut tenant = reference("checkouts", "tenant_id", "tenants");
    Table::create()
        .table("checkouts")
        .col(uuid("id").primary_key())
        .col(uuid("tenant_id"))
        .col(uuid_null("user_id"))
        .col(integer_null("invoice_year"))
        .col(big_integer_null("invoice_serial"))
        .col(string_null("tier"))
        .col(big_integer("cents"))
        .col(text_null("url"))
        .col(big_integer("created_at"))
        .col(big_integer_null("completed_at"))
        .col(boolean("is_over"))
        .foreign_key(tenant.on_delete(ForeignKeyAction::Cascade))
        .take()
}
