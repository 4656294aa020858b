//! Reads and writes rows in pages.

use super::cells::{ColumnKind, ColumnValue, TableSum};
use super::shape::TableShape;
use crate::StoreError;
use crate::query::partitions_of;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, Statement, Value};

/// The number of values in one statement: SQLite accepts 32,766.
const ARGUMENTS: usize = 30_000;

/// Returns the column list of a query. A server's integers have several sizes; the largest holds all.
fn selected(table: &TableShape, backend: DbBackend) -> String {
    let columns = table.columns.iter().map(|column| match (backend, column.kind) {
        (DbBackend::Postgres, ColumnKind::Integer) => format!("CAST(\"{}\" AS bigint)", column.name),
        _ => format!("\"{}\"", column.name),
    });
    columns.collect::<Vec<_>>().join(", ")
}

/// Returns the placeholder of the argument with this number, from 1.
fn placeholder(backend: DbBackend, number: usize) -> String {
    if backend == DbBackend::Postgres { format!("${number}") } else { "?".to_owned() }
}

/// Returns at most `limit` rows whose keys follow `after`, in key order.
pub(super) async fn page<C: ConnectionTrait>(
    database: &C,
    table: &TableShape,
    after: Option<&[ColumnValue]>,
    limit: u64,
) -> Result<Vec<Vec<ColumnValue>>, DbErr> {
    let backend = database.get_database_backend();
    let key: Vec<String> = table.key.iter().map(|at| format!("\"{}\"", table.columns[*at].name)).collect();
    let key = key.join(", ");
    let columns = selected(table, backend);
    let mut sql = format!("SELECT {columns} FROM {}", table.quoted());
    if let Some(after) = after {
        let places: Vec<String> = (1..=after.len()).map(|number| placeholder(backend, number)).collect();
        sql.push_str(&format!(" WHERE ({key}) > ({})", places.join(", ")));
    }
    sql.push_str(&format!(" ORDER BY {key} LIMIT {limit}"));
    let arguments: Vec<Value> = after.unwrap_or_default().iter().map(ColumnValue::argument).collect();
    let found = database.query_all_raw(Statement::from_sql_and_values(backend, sql, arguments)).await?;
    let read = |row: &sea_orm::QueryResult| {
        let columns = table.columns.iter().enumerate();
        columns.map(|(at, column)| ColumnValue::read(row, at, column.kind)).collect()
    };
    found.iter().map(read).collect()
}

pub(super) async fn sum<C: ConnectionTrait>(database: &C, table: &TableShape) -> Result<TableSum, DbErr> {
    let mut sum = TableSum::default();
    let mut after = None;
    loop {
        let rows = page(database, table, after.as_deref(), table.page_rows()).await?;
        let Some(last) = rows.last() else { return Ok(sum) };
        after = Some(table.key_of(last));
        rows.iter().for_each(|row| sum.add(row));
    }
}

pub(super) async fn insert(
    to: &DatabaseTransaction,
    table: &TableShape,
    rows: &[Vec<ColumnValue>],
) -> Result<(), StoreError> {
    let backend = to.get_database_backend();
    partitions_of(to, &table.name, rows.iter().filter_map(|row| first_uuid(table, row))).await?;
    let columns: Vec<String> = table.columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
    let columns = columns.join(", ");
    for rows in rows.chunks((ARGUMENTS / table.columns.len().max(1)).max(1)) {
        let mut number = 0;
        let mut groups = Vec::with_capacity(rows.len());
        for row in rows {
            let places: Vec<String> = row
                .iter()
                .map(|_| {
                    number += 1;
                    placeholder(backend, number)
                })
                .collect();
            groups.push(format!("({})", places.join(", ")));
        }
        let sql = format!("INSERT INTO {} ({columns}) VALUES {}", table.quoted(), groups.join(", "));
        let arguments: Vec<Value> = rows.iter().flatten().map(ColumnValue::argument).collect();
        to.execute_raw(Statement::from_sql_and_values(backend, sql, arguments)).await?;
    }
    Ok(())
}

/// Returns the first UUID of the key, by which some tables have partitions.
fn first_uuid(table: &TableShape, row: &[ColumnValue]) -> Option<u128> {
    match row.get(*table.key.first()?)? {
        ColumnValue::Uuid(Some(id)) => Some(id.as_u128()),
        _ => None,
    }
}
