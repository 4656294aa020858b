//! The billing ledger, and notifications with the sums on which they depend.

use super::usage::by_key;
use sea_orm::sea_query::{Index, Table};
use sea_orm::{ConnectionTrait, DbErr};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, big_integer_null, string, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Ledger;

impl MigrationName for Ledger {
    fn name(&self) -> &'static str {
        "0002_ledger"
    }
}

#[async_trait]
impl MigrationTrait for Ledger {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let backend = manager.get_connection().get_database_backend();
        let ledger = Table::create()
            .table("ledger")
            .col(uuid("tenant"))
            .col(big_integer("hour"))
            .col(uuid("project"))
            .col(string("tier"))
            .col(big_integer("price"))
            .col(big_integer("calls"))
            .col(big_integer("units"))
            .primary_key(Index::create().col("tenant").col("hour").col("project").col("tier").col("price"))
            .take();
        let daily = Table::create()
            .table("daily_requests")
            .col(big_integer("day"))
            .col(uuid("tenant"))
            .col(big_integer("requests"))
            .primary_key(Index::create().col("day").col("tenant"))
            .take();
        let minutes = Table::create()
            .table("minute_refusals")
            .col(big_integer("minute"))
            .col(uuid("tenant"))
            .col(big_integer("calls"))
            .primary_key(Index::create().col("minute").col("tenant"))
            .take();
        let spikes = Table::create()
            .table("spikes")
            .col(uuid("tenant").primary_key())
            .col(big_integer("minute"))
            .take();
        let notifications = Table::create()
            .table("notifications")
            .col(uuid("id").primary_key())
            .col(uuid("tenant"))
            .col(string("notice"))
            .col(big_integer("since"))
            .col(big_integer("at"))
            .col(big_integer("counted"))
            .col(big_integer_null("allowed"))
            .take();
        for table in [
            by_key(ledger, backend),
            by_key(daily, backend),
            by_key(minutes, backend),
            by_key(spikes, backend),
            notifications,
        ] {
            manager.create_table(table).await?;
        }
        let once = Index::create()
            .name("notifications_once")
            .table("notifications")
            .col("tenant")
            .col("notice")
            .col("since")
            .unique()
            .take();
        let hours = Index::create().name("ledger_by_hour").table("ledger").col("hour").take();
        let newest = Index::create()
            .name("notifications_of_tenant")
            .table("notifications")
            .col("tenant")
            .col("at")
            .take();
        let oldest = Index::create().name("notifications_by_time").table("notifications").col("at").take();
        for index in [once, hours, newest, oldest] {
            manager.create_index(index).await?;
        }
        Ok(())
    }
}
