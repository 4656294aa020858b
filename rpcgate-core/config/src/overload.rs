//! `[gateway.overload]`: overload control of chains.

use super::fields::{Fields, Table};
use super::units::{MILLI, SECOND};
use rpcgate_core::overload::LoadRules;
use rpcgate_core::plan::Tier;
use std::time::Duration;

/// `[gateway.overload]`.
///
/// ```
/// use rpcgate_config::{Config, Input};
///
/// let file = "[gateway.overload]\nlatency = \"50ms\"\n[gateway.overload.weights]\npremium = 6\n";
/// let config = Config::read(&Input { file: Some(("rpcgate.toml", file)), ..Input::default() }).unwrap();
/// let rules = config.gateway.overload.rules().unwrap();
/// assert_eq!((rules.latency.as_millis(), rules.weights), (50, [1, 2, 6, 8]));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OverloadSettings {
    /// Enables overload control.
    pub enabled: bool,
    /// The number of concurrent calls or batches of a chain that are always admitted.
    pub least: u32,
    /// The latency that an answer may have, in percent of the usual latency.
    pub tolerance: u32,
    /// The latency up to which an answer is never late.
    pub latency: Duration,
    /// `[gateway.overload.weights]`.
    pub weights: TierWeights,
}

/// `[gateway.overload.weights]`: the relative shares of projects, in the order of [`Tier::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierWeights(pub [u32; Tier::ALL.len()]);

impl Default for OverloadSettings {
    fn default() -> Self {
        let LoadRules { least, tolerance, latency, weights } = LoadRules::default();
        OverloadSettings { enabled: true, least, tolerance, latency, weights: TierWeights(weights) }
    }
}

impl OverloadSettings {
    /// Returns the rules, if overload control is enabled.
    pub fn rules(&self) -> Option<LoadRules> {
        let OverloadSettings { enabled, least, tolerance, latency, weights: TierWeights(weights) } = *self;
        enabled.then_some(LoadRules { least, tolerance, latency, weights })
    }
}

impl Table for OverloadSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("enabled", &mut self.enabled);
        f.duration("latency", &mut self.latency, MILLI..=60 * SECOND);
        f.number("tolerance", &mut self.tolerance, 110..=700);
        f.number("least", &mut self.least, 1..=1_000_000);
        f.table("weights", &mut self.weights);
    }
}

impl Table for TierWeights {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        for (tier, weight) in Tier::ALL.into_iter().zip(&mut self.0) {
            f.number(tier.name(), weight, 1..=LoadRules::MOST_WEIGHT);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Input};

    fn read(text: &str) -> Result<Config, String> {
        let text = format!("[gateway.overload]\n{text}\n");
        Config::read(&Input { file: Some(("f", &text)), ..Input::default() }).map_err(|e| e.to_string())
    }

    #[test]
    fn it_is_on_unless_it_is_turned_off() {
        assert!(read("").unwrap().gateway.overload.rules().is_some());
        assert_eq!(read("enabled = false").unwrap().gateway.overload.rules(), None);
    }

    #[test]
    fn its_settings_have_bounds() {
        for (text, bounds) in [
            ("tolerance = 100", "between 110 and 700"),
            ("latency = \"2m\"", "between 1ms and 1m"),
            ("least = 0", "between 1 and 1000000"),
            ("weights = { free = 0 }", "between 1 and 1000"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(bounds), "{text}: {error}");
        }
    }
}
