//! `[shutdown]`: the shutdown of the service.

use super::fields::{Fields, Table};
use super::units::{HOUR, SECOND};
use std::time::Duration;

/// `[shutdown]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Shutdown {
    /// The time for calls in flight to finish.
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
