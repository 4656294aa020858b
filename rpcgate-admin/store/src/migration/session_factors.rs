//! The last time when the user of a session gave a second factor in it; null for existing sessions.

use sea_orm::DbErr;
use sea_orm::sea_query::Table;
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::big_integer_null;
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct SessionFactors;

impl MigrationName for SessionFactors {
    fn name(&self) -> &'static str {
        "0026_session_factors"
    }
}

#[async_trait]
impl MigrationTrait for SessionFactors {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let given_at = big_integer_null("factor_at");
        manager.alter_table(Table::alter().table("sessions").add_column(given_at).take()).await
    }
}
