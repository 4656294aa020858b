//! Keys whose limits gateways have scaled down.

use super::accounts::reference;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKeyAction, Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct CooledKeys;

impl MigrationName for CooledKeys {
    fn name(&self) -> &'static str {
        "0005_cooled_keys"
    }
}

#[async_trait]
impl MigrationTrait for CooledKeys {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let of_gateway =
            reference("cooled_keys", "gateway", "gateways").on_delete(ForeignKeyAction::Cascade).to_owned();
        let table = Table::create()
            .table("cooled_keys")
            .col(uuid("tenant"))
            .col(uuid("key"))
            .col(uuid("gateway"))
            .col(uuid("project"))
            .col(big_integer("percent"))
            .col(big_integer("ends_at"))
            .primary_key(Index::create().col("tenant").col("key").col("gateway"))
            .foreign_key(&mut of_gateway.clone())
            .take();
        manager.create_table(table).await?;
        let by_gateway =
            Index::create().name("cooled_keys_of_gateway").table("cooled_keys").col("gateway").take();
        manager.create_index(by_gateway).await
    }
}
