//! The health of the service: the served calls, the nodes with problems, and the waiting work.

use super::{invoices, limit_requests, nodes, tickets};
use crate::action::usage::series::UsageSeries;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::{Cell, Group, Metrics};
use rpcgate_store::{Invoice, LimitRequest, NodeState, StoreError, SupportTicket};
use std::collections::BTreeMap;

/// The number of hours shown: the current one and those before it.
const SHOWN_HOURS: u64 = 24;

/// The maximum number of waiting items of each kind.
pub const MAX_WAITING_SHOWN: u64 = 5;

const SECONDS: u64 = 3_600;

/// The first page of an operator.
#[derive(Clone, PartialEq, Debug)]
pub struct ServiceOverview {
    /// The calls of all tenants in the last 24 hours, by hour and chain; `None` while usage cannot be read.
    pub served: Option<UsageSeries>,
    /// The number of running gateways.
    pub gateways: usize,
    /// The number of nodes that are not drained, counted once for each gateway.
    pub nodes: usize,
    /// The states in which a gateway sees a problem of a node.
    pub unwell: Vec<NodeState>,
    /// The limit requests that wait for a decision, the oldest first.
    pub limit_requests: Vec<LimitRequest>,
    /// The tickets that wait for an answer, the oldest first.
    pub tickets: Vec<SupportTicket>,
    /// The overdue invoices, the oldest first.
    pub overdue: Vec<Invoice>,
}

/// Returns the state of the service.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn overview(app: &AppState) -> Result<ServiceOverview, ActionError> {
    let reports = nodes::list(app).await?;
    let gateways = reports.len();
    let views = reports.into_iter().flat_map(|report| report.nodes);
    // An operator has drained the node on purpose.
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
        // Nodes and waiting work matter most under high load.
        Err(StoreError::Busy | StoreError::Unavailable(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let starts: Vec<_> = hours.clone().map(|hour| Time::from_secs(hour.saturating_mul(SECONDS))).collect();
    let mut parts: BTreeMap<Option<Cell>, Vec<Metrics>> = BTreeMap::new();
    for ((hour, chain), metrics) in found {
        let part =
            parts.entry(Some(Cell::Chain(chain))).or_insert_with(|| vec![Metrics::default(); starts.len()]);
        let index = usize::try_from(hour.saturating_sub(hours.start)).unwrap_or(usize::MAX);
        if let Some(sum) = part.get_mut(index) {
            sum.add(&metrics);
        }
    }
    Ok(Some(UsageSeries { step: Group::Hour, starts, is_running: true, parts, is_merged: false }))
}
