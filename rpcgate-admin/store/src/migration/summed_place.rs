//! The position inside a tenant's hour that is summed in several steps; null if it has not been started.

use sea_orm::DbErr;
use sea_orm::sea_query::Table;
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::uuid_null;
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct SummedPlace;

impl MigrationName for SummedPlace {
    fn name(&self) -> &'static str {
        "0005_summed_place"
    }
}

#[async_trait]
impl MigrationTrait for SummedPlace {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for name in ["project", "key"] {
            let column = Table::alter().table("summed").add_column(uuid_null(name)).take();
            manager.alter_table(column).await?;
        }
        Ok(())
    }
}
