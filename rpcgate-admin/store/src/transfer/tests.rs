use super::cells::{ColumnKind, ColumnValue};
use super::*;
use crate::testing::TestDatabase;
use crate::{Role, User, UserId};
use rpcgate_core::caller::TenantId;
use sea_orm::{DatabaseConnection, Statement, TransactionTrait};
use std::collections::BTreeMap;
use uuid::Uuid;

const NOW: Time = Time::from_secs(2_000_000_000);
/// The rows of each table, more than one page.
const ROWS: i64 = 520;
const ROWS_OF_BYTES: i64 = 40;

async fn schemas() -> [Schema; 2] {
    [Schema::of::<Management>().await.unwrap(), Schema::of::<Usage>().await.unwrap()]
}

/// Closes what a store keeps open, so that a database counts as unused.
async fn made(site: &TestDatabase) {
    Store::open(site.url(), true).await.unwrap().close().await;
    UsageStore::open(site.url(), true).await.unwrap().close().await;
}

async fn connected(site: &TestDatabase, usage: bool) -> DatabaseConnection {
    let location = if usage { site.location().usage() } else { site.location() };
    match location {
        DatabaseLocation::File(file) => {
            sea_orm::Database::connect(format!("sqlite://{}", file.display())).await.unwrap()
        }
        DatabaseLocation::Server(server) => server.connections(Duration::from_secs(600), true),
    }
}

/// Returns the foreign keys of a table: own column, other table, its column.
async fn references(database: &impl ConnectionTrait, table: &str) -> BTreeMap<String, (String, String)> {
    let list = format!("SELECT \"from\", \"table\", \"to\" FROM pragma_foreign_key_list('{table}')");
    let rows =
        database.query_all_raw(Statement::from_string(database.get_database_backend(), list)).await.unwrap();
    let text = |row: &sea_orm::QueryResult, at| row.try_get_by_index::<String>(at).unwrap();
    rows.iter().map(|row| (text(row, 0), (text(row, 1), text(row, 2)))).collect()
}

fn rows_of(table: &TableShape) -> i64 {
    if table.columns.iter().any(|column| column.kind == ColumnKind::Bytes) { ROWS_OF_BYTES } else { ROWS }
}

/// Returns the value of a column in the row with this number, different in each row unless it is a boolean.
fn value(column: &str, kind: ColumnKind, n: i64) -> ColumnValue {
    match kind {
        ColumnKind::Integer => ColumnValue::Integer(Some(n)),
        ColumnKind::Boolean => ColumnValue::Boolean(Some(n % 2 == 0)),
        // Block identifiers begin with a time; these are of several days.
        ColumnKind::Uuid => ColumnValue::Uuid(Some(Uuid::from_u128(
            (u128::from(n.unsigned_abs()) * 10_000_000) << 80 | column.len() as u128,
        ))),
        ColumnKind::Text => ColumnValue::Text(Some(format!("{column} é {n}"))),
        ColumnKind::Bytes => {
            ColumnValue::Bytes(Some([column.as_bytes(), &n.to_be_bytes(), &[0, 255]].concat()))
        }
    }
}

/// Fills every table of SQLite's files with rows, whatever tables there are.
async fn fill(site: &TestDatabase) {
    made(site).await;
    for (schema, usage) in schemas().await.iter().zip([false, true]) {
        let database = connected(site, usage).await;
        let transaction = database.begin().await.unwrap();
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for table in &schema.tables {
            let refers = references(&transaction, &table.name).await;
            // A row refers to the row with its own number.
            let others = refers.values().filter_map(|(other, _)| counts.get(other.as_str()).copied());
            let count = others.chain([rows_of(table)]).min().unwrap();
            counts.insert(&table.name, count);
            let rows: Vec<Vec<ColumnValue>> = (1..=count)
                .map(|n| {
                    let columns = table.columns.iter().map(|column| {
                        let name = refers.get(&column.name).map_or(&column.name, |(_, to)| to);
                        value(name, column.kind, n)
                    });
                    columns.collect()
                })
                .collect();
            for page in rows.chunks(100) {
                pages::insert(&transaction, table, page)
                    .await
                    .unwrap_or_else(|error| panic!("{}: {error}", table.name));
            }
        }
        transaction.commit().await.unwrap();
        database.close_by_ref().await.unwrap();
    }
}

/// Everything in a database, table by table.
async fn everything(site: &TestDatabase) -> Vec<(String, Vec<Vec<ColumnValue>>)> {
    let mut all = Vec::new();
    for (schema, usage) in schemas().await.iter().zip([false, true]) {
        let database = connected(site, usage).await;
        for table in &schema.tables {
            let mut rows = pages::page(&database, table, None, 10_000).await.unwrap();
            rows.sort_by_key(|row| format!("{row:?}"));
            all.push((table.name.clone(), rows));
        }
        database.close_by_ref().await.unwrap();
    }
    all
}

