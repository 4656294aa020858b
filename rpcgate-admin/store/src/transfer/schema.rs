//! The tables of a database, as its migrations create them.

use super::cells::{ColumnKind, TableSum};
use super::pages;
use super::shape::{ColumnShape, TableShape};
use crate::StoreError;
use sea_orm::{ConnectOptions, ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement};
use sea_orm_migration::MigratorTrait;
use std::collections::BTreeSet;

/// The tables of a database. Referenced tables come first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Schema {
    pub(super) tables: Vec<TableShape>,
}

impl Schema {
    /// Returns the tables that `M` creates in an empty database, without the table in which it records its migrations.
    pub(super) async fn of<M: MigratorTrait>() -> Result<Self, StoreError> {
        let mut options = ConnectOptions::new("sqlite::memory:");
        options
            .max_connections(1)
            .min_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .sqlx_logging(false)
            .record_stmt_in_spans(false);
        let database = sea_orm::Database::connect(options).await?;
        M::up(&database, None).await?;
        let schema = read(&database, &M::migration_table_name().to_string()).await;
        // An error in closing an in-memory database has no consequence.
        let _ = database.close_by_ref().await;
        Ok(schema?)
    }
}

async fn read(database: &DatabaseConnection, migrations: &str) -> Result<Schema, DbErr> {
    let list =
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let mut found = Vec::new();
    for row in rows(database, list.to_owned()).await? {
        let (name, sql): (String, String) = (row.try_get_by_index(0)?, row.try_get_by_index(1)?);
        if name != migrations {
            let references = references(database, &name).await?;
            found.push((table(database, name, &sql).await?, references));
        }
    }
    Ok(Schema { tables: ordered(found)? })
}

async fn rows(database: &DatabaseConnection, sql: String) -> Result<Vec<sea_orm::QueryResult>, DbErr> {
    database.query_all_raw(Statement::from_string(DbBackend::Sqlite, sql)).await
}

async fn table(database: &DatabaseConnection, name: String, sql: &str) -> Result<TableShape, DbErr> {
    let mut columns = Vec::new();
    let mut key = Vec::new();
    let list = format!("SELECT name, type, pk FROM pragma_table_info('{name}') ORDER BY cid");
    for (at, row) in rows(database, list).await?.iter().enumerate() {
        let (column, declared, place): (String, String, i64) =
            (row.try_get_by_index(0)?, row.try_get_by_index(1)?, row.try_get_by_index(2)?);
        let kind = kind(&declared).ok_or_else(|| {
            DbErr::Custom(format!(
                "the column {name}.{column} has the type {declared}, which no transfer knows"
            ))
        })?;
        if place > 0 {
            key.push((place, at));
        }
        columns.push(ColumnShape { name: column, kind });
    }
    key.sort_unstable();
    let key: Vec<usize> = key.into_iter().map(|(_, at)| at).collect();
    if key.is_empty() {
        return Err(DbErr::Custom(format!(
            "the table {name} has no primary key, by which its rows could be read"
        )));
    }
    let is_numbered = sql.to_uppercase().contains("AUTOINCREMENT");
    let numbered = key.first().filter(|_| is_numbered).and_then(|at| columns.get(*at));
    let numbered = numbered.map(|column| column.name.clone());
    let mut table = TableShape { name, columns, key, numbered, initial: TableSum::default() };
    table.initial = pages::sum(database, &table).await?;
    Ok(table)
}

fn kind(declared: &str) -> Option<ColumnKind> {
    let declared = declared.to_lowercase();
    let name = declared.split('(').next().unwrap_or_default().trim();
    Some(match name {
        "integer" | "bigint" | "smallint" => ColumnKind::Integer,
        "boolean" => ColumnKind::Boolean,
        "uuid_text" | "uuid" => ColumnKind::Uuid,
        "varchar" | "text" => ColumnKind::Text,
        "varbinary_blob" => ColumnKind::Bytes,
        _ => return None,
    })
}

async fn references(database: &DatabaseConnection, name: &str) -> Result<BTreeSet<String>, DbErr> {
    let list = format!("SELECT DISTINCT \"table\" FROM pragma_foreign_key_list('{name}')");
    let found = rows(database, list).await?;
    let names = found.iter().map(|row| row.try_get_by_index(0)).collect::<Result<BTreeSet<String>, _>>()?;
    Ok(names.into_iter().filter(|other| other != name).collect())
}

/// Sorts the tables so that each comes after those it refers to.
fn ordered(mut left: Vec<(TableShape, BTreeSet<String>)>) -> Result<Vec<TableShape>, DbErr> {
    let mut tables: Vec<TableShape> = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let known: BTreeSet<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        let is_ready = |(_, references): &(_, BTreeSet<String>)| {
            references.iter().all(|name| known.contains(name.as_str()))
        };
        let (ready, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(is_ready);
        if ready.is_empty() {
            let names: Vec<_> = rest.iter().map(|(table, _)| table.name.as_str()).collect();
            return Err(DbErr::Custom(format!(
                "these tables refer to each other in a circle: {}",
                names.join(", ")
            )));
        }
        tables.extend(ready.into_iter().map(|(table, _)| table));
        left = rest;
    }
    Ok(tables)
}
