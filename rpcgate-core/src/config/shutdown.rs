//! `[shutdown]`: how the service ends.

use super::fields::{Fields, Table};
use super::units::{HOUR, SECOND};
use std::time::Duration;

/// `[shutdown]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shutdown {
    /// How long calls in flight may take to finish.
    pub grace: Duration,
}

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown { grace: 30 * SECOND }
    }
}

impl Table for Shutdown {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.duration("grace", &mut self.grace, Duration::ZERO..=HOUR);
    }
}
