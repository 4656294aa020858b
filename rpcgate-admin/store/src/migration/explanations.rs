//! Requests to explain another request.

use sea_orm::DbErr;
use sea_orm::sea_query::{Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, text_null, uuid, uuid_null};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Explanations;

impl MigrationName for Explanations {
    fn name(&self) -> &'static str {
        "0024_explanations"
    }
}

#[async_trait]
impl MigrationTrait for Explanations {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table("explanation_requests")
            .col(uuid("id").primary_key())
            .col(uuid("request"))
            .col(uuid_null("tenant_id"))
            .col(big_integer("asked_at"))
            .col(uuid_null("owner_id"))
            .col(text_null("answer"))
            .take();
        manager.create_table(table).await?;
        let by_time = Index::create()
            .name("explanation_requests_asked_at")
            .table("explanation_requests")
            .col("asked_at")
            .take();
        manager.create_index(by_time).await
    }
}
