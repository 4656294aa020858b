//! Indexes by which operators find tenants, projects and keys by name and prefix.

use sea_orm::DbErr;
use sea_orm::sea_query::Index;
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Names;

impl MigrationName for Names {
    fn name(&self) -> &'static str {
        "0017_names"
    }
}

#[async_trait]
impl MigrationTrait for Names {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, table, column) in [
            ("tenants_by_name", "tenants", "name"),
            ("projects_by_name", "projects", "name"),
            ("keys_by_prefix", "keys", "prefix"),
        ] {
            manager.create_index(Index::create().name(name).table(table).col(column).take()).await?;
        }
        Ok(())
    }
}
