//! The number of WebSocket streams that a key of a plan may have open. The limit of a project is in the column
//! `streams_per_project`.

use sea_orm::DbErr;
use sea_orm::sea_query::Table;
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::big_integer_null;
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct WsConnections;

impl MigrationName for WsConnections {
    fn name(&self) -> &'static str {
        "0008_ws_connections"
    }
}

#[async_trait]
impl MigrationTrait for WsConnections {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let per_key = big_integer_null("ws_connections_per_key");
        manager.alter_table(Table::alter().table("plans").add_column(per_key).take()).await
    }
}