async fn moved(from: &TestDatabase, to: &TestDatabase) -> Vec<MovedTable> {
    transfer(from.url(), to.url(), false, NOW, |_| {}).await.unwrap()
}

/// The number of the next change.
async fn next_change(site: &TestDatabase) -> i64 {
    let database = connected(site, false).await;
    let backend = database.get_database_backend();
    let add = "INSERT INTO changes (kind, subject, at) VALUES ('x', 'y', 1)";
    database.execute_unprepared(add).await.unwrap();
    let ask = Statement::from_string(backend, "SELECT CAST(max(number) AS bigint) FROM changes");
    let number: i64 = database.query_one_raw(ask).await.unwrap().unwrap().try_get_by_index(0).unwrap();
    let remove = format!("DELETE FROM changes WHERE number = {number}");
    database.execute_unprepared(&remove).await.unwrap();
    database.close_by_ref().await.unwrap();
    number
}

fn owner(id: u128) -> User {
    User {
        id: UserId(id),
        tenant: Some(TenantId(7)),
        email: format!("u{id}@example.com"),
        name: String::new(),
        role: Role::Owner,
        password: None,
        confirmed_at: None,
        created_at: Time::from_secs(1),
    }
}

/// The programs work on what was moved, and its rules hold.
async fn works(site: &TestDatabase) {
    let store = Store::open(site.url(), false).await.unwrap();
    let lost = store.create_user(&owner(1)).await.unwrap_err();
    assert_eq!(lost.to_string(), "there is no such tenant");
    store.close().await;
}

// Shows (Import and transfer).
#[tokio::test]
async fn everything_arrives_in_other_files() {
    let from = TestDatabase::empty_file();
    let to = TestDatabase::empty_file();
    fill(&from).await;
    let last = next_change(&from).await;
    let tables = moved(&from, &to).await;
    assert_eq!(everything(&from).await, everything(&to).await);
    assert!(tables.iter().all(|table| table.rows >= 40), "{tables:?}");
    assert!(next_change(&to).await > last, "no number is given twice, although its row is gone");
    works(&to).await;
}

// Shows (Import and transfer): All data moves from SQLite to PostgreSQL and back, with the same counts and checksums,
// and numbers continue.
#[cfg(have_postgres)]
#[tokio::test]
async fn everything_arrives_on_a_server_and_back() {
    let from = TestDatabase::empty_file();
    let server = TestDatabase::empty_server();
    let back = TestDatabase::empty_file();
    fill(&from).await;
    let last = next_change(&from).await;
    let there = moved(&from, &server).await;
    let on_server = next_change(&server).await;
    assert!(on_server > last);
    // The connection of this test is gone a moment later.
    let returned = moved(&server, &back).await;
    assert_eq!(everything(&from).await, everything(&back).await);
    let sums = |tables: &[MovedTable]| -> BTreeMap<String, (u64, String)> {
        tables.iter().map(|table| (table.name.clone(), (table.rows, table.checksum.clone()))).collect()
    };
    assert_eq!(sums(&there), sums(&returned));
    assert!(next_change(&back).await > on_server);
    works(&server).await;
}

// Shows (Import and transfer): No table can be forgotten when data moves.
#[cfg(have_postgres)]
#[tokio::test]
async fn the_tables_are_those_of_a_server_with_the_same_columns() {
    let site = TestDatabase::empty_server();
    made(&site).await;
    let database = connected(&site, false).await;
    let list = "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL) \
                FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
                WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace \
                AND a.attnum > 0 AND NOT a.attisdropped AND c.relname NOT LIKE '%\\_migrations'";
    let rows =
        database.query_all_raw(Statement::from_string(database.get_database_backend(), list)).await.unwrap();
    let text = |row: &sea_orm::QueryResult, at| row.try_get_by_index::<String>(at).unwrap();
    let mut actual: Vec<(String, String, ColumnKind)> = Vec::new();
    for row in &rows {
        let kind = match text(row, 2).as_str() {
            "bigint" | "integer" | "smallint" => ColumnKind::Integer,
            "boolean" => ColumnKind::Boolean,
            "uuid" => ColumnKind::Uuid,
            "text" | "character varying" => ColumnKind::Text,
            "bytea" => ColumnKind::Bytes,
            other => panic!("{other}"),
        };
        actual.push((text(row, 0), text(row, 1), kind));
    }
    let mut known: Vec<_> = Vec::new();
    for table in schemas().await.iter().flat_map(|schema| &schema.tables) {
        let columns = table.columns.iter();
        known.extend(columns.map(|column| (table.name.clone(), column.name.clone(), column.kind)));
    }
    let names = |(table, column, _): &(String, String, ColumnKind)| (table.clone(), column.clone());
    actual.sort_by_key(names);
    known.sort_by_key(names);
    assert_eq!(known, actual);
    database.close_by_ref().await.unwrap();
}

