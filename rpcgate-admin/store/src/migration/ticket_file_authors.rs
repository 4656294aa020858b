//! The mark of files that an operator attached to a ticket. Members attached all existing files.

use sea_orm::DbErr;
use sea_orm::sea_query::Table;
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::boolean;
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct TicketFileAuthors;

impl MigrationName for TicketFileAuthors {
    fn name(&self) -> &'static str {
        "0015_ticket_file_authors"
    }
}

#[async_trait]
impl MigrationTrait for TicketFileAuthors {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let by_operator = boolean("operator").default(false).take();
        manager.alter_table(Table::alter().table("ticket_attachments").add_column(by_operator).take()).await
    }
}
