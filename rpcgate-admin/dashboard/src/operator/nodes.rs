//! The nodes as the running gateways see them, and their drains.

use crate::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use crate::context::{OperatorPage, PageContext, PageResult};
use crate::filters::{self, grouped};
use crate::form::QueryFields;
use crate::frame::{Frame, PageSection};
use crate::outcome::Done;
use crate::parts::TableHead;
use crate::view::ok;
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::caller::RequestId;
use rpcgate_core::chain::NodePrice;
use rpcgate_management::action::operator::chains::{self, OperatedChain};
use rpcgate_management::action::operator::nodes::{self, NodeUse};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::routing::get;
use rpcgate_store::{ChainUse, GatewayReport, NodeState};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/operator/nodes", get(list)).route("/operator/nodes/drain", confirmed::<NodeDrain>())
}

/// The maximum number of nodes on the page.
const MAX_SHOWN: usize = 500;

#[derive(Template)]
#[template(path = "operator_nodes.html")]
struct NodesPage {
    frame: Frame,
    heads: Vec<TableHead>,
    groups: Vec<NodeGroup>,
    problems: Vec<NodeProblem>,
    only_problems: bool,
    gateways: usize,
    nodes: usize,
    healthy: usize,
    served: usize,
    chains: usize,
    calls: String,
    /// Failed attempts on nodes.
    faults: u64,
    left_out: usize,
}

struct NodeGroup {
    chain: &'static str,
    summary: String,
    nodes: Vec<NodeRow>,
}

/// A node as one gateway sees it.
struct NodeRow {
    state: NodeState,
    tone: &'static str,
    label: &'static str,
    /// The beginning of the gateway's identifier.
    gateway: String,
    latency: String,
    /// The calls of this month with their limit, and the other limits of the node.
    month: String,
    allowance: String,
    /// The label of the link to the drain, and its address below the root.
    drain: &'static str,
    link: String,
}

struct NodeProblem {
    tone: &'static str,
    chain: &'static str,
    node: String,
    text: String,
}

/// Returns the tone and the word for the state of a node.
pub(super) fn health_badge(state: &NodeState) -> (&'static str, &'static str) {
    match state.standing.as_str() {
        "well" => ("ok", "Healthy"),
        "doubtful" => ("warn", "Failing lately"),
        "syncing" => ("warn", "Syncing"),
        "behind" => ("warn", "Behind"),
        "silent" => ("bad", "Not answering"),
        "ejected" => ("bad", "Set aside"),
        "unreachable" => ("bad", "Not reached"),
        "wrong_network" => ("bad", "Wrong network"),
        "drained" => ("", "Drained"),
        "spent" => ("warn", "Budget used"),
        _ => ("", "Unknown"),
    }
}

/// Formats the calls of this month, with the node's monthly limit.
fn month(state: &NodeState) -> String {
    let Some(calls) = state.month_calls else { return "–".to_owned() };
    let calls = grouped(calls.into());
    match state.monthly_calls {
        Some(budget) => format!("{calls} of {}", grouped(budget.into())),
        None => calls,
    }
}

