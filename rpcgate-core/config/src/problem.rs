//! Mistakes in a configuration, and their locations.

use std::fmt;
use std::sync::Arc;

/// The location of a value, ordered like the errors: the file from top to bottom, then the environment, then flags.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum ConfigLocation {
    /// In the configuration file.
    File {
        /// The name of the file as it was passed in.
        file: Arc<str>,
        /// The line, from 1.
        line: u32,
        /// The column in characters, from 1.
        column: u32,
    },
    /// In an environment variable of this name.
    Env(Arc<str>),
    /// In a flag, or another [`Setting`](super::Setting), of this name.
    Flag(Arc<str>),
}

impl fmt::Display for ConfigLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigLocation::File { file, line, .. } => write!(f, "{file}:{line}"),
            ConfigLocation::Env(name) | ConfigLocation::Flag(name) => f.write_str(name),
        }
    }
}

/// A mistake. Keys are full paths such as `gateway.listen`. No variant ever contains a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The text is not TOML.
    Syntax(String),
    /// A duplicate key, or a variable that differs only in case.
    Duplicate {
        /// The key as written.
        key: String,
    },
    /// A key that does not exist.
    UnknownKey {
        /// The key as given.
        key: String,
        /// The most similar key of the same table.
        nearest: Option<String>,
    },
    /// An environment variable that sets no key.
    UnknownVariable {
        /// The most similar variable.
        nearest: Option<String>,
    },
    /// The name of a chain, project or tenant that does not exist.
    UnknownName {
        /// The key that has this value, or the table with this name.
        key: String,
        /// The expected kind: `chain`, `project` or `tenant`.
        kind: &'static str,
        /// The name given.
        name: String,
        /// The most similar existing name.
        nearest: Option<String>,
    },
    /// A value of the wrong type, or a text that cannot be parsed.
    Unreadable {
        /// The key.
        key: String,
        /// The expected type, with its article.
        expected: String,
        /// The actual value.
        found: String,
    },
    /// A value that is too small or too large.
    OutOfRange {
        /// The key.
        key: String,
        /// The smallest allowed value.
        low: String,
        /// The largest allowed value.
        high: String,
        /// The actual value.
        found: String,
    },
    /// A value that breaks a rule of its key.
    Invalid {
        /// The key.
        key: String,
        /// The rest of the sentence.
        why: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Syntax(why) => write!(f, "not valid TOML: {why}"),
            Problem::Duplicate { key } => write!(f, "{key} is given twice"),
            Problem::UnknownKey { key, nearest } => {
                write!(f, "unknown key {key}")?;
                nearest.as_ref().map_or(Ok(()), |n| write!(f, "; the nearest known key is {n}"))
            }
            Problem::UnknownVariable { nearest } => {
                f.write_str("unknown name")?;
                nearest.as_ref().map_or(Ok(()), |n| write!(f, "; the nearest known name is {n}"))
            }
            Problem::UnknownName { key, kind, name, nearest } => {
                write!(f, "{key}: unknown {kind} {name:?}")?;
                nearest.as_ref().map_or(Ok(()), |n| write!(f, "; the nearest known {kind} is {n:?}"))
            }
            Problem::Unreadable { key, expected, found } => {
                write!(f, "{key} must be {expected}, found {found}")
            }
            Problem::OutOfRange { key, low, high, found } => {
                write!(f, "{key} must lie between {low} and {high}, found {found}")
            }
            Problem::Invalid { key, why } => write!(f, "{key} {why}"),
        }
    }
}

/// One mistake in a configuration, with its location. Displayed as `location: mistake`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The location.
    pub location: ConfigLocation,
    /// The mistake.
    pub problem: Problem,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.problem)
    }
}

impl std::error::Error for ConfigError {}

/// All mistakes in a configuration, in the order of [`ConfigLocation`]. Displayed one per line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    pub(super) fn new(mut errors: Vec<ConfigError>) -> Self {
        errors.sort_by(|a, b| a.location.cmp(&b.location));
        errors.dedup();
        ConfigErrors(errors)
    }

    /// Returns the errors. There is at least one.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a ConfigErrors {
    type Item = &'a ConfigError;
    type IntoIter = std::slice::Iter<'a, ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
