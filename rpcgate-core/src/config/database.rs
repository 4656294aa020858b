//! `[database]` and `[redis]`: where state lives that outlives the process.

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
    /// Whether the schema is brought up to date at start.
    pub migrate: bool,
}

impl Database {
    /// The database when none is named.
    pub const DEFAULT_URL: &'static str = "sqlite://rpcgate.db";

    /// The database's URL, password and all: `sqlite://…` or `postgres://…`.
    pub fn url(&self) -> &str {
        self.url.as_ref().map_or(Self::DEFAULT_URL, Url::expose)
    }

    /// The same for people to read.
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
pub struct Redis {
    /// Where counters are shared; `None`: they live in the process.
    pub url: Option<Url>,
    /// What the names of all keys begin with; gateways with the same count together.
    pub prefix: String,
    /// How long Redis may take for an answer before a gateway counts alone.
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
