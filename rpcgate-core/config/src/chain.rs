//! `[chains.<path>]`: a chain and its nodes.

use super::batching::BatchingSettings;
use super::fields::{Fields, Table};
use super::hedge::HedgeSettings;
use super::method_names::methods;
use super::node::{NodeSettings, bad_network};
use super::problem::Problem;
use super::units::{DAY, HOUR, MILLI, SECOND};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::chain::ChainOverrides;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The maximum number of nodes of a chain if they serve different methods.
const MOST_SELECTIVE: usize = 64;

/// `[chains.<path>]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ChainSettings {
    /// Serves the chain, if it has a node.
    pub enabled: bool,
    /// The host names at whose root the chain is served, in addition to its path.
    pub hosts: Vec<String>,
    /// The deadline of a call over all its tries.
    pub timeout: Duration,
    /// The time without an answer after which a read is sent to another node. 0: never.
    pub next_node_after: Duration,
    /// The maximum number of calls in flight at its nodes.
    pub max_in_flight: u32,
    /// The time between probes for each node's newest block.
    pub probe_interval: Duration,
    /// The number of blocks on top of a block that make it final; the chain's default if absent.
    pub final_depth: Option<u64>,
    /// The number of blocks that a node may lag before it becomes a last resort; the chain's default if absent.
    pub max_lag: Option<u64>,
    /// The network of its nodes, as a node shows it; the chain's own if absent. `any`: nodes are not asked.
    pub network: Option<String>,
    /// A PEM file of certificate authorities that are trusted for its nodes, in addition to the public ones.
    pub ca_file: Option<PathBuf>,
    /// The number of nodes that get a transaction at once.
    pub broadcast_nodes: u32,
    /// Methods that are closed to all callers.
    pub blocked_methods: Vec<String>,
    /// Opened methods that are closed by default. `trace_*` means a family.
    pub open_methods: Vec<String>,
    /// Weights in Compute Units by method, replacing the chain's defaults.
    pub cu: BTreeMap<String, u32>,
    /// Cache classes by method, replacing the chain's defaults.
    pub ttl: BTreeMap<String, CacheRule>,
    /// Batching of reads from several clients.
    pub batching: BatchingSettings,
    /// Hedging of slow reads at a second node.
    pub hedge: HedgeSettings,
    /// Its nodes.
    pub nodes: Vec<NodeSettings>,
}

impl Default for ChainSettings {
    fn default() -> Self {
        ChainSettings {
            enabled: true,
            hosts: Vec::new(),
            timeout: 30 * SECOND,
            next_node_after: Duration::ZERO,
            max_in_flight: 1_024,
            probe_interval: 5 * SECOND,
            final_depth: None,
            max_lag: None,
            network: None,
            ca_file: None,
            broadcast_nodes: 1,
            blocked_methods: Vec::new(),
            open_methods: Vec::new(),
            cu: BTreeMap::new(),
            ttl: BTreeMap::new(),
            batching: BatchingSettings::default(),
            hedge: HedgeSettings::default(),
            nodes: Vec::new(),
        }
    }
}

impl ChainSettings {
    /// Returns the network that one of its nodes must belong to; `None`: the chain's own.
    pub fn network_of<'s>(&'s self, node: &'s NodeSettings) -> Option<&'s str> {
        node.network.as_deref().or(self.network.as_deref())
    }

    /// Returns the file of additional trusted authorities for one of its nodes.
    pub fn ca_file_of<'s>(&'s self, node: &'s NodeSettings) -> Option<&'s Path> {
        node.ca_file.as_deref().or(self.ca_file.as_deref())
    }

    /// Returns the changes to the chain's method table.
    pub fn changes(&self) -> ChainOverrides {
        ChainOverrides {
            cu: self.cu.iter().map(|(method, cu)| (method.clone(), *cu)).collect(),
            cache: self.ttl.iter().map(|(method, rule)| (method.clone(), *rule)).collect(),
            blocked: self.blocked_methods.iter().cloned().collect(),
            open: self.open_methods.clone(),
            hosts: self.hosts.clone(),
            final_depth: self.final_depth,
            timeout: Some(self.timeout),
            nodes: self.nodes.iter().map(NodeSettings::taken).collect(),
        }
    }
}

impl Table for ChainSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("enabled", &mut self.enabled);
        f.value("hosts", &mut self.hosts);
        for host in self.hosts.iter().filter(|host| !is_host(host)) {
            let why = format!("has {host:?}: give the name of a host alone, such as \"btc.example.com\"");
            f.wrong(&["hosts"], |key| Problem::Invalid { key, why });
        }
        f.duration("timeout", &mut self.timeout, MILLI..=HOUR);
        f.duration("next_node_after", &mut self.next_node_after, Duration::ZERO..=HOUR);
        f.number("max_in_flight", &mut self.max_in_flight, 1..=1_000_000);
        f.duration("probe_interval", &mut self.probe_interval, 100 * MILLI..=DAY);
        f.value("final_depth", &mut self.final_depth);
        f.value("max_lag", &mut self.max_lag);
        f.value("network", &mut self.network);
        f.value("ca_file", &mut self.ca_file);
        f.number("broadcast_nodes", &mut self.broadcast_nodes, 1..=16);
        f.value("blocked_methods", &mut self.blocked_methods);
        f.value("open_methods", &mut self.open_methods);
        f.value("cu", &mut self.cu);
        f.value("ttl", &mut self.ttl);
        f.table("batching", &mut self.batching);
        f.table("hedge", &mut self.hedge);
        f.list("nodes", &mut self.nodes);
        methods(f, "blocked_methods", self.blocked_methods.iter(), false);
        methods(f, "open_methods", self.open_methods.iter(), true);
        methods(f, "cu", self.cu.keys(), false);
        methods(f, "ttl", self.ttl.keys(), false);
        if let Some(why) = self.network.as_deref().and_then(bad_network) {
            f.wrong(&["network"], |key| Problem::Invalid { key, why: why.into() });
        }
        let differs =
            |node: &NodeSettings| node.archive || !node.taken().is_all() || !node.allowance().is_none();
        let is_selective = self.nodes.iter().any(differs);
        if is_selective && self.nodes.len() > MOST_SELECTIVE {
            let why = format!(
                "has {} nodes, of which some are archives, take only some methods, or have limits or prices: {MOST_SELECTIVE} are allowed then",
                self.nodes.len()
            );
            f.wrong(&["nodes"], |key| Problem::Invalid { key, why });
        }
        for (n, node) in self.nodes.iter().enumerate() {
            if node.url.is_none() && node.ws.is_none() && node.grpc.is_none() {
                let why =
                    format!("has an entry (number {}) without url, ws and grpc: give one of them", n + 1);
                f.wrong(&["nodes"], |key| Problem::Invalid { key, why });
            }
        }
    }
}

/// Reports whether the text is a host name (RFC 1123, section 2.1) without a port. Service names may have underscores.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        let has_only = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        has_only && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Returns the hosts of more than one chain, each with the path of the later chain and the name of the other one.
pub(super) fn shared_hosts(chains: &BTreeMap<String, ChainSettings>) -> Vec<(String, Problem)> {
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    let mut problems = Vec::new();
    for (name, chain) in chains {
        for host in &chain.hosts {
            let owner = *owners.entry(host.to_ascii_lowercase()).or_insert(name);
            if owner != name {
                let path = format!("chains.{name}.hosts");
                let why = format!("has {host:?}, which is a host of chains.{owner} already");
                problems.push((path.clone(), Problem::Invalid { key: path, why }));
            }
        }
    }
    problems
}
