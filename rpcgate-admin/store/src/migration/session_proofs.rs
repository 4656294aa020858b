//! The last time when the user of a session proved in it to be the account's owner; null for existing sessions.

use sea_orm::DbErr;
use sea_orm::sea_query::Table;
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::big_integer_null;
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct SessionProofs;

impl MigrationName for SessionProofs {
    fn name(&self) -> &'static str {
        "0042_session_proofs"
    }
}

#[async_trait]
impl MigrationTrait for SessionProofs {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let proved_at = big_integer_null("proved_at");
        manager.alter_table(Table::alter().table("sessions").add_column(proved_at).take()).await
    }
}
