//! `[chains.<path>.batching]`: sending of several clients' reads to a node in one request.

use super::fields::{Fields, Table};
use super::units::{MILLI, SECOND};
use std::time::Duration;

/// `[chains.<path>.batching]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BatchingSettings {
    /// Enables batching.
    pub enabled: bool,
    /// The time that a call waits for others.
    pub wait: Duration,
    /// The maximum number of calls per request.
    pub max_calls: u32,
    /// The time limit of such a request, after which its calls are sent alone.
    pub timeout: Duration,
}

impl Default for BatchingSettings {
    fn default() -> Self {
        BatchingSettings { enabled: false, wait: Duration::ZERO, max_calls: 8, timeout: 200 * MILLI }
    }
}

impl Table for BatchingSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("enabled", &mut self.enabled);
        f.duration("wait", &mut self.wait, Duration::ZERO..=SECOND);
        f.number("max_calls", &mut self.max_calls, 2..=100);
        f.duration("timeout", &mut self.timeout, MILLI..=60 * SECOND);
    }
}
