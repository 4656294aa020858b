//! Versions of configurations, and of the settings of operators.

use sea_orm::DbErr;
use sea_orm::sea_query::{ColumnDef, Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, big_integer_null, text, uuid_null};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct ConfigVersions;

impl MigrationName for ConfigVersions {
    fn name(&self) -> &'static str {
        "0028_config_versions"
    }
}

#[async_trait]
impl MigrationTrait for ConfigVersions {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table("config_versions")
            .col(ColumnDef::new("number").big_integer().not_null().auto_increment().primary_key())
            .col(text("source"))
            .col(text("place"))
            .col(text("host"))
            .col(uuid_null("tenant_id"))
            .col(big_integer("at"))
            .col(big_integer("seen_at"))
            .col(uuid_null("user_id"))
            .col(text("who"))
            .col(text("text"))
            .col(text("fingerprint_key"))
            .col(big_integer_null("started"))
            .take();
        manager.create_table(table).await?;
        let by_scope = Index::create()
            .name("config_versions_scope")
            .table("config_versions")
            .col("source")
            .col("place")
            .col("number")
            .take();
        manager.create_index(by_scope).await
    }
}
