//! `[cache]`: cached answers.

use super::fields::{Fields, Table};
use super::units::{GIB, MIB};

/// `[cache]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CacheSettings {
    /// The size of the cache in bytes; 0 turns it off.
    pub bytes: u64,
}

impl Default for CacheSettings {
    fn default() -> Self {
        CacheSettings { bytes: 256 * MIB }
    }
}

impl Table for CacheSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.size("bytes", &mut self.bytes, 0..=1024 * GIB);
    }
}
