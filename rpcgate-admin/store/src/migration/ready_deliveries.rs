//! The `ready` mark of pending deliveries. With it, a claim skips endpoints whose deliveries all wait for a later time.

use sea_orm::sea_query::{Index, Table};
use sea_orm::{ConnectionTrait, DbErr};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::boolean;
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct ReadyDeliveries;

impl MigrationName for ReadyDeliveries {
    fn name(&self) -> &'static str {
        "0039_ready_deliveries"
    }
}

#[async_trait]
impl MigrationTrait for ReadyDeliveries {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let ready = Table::alter().table("deliveries").add_column(boolean("ready").default(true)).take();
        manager.alter_table(ready).await?;
        // The next claims make the due ones ready.
        let none = "UPDATE deliveries SET ready = FALSE WHERE status = 'pending'";
        manager.get_connection().execute_unprepared(none).await?;
        for (before, name, columns) in [
            ("deliveries_due", "deliveries_in_line", &["status", "ready", "due_at"][..]),
            // A dispatcher goes from one endpoint with ready deliveries to the next.
            (
                "deliveries_due_of_webhook",
                "deliveries_in_line_of_webhook",
                &["status", "ready", "webhook_id", "due_at"],
            ),
        ] {
            manager.drop_index(Index::drop().name(before).table("deliveries").to_owned()).await?;
            let mut index = Index::create().name(name).table("deliveries").take();
            for column in columns {
                index.col(*column);
            }
            manager.create_index(index).await?;
        }
        Ok(())
    }
}
