//! Databases for unit tests. They run on SQLite and again on PostgreSQL: the same file of tests stands in two modules,
//! and which of the two a test is in decides.

use super::database_location::DatabaseLocation;
use super::{Store, StoreError, UsageStore, url_of};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

#[cfg(have_postgres)]
#[expect(unreachable_pub, reason = "it is public where it belongs")]
#[path = "../../../tests/src/services/postgres.rs"]
pub(super) mod postgres;

/// A place for a database, which is there as long as this is.
#[derive(Debug)]
pub(crate) struct Site {
    home: Option<TempDir>,
    url: String,
}

impl Site {
    /// A new one for the tests in `module`, which is what `module_path!()` says there: on PostgreSQL if one of its
    /// modules is called so.
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

    /// The folder that files are in, where there are files.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.home.as_ref().map(TempDir::path)
    }

    /// What `database.url` says of it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn place(&self) -> DatabaseLocation {
        DatabaseLocation::parse(&self.url).unwrap()
    }

    pub(super) async fn store_within(&self, deadline: Duration) -> Result<Store, StoreError> {
        Store::open_at(&self.place(), true, deadline).await
    }

    pub(super) async fn usage_within(&self, deadline: Duration) -> Result<UsageStore, StoreError> {
        UsageStore::open_at(&self.place().usage(), true, deadline).await
    }
}
