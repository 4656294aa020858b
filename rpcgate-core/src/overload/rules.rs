//! What an operator may say about overload.

use crate::plan::Tier;
use std::time::Duration;

/// When a chain is overloaded, and who is turned away first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadRules {
    /// The limit never falls below this.
    pub least: u32,
    /// The percentage of its usual latency that an answer may take. Above it, on the mean, the limit falls.
    pub tolerance: u32,
    /// Answers that take no longer than this are never too late.
    pub latency: Duration,
    /// The weights of the shares of projects, by their plan's tier, in the order of [`Tier::ALL`].
    pub weights: [u32; Tier::ALL.len()],
}

impl LoadRules {
    /// The largest weight of a tier.
    pub const MOST_WEIGHT: u32 = 1_000;

    /// The same with another least limit; 0 counts as 1.
    #[must_use]
    pub const fn with_least(mut self, least: u32) -> Self {
        self.least = if least == 0 { 1 } else { least };
        self
    }

    /// The same with another tolerance, in percent of the usual latency.
    #[must_use]
    pub const fn with_tolerance(mut self, percent: u32) -> Self {
        self.tolerance = percent;
        self
    }

    /// The same with another latency that is never too late.
    #[must_use]
    pub const fn with_latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// The same with other weights of the tiers, in the order of [`Tier::ALL`].
    #[must_use]
    pub const fn with_weights(mut self, weights: [u32; Tier::ALL.len()]) -> Self {
        self.weights = weights;
        self
    }

    /// The tolerance as a factor.
    pub(super) fn factor(&self) -> f64 {
        f64::from(self.tolerance.max(101)) / 100.0
    }
}

impl Default for LoadRules {
    fn default() -> Self {
        LoadRules { least: 4, tolerance: 175, latency: Duration::from_millis(100), weights: [1, 2, 4, 8] }
    }
}
