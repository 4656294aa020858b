//! Sums of rollups, and the position up to which they are summed, initially the start. Existing rollups are added step
//! by step.

use super::usage::{METRICS, by_key, bytewise_text};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Index, Query, Table};
use sea_orm::{ConnectionTrait, DbErr};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, integer, small_integer, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Sums;

impl MigrationName for Sums {
    fn name(&self) -> &'static str {
        "0003_sums"
    }
}

#[async_trait]
impl MigrationTrait for Sums {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let database = manager.get_connection();
        let backend = database.get_database_backend();
        let mut names = Index::create();
        for name in
            ["level", "hour", "tenant", "project", "key", "chain", "method", "transport", "status", "stream"]
        {
            names.col(name);
        }
        let mut sums = Table::create()
            .table("sums")
            .col(small_integer("level"))
            .col(big_integer("hour"))
            .col(uuid("tenant"))
            .col(uuid("project"))
            .col(uuid("key"))
            .col(bytewise_text("chain", backend))
            .col(bytewise_text("method", backend))
            .col(small_integer("transport"))
            .col(integer("status"))
            .col(small_integer("stream"))
            .primary_key(&mut names)
            .take();
        for metric in METRICS {
            sums.col(big_integer(metric));
        }
        let summed = Table::create()
            .table("summed")
            .col(small_integer("id").primary_key())
            .col(big_integer("hour"))
            .col(uuid("tenant"))
            .col(big_integer("first"))
            .take();
        for table in [by_key(sums, backend), summed] {
            manager.create_table(table).await?;
        }
        let mut nothing = Query::insert();
        nothing.into_table("summed").columns(["id", "hour", "tenant", "first"]);
        nothing
            .values([0i16.into(), 0i64.into(), Uuid::nil().into(), 0i64.into()])
            .map_err(|error| DbErr::Migration(error.to_string()))?;
        database.execute(&nothing).await?;
        Ok(())
    }
}
