//! The schema of the databases. The tables are those of the entities. A published migration is never changed: the next
//! change is a new migration at the end of the list.

mod management;
mod tables;
mod usage;

use sea_orm::sea_query::{Alias, IntoIden};
use sea_orm::{ConnectionTrait, DbErr, DynIden};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{MigrationName, MigrationTrait, MigratorTrait, SchemaManager};

pub(super) struct Management;

impl MigratorTrait for Management {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![Box::new(InitialManagement)]
    }

    /// A separate table, because usage may be in the same database.
    fn migration_table_name() -> DynIden {
        Alias::new("management_migrations").into_iden()
    }
}

pub(super) struct Usage;

impl MigratorTrait for Usage {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![Box::new(InitialUsage)]
    }

    fn migration_table_name() -> DynIden {
        Alias::new("usage_migrations").into_iden()
    }
}

struct InitialManagement;

impl MigrationName for InitialManagement {
    fn name(&self) -> &'static str {
        "0001_initial"
    }
}

#[async_trait]
impl MigrationTrait for InitialManagement {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in management::tables(manager.get_connection().get_database_backend()) {
            table.create(manager).await?;
        }
        Ok(())
    }
}

struct InitialUsage;

impl MigrationName for InitialUsage {
    fn name(&self) -> &'static str {
        "0001_initial"
    }
}

#[async_trait]
impl MigrationTrait for InitialUsage {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in usage::tables(manager.get_connection().get_database_backend()) {
            table.create(manager).await?;
        }
        usage::complete(manager).await
    }
}
