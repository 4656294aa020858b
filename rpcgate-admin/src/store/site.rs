//! Databases for unit tests. The tests run on SQLite and again on PostgreSQL: the same file of tests is included as
//! two modules, and the name of the module decides which database a test uses.

use super::database_location::DatabaseLocation;
use super::{Store, StoreError, UsageStore, url_of};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

#[cfg(have_postgres)]
#[expect(unreachable_pub, reason = "it is public where it belongs")]
#[path = "../../../tests/src/services/postgres.rs"]
pub(super) mod postgres;

/// The name of the management database's file.
pub(crate) const FILE: &str = "rpcgate.db";

/// Puts files of databases with the newest schema into a folder. They are made once for all tests of a process, because
/// migrating takes longer than most tests.
pub(crate) fn put_files(folder: &Path) {
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

/// Brings the databases at `url` up to date, in a thread of its own: that of a test runs the test's runtime.
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
pub(crate) struct Site {
    home: Option<TempDir>,
    url: String,
}

impl Site {
    /// A new database for the tests in `module`, the value of `module_path!()` there, with the newest schema and no rows. It is on
    /// PostgreSQL if a segment of the path is `on_postgres`.
    pub(crate) fn of(module: &str) -> Self {
        if module.split("::").any(|name| name == "on_postgres") { Self::server() } else { Self::file() }
    }

    /// Files with the newest schema.
    pub(crate) fn file() -> Self {
        let site = Self::empty_file();
        site.folder().into_iter().for_each(put_files);
        site
    }

    /// A file that does not exist yet.
    pub(super) fn empty_file() -> Self {
        let home = tempfile::tempdir().unwrap();
        let url = url_of(&home.path().join(FILE));
        Site { home: Some(home), url }
    }

    /// A database on the server with the newest schema.
    #[cfg(have_postgres)]
    pub(crate) fn server() -> Self {
        static TEMPLATE: OnceLock<String> = OnceLock::new();
        let server = postgres::Postgres::shared();
        let template = TEMPLATE.get_or_init(|| {
            let url = server.database();
            migrate(&url);
            url
        });
        Site { home: None, url: server.copy_of(template) }
    }

    /// A database on the server without a schema.
    #[cfg(have_postgres)]
    pub(super) fn empty_server() -> Self {
        Site { home: None, url: postgres::Postgres::shared().database() }
    }

    #[cfg(not(have_postgres))]
    pub(crate) fn server() -> Self {
        panic!("needs postgresql (apt install postgresql)")
    }

    #[cfg(not(have_postgres))]
    pub(super) fn empty_server() -> Self {
        Self::server()
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
