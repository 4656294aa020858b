//! `[chains.<path>.hedge]`: reads that are sent to a second node if the first takes unusually long.

use super::fields::{Fields, Table};
use super::units::{MILLI, SECOND};
use std::time::Duration;

/// `[chains.<path>.hedge]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HedgeSettings {
    /// Whether reads are hedged.
    pub enabled: bool,
    /// The share, in per cent, of the calls of the same method that are answered sooner than a call is hedged.
    pub percentile: u32,
    /// How long a call takes at least before it is hedged.
    pub at_least: Duration,
    /// Hedged calls, in per cent of all that might be.
    pub max_percent: u32,
}

impl Default for HedgeSettings {
    fn default() -> Self {
        HedgeSettings { enabled: false, percentile: 95, at_least: 50 * MILLI, max_percent: 5 }
    }
}

impl Table for HedgeSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("enabled", &mut self.enabled);
        f.number("percentile", &mut self.percentile, 50..=99);
        f.duration("at_least", &mut self.at_least, MILLI..=60 * SECOND);
        f.number("max_percent", &mut self.max_percent, 1..=50);
    }
}
