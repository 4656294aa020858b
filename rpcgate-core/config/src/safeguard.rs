//! `[safeguard]`: cool-downs of keys that keep calling although they are refused.

use super::fields::{Fields, Table};
use super::units::{DAY, SECOND};
use rpcgate_core::safeguard::SafeguardRule;
use std::time::Duration;

/// `[safeguard]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SafeguardSettings {
    /// Enables the safeguard.
    pub enabled: bool,
    /// The number of requests refused with 429 that makes a UTC minute of a key stormy.
    pub refusals: u64,
    /// The number of consecutive stormy minutes after which the limits of a key are scaled down.
    pub minutes: u64,
    /// The percentage of the limits that remains.
    pub percent: u64,
    /// The time for which the limits stay scaled down.
    pub cooldown: Duration,
}

impl Default for SafeguardSettings {
    fn default() -> Self {
        let SafeguardRule { refusals, minutes, percent, cooldown } = SafeguardRule::default();
        SafeguardSettings { enabled: false, refusals, minutes, percent, cooldown }
    }
}

impl SafeguardSettings {
    /// Returns the rule of cool-downs, if the safeguard is enabled.
    pub fn rule(&self) -> Option<SafeguardRule> {
        let SafeguardSettings { enabled, refusals, minutes, percent, cooldown } = *self;
        enabled.then_some(SafeguardRule { refusals, minutes, percent, cooldown })
    }
}

impl Table for SafeguardSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("enabled", &mut self.enabled);
        f.number("refusals", &mut self.refusals, 1..=1_000_000_000);
        f.number("minutes", &mut self.minutes, 1..=1_440);
        f.number("percent", &mut self.percent, 1..=99);
        f.duration("cooldown", &mut self.cooldown, SECOND..=30 * DAY);
    }
}
