//! Requests with an idempotency key, which are carried out once.

use sea_orm::DbErr;
use sea_orm::sea_query::{Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, binary, blob_null, boolean, integer_null, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Idempotency;

impl MigrationName for Idempotency {
    fn name(&self) -> &'static str {
        "0013_idempotency"
    }
}

#[async_trait]
impl MigrationTrait for Idempotency {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table("idempotency")
            .col(uuid("owner"))
            .col(binary("key"))
            .col(binary("request"))
            .col(uuid("run"))
            .col(big_integer("started_at"))
            .col(big_integer("expires_at"))
            .col(boolean("carried_out"))
            .col(integer_null("status"))
            .col(blob_null("answer"))
            .primary_key(Index::create().col("owner").col("key"))
            .take();
        manager.create_table(table).await?;
        let by_end = Index::create().name("idempotency_by_end").table("idempotency").col("expires_at").take();
        manager.create_index(by_end).await?;
        let of_run =
            Index::create().name("idempotency_of_run").table("idempotency").col("run").unique().take();
        manager.create_index(of_run).await
    }
}
