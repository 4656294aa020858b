//! For tests: captures the log of a thread.

use parking_lot::Mutex;
use rpcgate_admin::process::log::subscriber;
use rpcgate_config::LogFormat;
use std::io;
use std::sync::Arc;

/// The lines that are logged on this thread while a guard of [`CapturedLog::capture`] lives.
#[derive(Clone, Default)]
pub(crate) struct CapturedLog(Arc<Mutex<Vec<u8>>>);

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
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }

    pub(crate) fn capture(&self, filter: &str, format: LogFormat) -> tracing::subscriber::DefaultGuard {
        let lines = self.clone();
        tracing::subscriber::set_default(subscriber(filter, format, move || lines.clone()).unwrap())
    }
}
