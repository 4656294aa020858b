//! The metrics of deliveries.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// The metrics of deliveries. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct DeliveryCounts {
    attempts: Family<[(&'static str, &'static str); 1], Counter>,
    in_flight: Gauge,
}

impl DeliveryCounts {
    /// The outcomes. After one that `failed` another attempt follows.
    pub(crate) const OUTCOMES: [&'static str; 3] = ["delivered", "failed", "given_up"];

    /// Counts an attempt with one of these outcomes.
    pub(crate) fn ended(&self, outcome: &'static str) {
        debug_assert!(Self::OUTCOMES.contains(&outcome), "{outcome}");
        self.attempts.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// The number of attempts with this outcome.
    pub fn of(&self, outcome: &'static str) -> u64 {
        self.attempts.get_or_create(&[("outcome", outcome)]).get()
    }

    /// The attempts by outcome.
    pub(crate) fn attempts(&self) -> Family<[(&'static str, &'static str); 1], Counter> {
        self.attempts.clone()
    }

    /// The attempts that are being made.
    pub(crate) fn in_flight(&self) -> Gauge {
        self.in_flight.clone()
    }
}
