//! Replays that are processed in steps, and the times when users were notified that events of an endpoint are withheld.

use super::accounts::reference;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKeyAction, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, big_integer_null, uuid, uuid_null};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct WebhookReplays;

impl MigrationName for WebhookReplays {
    fn name(&self) -> &'static str {
        "0041_webhook_replays"
    }
}

#[async_trait]
impl MigrationTrait for WebhookReplays {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let replays = Table::create()
            .table("webhook_replays")
            .col(uuid("id").primary_key())
            .col(uuid("webhook_id"))
            .col(big_integer("stored_from"))
            .col(big_integer("stored_until"))
            .col(big_integer_null("after_at"))
            .col(uuid_null("after_id"))
            .col(big_integer("remaining"))
            .col(big_integer("created_at"))
            .foreign_key(
                reference("webhook_replays", "webhook_id", "webhooks").on_delete(ForeignKeyAction::Cascade),
            )
            .take();
        manager.create_table(replays).await?;
        // SQLite adds one column at a time.
        for column in ["withheld_at", "withheld_told_at"] {
            let told = Table::alter().table("webhook_tellings").add_column(big_integer_null(column)).take();
            manager.alter_table(told).await?;
        }
        Ok(())
    }
}
