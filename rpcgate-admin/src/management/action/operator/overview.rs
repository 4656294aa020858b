//! Whether all is well: what the gateways serve, the nodes with problems, and the work that waits.

use super::{invoices, limit_requests, nodes, tickets};
use crate::management::action::usage::series::UsageSeries;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::{Cell, Group, Metrics};
use rpcgate_store::{Invoice, LimitRequest, NodeState, StoreError, SupportTicket};
use std::collections::BTreeMap;

/// The hours that are shown: the current one and those before it.
const SHOWN_HOURS: u64 = 24;

/// Things of each kind that wait for somebody, at most.
pub const MAX_WAITING_SHOWN: u64 = 5;

const SECONDS: u64 = 3_600;

/// What an operator looks at first.
#[derive(Clone, PartialEq, Debug)]
pub struct ServiceOverview {
    /// What all tenants called in the last 24 hours, by hour and chain, unless that cannot be read at the moment.
    pub served: Option<UsageSeries>,
    /// The running gateways.
    pub gateways: usize,
    /// How the gateways see the nodes that are not drained: the number of views.
    pub nodes: usize,
    /// Those views in which a node is not well.
    pub unwell: Vec<NodeState>,
    /// The limit requests that wait for a decision, the oldest first.
    pub limit_requests: Vec<LimitRequest>,
    /// The tickets that wait for an answer, the oldest first.
    pub tickets: Vec<SupportTicket>,
    /// The invoices that are overdue, the oldest first.
    pub overdue: Vec<Invoice>,
}

/// The state of everything.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn overview(app: &AppState) -> Result<ServiceOverview, ActionError> {
    let reports = nodes::list(app).await?;
    let (gateways, views) = (reports.len(), reports.into_iter().flat_map(|report| report.nodes));
    // Somebody has drained a node on purpose.
    let views = views.filter(|state| state.standing != nodes::DRAINED);
    let (well, unwell): (Vec<_>, Vec<_>) = views.partition(|state| state.standing == nodes::WELL);
    Ok(ServiceOverview {
        served: served(app).await?,
        gateways,
        nodes: well.len() + unwell.len(),
        unwell,
        limit_requests: limit_requests::waiting(app, None, MAX_WAITING_SHOWN).await?,
        tickets: tickets::waiting(app, None, MAX_WAITING_SHOWN).await?,
        overdue: invoices::overdue(app, None, MAX_WAITING_SHOWN).await?,
    })
}

async fn served(app: &AppState) -> Result<Option<UsageSeries>, ActionError> {
    let end = app.now().hour().saturating_add(1);
    let hours = end.saturating_sub(SHOWN_HOURS)..end;
    let found = match app.usage.served_hours(hours.clone()).await {
        Ok(found) => found,
        // Nodes and waiting work matter most when much else is busy.
        Err(StoreError::Busy | StoreError::Unavailable(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let starts: Vec<_> = hours.clone().map(|hour| Time::from_secs(hour.saturating_mul(SECONDS))).collect();
    let mut parts: BTreeMap<Option<Cell>, Vec<Metrics>> = BTreeMap::new();
    for ((hour, chain), metrics) in found {
        let part =
            parts.entry(Some(Cell::Chain(chain))).or_insert_with(|| vec![Metrics::default(); starts.len()]);
        let place = usize::try_from(hour.saturating_sub(hours.start)).unwrap_or(usize::MAX);
        if let Some(sum) = part.get_mut(place) {
            sum.add(&metrics);
        }
    }
    Ok(Some(UsageSeries { step: Group::Hour, starts, is_running: true, parts, is_merged: false }))
}
