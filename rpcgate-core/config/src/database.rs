//! `[database]` and `[redis]`: state that outlives the process.

use super::fields::{Fields, Table};
use super::units::{MILLI, SECOND};
use super::url::Url;
use std::time::Duration;

const DATABASES: &[&str] = &["sqlite", "postgres", "postgresql"];

/// `[database]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Database {
    /// `sqlite://…` or `postgres://…`; `None`: [`Database::DEFAULT_URL`].
    url: Option<Url>,
    /// Updates the schema at start-up.
    pub migrate: bool,
}

impl Database {
    /// The default URL of the database.
    pub const DEFAULT_URL: &'static str = "sqlite://rpcgate.db";

    /// Returns the URL of the database, including its password: `sqlite://…` or `postgres://…`.
    pub fn url(&self) -> &str {
        self.url.as_ref().map_or(Self::DEFAULT_URL, Url::expose)
    }

    /// Returns the URL for logs, with its password masked.
    pub fn masked_url(&self) -> String {
        self.url.as_ref().map_or_else(|| Self::DEFAULT_URL.into(), Url::masked)
    }
}

impl Default for Database {
    fn default() -> Self {
        Database { url: Url::parse(Self::DEFAULT_URL, DATABASES).ok(), migrate: true }
    }
}

impl Table for Database {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.url("url", &mut self.url, DATABASES);
        f.value("migrate", &mut self.migrate);
    }
}

/// `[redis]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Redis {
    /// The Redis server that shares counters; `None`: counters are in process memory.
    pub url: Option<Url>,
    /// The prefix of all names in Redis. Gateways with the same prefix count together.
    pub prefix: String,
    /// The time limit of Redis, after which a gateway counts alone.
    pub timeout: Duration,
}

impl Default for Redis {
    fn default() -> Self {
        Redis { url: None, prefix: "rpcgate:".into(), timeout: 250 * MILLI }
    }
}

impl Table for Redis {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.url("url", &mut self.url, &["redis", "rediss"]);
        f.value("prefix", &mut self.prefix);
        f.duration("timeout", &mut self.timeout, 10 * MILLI..=10 * SECOND);
    }
}
