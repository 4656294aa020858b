//! The usage in a gateway's databases, read while it runs or after it has ended.

#![expect(clippy::unwrap_used, reason = "a database of the tests that cannot be read fails its test")]

use crate::TIMEOUT;
use crate::process::Site;
use rpcgate_core::backend::usage_sink::OwnedRecord;
use rpcgate_core::caller::{RequestId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::{Block, Cell, Group, Metrics, Period, UsageAsk, UsageView, UsageWindow};
use rpcgate_store::{UsageStore, url_of};
use sea_orm::{ConnectOptions, ConnectionTrait, DatabaseConnection, Statement};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The stored usage of one site's tenant `default`.
#[derive(Debug)]
pub struct StoredUsage {
    usage: UsageStore,
    raw: DatabaseConnection,
    tenant: TenantId,
}

impl StoredUsage {
    /// Opens the databases of a site.
    ///
    /// # Panics
    /// When they do not exist or have another schema.
    pub async fn open(site: &Site) -> Self {
        let usage = UsageStore::open(&url_of(&site.database()), false).await.unwrap();
        let raw = connect(&site.usage_database()).await;
        StoredUsage { usage, raw, tenant: site.config().tenants["default"].id }
    }

    /// Opens the database of a site that is on a server at `url`.
    ///
    /// # Panics
    /// When they do not exist or have another schema.
    pub async fn at(url: &str, site: &Site) -> Self {
        let usage = UsageStore::open(url, false).await.unwrap();
        let mut options = ConnectOptions::new(url);
        options.max_connections(1).sqlx_logging(false);
        let raw = sea_orm::Database::connect(options).await.unwrap();
        StoredUsage { usage, raw, tenant: site.config().tenants["default"].id }
    }

    /// Returns the store.
    pub fn store(&self) -> &UsageStore {
        &self.usage
    }

    /// Returns the tenant.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Returns all stored events, unordered.
    ///
    /// # Panics
    /// When one cannot be read.
    pub async fn events(&self) -> Vec<OwnedRecord> {
        let all = Statement::from_string(self.raw.get_database_backend(), "SELECT bytes FROM blocks");
        let rows = self.raw.query_all_raw(all).await.unwrap();
        let blocks = rows.into_iter().map(|row| row.try_get::<Vec<u8>>("", "bytes").unwrap());
        blocks.flat_map(|bytes| Block::events(&bytes, |_, _| true).unwrap()).collect()
    }

    /// Waits until a request of this tenant is stored.
    ///
    /// # Panics
    /// When that does not happen.
    pub async fn hold(&self, request: RequestId) {
        let look = async {
            while self.usage.event(self.tenant, request).await.unwrap().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(TIMEOUT, look).await.is_ok(), "never shipped: {request}");
    }

    /// Returns the sums of the 24 hours up to `now`, by chain and method. Checks that they add up to the totals.
    ///
    /// # Panics
    /// When they do not.
    pub async fn by_method(&self, now: Time) -> BTreeMap<(String, String), Metrics> {
        // Includes an hour that began since then.
        let now = now.plus(Duration::from_secs(600));
        let ask = UsageAsk::new(self.tenant, UsageWindow::of(Period::Day, now));
        let ask = ask.grouped(&[Group::Chain, Group::Method]).unwrap().limited(5_000).unwrap();
        let UsageView { rows, totals, truncated, .. } = self.usage.usage(&ask).await.unwrap();
        assert!(!truncated);
        let mut sums = BTreeMap::new();
        let mut sum = Metrics::default();
        for row in rows {
            sum.add(&row.metrics);
            let [Cell::Chain(chain), Cell::Method(method, _)] = row.cells.as_slice() else {
                panic!("{row:?}")
            };
            let there = sums.insert((chain.clone(), method.clone()), row.metrics);
            assert!(there.is_none(), "one row for each method");
        }
        assert_eq!(sum, totals, "rows add up to the totals");
        sums
    }
}

/// Opens a connection to a database file, in addition to those of a gateway.
///
/// # Panics
/// When the file cannot be opened.
pub async fn connect(file: &Path) -> DatabaseConnection {
    let file = file.to_owned();
    let mut options = ConnectOptions::new("sqlite://elsewhere.db");
    options
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .sqlx_logging(false)
        .map_sqlx_sqlite_opts(move |sqlite| {
            sqlite.filename(&file).create_if_missing(false).busy_timeout(Duration::from_secs(20))
        });
    sea_orm::Database::connect(options).await.unwrap()
}

/// The write lock of a database, held until it is released.
#[derive(Debug)]
pub struct DatabaseLock(DatabaseConnection);

impl DatabaseLock {
    /// Takes the lock.
    ///
    /// # Panics
    /// When another connection does not release it.
    pub async fn take(file: &Path) -> Self {
        let raw = connect(file).await;
        raw.execute_unprepared("BEGIN EXCLUSIVE").await.unwrap();
        DatabaseLock(raw)
    }

    /// Releases the lock.
    ///
    /// # Panics
    /// When the connection is lost.
    pub async fn release(self) {
        self.0.execute_unprepared("COMMIT").await.unwrap();
        self.0.close().await.unwrap();
    }
}
