//! Databases for unit tests. The tests run on SQLite and again on PostgreSQL: the same file of tests is included as
//! two modules, and the name of the module decides which database a test uses.

use super::database_location::DatabaseLocation;
use super::{Store, StoreError, UsageStore, url_of};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

#[cfg(have_postgres)]
#[expect(unreachable_pub, reason = "it is public where it belongs")]
#[path = "../../../tests/src/services/postgres.rs"]
pub(super) mod postgres;

/// A database for a test, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Site {
    home: Option<TempDir>,
    url: String,
}

impl Site {
    /// A new database for the tests in `module`, the value of `module_path!()` there. It is on PostgreSQL if a
    /// segment of the path is `on_postgres`.
    pub(crate) fn of(module: &str) -> Self {
        if module.split("::").any(|name| name == "on_postgres") { Self::server() } else { Self::file() }
    }

    pub(crate) fn file() -> Self {
        let home = tempfile::tempdir().unwrap();
        let url = url_of(&home.path().join("rpcgate.db"));
        Site { home: Some(home), url }
    }

    #[cfg(have_postgres)]
    pub(crate) fn server() -> Self {
        Site { home: None, url: postgres::Postgres::shared().database() }
    }

    #[cfg(not(have_postgres))]
    pub(crate) fn server() -> Self {
        panic!("needs postgresql (apt install postgresql)")
    }

    /// The folder of the files, unless the database is on a server.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.home.as_ref().map(TempDir::path)
    }

    /// The value for `database.url`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn location(&self) -> DatabaseLocation {
        DatabaseLocation::parse(&self.url).unwrap()
    }

    pub(super) async fn store_within(&self, deadline: Duration) -> Result<Store, StoreError> {
        Store::open_at(&self.location(), true, deadline).await
    }

    pub(super) async fn usage_within(&self, deadline: Duration) -> Result<UsageStore, StoreError> {
        UsageStore::open_at(&self.location().usage(), true, deadline).await
    }
}
