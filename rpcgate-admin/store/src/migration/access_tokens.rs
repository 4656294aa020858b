//! Personal access tokens.

use super::accounts::reference;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKeyAction, Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, big_integer_null, binary, string, text, text_null, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct AccessTokens;

impl MigrationName for AccessTokens {
    fn name(&self) -> &'static str {
        "0014_access_tokens"
    }
}

#[async_trait]
impl MigrationTrait for AccessTokens {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table("access_tokens")
            .col(uuid("id").primary_key())
            .col(uuid("user_id"))
            .col(binary("hash").unique_key())
            .col(string("name"))
            .col(text("scopes"))
            .col(big_integer("created_at"))
            .col(big_integer("expires_at"))
            .col(big_integer_null("used_at"))
            .col(text_null("used_from"))
            .foreign_key(reference("access_tokens", "user_id", "users").on_delete(ForeignKeyAction::Cascade))
            .take();
        manager.create_table(table).await?;
        for (name, column) in [("access_tokens_of_user", "user_id"), ("access_tokens_by_end", "expires_at")] {
            let index = Index::create().name(name).table("access_tokens").col(column).take();
            manager.create_index(index).await?;
        }
        Ok(())
    }
}
