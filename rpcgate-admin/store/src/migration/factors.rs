//! Second factors: authenticator apps, recovery codes, passkeys, log-ins that wait for a factor, and the log-in method
//! of each session.

use super::accounts::reference;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKeyAction, Index, Table, TableCreateStatement};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{big_integer, big_integer_null, binary, boolean, string, text, uuid};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Factors;

impl MigrationName for Factors {
    fn name(&self) -> &'static str {
        "0010_factors"
    }
}

#[async_trait]
impl MigrationTrait for Factors {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for added in [
            // Earlier sessions were opened by a password alone.
            Table::alter().table("sessions").add_column(string("method").default("password")).take(),
            Table::alter().table("sessions").add_column(text("seen_address").default("")).take(),
            Table::alter().table("tenants").add_column(boolean("requires_factor").default(false)).take(),
        ] {
            manager.alter_table(added).await?;
        }
        for table in tables() {
            manager.create_table(table).await?;
        }
        for (name, table, columns) in [
            ("pending_log_ins_of_user", "pending_log_ins", &["user_id", "created_at"][..]),
            ("pending_log_ins_by_end", "pending_log_ins", &["expires_at"]),
            ("passkeys_of_user", "passkeys", &["user_id"]),
        ] {
            let mut index = Index::create().name(name).table(table).take();
            for column in columns {
                index.col(*column);
            }
            manager.create_index(index).await?;
        }
        Ok(())
    }
}

fn tables() -> [TableCreateStatement; 4] {
    let of_user =
        |table| reference(table, "user_id", "users").on_delete(ForeignKeyAction::Cascade).to_owned();
    [
        Table::create()
            .table("totp")
            .col(uuid("user_id").primary_key())
            .col(binary("sealed"))
            .col(big_integer("last_step"))
            .col(big_integer_null("activated_at"))
            .col(big_integer("created_at"))
            .foreign_key(&mut of_user("totp"))
            .take(),
        Table::create()
            .table("recovery_codes")
            .col(uuid("user_id"))
            .col(binary("hash"))
            .primary_key(Index::create().col("user_id").col("hash"))
            .foreign_key(&mut of_user("recovery_codes"))
            .take(),
        Table::create()
            .table("pending_log_ins")
            .col(binary("hash").primary_key())
            .col(uuid("user_id"))
            .col(binary("password"))
            .col(big_integer("tries"))
            .col(big_integer("created_at"))
            .col(big_integer("expires_at"))
            .foreign_key(&mut of_user("pending_log_ins"))
            .take(),
        Table::create()
            .table("passkeys")
            .col(uuid("id").primary_key())
            .col(uuid("user_id"))
            .col(binary("credential").unique_key())
            .col(text("name"))
            .col(text("passkey"))
            .col(big_integer("uses"))
            .col(big_integer("created_at"))
            .col(big_integer_null("used_at"))
            .foreign_key(&mut of_user("passkeys"))
            .take(),
    ]
}
