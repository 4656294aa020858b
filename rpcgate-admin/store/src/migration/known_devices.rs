//! The devices from which users have logged in.

use super::accounts::reference;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKeyAction, Index, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, binary, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct KnownDevices;

impl MigrationName for KnownDevices {
    fn name(&self) -> &'static str {
        "0010_known_devices"
    }
}

#[async_trait]
impl MigrationTrait for KnownDevices {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let devices = Table::create()
            .table("known_devices")
            .col(binary("digest").primary_key())
            .col(uuid("user_id"))
            .col(big_integer("seen_at"))
            .foreign_key(reference("known_devices", "user_id", "users").on_delete(ForeignKeyAction::Cascade))
            .take();
        manager.create_table(devices).await?;
        let of_user = Index::create()
            .name("known_devices_of_user")
            .table("known_devices")
            .col("user_id")
            .col("seen_at")
            .take();
        manager.create_index(of_user).await?;
        let by_time =
            Index::create().name("known_devices_by_time").table("known_devices").col("seen_at").take();
        manager.create_index(by_time).await
    }
}
