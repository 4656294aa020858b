//! `[telemetry.access_log]`: a line for each call.

use super::fields::{Fields, Table};
use super::units::{HOUR, MILLI, SECOND};
use std::path::PathBuf;
use std::time::Duration;

/// `[telemetry.access_log]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AccessLogSettings {
    /// The file to which lines are added, `-` for standard output; none by default: no call is logged.
    pub file: Option<PathBuf>,
    /// One request of so many is logged.
    pub one_in: u32,
    /// Whether requests with a call that was refused or failed are logged in any case.
    pub errors: bool,
    /// Requests that took at least so long are logged in any case.
    pub slow: Duration,
}

impl Default for AccessLogSettings {
    fn default() -> Self {
        AccessLogSettings { file: None, one_in: 1, errors: true, slow: SECOND }
    }
}

impl Table for AccessLogSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("file", &mut self.file);
        f.number("one_in", &mut self.one_in, 1..=1_000_000);
        f.value("errors", &mut self.errors);
        f.duration("slow", &mut self.slow, MILLI..=HOUR);
    }
}
