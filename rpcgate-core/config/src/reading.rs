//! The context of a reading: inputs, mistakes, and the location of each value.

use super::problem::{ConfigError, ConfigLocation, Problem};
use super::tree::Item;
use std::collections::BTreeMap;

pub(super) struct Reading<'i> {
    pub(super) env: &'i [(String, String)],
    pub(super) secret_file: &'i dyn Fn(&str) -> Result<String, String>,
    pub(super) chains: &'i [&'i str],
    pub(super) errors: Vec<ConfigError>,
    pub(super) path: String,
    /// The location of each effective value, by path, and the beginning of each table.
    locations: BTreeMap<String, ConfigLocation>,
}

impl<'i> Reading<'i> {
    pub(super) fn new(
        env: &'i [(String, String)],
        secret_file: &'i dyn Fn(&str) -> Result<String, String>,
        chains: &'i [&'i str],
        errors: Vec<ConfigError>,
    ) -> Self {
        Reading { env, secret_file, chains, errors, path: String::new(), locations: BTreeMap::new() }
    }

    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.env.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }

    /// Reports a problem of `item`, the value of the current key.
    pub(super) fn wrong<T>(&mut self, item: &Item, problem: impl FnOnce(String) -> Problem) -> Option<T> {
        self.report(item.location.clone(), problem(self.path.clone()));
        None
    }

    pub(super) fn unreadable<T>(&mut self, item: &Item, expected: &str) -> Option<T> {
        self.wrong(item, |key| Problem::Unreadable {
            key,
            expected: expected.to_owned(),
            found: item.found(),
        })
    }

    /// Reports like [`unreadable`](Self::unreadable), for a value that may be or contain a secret.
    pub(super) fn unfit<T>(&mut self, item: &Item, expected: &str) -> Option<T> {
        let expected = expected.to_owned();
        let found = item.kind().to_owned();
        self.wrong(item, |key| Problem::Unreadable { key, expected, found })
    }

    pub(super) fn invalid<T>(&mut self, item: &Item, why: impl Into<String>) -> Option<T> {
        self.wrong(item, |key| Problem::Invalid { key, why: why.into() })
    }

    /// Reports a problem of the value at `path`, or of its nearest given table, after everything was read.
    pub(super) fn wrong_at(&mut self, path: &str, problem: Problem) {
        let mut at = path;
        loop {
            if let Some(location) = self.locations.get(at) {
                return self.report(location.clone(), problem);
            }
            match at.rsplit_once('.') {
                Some((table, _)) => at = table,
                // Defaults break no rule, so some table on the path was given.
                None => return,
            }
        }
    }

    pub(super) fn is_set(&self, path: &str) -> bool {
        self.locations.contains_key(path)
    }

    /// Reads a value whose path continues with `name`.
    pub(super) fn under<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.path.len();
        if before > 0 && !name.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(name);
        let value = read(self);
        self.path.truncate(before);
        value
    }

    pub(super) fn report(&mut self, location: ConfigLocation, problem: Problem) {
        self.errors.push(ConfigError { location, problem });
    }

    /// Records `location` as the location of the current value.
    pub(super) fn here(&mut self, location: &ConfigLocation) {
        self.locations.insert(self.path.clone(), location.clone());
    }
}
