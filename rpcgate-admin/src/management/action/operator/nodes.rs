//! Nodes, as each gateway sees them.

use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::store::GatewayReport;
use rpcgate_core::clock::Time;
use std::time::Duration;

/// A gateway tells how it stands every few seconds; one that has not for so long is not at work.
const FRESH: Duration = Duration::from_secs(60);

/// What the gateways at work tell of their nodes.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState) -> Result<Vec<GatewayReport>, ActionError> {
    Ok(app.store.reports(at_work(app.now())).await?)
}

/// After which moment a gateway that is at work has told something.
pub(crate) fn at_work(now: Time) -> Time {
    Time::from_micros(now.micros().saturating_sub(FRESH.as_micros() as u64))
}
