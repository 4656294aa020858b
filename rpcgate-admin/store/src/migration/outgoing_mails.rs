//! Mails that wait to be sent.

use sea_orm::DbErr;
use sea_orm::sea_query::{Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, binary, integer, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct OutgoingMails;

impl MigrationName for OutgoingMails {
    fn name(&self) -> &'static str {
        "0009_outgoing_mails"
    }
}

#[async_trait]
impl MigrationTrait for OutgoingMails {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mails = Table::create()
            .table("outgoing_mails")
            .col(uuid("id").primary_key())
            .col(binary("recipient"))
            .col(binary("content"))
            .col(integer("tries"))
            .col(big_integer("created_at"))
            .col(big_integer("due_at"))
            .col(big_integer("expires_at"))
            .take();
        manager.create_table(mails).await?;
        let by_due =
            Index::create().name("outgoing_mails_by_due").table("outgoing_mails").col("due_at").take();
        manager.create_index(by_due).await?;
        let of_recipient = Index::create()
            .name("outgoing_mails_of_recipient")
            .table("outgoing_mails")
            .col("recipient")
            .col("created_at")
            .take();
        manager.create_index(of_recipient).await
    }
}
