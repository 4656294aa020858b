//! The number of objects of each kind that a plan allows, and indexes for old keys, projects and requests.

use sea_orm::DbErr;
use sea_orm::sea_query::{Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::big_integer_null;
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Counts;

impl MigrationName for Counts {
    fn name(&self) -> &'static str {
        "0006_counts"
    }
}

#[async_trait]
impl MigrationTrait for Counts {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for name in [
            "projects",
            "keys_per_project",
            "members",
            "webhooks_per_project",
            "subscriptions_per_webhook",
            "streams_per_project",
        ] {
            let table = Table::alter().table("plans").add_column(big_integer_null(name)).take();
            manager.alter_table(table).await?;
        }
        for (name, table, column) in [
            ("keys_by_revocation", "keys", "revoked_at"),
            ("keys_by_end", "keys", "expires_at"),
            ("projects_by_deletion", "projects", "deleted_at"),
            ("limit_requests_by_review", "limit_requests", "reviewed_at"),
        ] {
            let index = Index::create().name(name).table(table).col(column).take();
            manager.create_index(index).await?;
        }
        Ok(())
    }
}
