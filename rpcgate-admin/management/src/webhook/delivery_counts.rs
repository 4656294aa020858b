//! Metrics of deliveries.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// Metrics of deliveries. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct DeliveryCounts {
    attempts: Family<[(&'static str, &'static str); 1], Counter>,
    in_flight: Gauge,
}

impl DeliveryCounts {
    /// All outcomes. Another attempt follows after `failed`.
    pub const OUTCOMES: [&'static str; 3] = ["delivered", "failed", "given_up"];

    /// Counts an attempt with this outcome.
    pub fn ended(&self, outcome: &'static str) {
        debug_assert!(Self::OUTCOMES.contains(&outcome), "{outcome}");
        self.attempts.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Returns the number of attempts with this outcome.
    pub fn of(&self, outcome: &'static str) -> u64 {
        self.attempts.get_or_create(&[("outcome", outcome)]).get()
    }

    /// Returns the counters of all outcomes, as a metric.
    pub fn attempts(&self) -> Family<[(&'static str, &'static str); 1], Counter> {
        self.attempts.clone()
    }

    /// Returns the number of running attempts, as a metric.
    pub fn in_flight(&self) -> Gauge {
        self.in_flight.clone()
    }
}
