//! An operator's changes to a chain.

use super::method::{Flags, MethodRule};
use super::node_methods::NodeMethods;
use crate::cache_rule::CacheRule;
use std::collections::BTreeSet;
use std::time::Duration;

/// An operator's changes to a chain.
///
/// ```
/// use rpcgate_core::chain::ChainOverrides;
///
/// let changes = ChainOverrides::default().with_cu("eth_call", 20).with_open("debug_*");
/// assert_eq!((changes.cu.len(), changes.open.len()), (1, 1));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChainOverrides {
    /// Weights by sent or metered name. The sent name takes precedence.
    pub cu: Vec<(String, u32)>,
    /// Cache classes by sent or metered name. The adapter decides which [`CacheRule::Immutable`] results are settled.
    pub cache: Vec<(String, CacheRule)>,
    /// Blocked methods by sent or metered name, refused like those on a project's block list.
    pub blocked: BTreeSet<String>,
    /// Methods, or families of methods written `trace_*`, that are closed by default and opened here.
    pub open: Vec<String>,
    /// Replaces [`Facts::final_depth`](super::Facts::final_depth).
    pub final_depth: Option<u64>,
    /// The time limit of a call at the nodes, over all attempts and waits; 30 s by default.
    pub timeout: Option<Duration>,
    /// The host names at whose root the chain is served, in addition to its path.
    pub hosts: Vec<String>,
    /// The methods of each node. A method that no node serves is closed. Empty: every method is served.
    pub nodes: Vec<NodeMethods>,
}

impl ChainOverrides {
    /// Adds the weight of a method.
    #[must_use]
    pub fn with_cu(mut self, method: impl Into<String>, cu: u32) -> Self {
        self.cu.push((method.into(), cu));
        self
    }

    /// Adds a host at whose root the chain is served.
    #[must_use]
    pub fn with_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Adds the cache class of a method.
    #[must_use]
    pub fn with_cache(mut self, method: impl Into<String>, cache: CacheRule) -> Self {
        self.cache.push((method.into(), cache));
        self
    }

    /// Adds a method that is blocked for all callers.
    #[must_use]
    pub fn with_blocked(mut self, method: impl Into<String>) -> Self {
        self.blocked.insert(method.into());
        self
    }

    /// Adds an opened method, or a family of methods written `trace_*`.
    #[must_use]
    pub fn with_open(mut self, pattern: impl Into<String>) -> Self {
        self.open.push(pattern.into());
        self
    }

    /// Sets the number of blocks that make a block final.
    #[must_use]
    pub fn with_final_depth(mut self, depth: u64) -> Self {
        self.final_depth = Some(depth);
        self
    }

    /// Sets the time limit of a call at the nodes.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Adds a node that serves these methods.
    #[must_use]
    pub fn with_node(mut self, methods: NodeMethods) -> Self {
        self.nodes.push(methods);
        self
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct MethodOverride {
    cu: Option<u32>,
    cache: Option<CacheRule>,
    is_blocked: bool,
}

impl MethodOverride {
    /// Returns the changes to a method. Those to its sent `name` take precedence.
    pub(super) fn of(changes: &ChainOverrides, name: &str, metered: Option<&str>) -> Self {
        let is_it = |known: &str, by: Option<&str>| by == Some(known);
        let find = |by: Option<&str>| {
            let cu = changes.cu.iter().rev().find(|(known, _)| is_it(known, by)).map(|(_, cu)| *cu);
            let cache =
                changes.cache.iter().rev().find(|(known, _)| is_it(known, by)).map(|(_, cache)| *cache);
            (cu, cache)
        };
        let own = find(Some(name));
        let general = find(metered);
        let is_blocked =
            changes.blocked.iter().any(|known| is_it(known, Some(name)) || is_it(known, metered));
        MethodOverride { cu: own.0.or(general.0), cache: own.1.or(general.1), is_blocked }
    }

    /// Applies the changes to a rule. State on a single node belongs to one client, so its answers are never cached.
    pub(super) fn over(self, mut rule: MethodRule) -> MethodRule {
        rule.cu = self.cu.unwrap_or(rule.cu);
        if !rule.flags.has_state() {
            rule.cache = self.cache.unwrap_or(rule.cache);
        }
        if self.is_blocked {
            rule.flags = rule.flags.and(Flags::BLOCKED);
        }
        rule
    }
}
