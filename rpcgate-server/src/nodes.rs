//! The status of nodes for the management side.

use rpcgate_core::chain::Chain;
use rpcgate_layers::nodes::{NodeHealth, NodeView, Pool};
use rpcgate_store::NodeState;
use std::time::Duration;

/// Returns the status of the nodes of `pool`, compared with the head of `chain`.
pub(crate) fn states(pool: &Pool, chain: Option<&Chain>) -> Vec<NodeState> {
    let head = chain.and_then(|chain| chain.head().height());
    let state = |view: NodeView<'_>| NodeState {
        chain: pool.chain().as_str().to_owned(),
        node: view.name.to_string(),
        priority: view.priority,
        standing: view.health.name().to_owned(),
        reason: reason(view.health, view.reason.as_deref(), pool.max_lag()),
        height: view.height,
        lag: head.zip(view.height).map(|(head, height)| head.saturating_sub(height)),
        latency_micros: view.latency.as_micros() as u64,
        in_flight: view.in_flight as u64,
        faults: view.faults,
        rate_limit: view.allowance.rate.map(|rate| rate.per_second),
        monthly_calls: view.allowance.monthly_calls,
        month_calls: (!view.allowance.is_none()).then_some(view.spending.month_calls),
        price_per_million: view.allowance.price.map(|price| price.0),
        over_rate: view.spending.over_rate,
        over_budget: view.spending.over_budget,
    };
    pool.nodes().map(state).collect()
}

/// Explains a node's health to people. `why` is the evidence from the node or the network.
fn reason(health: NodeHealth, why: Option<&str>, max_lag: u64) -> String {
    let secs = |left: Duration| left.as_secs_f64().ceil();
    let because = |text: &str| why.map_or_else(|| text.to_owned(), |why| format!("{text}: {why}"));
    match health {
        NodeHealth::Well => "answers".into(),
        NodeHealth::Doubtful { by } => format!(
            "most of its last tries by {} failed: it gets single calls until they are answered",
            by.name()
        ),
        NodeHealth::Syncing => "says that it has not caught up, or has no block yet".into(),
        NodeHealth::Behind { blocks } => format!("{blocks} blocks behind; {max_lag} are allowed"),
        NodeHealth::Silent => because("did not answer its last probes"),
        NodeHealth::Ejected { left } => {
            let text = because("its last answers were unusable, or it asked for a pause");
            format!("{text}; asked again in {} s", secs(left))
        }
        NodeHealth::Unreachable { left } => {
            format!("{}; tried again in {} s", because("no connection"), secs(left))
        }
        NodeHealth::WrongNetwork => because("it gets no calls"),
        NodeHealth::Spent => "has reached its monthly limit: used again next month".into(),
        NodeHealth::Drained => "drained by an operator: it gets no new calls and no new streams".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::tally::Transport;

    // Shows (Nodes and cache).
    #[test]
    fn the_reason_of_an_unusable_node_names_its_last_failure() {
        let left = Duration::from_millis(1_500);
        let shown = |health, why| reason(health, why, 3);
        let unreachable = shown(NodeHealth::Unreachable { left }, Some("connection refused"));
        assert_eq!(unreachable, "no connection: connection refused; tried again in 2 s");
        assert_eq!(
            shown(NodeHealth::Silent, Some("HTTP status 502")),
            "did not answer its last probes: HTTP status 502"
        );
        assert_eq!(shown(NodeHealth::Silent, None), "did not answer its last probes");
        let doubtful = shown(NodeHealth::Doubtful { by: Transport::Grpc }, None);
        assert_eq!(
            doubtful,
            "most of its last tries by grpc failed: it gets single calls until they are answered"
        );
        let wrong = shown(NodeHealth::WrongNetwork, Some("it belongs to network 1, and 56 is expected"));
        assert_eq!(wrong, "it gets no calls: it belongs to network 1, and 56 is expected");
    }
}
