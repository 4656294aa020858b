//! The log lines of a reload and of a drain.

use super::Failure;

/// Logs the result of a reload. `Ok` holds the configuration tables that differ and need a restart.
pub fn log_reload(done: Result<Vec<&'static str>, Failure>) {
    match done {
        Ok(unchanged) if unchanged.is_empty() => tracing::info!("configuration reloaded"),
        Ok(unchanged) => {
            tracing::warn!(
                tables = %unchanged.join(", "),
                "configuration reloaded; these tables differ and need a restart"
            );
        }
        Err(failure) => {
            for fault in failure.to_string().lines() {
                tracing::error!("configuration not reloaded, the old one stays in force: {fault}");
            }
        }
    }
}

/// Logs the result of a drain: `cut` connections did not end in time.
pub fn log_drain(cut: usize) {
    match cut {
        0 => tracing::info!("drained"),
        cut => tracing::warn!(cut, "drained; connections that were not done in time were cut"),
    }
}
