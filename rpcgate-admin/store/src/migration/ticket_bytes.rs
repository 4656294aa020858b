//! The bytes of the texts of each ticket and its comments, whose sum is limited per tenant. An index contains tenant
//! and bytes, so that a sum reads no ticket.

use sea_orm::sea_query::{Index, Table};
use sea_orm::{ConnectionTrait, DbErr};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::big_integer;
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct TicketBytes;

impl MigrationName for TicketBytes {
    fn name(&self) -> &'static str {
        "0019_ticket_bytes"
    }
}

/// Both databases count bytes, not characters.
const COUNT: &str = "UPDATE tickets SET text_bytes = octet_length(tickets.subject) + octet_length(tickets.text) \
                     + coalesce((SELECT sum(octet_length(ticket_comments.text)) FROM ticket_comments \
                     WHERE ticket_comments.ticket_id = tickets.id), 0)";

#[async_trait]
impl MigrationTrait for TicketBytes {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let bytes = big_integer("text_bytes").default(0).take();
        manager.alter_table(Table::alter().table("tickets").add_column(bytes).take()).await?;
        manager.get_connection().execute_unprepared(COUNT).await?;
        let index = Index::create()
            .name("tickets_by_text_bytes")
            .table("tickets")
            .col("tenant_id")
            .col("text_bytes")
            .take();
        manager.create_index(index).await
    }
}
