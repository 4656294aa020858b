//! Notifications that the management side raises, users' notification preferences, and the marks of mailed
//! notifications.

use super::accounts::reference;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKeyAction, Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, boolean, string, text, uuid, uuid_null};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Notices;

impl MigrationName for Notices {
    fn name(&self) -> &'static str {
        "0011_notices"
    }
}

#[async_trait]
impl MigrationTrait for Notices {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let notices = Table::create()
            .table("notices")
            .col(uuid("id").primary_key())
            .col(uuid("tenant_id"))
            .col(uuid_null("user_id"))
            .col(string("kind"))
            .col(text("text"))
            .col(big_integer("at"))
            .foreign_key(reference("notices", "tenant_id", "tenants").on_delete(ForeignKeyAction::Cascade))
            .foreign_key(reference("notices", "user_id", "users").on_delete(ForeignKeyAction::Cascade))
            .take();
        let preferences = Table::create()
            .table("notification_preferences")
            .col(uuid("user_id"))
            .col(string("kind"))
            .col(boolean("shown"))
            .col(boolean("mail"))
            .primary_key(Index::create().col("user_id").col("kind"))
            .foreign_key(
                reference("notification_preferences", "user_id", "users")
                    .on_delete(ForeignKeyAction::Cascade),
            )
            .take();
        let mailed = Table::create()
            .table("mailed_notifications")
            .col(uuid("notification").primary_key())
            .col(big_integer("at"))
            .take();
        for table in [notices, preferences, mailed] {
            manager.create_table(table).await?;
        }
        let newest =
            Index::create().name("notices_of_tenant").table("notices").col("tenant_id").col("at").take();
        let of_user = Index::create().name("notices_of_user").table("notices").col("user_id").take();
        let oldest = Index::create().name("notices_by_time").table("notices").col("at").take();
        let mails = Index::create()
            .name("mailed_notifications_by_time")
            .table("mailed_notifications")
            .col("at")
            .take();
        for index in [newest, of_user, oldest, mails] {
            manager.create_index(index).await?;
        }
        Ok(())
    }
}
