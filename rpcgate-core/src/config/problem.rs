//! What can be wrong with a configuration, and where.

use std::fmt;
use std::sync::Arc;

/// Where a value was given. Orders as errors are listed: the file from top to bottom, then the environment, then flags.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum ConfigLocation {
    /// In the configuration file.
    File {
        /// The file's name as it was handed in.
        file: Arc<str>,
        /// Line, from 1.
        line: u32,
        /// Column in characters, from 1.
        column: u32,
    },
    /// In an environment variable of this name.
    Env(Arc<str>),
    /// In a flag, or another [`Setting`](super::Setting), that calls itself so.
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

/// What is wrong. Keys are full paths such as `gateway.listen`; no variant ever holds a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Problem {
    /// Not TOML.
    Syntax(String),
    /// The same key (or variable, in another case) twice.
    Duplicate {
        /// The key as written.
        key: String,
    },
    /// A key that does not exist.
    UnknownKey {
        /// The key as given.
        key: String,
        /// The existing key of the same table that is spelt most alike.
        nearest: Option<String>,
    },
    /// An environment variable that stands for no key.
    UnknownVariable {
        /// The variable spelt most alike.
        nearest: Option<String>,
    },
    /// A name of something that does not exist: a chain, a project, a tenant.
    UnknownName {
        /// The key whose value it is, or the table it should head.
        key: String,
        /// What it should name: `chain`, `project`, `tenant`.
        kind: &'static str,
        /// The name given.
        name: String,
        /// The existing name spelt most alike.
        nearest: Option<String>,
    },
    /// Another type, or a text that does not read as what is wanted.
    Unreadable {
        /// The key.
        key: String,
        /// What the key wants, with its article.
        wanted: String,
        /// What was found.
        found: String,
    },
    /// Readable, but too small or too large.
    OutOfRange {
        /// The key.
        key: String,
        /// The least value allowed.
        low: String,
        /// The greatest value allowed.
        high: String,
        /// What was found.
        found: String,
    },
    /// A rule of this one key is broken.
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
            Problem::Unreadable { key, wanted, found } => write!(f, "{key} must be {wanted}, found {found}"),
            Problem::OutOfRange { key, low, high, found } => {
                write!(f, "{key} must lie between {low} and {high}, found {found}")
            }
            Problem::Invalid { key, why } => write!(f, "{key} {why}"),
        }
    }
}

/// One thing that is wrong with a configuration. Displayed as `place: what is wrong`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// Where.
    pub place: ConfigLocation,
    /// What.
    pub problem: Problem,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

impl std::error::Error for ConfigError {}

/// Everything that is wrong with a configuration, in the order of [`ConfigLocation`]. Displayed one to a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    pub(super) fn new(mut errors: Vec<ConfigError>) -> Self {
        errors.sort_by(|a, b| a.place.cmp(&b.place));
        errors.dedup();
        ConfigErrors(errors)
    }

    /// The errors. There is at least one.
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
