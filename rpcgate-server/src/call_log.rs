//! The log of calls (`telemetry.access_log`): one JSON object per call and line, in a file or on standard output.
//!
//! Worker threads hand lines to another thread, which writes them. If that thread cannot keep up, lines are dropped and
//! counted, so that no call ever waits for the disk.

mod line;
mod writer;

use line::write_lines;
pub(crate) use line::{cache_word, method_word, outcome_word};
use rpcgate_config::AccessLogSettings;
use rpcgate_core::backend::call_observer::{CallObserver, SettledCalls};
use rpcgate_core::backend::usage_sink::Outcome;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use writer::{LogQueue, Output};

#[derive(Debug, Default)]
pub(crate) struct LogCounts {
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct CallLog {
    one_in: u128,
    errors: bool,
    slow: Duration,
    queue: LogQueue,
    pub(crate) counts: Arc<LogCounts>,
}

impl CallLog {
    /// Opens the log of `settings`; `None` if they name no file.
    ///
    /// # Errors
    /// The operating system's, if the file cannot be opened or the writer thread cannot start.
    pub(crate) fn open(settings: &AccessLogSettings) -> io::Result<Option<Self>> {
        let Some(file) = &settings.file else { return Ok(None) };
        let output = if file == Path::new("-") { Output::Standard } else { Output::file(file)? };
        let counts = Arc::<LogCounts>::default();
        let queue = LogQueue::start(output, counts.clone())?;
        let one_in = settings.one_in.max(1).into();
        let errors = settings.errors;
        let slow = settings.slow;
        Ok(Some(CallLog { one_in, errors, slow, queue, counts }))
    }

    /// Reports whether a set is logged. The request's random last bits decide, so all of its calls are logged or none.
    fn wants(&self, settled: &SettledCalls<'_>) -> bool {
        let is_error =
            |outcome: Outcome| matches!(outcome, Outcome::Refused | Outcome::Failed | Outcome::Abandoned);
        settled.facts.request.0.is_multiple_of(self.one_in)
            || settled.facts.latency >= self.slow
            || (self.errors && settled.lines.iter().any(|line| is_error(line.outcome)))
    }
}

impl CallObserver for CallLog {
    fn see(&self, settled: &SettledCalls<'_>) {
        if !self.wants(settled) {
            return;
        }
        let mut lines = Vec::with_capacity(512 * settled.lines.len().min(8));
        write_lines(settled, &mut lines);
        self.queue.push(lines, settled.lines.len() as u64);
    }
}

impl LogCounts {
    pub(crate) fn read(&self) -> [(&'static str, u64); 2] {
        [("written", self.written.load(Relaxed)), ("dropped", self.dropped.load(Relaxed))]
    }
}

#[cfg(test)]
mod tests;
