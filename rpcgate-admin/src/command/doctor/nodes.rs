//! Checks the nodes of the chains: their availability, network, synchronisation and lag.

use super::clocks;
use super::examination::Examination;
use super::finding::{CheckGroup, Finding};
use super::node_look::{NetworkShown, NodeLook};
use futures_util::future::join_all;
use rpcgate_config::{ChainSettings, NodeSettings};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::Facts;
use rpcgate_layers::nodes::{NodeDrains, NodeSpendings};
use rpcgate_process::node_pool;
use std::sync::Arc;

const CHECK: CheckGroup = CheckGroup::Nodes;

/// Checks all chains concurrently, because an unresponsive node takes the whole timeout.
pub(super) async fn check(examination: &Examination) -> Vec<Finding> {
    let adapters: Vec<_> = rpcgate_chains::catalog().collect();
    let chains = adapters.iter().filter_map(|adapter| {
        let settings = examination.config.chains.get(adapter.facts().name.as_str())?;
        (settings.enabled && settings.nodes.iter().any(has_address))
            .then(|| chain(examination, adapter, settings))
    });
    let findings: Vec<Finding> = join_all(chains).await.into_iter().flatten().collect();
    if findings.is_empty() {
        let advice = "add the nodes of a chain to the configuration: chains.eth.nodes = [\"http://…\"]";
        return vec![Finding::warning(CHECK, "chains", "no chain has a node", advice)];
    }
    findings
}

fn has_address(node: &NodeSettings) -> bool {
    node.url.is_some() || node.ws.is_some() || node.grpc.is_some()
}

async fn chain(
    examination: &Examination,
    adapter: &Arc<dyn Adapter>,
    settings: &ChainSettings,
) -> Vec<Finding> {
    let facts = adapter.facts();
    let pool = match node_pool(
        facts,
        settings,
        &examination.clock,
        &NodeDrains::default(),
        &NodeSpendings::default(),
    ) {
        Ok(Some(pool)) => pool,
        Ok(None) => return Vec::new(),
        Err(why) => {
            let subject = format!("chains.{}", facts.name);
            return vec![Finding::failure(CHECK, subject, why, "correct this address, header or file")];
        }
    };
    let nodes = settings.nodes.iter().filter(|node| has_address(node));
    let indexes: Vec<_> = pool.nodes().map(|view| (view.index, view.name.to_string())).collect();
    let looks = indexes.into_iter().zip(nodes).map(|((index, name), node)| {
        let network = settings.network_of(node);
        NodeLook::take(pool.clone(), index, name, adapter.clone(), node, network, &*examination.clock)
    });
    let looks = join_all(looks).await;
    judge(facts, &looks, pool.max_lag())
}

/// Returns the findings about the nodes of a chain, which may be up to `max_lag` blocks behind.
fn judge(facts: &Facts, looks: &[NodeLook], max_lag: u64) -> Vec<Finding> {
    let reference = reference(looks);
    let mut findings: Vec<_> =
        looks.iter().map(|look| node(facts, look, reference.unwrap_or_default(), max_lag)).collect();
    let fit = looks.iter().filter(|look| is_fit(look, reference.unwrap_or_default(), max_lag)).count();
    findings.push(summary(facts, looks, fit));
    let clocks = looks.iter().filter_map(|look| {
        let subject = format!("{} {}", facts.name, look.name);
        clocks::compare_node(&subject, look.date.as_ref()?, look.before, look.after)
    });
    findings.extend(clocks);
    findings
}

/// Returns the height that the nodes are compared with, as in gateways: the second highest of three or more.
fn reference(looks: &[NodeLook]) -> Option<u64> {
    let mut heights: Vec<_> = heights(looks).collect();
    heights.sort_unstable_by(|a, b| b.cmp(a));
    let index = usize::from(looks.len() > 2 && heights.len() > 1);
    heights.get(index).copied()
}

