//! An operator's rules for overload.

use crate::plan::Tier;
use std::time::Duration;

/// The conditions of overload, and the weights of tiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadRules {
    /// The minimum of the limit.
    pub least: u32,
    /// The average latency above which the limit falls, in percent of the usual latency.
    pub tolerance: u32,
    /// The latency up to which an answer is never late.
    pub latency: Duration,
    /// The weights of projects' shares by tier, in the order of [`Tier::ALL`].
    pub weights: [u32; Tier::ALL.len()],
}

impl LoadRules {
    /// The largest weight of a tier.
    pub const MOST_WEIGHT: u32 = 1_000;

    /// Sets the minimum of the limit; 0 counts as 1.
    #[must_use]
    pub const fn with_least(mut self, least: u32) -> Self {
        self.least = if least == 0 { 1 } else { least };
        self
    }

    /// Sets the tolerance, in percent of the usual latency.
    #[must_use]
    pub const fn with_tolerance(mut self, percent: u32) -> Self {
        self.tolerance = percent;
        self
    }

    /// Sets the latency up to which an answer is never late.
    #[must_use]
    pub const fn with_latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Sets the weights of the tiers, in the order of [`Tier::ALL`].
    #[must_use]
    pub const fn with_weights(mut self, weights: [u32; Tier::ALL.len()]) -> Self {
        self.weights = weights;
        self
    }

    pub(super) fn factor(&self) -> f64 {
        f64::from(self.tolerance.max(101)) / 100.0
    }
}

impl Default for LoadRules {
    fn default() -> Self {
        LoadRules { least: 4, tolerance: 175, latency: Duration::from_millis(100), weights: [1, 2, 4, 8] }
    }
}
