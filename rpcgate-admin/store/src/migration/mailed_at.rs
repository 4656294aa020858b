//! The time when a notification was mailed; null until then. Notifications raised before mails existed are not mailed.

use sea_orm::DbErr;
use sea_orm::sea_query::{Index, Query, Table};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::big_integer_null;
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct MailedAt;

impl MigrationName for MailedAt {
    fn name(&self) -> &'static str {
        "0006_mailed_at"
    }
}

#[async_trait]
impl MigrationTrait for MailedAt {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = Table::alter().table("notifications").add_column(big_integer_null("mailed_at")).take();
        manager.alter_table(column).await?;
        let old = Query::update().table("notifications").value("mailed_at", 0).to_owned();
        manager.execute(old).await?;
        let waiting =
            Index::create().name("notifications_by_mail").table("notifications").col("mailed_at").take();
        manager.create_index(waiting).await
    }
}