/// Formats the node's rate limit and the cost of this month's calls.
fn allowance(state: &NodeState) -> String {
    let rate = state.rate_limit.map(|rate| format!("{} a second", grouped(rate.into())));
    let price = state.price_per_million.map(NodePrice);
    let cost =
        price.zip(state.month_calls).map(|(price, calls)| format!("cost {:.2}", price.of_calls(calls)));
    [rate, cost].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

impl NodeRow {
    fn of(state: NodeState, gateway: u128, drained: &BTreeSet<(String, String)>) -> Self {
        let (tone, label) = health_badge(&state);
        let latency = match state.latency_micros {
            0 => "–".to_owned(),
            1..1_000 => "under 1 ms".to_owned(),
            micros => format!("{} ms", grouped((micros / 1_000).into())),
        };
        let gateway = RequestId(gateway).to_string().chars().take(8).collect();
        let is_drained = drained.contains(&(state.chain.clone(), state.node.clone()));
        let query = [("chain", &state.chain), ("node", &state.node)];
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        let drain = if is_drained { "Resume" } else { "Drain" };
        let link = format!("operator/nodes/drain?{query}");
        let month = month(&state);
        let allowance = allowance(&state);
        NodeRow { tone, label, latency, month, allowance, gateway, drain, link, state }
    }

    fn is_healthy(&self) -> bool {
        self.tone == "ok"
    }

    /// Reports whether the node needs attention. A drained node does not: it is out of use on purpose.
    fn is_problem(&self) -> bool {
        !self.is_healthy() && self.state.standing != nodes::DRAINED
    }
}

/// Makes the line of a chain above its nodes.
fn summary(chain: &OperatedChain, nodes: &[NodeRow]) -> String {
    let head = nodes.iter().filter_map(|node| node.state.height).max();
    let head =
        head.map_or_else(|| "no height known".to_owned(), |head| format!("height {}", grouped(head.into())));
    let off = if chain.entry.enabled { "" } else { ", switched off" };
    let Some(ChainUse { calls, .. }) = chain.called else { return format!("{head}{off}") };
    format!("{head}, {} calls in 24 hours{off}", grouped(calls.into()))
}

fn problem(chain: &'static str, row: &NodeRow, is_last: bool) -> NodeProblem {
    let NodeState { node, reason, .. } = &row.state;
    let alone = if is_last { format!(" No other node serves {chain}.") } else { String::new() };
    let tone = if is_last || row.tone == "bad" { "bad" } else { "warn" };
    NodeProblem { tone, chain, node: node.clone(), text: format!("{}: {reason}.{alone}", row.label) }
}

async fn list(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let reports: Vec<GatewayReport> = nodes::list(&app).await?;
    let chains = chains::list(&app).await?;
    let drained = nodes::drained(&app).await?;
    let gateways = reports.len();
    let rows =
        reports.into_iter().flat_map(|report| report.nodes.into_iter().map(move |state| (state, report.id)));
    let mut rows: Vec<_> = rows.map(|(state, gateway)| NodeRow::of(state, gateway, &drained)).collect();
    rows.sort_by(|one, other| one.state.node.cmp(&other.state.node));
    let nodes = rows.len();
    let left_out = rows.len().saturating_sub(MAX_SHOWN);
    let healthy = rows.iter().filter(|row| row.is_healthy()).count();
    let faults = rows.iter().map(|row| row.state.faults).fold(0, u64::saturating_add);
    // A complete long list would be unreadable, so nodes with problems come first.
    rows.sort_by_key(NodeRow::is_healthy);
    rows.truncate(MAX_SHOWN);
    let only_problems = fields.one("show") == "problems";
    let mut groups = Vec::new();
    let mut problems = Vec::new();
    for chain in &chains {
        let name = chain.entry.facts.name.as_str();
        let (its, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.state.chain == name);
        rows = others;
        let is_served = its.iter().any(NodeRow::is_healthy);
        let wrong = its.iter().filter(|row| row.is_problem());
        problems.extend(wrong.map(|row| problem(name, row, !is_served)));
        let summary = summary(chain, &its);
        let nodes: Vec<_> = its.into_iter().filter(|row| !only_problems || row.is_problem()).collect();
        if !nodes.is_empty() {
            groups.push(NodeGroup { chain: name, summary, nodes });
        }
    }
    let calls = chains.iter().map(|chain| chain.called.map(|called| called.calls)).sum::<Option<u64>>();
    Ok(ok(&NodesPage {
        frame: page.frame(PageSection::Nodes),
        heads: vec![
            TableHead::new("Node"),
            TableHead::new("State"),
            TableHead::num("Height"),
            TableHead::num("Lag"),
            TableHead::num("Latency").class("num p2"),
            TableHead::num("In flight").class("num p2"),
            TableHead::num("Faults").class("num p2"),
            TableHead::num("This month").class("num p2"),
            TableHead::num("Priority").class("num p3"),
            TableHead::new("Gateway").class("p3"),
            TableHead::hidden("Drain"),
        ],
        groups,
        problems,
        only_problems,
        gateways,
        nodes,
        healthy,
        served: chains.iter().filter(|chain| chain.entry.served).count(),
        chains: chains.len(),
        calls: calls.map_or_else(|| "–".to_owned(), |calls| grouped(calls.into())),
        faults,
        left_out,
    }))
}

struct NodeDrain {
    found: NodeUse,
    /// True if the form is to resume the node.
    resumes: bool,
}

impl Confirmed for NodeDrain {
    type Reader = OperatorPage;
    type Path = ();

    async fn load(request: ConfirmRequest<'_>, (): ()) -> Result<Self, ActionError> {
        let ConfirmRequest { app, fields, .. } = request;
        let found = nodes::get(app, fields.one("chain"), fields.one("node")).await?;
        Ok(NodeDrain { found, resumes: fields.one("to") == "resumed" })
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let NodeUse { chain, node, is_drained, is_last, .. } = &self.found;
        let (question, act, keep, to) = if *is_drained {
            (format!("Resume {node}?"), "Resume the node", "Keep it drained", "resumed")
        } else {
            (format!("Drain {node}?"), "Drain the node", "Keep using it", "drained")
        };
        let question = ConfirmQuestion::new(page.frame(PageSection::Nodes), question, act, "operator/nodes")
            .crumb("Nodes", "operator/nodes")
            .target("operator/nodes/drain")
            .keep(keep)
            .hidden("to", to)
            .hidden("chain", *chain)
            .hidden("node", node);
        if *is_drained {
            return question
                .consequence(format!("Within a second, every gateway sends it calls on /{chain} again."));
        }
        let warning = format!("A gateway has no other node of {chain} that it can use: its calls will fail.");
        question
            .consequence(format!(
                "Within a second, no gateway sends it a new call on /{chain} or opens a new stream there."
            ))
            .consequence("Calls in flight end at the node. Its WebSocket streams are closed over the next minute, and their clients are told to reconnect.")
            .consequence("It stays drained until you resume it, even after restarts.")
            .warning(is_last.then_some(warning))
            .typed_if(*is_last && !self.resumes, *chain)
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        // The form carries the intended state: another operator may have drained the node meanwhile.
        let drains = fields.one("to") == "drained";
        let NodeUse { chain, node, is_last, .. } = &self.found;
        nodes::drain(app, &page.actor, chain, node, drains, *is_last).await?;
        Ok(page.done("operator/nodes", if drains { Done::NodeDrained } else { Done::NodeResumed }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_layers::nodes::NodeHealth;

    #[test]
    fn every_health_that_a_gateway_reports_has_a_word() {
        for name in NodeHealth::ALL.map(NodeHealth::name) {
            let state = NodeState { standing: name.into(), ..NodeState::default() };
            assert_ne!(health_badge(&state).1, "Unknown", "{name}");
        }
    }
}
