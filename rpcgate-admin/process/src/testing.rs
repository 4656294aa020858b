//! The captured log of a thread, for tests.
#![expect(clippy::unwrap_used, reason = "a log that cannot be captured fails its test")]

use crate::log::subscriber;
use parking_lot::Mutex;
use rpcgate_config::LogFormat;
use std::io;
use std::sync::Arc;
use tracing::subscriber::DefaultGuard;

/// The lines that are logged on this thread while a guard of [`CapturedLog::capture`] lives.
#[derive(Clone, Debug, Default)]
pub struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl CapturedLog {
    /// Returns the lines so far.
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }

    /// Captures the events that `filter` lets through until the guard is dropped.
    pub fn capture(&self, filter: &str, format: LogFormat) -> DefaultGuard {
        let lines = self.clone();
        tracing::subscriber::set_default(subscriber(filter, format, move || lines.clone()).unwrap())
    }
}
