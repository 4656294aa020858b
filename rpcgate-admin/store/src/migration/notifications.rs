//! The notifications that users have read.

use super::accounts::reference;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKeyAction, Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Notifications;

impl MigrationName for Notifications {
    fn name(&self) -> &'static str {
        "0004_notifications"
    }
}

#[async_trait]
impl MigrationTrait for Notifications {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let of_user = reference("notification_reads", "user_id", "users")
            .on_delete(ForeignKeyAction::Cascade)
            .to_owned();
        let table = Table::create()
            .table("notification_reads")
            .col(uuid("user_id"))
            .col(uuid("notification"))
            .col(big_integer("read_at"))
            .primary_key(Index::create().col("user_id").col("notification"))
            .foreign_key(&mut of_user.clone())
            .take();
        manager.create_table(table).await?;
        let oldest = Index::create()
            .name("notification_reads_by_time")
            .table("notification_reads")
            .col("read_at")
            .take();
        manager.create_index(oldest).await
    }
}
