//! `[cache]`: kept answers.

use super::fields::{Fields, Table};
use super::units::{GIB, MIB};

/// `[cache]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cache {
    /// Bytes of kept answers; 0 keeps none.
    pub bytes: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Cache { bytes: 256 * MIB }
    }
}

impl Table for Cache {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.size("bytes", &mut self.bytes, 0..=1024 * GIB);
    }
}
