//! The name of a chain.

use crate::intern::intern;
use std::fmt;

/// A chain's canonical path name, such as `eth`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainName(&'static str);

impl ChainName {
    /// Creates the name of the chain at `/<path>`.
    pub const fn new(path: &'static str) -> Self {
        ChainName(path)
    }

    /// Creates a name that is known only at run time, by [interning](crate::intern) it.
    pub fn interned(path: &str) -> Self {
        ChainName(intern(path))
    }

    /// Returns the path segment.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
