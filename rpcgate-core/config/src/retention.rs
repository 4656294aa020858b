//! `[retention]`: retention of usage.

use super::fields::{Fields, Table};
use super::units::DAY;
use std::time::Duration;

/// `[retention]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retention {
    /// The retention of single requests.
    pub events: Duration,
    /// The retention of the billing ledger and hourly usage.
    pub ledger: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { events: 90 * DAY, ledger: 400 * DAY }
    }
}

impl Table for Retention {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.duration("events", &mut self.events, DAY..=36_500 * DAY);
        // The quota needs the last 24 hours and GET /usage 92 days.
        f.duration("ledger", &mut self.ledger, 92 * DAY..=36_500 * DAY);
    }
}
