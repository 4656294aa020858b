//! Nodes as each gateway sees them.

use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::GatewayReport;
use rpcgate_core::clock::Time;
use std::time::Duration;

/// Gateways report every few seconds; one without a report for this long is not running.
const FRESH: Duration = Duration::from_secs(60);

/// The reports of the running gateways on their nodes.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState) -> Result<Vec<GatewayReport>, ActionError> {
    Ok(app.store.reports(at_work(app.now())).await?)
}

/// A running gateway has reported after this time.
pub(crate) fn at_work(now: Time) -> Time {
    Time::from_micros(now.micros().saturating_sub(FRESH.as_micros() as u64))
}
