//! The access log: one line for each request with a refused or failed call, at level debug, and nothing for the rest.

use rpcgate_core::seam::ledger::{Ledger, Outcome, Record, Ticket};
use std::sync::Arc;
use tracing::Level;

/// A ledger that also tells the log what went wrong. Keys are told by their identifiers; the keys themselves do not
/// come this far.
#[derive(Debug)]
pub struct AccessLog {
    inner: Arc<dyn Ledger>,
}

impl AccessLog {
    /// Tells the log of what is appended to `inner`.
    pub fn new(inner: Arc<dyn Ledger>) -> Self {
        AccessLog { inner }
    }

    fn tell(record: &Record<'_>) {
        if tracing::enabled!(Level::DEBUG)
            && let Some(line) =
                record.lines.iter().find(|line| matches!(line.outcome, Outcome::Refused | Outcome::Failed))
        {
            tracing::debug!(
                request = %record.request,
                key = %record.key,
                project = %record.project,
                chain = %record.chain,
                method = %String::from_utf8_lossy(line.method),
                status = line.status,
                calls = record.lines.len(),
                "{}",
                if line.outcome == Outcome::Failed { "failed" } else { "refused" }
            );
        }
    }
}

impl Ledger for AccessLog {
    fn append(&self, record: &Record<'_>) {
        Self::tell(record);
        self.inner.append(record);
    }

    fn hold(&self, record: &Record<'_>) -> Option<Ticket> {
        Self::tell(record);
        self.inner.hold(record)
    }

    fn write(&self, ticket: Ticket) {
        self.inner.write(ticket);
    }

    fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use rpcgate_core::seam::suite::record;

    /// Holds all records, and notes what it is told.
    #[derive(Debug, Default)]
    struct Patient(Mutex<Vec<&'static str>>);

    impl Ledger for Patient {
        fn append(&self, _: &Record<'_>) {
            self.0.lock().push("append");
        }

        fn hold(&self, _: &Record<'_>) -> Option<Ticket> {
            self.0.lock().push("hold");
            Some(Ticket { place: 3, number: 7 })
        }

        fn write(&self, ticket: Ticket) {
            assert_eq!(ticket, Ticket { place: 3, number: 7 });
            self.0.lock().push("write");
        }

        fn is_ready(&self) -> bool {
            false
        }
    }

    #[test]
    fn whatever_a_ledger_is_told_reaches_the_one_behind_the_log() {
        let patient = Arc::<Patient>::default();
        let log = AccessLog::new(patient.clone());
        log.append(&record(1, &[]));
        let ticket = log.hold(&record(2, &[])).unwrap();
        log.write(ticket);
        assert!(!log.is_ready());
        assert_eq!(*patient.0.lock(), ["append", "hold", "write"]);
    }
}
