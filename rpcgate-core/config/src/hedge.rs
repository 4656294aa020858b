//! `[chains.<path>.hedge]`: sending of slow reads to a second node.

use super::fields::{Fields, Table};
use super::units::{MILLI, SECOND};
use std::time::Duration;

/// `[chains.<path>.hedge]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HedgeSettings {
    /// Enables hedging.
    pub enabled: bool,
    /// The percentile of the method's latency from which a call is hedged.
    pub percentile: u32,
    /// The minimum time before a call is hedged.
    pub at_least: Duration,
    /// The maximum share of hedged calls, in percent of all that could be.
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
