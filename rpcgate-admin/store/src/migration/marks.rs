//! The hour until which the mark of a segment is needed.

use sea_orm::sea_query::{Index, Table};
use sea_orm::{ConnectionTrait, DbErr};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::big_integer;
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Marks;

impl MigrationName for Marks {
    fn name(&self) -> &'static str {
        "0004_marks"
    }
}

#[async_trait]
impl MigrationTrait for Marks {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let hour = Table::alter().table("marks").add_column(big_integer("hour").default(0)).take();
        manager.alter_table(hour).await?;
        // The last hour of existing marks is unknown, but none is later than the latest rollup.
        let last = "UPDATE marks SET hour = (SELECT coalesce(max(hour), 0) FROM rollups)";
        manager.get_connection().execute_unprepared(last).await?;
        manager.create_index(Index::create().name("marks_by_hour").table("marks").col("hour").take()).await
    }
}
