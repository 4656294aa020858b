//! Counters of failed removals of old rows, by kind of row.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use rpcgate_store::SweepFailed;

/// Counts the parts of sweeps that failed. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct CleanupFailures(Family<[(&'static str, &'static str); 1], Counter>);

impl CleanupFailures {
    /// Counts and logs each part of a sweep that failed.
    pub fn report(&self, failed: &SweepFailed) {
        for failed in &failed.steps {
            self.of(failed.step).inc();
            tracing::error!(step = failed.step, error = %failed.error, "old rows could not be removed");
        }
    }

    /// Returns the counter of a step: the kind of rows that could not be removed.
    pub fn of(&self, step: &'static str) -> Counter {
        self.0.get_or_create_owned(&[("step", step)])
    }

    /// Returns the counters of all steps, as a metric.
    pub fn family(&self) -> Family<[(&'static str, &'static str); 1], Counter> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_store::{FailedStep, StoreError};

    // Shows (Accounts and second factors).
    #[test]
    fn each_kind_of_remaining_rows_is_counted_separately() {
        let failures = CleanupFailures::default();
        let step = |step| FailedStep { step, error: StoreError::NotFound("row") };
        failures.report(&SweepFailed { steps: vec![step("accounts"), step("sessions")] });
        failures.clone().report(&SweepFailed { steps: vec![step("accounts")] });
        assert_eq!(failures.of("accounts").get(), 2);
        assert_eq!(failures.of("sessions").get(), 1);
    }
}