fn heights(looks: &[NodeLook]) -> impl Iterator<Item = u64> {
    let of_network = looks.iter().filter(|look| !matches!(look.network, NetworkShown::Other(_)));
    of_network.filter_map(|look| look.status.as_ref().ok()?.map(|status| status.height))
}

/// Reports whether gateways would call the node.
fn is_fit(look: &NodeLook, reference: u64, max_lag: u64) -> bool {
    let has_caught_up = match &look.status {
        Ok(Some(status)) => {
            !status.syncing && status.height > 0 && reference.saturating_sub(status.height) <= max_lag
        }
        Ok(None) => look.unreached.is_empty(),
        Err(_) => false,
    };
    has_caught_up && !matches!(look.network, NetworkShown::Other(_))
}

fn node(facts: &Facts, look: &NodeLook, reference: u64, max_lag: u64) -> Finding {
    let subject = format!("{} {}", facts.name, look.name);
    let nodes = format!("chains.{}.nodes", facts.name);
    let status = match &look.status {
        Ok(status) => status,
        Err(why) => {
            let advice = format!("start the node, or correct its address or login in {nodes}");
            return Finding::failure(CHECK, subject, format!("cannot be asked: {why}"), advice);
        }
    };
    if let NetworkShown::Other(other) = &look.network {
        let text =
            format!("belongs to another network: it shows {other:?}, {} {:?}", facts.title, look.expected);
        let advice = format!(
            "remove it from {nodes}, because its answers are about another chain, or name the network that it should have (`network`)"
        );
        return Finding::failure(CHECK, subject, text, advice);
    }
    if let Some((protocol, why)) = look.unreached.first() {
        let advice = format!("let the node accept {protocol}, or correct that address in {nodes}");
        return Finding::failure(CHECK, subject, format!("its {protocol} address: {why}"), advice);
    }
    let Some(status) = status else {
        return Finding::ok(CHECK, subject, "accepts connections; its height is asked for over HTTP only");
    };
    let height = status.height;
    if status.syncing || height == 0 {
        let text = format!("has not caught up: it is at height {height}");
        return Finding::warning(
            CHECK,
            subject,
            text,
            "wait; until then it gets calls only if no other is healthy",
        );
    }
    let behind = reference.saturating_sub(height);
    if behind > max_lag {
        let text =
            format!("{behind} blocks behind the other nodes, at height {height}; {max_lag} are allowed");
        let advice = "look at the node's log and its peers; until it is back it gets calls only if no other is healthy";
        return Finding::warning(CHECK, subject, text, advice);
    }
    let took = look.took.as_millis();
    match &look.network {
        NetworkShown::Unknown(why) => {
            let text = format!("at height {height}, but its network is unknown: {why}");
            let advice = "make sure that it belongs to the main network, and let the node answer the call that shows it";
            Finding::warning(CHECK, subject, text, advice)
        }
        NetworkShown::Unchecked => {
            let text = format!("at height {height} of any network, answers in {took} ms");
            Finding::ok(CHECK, subject, text)
        }
        NetworkShown::Hidden => {
            let text = format!("at height {height}, does not show its network, answers in {took} ms");
            Finding::ok(CHECK, subject, text)
        }
        NetworkShown::Own | NetworkShown::Other(_) => {
            let text = format!("at height {height} of the right network, answers in {took} ms");
            Finding::ok(CHECK, subject, text)
        }
    }
}

fn summary(facts: &Facts, looks: &[NodeLook], fit: usize) -> Finding {
    let subject = facts.name.as_str();
    let spread = match (heights(looks).min(), heights(looks).max()) {
        (Some(least), Some(most)) => format!(", heights {least} to {most}, {} apart", most - least),
        _ => String::new(),
    };
    let text = format!("{fit} of {} nodes are healthy{spread}", looks.len());
    if fit == 0 {
        let advice = "repair one of its nodes: until then calls go to the least bad one, or fail";
        return Finding::failure(CHECK, subject, text, advice);
    }
    Finding::ok(CHECK, subject, text)
}

#[cfg(test)]
mod tests;
