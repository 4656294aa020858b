//! Warnings about settings of a chain and its nodes.

use super::Warnings;
use crate::{ChainSettings, NodeSettings, Url};
use rpcgate_core::chain::{Facts, OverBudget};

pub(super) fn of_chain(name: &str, chain: &ChainSettings, warnings: &mut Warnings) {
    let key = |part: &str| format!("chains.{name}.{part}");
    let calls = chain.nodes.iter().filter(|node| node.url.is_some()).count();
    let default = ChainSettings::default();
    if chain.nodes.is_empty() && chain.enabled && *chain != default {
        warnings.add(format!("chains.{name}"), "has settings but no nodes, so the chain is not served");
        return;
    }
    if !chain.enabled {
        if !chain.nodes.is_empty() {
            warnings.add(key("enabled"), "is false, so its nodes get no calls");
        }
        return;
    }
    for (n, host) in chain.hosts.iter().enumerate() {
        if chain.hosts[..n].iter().any(|known| known.eq_ignore_ascii_case(host)) {
            warnings.add(key("hosts"), format!("lists {host} twice"));
        }
    }
    if chain.broadcast_nodes as usize > calls.max(1) {
        let text = format!("is {}, but {calls} of its nodes take calls", chain.broadcast_nodes);
        warnings.add(key("broadcast_nodes"), text);
    }
    let alone = "has no effect with fewer than two nodes that take calls";
    if !chain.next_node_after.is_zero() && calls < 2 {
        warnings.add(key("next_node_after"), alone);
    } else if chain.next_node_after >= chain.timeout {
        warnings.add(key("next_node_after"), "has no effect: it is not shorter than timeout");
    }
    if !chain.hedge.enabled && chain.hedge != default.hedge {
        warnings.add(key("hedge"), format!("has no effect: {} is false", key("hedge.enabled")));
    } else if chain.hedge.enabled && calls < 2 {
        warnings.add(key("hedge"), alone);
    } else if chain.hedge.enabled && chain.hedge.at_least >= chain.timeout {
        warnings.add(key("hedge.at_least"), "has no effect: it is not shorter than timeout");
    }
    if !chain.batching.enabled && chain.batching != default.batching {
        warnings.add(key("batching"), format!("has no effect: {} is false", key("batching.enabled")));
    } else if chain.batching.enabled && calls > 0 && chain.nodes.iter().all(|node| node.max_batch == 1) {
        warnings.add(key("batching"), "has no effect: max_batch of every node is 1");
    }
    if chain.nodes.len() == 1 && chain.nodes.iter().any(|node| node.priority > 0) {
        warnings.add(key("nodes"), "has a priority, which has no effect with one node");
    }
    for (n, node) in chain.nodes.iter().enumerate() {
        of_node(&key("nodes"), n, node, &chain.nodes[..n], warnings);
    }
}

/// Warns about one node, also compared with the nodes before it.
fn of_node(key: &str, n: usize, node: &NodeSettings, before: &[NodeSettings], warnings: &mut Warnings) {
    let number = n + 1;
    let has_same = |other: &NodeSettings| {
        let same = |one: &Option<Url>, other: &Option<Url>| {
            one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| one.is_same_address(other))
        };
        // Two accounts of one vendor are two nodes.
        let is_same_account = node.user == other.user && node.headers == other.headers;
        let is_same_address =
            same(&node.url, &other.url) || same(&node.ws, &other.ws) || same(&node.grpc, &other.grpc);
        is_same_account && is_same_address
    };
    if let Some(first) = before.iter().position(has_same) {
        warnings.add(key, format!("lists one address twice, as numbers {} and {number}", first + 1));
    }
    if node.over_budget != OverBudget::default() && node.monthly_calls.is_none() {
        warnings.add(key, format!("has over_budget without monthly_calls, as number {number}"));
    }
    if let Some(method) = node.methods.iter().find(|method| node.except.contains(method)) {
        warnings.add(key, format!("has {method} in methods and in except, as number {number}"));
    }
}

/// Warns about settings that the chain does not support: transports of nodes, and batching of reads.
pub(super) fn of_facts(name: &str, chain: &ChainSettings, facts: &Facts, warnings: &mut Warnings) {
    for (n, node) in chain.nodes.iter().enumerate() {
        let unused =
            [("ws", node.ws.is_some() && !facts.ws), ("grpc", node.grpc.is_some() && facts.grpc.is_empty())];
        for (part, _) in unused.iter().filter(|(_, is_unused)| *is_unused) {
            let text = format!("has {part} in number {}, but the chain has no such transport", n + 1);
            warnings.add(format!("chains.{name}.nodes"), text);
        }
    }
    let is_served = chain.enabled && !chain.nodes.is_empty();
    if is_served && chain.batching.enabled && !facts.joins_reads() {
        warnings.add(
            format!("chains.{name}.batching"),
            "has no effect: calls of this chain are never sent together",
        );
    }
}
