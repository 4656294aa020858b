//! Webhooks: endpoints and their subscriptions, the log of events, deliveries, and the followed position of each chain.

use super::accounts::reference;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKeyAction, Index, Table, TableCreateStatement};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{
    big_integer, big_integer_null, blob, blob_null, boolean, integer, small_integer, small_integer_null,
    string, text, text_null, uuid, uuid_null,
};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Webhooks;

impl MigrationName for Webhooks {
    fn name(&self) -> &'static str {
        "0023_webhooks"
    }
}

#[async_trait]
impl MigrationTrait for Webhooks {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in resources().into_iter().chain(deliveries()) {
            manager.create_table(table).await?;
        }
        for (name, table, columns) in [
            ("webhooks_of_project", "webhooks", &["project_id", "created_at"][..]),
            ("webhooks_deleted", "webhooks", &["deleted_at"]),
            ("subscriptions_of_webhook", "subscriptions", &["webhook_id", "created_at"]),
            ("subscriptions_of_chain", "subscriptions", &["chain", "id"]),
            ("chain_events_of_block", "chain_events", &["chain", "block_hash"]),
            ("chain_events_by_time", "chain_events", &["created_at"]),
            ("project_events_by_time", "project_events", &["project_id", "created_at"]),
            ("project_events_of_event", "project_events", &["event_id"]),
            ("deliveries_due", "deliveries", &["status", "due_at"]),
            // By status first: a dispatcher goes from one endpoint with due deliveries to the next.
            ("deliveries_due_of_webhook", "deliveries", &["status", "webhook_id", "due_at"]),
            ("deliveries_of_webhook", "deliveries", &["webhook_id", "created_at"]),
            ("deliveries_of_event", "deliveries", &["event_id"]),
            ("deliveries_held", "deliveries", &["held_chain", "held_until"]),
        ] {
            let mut index = Index::create().name(name).table(table).take();
            for column in columns {
                index.col(*column);
            }
            manager.create_index(index).await?;
        }
        Ok(())
    }
}

fn resources() -> [TableCreateStatement; 2] {
    [
        Table::create()
            .table("webhooks")
            .col(uuid("id").primary_key())
            .col(uuid("project_id"))
            .col(text("url"))
            .col(blob("secret"))
            .col(blob_null("next_secret"))
            .col(big_integer_null("next_secret_at"))
            .col(boolean("active"))
            .col(boolean("standard_headers"))
            .col(big_integer_null("failing_since"))
            .col(big_integer_null("disabled_at"))
            .col(big_integer("created_at"))
            .col(big_integer("updated_at"))
            .col(big_integer_null("deleted_at"))
            .foreign_key(reference("webhooks", "project_id", "projects").on_delete(ForeignKeyAction::Cascade))
            .take(),
        Table::create()
            .table("subscriptions")
            .col(uuid("id").primary_key())
            .col(uuid("webhook_id"))
            .col(string("chain"))
            .col(string("event_type"))
            .col(text_null("filter"))
            .col(integer("confirmations"))
            .col(big_integer("created_at"))
            .foreign_key(
                reference("subscriptions", "webhook_id", "webhooks").on_delete(ForeignKeyAction::Cascade),
            )
            .take(),
    ]
}

fn deliveries() -> [TableCreateStatement; 7] {
    [
        // No foreign key to a project: the event of a block belongs to every project that it was matched for.
        Table::create()
            .table("chain_events")
            .col(uuid("id").primary_key())
            .col(string("chain"))
            .col(string("event_type"))
            .col(big_integer("block_num"))
            .col(string("block_hash"))
            .col(boolean("removed"))
            .col(blob("body"))
            .col(big_integer("created_at"))
            .take(),
        Table::create()
            .table("project_events")
            .col(uuid("project_id"))
            .col(uuid("event_id"))
            .col(big_integer("created_at"))
            .primary_key(Index::create().col("project_id").col("event_id"))
            .foreign_key(
                reference("project_events", "project_id", "projects").on_delete(ForeignKeyAction::Cascade),
            )
            .foreign_key(
                reference("project_events", "event_id", "chain_events").on_delete(ForeignKeyAction::Cascade),
            )
            .take(),
        Table::create()
            .table("deliveries")
            .col(uuid("id").primary_key())
            .col(uuid("webhook_id"))
            .col(uuid_null("subscription_id"))
            .col(uuid("event_id"))
            .col(string("status"))
            .col(boolean("replay"))
            .col(small_integer("attempts"))
            .col(big_integer("due_at"))
            .col(string("held_chain").null())
            .col(big_integer_null("held_until"))
            .col(small_integer_null("last_status"))
            .col(text_null("last_error"))
            .col(big_integer("created_at"))
            .col(big_integer_null("finished_at"))
            .foreign_key(
                reference("deliveries", "webhook_id", "webhooks").on_delete(ForeignKeyAction::Cascade),
            )
            .foreign_key(
                reference("deliveries", "event_id", "chain_events").on_delete(ForeignKeyAction::Cascade),
            )
            .take(),
        Table::create()
            .table("delivery_attempts")
            .col(uuid("delivery_id"))
            .col(small_integer("number"))
            .col(big_integer("started_at"))
            .col(integer("duration_ms"))
            .col(small_integer_null("http_status"))
            .col(text_null("error"))
            .col(blob_null("answer"))
            .primary_key(Index::create().col("delivery_id").col("number"))
            .foreign_key(
                reference("delivery_attempts", "delivery_id", "deliveries")
                    .on_delete(ForeignKeyAction::Cascade),
            )
            .take(),
        Table::create()
            .table("webhook_tellings")
            .col(uuid("webhook_id").primary_key())
            .col(big_integer_null("failing_at"))
            .col(big_integer_null("working_at"))
            .foreign_key(
                reference("webhook_tellings", "webhook_id", "webhooks").on_delete(ForeignKeyAction::Cascade),
            )
            .take(),
        Table::create()
            .table("followed_blocks")
            .col(string("chain"))
            .col(big_integer("height"))
            .col(string("hash"))
            .col(string("parent"))
            .col(big_integer("timestamp"))
            .col(string("place"))
            .col(string("state"))
            .col(big_integer("appended_at"))
            .primary_key(Index::create().col("chain").col("height"))
            .take(),
        Table::create()
            .table("watched_chains")
            .col(string("chain").primary_key())
            .col(uuid_null("watcher"))
            .col(big_integer("watched_until"))
            .col(string("phase"))
            .col(big_integer_null("replaced_until"))
            .col(big_integer("appended_at"))
            .col(big_integer("updated_at"))
            .take(),
    ]
}
