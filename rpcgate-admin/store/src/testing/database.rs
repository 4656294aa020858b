//! Databases for unit tests. The tests run on SQLite and again on PostgreSQL: the same test file is included as two
//! modules, and the module name selects the database.
#![expect(clippy::unwrap_used, reason = "a database that cannot be made or used fails its test")]

use crate::connect::share_server;
use crate::{Store, UsageStore, url_of};
#[cfg(test)]
use crate::{StoreError, database_location::DatabaseLocation};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
#[cfg(test)]
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

#[cfg(have_postgres)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests of this crate freeze the server"))]
#[expect(unreachable_pub, reason = "it is public where it belongs")]
#[path = "../../../../tests/src/services/postgres.rs"]
pub(crate) mod postgres;

/// The name of the management database's file.
pub const FILE: &str = "rpcgate.db";

/// Puts database files with the newest schema into a folder. They are made once per test process, because migrating
/// takes longer than most tests.
pub fn put_files(folder: &Path) {
    static FILES: OnceLock<Vec<(OsString, Vec<u8>)>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let home = tempfile::tempdir().unwrap();
        migrate(&url_of(&home.path().join(FILE)));
        let files = fs::read_dir(home.path()).unwrap().map(Result::unwrap);
        files.map(|file| (file.file_name(), fs::read(file.path()).unwrap())).collect()
    });
    for (name, content) in files {
        fs::write(folder.join(name), content).unwrap();
    }
}

/// Brings the databases at `url` up to date, in a separate thread because the test's thread runs the test's runtime.
fn migrate(url: &str) {
    std::thread::scope(|scope| {
        let migrating = async {
            Store::open(url, true).await.unwrap().close().await;
            UsageStore::open(url, true).await.unwrap().close().await;
        };
        scope.spawn(|| Runtime::new().unwrap().block_on(migrating)).join().unwrap();
    });
}

/// A database for a test, removed when this is dropped.
#[derive(Debug)]
pub struct TestDatabase {
    home: Option<TempDir>,
    url: String,
}

impl TestDatabase {
    /// A new database for the tests in `module`, the value of `module_path!()` there, with the newest schema and no rows. It is on
    /// PostgreSQL if a segment of the path is `on_postgres`.
    pub fn of(module: &str) -> Self {
        if module.split("::").any(|name| name == "on_postgres") { Self::server() } else { Self::file() }
    }

    /// Creates files with the newest schema.
    pub fn file() -> Self {
        let site = Self::empty_file();
        site.folder().into_iter().for_each(put_files);
        site
    }

    /// Returns a file that does not exist yet.
    pub(crate) fn empty_file() -> Self {
        let home = tempfile::tempdir().unwrap();
        let url = url_of(&home.path().join(FILE));
        TestDatabase { home: Some(home), url }
    }

    /// Creates a database on the server with the newest schema.
    #[cfg(have_postgres)]
    pub fn server() -> Self {
        static TEMPLATE: OnceLock<String> = OnceLock::new();
        share_server();
        let server = postgres::Postgres::shared();
        let template = TEMPLATE.get_or_init(|| {
            let url = server.database();
            migrate(&url);
            url
        });
        TestDatabase { home: None, url: server.copy_of(template) }
    }

    #[cfg(all(test, have_postgres))]
    pub(crate) fn empty_server() -> Self {
        TestDatabase { home: None, url: postgres::Postgres::shared().database() }
    }

    /// Panics, because this machine has no server.
    #[cfg(not(have_postgres))]
    pub fn server() -> Self {
        panic!("needs postgresql (apt install postgresql)")
    }

    #[cfg(all(test, not(have_postgres)))]
    pub(crate) fn empty_server() -> Self {
        Self::server()
    }

    /// Returns the folder of the files, unless the database is on a server.
    pub fn folder(&self) -> Option<&Path> {
        self.home.as_ref().map(TempDir::path)
    }

    /// Returns the value for `database.url`.
    pub fn url(&self) -> &str {
        &self.url
    }

    #[cfg(test)]
    pub(crate) fn location(&self) -> DatabaseLocation {
        DatabaseLocation::parse(&self.url).unwrap()
    }

    #[cfg(test)]
    pub(crate) async fn store_within(&self, deadline: Duration) -> Result<Store, StoreError> {
        Store::open_at(&self.location(), true, deadline).await
    }

    #[cfg(test)]
    pub(crate) async fn usage_within(&self, deadline: Duration) -> Result<UsageStore, StoreError> {
        UsageStore::open_at(&self.location().usage(), true, deadline).await
    }
}
