//! Carries over the number that a database gives to the next row of a table. It may be larger than that of all rows,
//! and no number may be used twice.

use super::shape::TableShape;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, Statement, Value};

/// Sets the last number of `to` to that of `from`.
pub(super) async fn carry(
    from: &DatabaseTransaction,
    to: &DatabaseTransaction,
    table: &TableShape,
    column: &str,
) -> Result<(), DbErr> {
    let largest = format!("SELECT CAST(max(\"{column}\") AS bigint) FROM {}", table.quoted());
    let largest = one(from, largest, []).await?.unwrap_or_default();
    let last = last_number(from, table, column).await?.unwrap_or_default().max(largest);
    if last < 1 {
        return Ok(());
    }
    if to.get_database_backend() == DbBackend::Postgres {
        let sql = "SELECT setval(pg_get_serial_sequence($1, $2), $3, true)".to_owned();
        let arguments: [Value; 3] = [table.quoted().into(), column.into(), last.into()];
        one(to, sql, arguments).await?;
    } else {
        let arguments: [Value; 1] = [table.name.clone().into()];
        execute(to, "DELETE FROM sqlite_sequence WHERE name = ?", arguments).await?;
        let arguments: [Value; 2] = [table.name.clone().into(), last.into()];
        execute(to, "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", arguments).await?;
    }
    Ok(())
}

async fn last_number(
    from: &DatabaseTransaction,
    table: &TableShape,
    column: &str,
) -> Result<Option<i64>, DbErr> {
    if from.get_database_backend() != DbBackend::Postgres {
        let arguments: [Value; 1] = [table.name.clone().into()];
        return one(from, "SELECT seq FROM sqlite_sequence WHERE name = ?".to_owned(), arguments).await;
    }
    let name = "SELECT pg_get_serial_sequence($1, $2)";
    let arguments: [Value; 2] = [table.quoted().into(), column.into()];
    let statement = Statement::from_sql_and_values(DbBackend::Postgres, name, arguments);
    let row = from.query_one_raw(statement).await?;
    let sequence: Option<String> = row.map_or(Ok(None), |row| row.try_get_by_index(0))?;
    match sequence {
        // The name comes from the server, quoted where needed.
        Some(sequence) => one(from, format!("SELECT last_value FROM {sequence} WHERE is_called"), []).await,
        None => Ok(None),
    }
}

async fn one<const N: usize>(
    database: &DatabaseTransaction,
    sql: String,
    arguments: [Value; N],
) -> Result<Option<i64>, DbErr> {
    let statement = Statement::from_sql_and_values(database.get_database_backend(), sql, arguments);
    database.query_one_raw(statement).await?.map_or(Ok(None), |row| row.try_get_by_index(0))
}

async fn execute<const N: usize>(
    database: &DatabaseTransaction,
    sql: &str,
    arguments: [Value; N],
) -> Result<(), DbErr> {
    let statement = Statement::from_sql_and_values(database.get_database_backend(), sql, arguments);
    database.execute_raw(statement).await.map(drop)
}
