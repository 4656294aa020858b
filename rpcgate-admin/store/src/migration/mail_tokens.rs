//! Mailed tokens that set a password or change an address, and accounts that operators disable.

use super::accounts::reference;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKeyAction, Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, big_integer_null, binary, string, string_null, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct MailTokens;

impl MigrationName for MailTokens {
    fn name(&self) -> &'static str {
        "0007_mail_tokens"
    }
}

#[async_trait]
impl MigrationTrait for MailTokens {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let disabled = Table::alter().table("users").add_column(big_integer_null("disabled_at")).take();
        manager.alter_table(disabled).await?;
        let tokens = Table::create()
            .table("mail_tokens")
            .col(binary("hash").primary_key())
            .col(uuid("user_id"))
            .col(string("purpose"))
            .col(string_null("email"))
            .col(big_integer("expires_at"))
            .foreign_key(reference("mail_tokens", "user_id", "users").on_delete(ForeignKeyAction::Cascade))
            .take();
        manager.create_table(tokens).await?;
        let one_each = Index::create()
            .name("mail_tokens_of_user")
            .table("mail_tokens")
            .col("user_id")
            .col("purpose")
            .unique()
            .take();
        manager.create_index(one_each).await?;
        let by_end = Index::create().name("mail_tokens_by_end").table("mail_tokens").col("expires_at").take();
        manager.create_index(by_end).await
    }
}
