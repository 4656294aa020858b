//! Support tickets with their comments and attached files.

use super::accounts::reference;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKeyAction, Index, Table, TableCreateStatement};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{
    big_integer, big_integer_null, blob, boolean, integer, small_integer_null, string, text, text_null, uuid,
    uuid_null,
};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Tickets;

impl MigrationName for Tickets {
    fn name(&self) -> &'static str {
        "0012_tickets"
    }
}

#[async_trait]
impl MigrationTrait for Tickets {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in tables() {
            manager.create_table(table).await?;
        }
        for (name, table, columns) in [
            ("tickets_of_tenant", "tickets", &["tenant_id", "created_at"][..]),
            ("tickets_by_time", "tickets", &["created_at"]),
            ("tickets_of_limit_request", "tickets", &["limit_request_id"]),
            ("ticket_comments_of_ticket", "ticket_comments", &["ticket_id", "created_at"]),
            ("ticket_attachments_of_ticket", "ticket_attachments", &["ticket_id", "created_at"]),
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

fn tables() -> [TableCreateStatement; 4] {
    let cascade =
        |table, column, to| reference(table, column, to).on_delete(ForeignKeyAction::Cascade).take();
    // Authors have no foreign keys: a ticket outlives the user who wrote it.
    [
        Table::create()
            .table("tickets")
            .col(uuid("id").primary_key())
            .col(uuid("tenant_id"))
            .col(uuid("user_id"))
            .col(string("category"))
            .col(string("status"))
            .col(text("subject"))
            .col(text("text"))
            .col(uuid_null("limit_request_id"))
            .col(small_integer_null("rating"))
            .col(text_null("rating_text"))
            .col(big_integer_null("rated_at"))
            .col(big_integer("created_at"))
            .col(big_integer("updated_at"))
            .col(big_integer_null("closed_at"))
            .foreign_key(&mut cascade("tickets", "tenant_id", "tenants"))
            .foreign_key(
                reference("tickets", "limit_request_id", "limit_requests")
                    .on_delete(ForeignKeyAction::SetNull),
            )
            .take(),
        Table::create()
            .table("ticket_comments")
            .col(uuid("id").primary_key())
            .col(uuid("ticket_id"))
            .col(uuid("user_id"))
            .col(boolean("operator"))
            .col(boolean("internal"))
            .col(text("text"))
            .col(big_integer("created_at"))
            .foreign_key(&mut cascade("ticket_comments", "ticket_id", "tickets"))
            .take(),
        Table::create()
            .table("ticket_attachments")
            .col(uuid("id").primary_key())
            .col(uuid("ticket_id"))
            .col(uuid("user_id"))
            .col(text("name"))
            .col(string("kind"))
            .col(big_integer("bytes"))
            .col(big_integer("created_at"))
            .col(big_integer_null("stored_at"))
            .foreign_key(&mut cascade("ticket_attachments", "ticket_id", "tickets"))
            .take(),
        Table::create()
            .table("ticket_chunks")
            .col(uuid("attachment_id"))
            .col(integer("number"))
            .col(blob("content"))
            .primary_key(Index::create().col("attachment_id").col("number"))
            .foreign_key(&mut cascade("ticket_chunks", "attachment_id", "ticket_attachments"))
            .take(),
    ]
}
