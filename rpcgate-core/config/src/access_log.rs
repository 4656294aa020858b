//! `[telemetry.access_log]`: one log line per call.

use super::fields::{Fields, Table};
use super::units::{HOUR, MILLI, SECOND};
use std::path::PathBuf;
use std::time::Duration;

/// `[telemetry.access_log]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AccessLogSettings {
    /// The log file, `-` for standard output. By default none, and no call is logged.
    pub file: Option<PathBuf>,
    /// The sampling: one request in `one_in` is logged.
    pub one_in: u32,
    /// Always logs requests with a refused or failed call.
    pub errors: bool,
    /// Always logs requests that took at least this long.
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
