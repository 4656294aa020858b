use super::*;
use crate::testing::TestDatabase;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_database_reports_its_kind_and_takes_writes() {
    let site = TestDatabase::of(module_path!());
    let store = site.store_within(LONG).await.unwrap();
    let usage = site.usage_within(LONG).await.unwrap();
    let condition = store.condition().await.unwrap();
    let is_file = site.folder().is_some();
    let software = if is_file { "SQLite 3." } else { "PostgreSQL 1" };
    assert!(condition.software.starts_with(software), "{condition:?}");
    // A server's clock is that of this machine; a file has no clock.
    assert_eq!(condition.now.is_none(), is_file, "{condition:?}");
    assert!(condition.now.is_none_or(|now| now > Time::from_secs(1_700_000_000)), "{condition:?}");
    store.try_write().await.unwrap();
    usage.try_write().await.unwrap();
    assert_eq!(files_of(site.url()).unwrap().is_some(), is_file);
}

#[tokio::test]
async fn a_try_to_write_changes_nothing() {
    let site = TestDatabase::of(module_path!());
    let store = site.store_within(LONG).await.unwrap();
    let statements = Arc::new(Mutex::new(Vec::new()));
    let noted = statements.clone();
    store.database.observe_writes(move |sql| noted.lock().unwrap().push(sql.to_uppercase()));
    store.try_write().await.unwrap();
    let changes = |sql: &String| ["INSERT", "UPDATE ", "DELETE"].iter().any(|word| sql.starts_with(word));
    let statements = statements.lock().unwrap();
    assert!(!statements.iter().any(changes), "{statements:?}");
}

#[tokio::test]
async fn a_database_that_another_program_writes_to_is_reported_as_busy() {
    let site = TestDatabase::of(module_path!());
    let store = site.store_within(LONG).await.unwrap();
    let other = site.store_within(Duration::from_secs(2)).await.unwrap();
    let held = store.database.begin().await.unwrap();
    let found = other.try_write().await;
    assert!(matches!(found, Err(StoreError::Unavailable(_))), "{found:?}");
    held.rollback().await.unwrap();
    other.try_write().await.unwrap();
}

#[test]
fn the_files_of_a_database_are_that_of_management_and_that_of_usage() {
    let files = files_of("sqlite:///var/lib/rpcgate.db").unwrap().unwrap();
    assert_eq!(files, ["/var/lib/rpcgate.db", "/var/lib/rpcgate-usage.db"].map(PathBuf::from));
    assert_eq!(files_of("postgres://u:secret@h/db").unwrap(), None);
    assert!(matches!(files_of("mysql://h/db"), Err(StoreError::Url(_))));
}
