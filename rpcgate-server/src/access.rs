//! The access log: one debug line per request that has a refused or failed call.

use rpcgate_core::backend::usage_observer::UsageObserver;
use rpcgate_core::backend::usage_sink::{Outcome, Record};
use tracing::Level;

/// Logs failed and refused calls with the key's identifier. This observer never sees the key itself.
#[derive(Debug)]
pub struct AccessLog;

impl UsageObserver for AccessLog {
    fn see(&self, record: &Record<'_>) {
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
