//! Changes of the built-in plans that take effect later.

use sea_orm::DbErr;
use sea_orm::sea_query::{Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, string, text, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct ScheduledChanges;

impl MigrationName for ScheduledChanges {
    fn name(&self) -> &'static str {
        "0045_scheduled_changes"
    }
}

#[async_trait]
impl MigrationTrait for ScheduledChanges {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let changes = Table::create()
            .table("scheduled_changes")
            .col(uuid("id").primary_key())
            .col(string("tier"))
            .col(big_integer("effective_at"))
            .col(text("figures"))
            .col(big_integer("created_at"))
            .take();
        manager.create_table(changes).await?;
        let due = Index::create()
            .name("scheduled_changes_by_time")
            .table("scheduled_changes")
            .col("effective_at")
            .take();
        manager.create_index(due).await
    }
}