// Shows (Import and transfer).
#[tokio::test]
async fn the_tables_are_those_of_the_files() {
    let site = TestDatabase::empty_file();
    made(&site).await;
    for (schema, usage) in schemas().await.iter().zip([false, true]) {
        let database = connected(&site, usage).await;
        let list = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' \
                    AND name NOT LIKE '%_migrations' ORDER BY name";
        let rows = database
            .query_all_raw(Statement::from_string(database.get_database_backend(), list))
            .await
            .unwrap();
        let actual: Vec<String> = rows.iter().map(|row| row.try_get_by_index(0).unwrap()).collect();
        let mut known: Vec<_> = schema.tables.iter().map(|table| table.name.clone()).collect();
        known.sort();
        assert_eq!(known, actual);
        // A table comes after the tables that it refers to.
        for (at, table) in schema.tables.iter().enumerate() {
            for (other, _) in references(&database, &table.name).await.values() {
                assert!(schema.tables[..at].iter().any(|earlier| earlier.name == *other), "{}", table.name);
            }
        }
        database.close_by_ref().await.unwrap();
    }
}

// Shows (Import and transfer).
#[tokio::test]
async fn a_target_with_data_is_refused_and_kept() {
    let from = TestDatabase::empty_file();
    let to = TestDatabase::empty_file();
    fill(&from).await;
    made(&to).await;
    let database = connected(&to, true).await;
    database
        .execute_unprepared(
            "INSERT INTO spikes (tenant, minute) VALUES (x'00000000000000000000000000000001', 5)",
        )
        .await
        .unwrap();
    database.close_by_ref().await.unwrap();
    let refused = transfer(from.url(), to.url(), false, NOW, |_| {}).await.unwrap_err();
    assert!(matches!(&refused, TransferError::NotEmpty(table) if table == "spikes"), "{refused}");
    let kept = everything(&to).await;
    let rows: usize = kept.iter().map(|(_, rows)| rows.len()).sum();
    assert_eq!(
        rows, 2,
        "the row, and the one that a migration makes: nothing of the management database was kept"
    );
    // Once the data is gone, the same command moves everything.
    let database = connected(&to, true).await;
    database.execute_unprepared("DELETE FROM spikes").await.unwrap();
    database.close_by_ref().await.unwrap();
    moved(&from, &to).await;
    assert_eq!(everything(&from).await, everything(&to).await);
}

// Shows (Import and transfer): A source in use and a target with data are refused, and nothing is changed.
#[tokio::test]
async fn a_source_that_programs_use_is_refused_unless_forced() {
    let from = TestDatabase::empty_file();
    let to = TestDatabase::empty_file();
    made(&from).await;
    let in_use = async || match transfer(from.url(), to.url(), false, NOW, |_| {}).await {
        Err(TransferError::InUse(why)) => why,
        other => panic!("{other:?}"),
    };
    let set = async |sql: String| {
        let database = connected(&from, false).await;
        database.execute_unprepared(&sql).await.unwrap();
        database.close_by_ref().await.unwrap();
    };
    let now = NOW.micros();
    let id = "x'00000000000000000000000000000001'";
    set(format!("INSERT INTO gateways (id, seen_at, nodes) VALUES ({id}, {}, '[]')", now - 30_000_000)).await;
    assert_eq!(in_use().await, "1 gateways have reported within the last minute");
    set(format!("UPDATE gateways SET seen_at = {}", now - 61_000_000)).await;
    set(format!(
        "INSERT INTO watched_chains (chain, watcher, watched_until, phase, appended_at, updated_at) \
         VALUES ('eth', {id}, {}, '', 0, 0)",
        now + 1_000_000
    ))
    .await;
    assert_eq!(in_use().await, "1 chains are being watched");
    set("UPDATE watched_chains SET watched_until = 0".to_owned()).await;
    // A program that has written keeps SQLite's log.
    let open = connected(&from, false).await;
    open.execute_unprepared("UPDATE watched_chains SET watched_until = 1").await.unwrap();
    assert!(in_use().await.contains("is in use"));
    transfer(from.url(), to.url(), true, NOW, |_| {}).await.unwrap();
    open.close_by_ref().await.unwrap();
    let same = transfer(from.url(), from.url(), true, NOW, |_| {}).await.unwrap_err();
    assert!(matches!(same, TransferError::Same), "{same}");
}

// Shows (Import and transfer).
#[cfg(have_postgres)]
#[tokio::test]
async fn a_server_to_which_programs_are_connected_is_refused() {
    let from = TestDatabase::empty_server();
    let to = TestDatabase::empty_file();
    let store = Store::open(from.url(), true).await.unwrap();
    UsageStore::open(from.url(), true).await.unwrap().close().await;
    let refused = transfer(from.url(), to.url(), false, NOW, |_| {}).await.unwrap_err();
    assert!(
        matches!(&refused, TransferError::InUse(why) if why.starts_with("programs of rpcgate are connected")),
        "{refused}"
    );
    store.close().await;
    moved(&from, &to).await;
}
