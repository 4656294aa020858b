//! The captured log of a thread, for tests.
#![expect(clippy::unwrap_used, reason = "a log that cannot be captured fails its test")]

use crate::log::subscriber;
use parking_lot::Mutex;
use rpcgate_config::LogFormat;
use std::io;
use std::sync::{Arc, Once};
use tracing::span;
use tracing::subscriber::{DefaultGuard, Interest};
use tracing::{Event, Metadata, Subscriber};

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
        static ASKS_EVERY_TIME: Once = Once::new();
        ASKS_EVERY_TIME.call_once(|| drop(tracing::subscriber::set_global_default(NoLog)));
        let lines = self.clone();
        tracing::subscriber::set_default(subscriber(filter, format, move || lines.clone()).unwrap())
    }
}

/// Discards everything, but does not let a statement decide once that it is disabled: one that runs first on another
/// thread while a capture begins would otherwise stay silent in all captures.
struct NoLog;

impl Subscriber for NoLog {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
