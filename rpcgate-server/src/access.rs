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
