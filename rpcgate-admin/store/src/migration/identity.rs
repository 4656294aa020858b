//! The tables of log-in: users with passwords, confirmations of addresses, sessions, attempts. Also the audit log,
//! requests for another plan, invitations, and the deletion of projects.

use super::accounts::reference;
use sea_orm::sea_query::{ColumnDef, Expr, ExprTrait, ForeignKeyAction, Index, Table, TableCreateStatement};
use sea_orm::{ConditionalStatement, ConnectionTrait, DbErr};
use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::schema::{
    big_integer, big_integer_null, binary, boolean, string, text, text_null, uuid, uuid_null,
};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

pub(super) struct Identity;

impl MigrationName for Identity {
    fn name(&self) -> &'static str {
        "0002_identity"
    }
}

#[async_trait]
impl MigrationTrait for Identity {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        users(manager).await?;
        let deleted = Table::alter().table("projects").add_column(big_integer_null("deleted_at")).take();
        manager.alter_table(deleted).await?;
        for table in tables() {
            manager.create_table(table).await?;
        }
        for (name, table, columns) in [
            ("users_of_tenant", "users", &["tenant_id"][..]),
            ("keys_of_project", "keys", &["project_id"]),
            ("sessions_of_user", "sessions", &["user_id"]),
            ("sessions_by_end", "sessions", &["expires_at"]),
            ("refreshes_of_session", "refreshes", &["session_id"]),
            ("refreshes_by_end", "refreshes", &["expires_at"]),
            ("confirmations_by_end", "confirmations", &["expires_at"]),
            ("attempts_of_subject", "attempts", &["subject", "at"]),
            ("attempts_by_time", "attempts", &["at"]),
            ("solved_by_end", "solved", &["expires_at"]),
            ("audit_of_tenant", "audit", &["tenant_id", "at"]),
            ("audit_of_user", "audit", &["user_id", "at"]),
            ("audit_by_time", "audit", &["at"]),
            ("limit_requests_of_tenant", "limit_requests", &["tenant_id"]),
            ("invitations_of_user", "invitations", &["user_id"]),
            ("invitations_by_end", "invitations", &["expires_at"]),
        ] {
            let mut index = Index::create().name(name).table(table).take();
            for column in columns {
                index.col(*column);
            }
            manager.create_index(index).await?;
        }
        let unconfirmed = Index::create()
            .name("users_unconfirmed")
            .table("users")
            .col("created_at")
            .and_where(Expr::col("confirmed_at").is_null())
            .take();
        manager.create_index(unconfirmed).await?;
        let one_open = Index::create()
            .name("invitations_of_tenant")
            .table("invitations")
            .col("tenant_id")
            .col("email")
            .unique()
            .take();
        manager.create_index(one_open).await?;
        // Named after its column, which identifies a failed insert.
        let one_pending = Index::create()
            .name("limit_requests_pending_tenant_id")
            .table("limit_requests")
            .col("tenant_id")
            .unique()
            .and_where(Expr::col("status").eq("pending"))
            .take();
        manager.create_index(one_pending).await
    }
}

/// Adds the missing columns of users. An operator has no tenant, and SQLite cannot make a column nullable, so the table
/// is created again. Existing users were inserted by hand or by the demo, and become owners of their tenants.
async fn users(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager.rename_table(Table::rename().table("users", "users_before").take()).await?;
    let users = Table::create()
        .table("users")
        .col(uuid("id").primary_key())
        .col(uuid_null("tenant_id"))
        .col(string("email").unique_key())
        .col(text("name"))
        .col(string("role"))
        .col(text_null("password"))
        .col(big_integer_null("confirmed_at"))
        .col(big_integer("created_at"))
        .foreign_key(&mut reference("users", "tenant_id", "tenants"))
        .take();
    manager.create_table(users).await?;
    let kept = "INSERT INTO users (id, tenant_id, email, name, role, confirmed_at, created_at) \
                SELECT id, tenant_id, email, '', 'owner', created_at, created_at FROM users_before";
    manager.get_connection().execute_unprepared(kept).await?;
    manager.drop_table(Table::drop().table("users_before").take()).await
}

fn tables() -> [TableCreateStatement; 8] {
    [
        Table::create()
            .table("confirmations")
            .col(uuid("user_id").primary_key())
            .col(binary("hash").unique_key())
            .col(big_integer("expires_at"))
            .foreign_key(reference("confirmations", "user_id", "users").on_delete(ForeignKeyAction::Cascade))
            .take(),
        Table::create()
            .table("sessions")
            .col(uuid("id").primary_key())
            .col(uuid("user_id"))
            .col(big_integer("created_at"))
            .col(big_integer("seen_at"))
            .col(big_integer("expires_at"))
            .col(text("address"))
            .col(text("agent"))
            .foreign_key(reference("sessions", "user_id", "users").on_delete(ForeignKeyAction::Cascade))
            .take(),
        Table::create()
            .table("refreshes")
            .col(binary("hash").primary_key())
            .col(uuid("session_id"))
            .col(big_integer("expires_at"))
            .col(boolean("used"))
            .foreign_key(
                reference("refreshes", "session_id", "sessions").on_delete(ForeignKeyAction::Cascade),
            )
            .take(),
        Table::create()
            .table("attempts")
            .col(uuid("id").primary_key())
            .col(binary("subject"))
            .col(big_integer("at"))
            .take(),
        Table::create()
            .table("solved")
            .col(binary("digest").primary_key())
            .col(big_integer("expires_at"))
            .take(),
        // No foreign keys here: an entry outlives its subject.
        Table::create()
            .table("audit")
            .col(ColumnDef::new("number").big_integer().not_null().auto_increment().primary_key())
            .col(uuid_null("tenant_id"))
            .col(uuid_null("user_id"))
            .col(string("action"))
            .col(text("subject"))
            .col(text("address"))
            .col(big_integer("at"))
            .col(text("detail"))
            .take(),
        Table::create()
            .table("limit_requests")
            .col(uuid("id").primary_key())
            .col(uuid("tenant_id"))
            .col(uuid("user_id"))
            .col(string("requested_tier"))
            .col(text("reason"))
            .col(string("status"))
            .col(text_null("note"))
            .col(big_integer("created_at"))
            .col(big_integer_null("reviewed_at"))
            .col(uuid_null("reviewer_id"))
            .foreign_key(&mut reference("limit_requests", "tenant_id", "tenants"))
            .take(),
        Table::create()
            .table("invitations")
            .col(uuid("id").primary_key())
            .col(uuid("tenant_id"))
            .col(uuid("user_id"))
            .col(string("email"))
            .col(string("role"))
            .col(binary("hash").unique_key())
            .col(big_integer("created_at"))
            .col(big_integer("expires_at"))
            .foreign_key(
                reference("invitations", "tenant_id", "tenants").on_delete(ForeignKeyAction::Cascade),
            )
            .foreign_key(reference("invitations", "user_id", "users").on_delete(ForeignKeyAction::Cascade))
            .take(),
    ]
}
