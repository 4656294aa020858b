//! Tenants, users, projects, keys and quotas; the settings of operators; the change feed.

use sea_orm::DbErr;
use sea_orm::sea_query::{ColumnDef, ForeignKey, ForeignKeyCreateStatement, Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{
    big_integer, big_integer_null, blob, boolean, string, text, text_null, uuid,
};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Accounts;

impl MigrationName for Accounts {
    fn name(&self) -> &'static str {
        "0001_accounts"
    }
}

#[async_trait]
impl MigrationTrait for Accounts {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let tables = [
            Table::create()
                .table("tenants")
                .col(uuid("id").primary_key())
                .col(string("name"))
                .col(string("tier"))
                .col(boolean("suspended"))
                .col(big_integer("created_at"))
                .take(),
            Table::create()
                .table("users")
                .col(uuid("id").primary_key())
                .col(uuid("tenant_id"))
                .col(string("email").unique_key())
                .col(big_integer("created_at"))
                .foreign_key(&mut reference("users", "tenant_id", "tenants"))
                .take(),
            Table::create()
                .table("projects")
                .col(uuid("id").primary_key())
                .col(uuid("tenant_id"))
                .col(string("name"))
                .col(text("allowed_methods"))
                .col(text("blocked_methods"))
                .col(big_integer("created_at"))
                .foreign_key(&mut reference("projects", "tenant_id", "tenants"))
                .take(),
            Table::create()
                .table("keys")
                .col(uuid("id").primary_key())
                .col(uuid("project_id"))
                .col(text("description"))
                .col(string("prefix"))
                .col(blob("hash").unique_key())
                .col(text_null("chains"))
                .col(big_integer_null("expires_at"))
                .col(big_integer_null("revoked_at"))
                .col(big_integer("created_at"))
                .foreign_key(&mut reference("keys", "project_id", "projects"))
                .take(),
            Table::create()
                .table("quotas")
                .col(uuid("project_id").primary_key())
                .col(big_integer("cu_per_day"))
                .col(big_integer_null("cu_per_month"))
                .col(big_integer_null("rps_limit"))
                .foreign_key(&mut reference("quotas", "project_id", "projects"))
                .take(),
            Table::create()
                .table("plans")
                .col(string("tier").primary_key())
                .col(big_integer_null("per_minute"))
                .col(big_integer_null("per_hour"))
                .col(big_integer_null("per_day"))
                .col(big_integer_null("heavy_per_minute"))
                .col(big_integer_null("price"))
                .take(),
            Table::create()
                .table("weights")
                .col(string("chain"))
                .col(string("method"))
                .col(big_integer("cu"))
                .primary_key(Index::create().col("chain").col("method"))
                .take(),
            Table::create()
                .table("chain_switches")
                .col(string("chain").primary_key())
                .col(boolean("enabled"))
                .take(),
            Table::create()
                .table("changes")
                .col(ColumnDef::new("number").big_integer().not_null().auto_increment().primary_key())
                .col(string("kind"))
                .col(text("subject"))
                .col(big_integer("at"))
                .take(),
        ];
        for table in tables {
            manager.create_table(table).await?;
        }
        let projects = Index::create().name("projects_of_tenant").table("projects").col("tenant_id").take();
        manager.create_index(projects).await
    }
}

/// Builds a foreign key: `column` of `table` holds an `id` of `to`.
pub(super) fn reference(
    table: &'static str,
    column: &'static str,
    to: &'static str,
) -> ForeignKeyCreateStatement {
    ForeignKey::create().from(table, column).to(to, "id").take()
}
