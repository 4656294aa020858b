//! The first page of operators: the health of the service.

use super::names::NamesOfAll;
use super::nodes;
use crate::chart::area::area;
use crate::chart::number::{grouped, share};
use crate::chart::plot::Plot;
use crate::chart::stack::Stack;
use crate::context::{OperatorPage, PageResult};
use crate::filters::{self, day_text, minute_text};
use crate::frame::{Frame, PageSection};
use crate::usage_parts::{ErrorStrip, axis_of, by_chain, strips};
use crate::view::ok;
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::usage::Metrics;
use rpcgate_management::action::operator::overview::{ServiceOverview, overview};
use rpcgate_management::action::usage::series::UsageSeries;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::routing::get;
use rpcgate_store::NodeState;
use std::sync::Arc;

/// The maximum number of nodes with problems on the page.
const MAX_UNWELL: usize = 20;

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/operator", get(show))
}

#[derive(Template)]
#[template(path = "operator_overview.html")]
struct ServicePage {
    frame: Frame,
    has_factor: bool,
    /// True if operators need a second factor for changes.
    needs_factor: bool,
    alerts: Vec<ServiceAlert>,
    served: Option<ServedView>,
    gateways: usize,
    nodes: usize,
    unwell: Vec<UnwellNode>,
    all_unwell: usize,
    work: Vec<WaitingRow>,
}

struct ServiceAlert {
    tone: &'static str,
    icon: &'static str,
    text: String,
    label: &'static str,
    path: &'static str,
}

struct ServedView {
    requests: String,
    chart: Plot,
    units: String,
    hits: String,
    errors: String,
    error_share: String,
    strips: Vec<ErrorStrip>,
}

/// A node with a problem, as one gateway sees it.
struct UnwellNode {
    state: NodeState,
    tone: &'static str,
    label: &'static str,
}

struct WaitingRow {
    icon: &'static str,
    path: String,
    name: String,
    tenant: String,
    since: String,
}

impl ServedView {
    fn of(found: &UsageSeries) -> Self {
        let axis = axis_of(found);
        let mut totals = Metrics::default();
        found.totals().iter().for_each(|metrics| totals.add(metrics));
        let stack = Stack::of(by_chain(found, |metrics| metrics.requests), axis.starts.len());
        ServedView {
            requests: grouped(totals.requests),
            chart: area(&stack, &axis, "Requests", "requests", Some("chain"))
                .or_empty("No calls in this time."),
            units: grouped(totals.billable_units),
            hits: share(totals.cache_hits, totals.requests),
            errors: grouped(totals.errors),
            error_share: share(totals.errors, totals.requests),
            strips: strips(found, &axis),
        }
    }
}

impl UnwellNode {
    fn of(state: NodeState) -> Self {
        let (tone, label) = nodes::health_badge(&state);
        UnwellNode { state, tone, label }
    }
}

/// Returns at most three alerts, the most severe first.
fn alerts(found: &ServiceOverview) -> Vec<ServiceAlert> {
    let mut alerts = Vec::new();
    if found.gateways == 0 {
        alerts.push(ServiceAlert {
            tone: "bad",
            icon: "server",
            text:
                "No gateway has reported for a minute: either none is running, or none reaches the database."
                    .into(),
            label: "Nodes",
            path: "operator/nodes",
        });
    }
    if !found.unwell.is_empty() {
        let count = found.unwell.len();
        let text = if count == 1 {
            "A node is unhealthy.".to_owned()
        } else {
            format!("{count} node reports are unhealthy.")
        };
        alerts.push(ServiceAlert {
            tone: "warn",
            icon: "server",
            text,
            label: "Nodes",
            path: "operator/nodes",
        });
    }
    if let Some(oldest) = found.overdue.first() {
        let text =
            format!("{} of {} is overdue since {}.", oldest.number, oldest.customer, day_text(oldest.due_at));
        alerts.push(ServiceAlert {
            tone: "warn",
            icon: "card",
            text,
            label: "Invoices",
            path: "operator/invoices",
        });
    }
    alerts
}

/// Returns the waiting items, the oldest first.
async fn work(app: &AppState, found: &ServiceOverview) -> Result<Vec<WaitingRow>, ActionError> {
    let of_requests = found.limit_requests.iter().map(|one| one.tenant);
    let tenants = of_requests.chain(found.tickets.iter().map(|ticket| ticket.tenant));
    let names = NamesOfAll::read(app, tenants.collect(), Vec::new()).await?;
    let mut rows: Vec<_> = found
        .limit_requests
        .iter()
        .map(|one| {
            let row = WaitingRow {
                icon: "inbox",
                path: format!("operator/limit-requests/{}", one.id),
                name: "Limit request".to_owned(),
                tenant: names.tenant(one.tenant),
                since: minute_text(one.created_at),
            };
            (one.created_at, row)
        })
        .collect();
    rows.extend(found.tickets.iter().map(|ticket| {
        let row = WaitingRow {
            icon: "chat",
            path: format!("operator/tickets/{}", ticket.id),
            name: ticket.subject.clone(),
            tenant: names.tenant(ticket.tenant),
            since: minute_text(ticket.created_at),
        };
        (ticket.created_at, row)
    }));
    rows.sort_by_key(|(at, _)| *at);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

async fn show(State(app): State<Arc<AppState>>, OperatorPage(page): OperatorPage) -> PageResult {
    let found = overview(&app).await?;
    let alerts = alerts(&found);
    let work = work(&app, &found).await?;
    let all_unwell = found.unwell.len();
    Ok(ok(&ServicePage {
        frame: page.frame(PageSection::OperatorOverview),
        has_factor: page.session.has_second_factor,
        needs_factor: app.settings.config.admin.operator_mfa,
        alerts,
        served: found.served.as_ref().map(ServedView::of),
        gateways: found.gateways,
        nodes: found.nodes,
        unwell: found.unwell.into_iter().take(MAX_UNWELL).map(UnwellNode::of).collect(),
        all_unwell,
        work,
    }))
}

#[cfg(test)]
mod tests;
