//! The data of the usage explorer: the view of `GET /usage`, and the same usage over time.

use super::series::{UsageSeries, series};
use super::{Usage, usage};
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::TenantId;
use rpcgate_core::usage::{Group, Params, UsageAsk};

/// A view, and its chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Explored {
    /// The view.
    pub usage: Usage,
    /// The same usage over time; `None` if there is too much to split.
    pub series: Option<UsageSeries>,
    /// True if the tenant has changed its plan since the begin of the window, so that today's price does not apply to
    /// all of it.
    pub has_moved: bool,
}

/// Returns the usage of `tenant` that `params` request, and its course over time by `dimension`.
///
/// # Errors
/// Those of [`usage`].
pub async fn explore(
    app: &AppState,
    tenant: TenantId,
    params: &Params<'_>,
    dimension: Group,
) -> Result<Explored, ActionError> {
    let usage = usage(app, tenant, params).await?;
    let ask = UsageAsk::parse(tenant, params, app.now())?;
    let series = match series(app, &ask, Some(dimension)).await {
        Ok(found) => Some(found),
        // The view was answered; only the chart asks for too much.
        Err(ActionError::TooWide(_)) => None,
        Err(error) => return Err(error),
    };
    let has_moved = !app.store.tier_changes(tenant, usage.view.from).await?.is_empty();
    Ok(Explored { usage, series, has_moved })
}
