//! [`Chain`]: an adapter with the operator's changes to its method table.

use super::facts::Facts;
use super::finality::{ChainHead, Finality};
use super::method::{Flags, Found, MethodRule};
use super::name::ChainName;
use super::node_methods::NodeMethods;
use super::overrides::{ChainOverrides, MethodOverride};
use crate::adapter::{Adapter, method_table};
use crate::cache_rule::CacheRule;
use crate::call::CallView;
use crate::grpc::{GrpcPath, metered};
use crate::rest::Path;
use crate::transport::{Transport, Transports};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

/// The flags that a call's parameters cannot remove.
const STORED_FLAGS: Flags = Flags::CLOSED.and(Flags::BLOCKED).and(Flags::FORBIDDEN);

/// A chain with all settings applied. Built at start, rebuilt after each change, and otherwise only read.
#[derive(Debug)]
pub struct Chain {
    adapter: Arc<dyn Adapter>,
    table: HashMap<Box<[u8]>, Found, RandomState>,
    changed: HashMap<Box<[u8]>, MethodOverride, RandomState>,
    open: Vec<String>,
    hosts: Vec<String>,
    /// The methods of each node; empty if every node serves every method.
    taken: Vec<NodeMethods>,
    finality: Finality,
    timeout: Duration,
    served: Transports,
}

impl Chain {
    /// Creates the chain of `adapter` with `changes`. It is served by the transports with a node (`served`) that its
    /// [facts](Facts::transports) also have. `true` means all of them, `false` a chain that is off.
    pub fn new(
        adapter: Arc<dyn Adapter>,
        changes: ChainOverrides,
        served: impl Into<Transports>,
        head: Arc<ChainHead>,
    ) -> Self {
        let mut table: HashMap<Box<[u8]>, Found, RandomState> = HashMap::default();
        for method in method_table(&*adapter) {
            table.insert(
                method.name.as_bytes().into(),
                Found { rule: method.rule, metered: Some(method.metered) },
            );
        }
        let named = changes.cu.iter().map(|(name, _)| name).chain(changes.cache.iter().map(|(name, _)| name));
        for name in named.chain(&changes.blocked) {
            let unlisted = || Found { rule: adapter.unlisted(name), metered: None };
            table.entry(name.as_bytes().into()).or_insert_with(unlisted);
        }
        let finality = Finality::new(head, changes.final_depth.unwrap_or(adapter.facts().final_depth));
        let mut changed = HashMap::default();
        for (name, found) in &table {
            let own = MethodOverride::of(&changes, &String::from_utf8_lossy(name), found.metered);
            if own != MethodOverride::default() {
                changed.insert(name.clone(), own);
            }
        }
        let timeout = changes.timeout.unwrap_or(TIMEOUT);
        let served = adapter.facts().transports().and(served.into());
        let ChainOverrides { open, hosts, .. } = changes;
        let is_any_complete = changes.nodes.iter().any(NodeMethods::is_all);
        let taken = if is_any_complete { Vec::new() } else { changes.nodes };
        let mut chain = Chain {
            adapter,
            table: HashMap::default(),
            changed,
            open,
            hosts,
            taken,
            finality,
            timeout,
            served,
        };
        for (name, found) in &mut table {
            let metered = found.metered.map_or(&name[..], str::as_bytes);
            found.rule = chain.taken(name, metered, chain.decided(name, found.rule));
        }
        chain.table = table;
        chain
    }

    /// Creates the chain of `adapter` with its deployed defaults, enabled.
    pub fn deployed(adapter: Arc<dyn Adapter>) -> Self {
        Chain::new(adapter, ChainOverrides::default(), true, Arc::default())
    }

    /// Returns the chain's constants.
    pub fn facts(&self) -> &Facts {
        self.adapter.facts()
    }

    /// Returns the path name.
    pub fn name(&self) -> ChainName {
        self.facts().name
    }

    /// Returns the adapter.
    pub fn adapter(&self) -> &dyn Adapter {
        &*self.adapter
    }

    /// Returns the host names at whose root the chain is served too.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Reports whether the chain is enabled and has a node for at least one transport.
    pub fn is_served(&self) -> bool {
        self.served != Transports::NONE
    }

    /// Reports whether the chain is enabled and has a node for this transport.
    pub fn serves(&self, transport: Transport) -> bool {
        self.served.has(transport)
    }

    /// Returns the chain's head.
    pub fn head(&self) -> &Arc<ChainHead> {
        self.finality.head()
    }

    /// Returns the chain's finality.
    pub fn finality(&self) -> &Finality {
        &self.finality
    }

    /// Returns the name of a REST call, if the adapter [names](Adapter::rest_methods) its path.
    pub fn rest_name(&self, verb: &http::Method, path: &Path) -> Option<&'static str> {
        let rows = self.adapter.rest_methods();
        rows.iter().find(|row| row.matches(verb, path)).map(|row| row.row().name)
    }

    /// Returns the rule of `method`, with resolved escapes, if it is in the table.
    pub fn listed(&self, method: &[u8]) -> Option<Found> {
        self.table.get(method).copied()
    }

    /// Returns the rule of `method`, with resolved escapes.
    pub fn look_up(&self, method: &str) -> Found {
        match self.listed(method.as_bytes()) {
            Some(found) => found,
            None => {
                let name = method.as_bytes();
                let rule = self.opened(method, self.adapter.unlisted(method));
                Found { rule: self.taken(name, name, rule), metered: None }
            }
        }
    }

    /// Reports whether a gRPC call of this path belongs to the chain.
    pub fn has_grpc(&self, path: GrpcPath<'_>) -> bool {
        self.facts().grpc.iter().any(|package| path.is_of(package))
    }

    /// Returns the rule of a gRPC call: that of its method in lower case, as the adapter [adapts](Adapter::grpc) it. A
    /// method that is closed, blocked or forbidden over HTTP stays so. Answers are never cached: cached ones are JSON.
    pub fn look_up_grpc(&self, path: GrpcPath<'_>) -> Found {
        let name = metered(path);
        let found = self.look_up(&name);
        let mut rule = self.adapter.grpc(path, found.rule);
        rule.flags = rule.flags.and(found.rule.flags.only(STORED_FLAGS));
        rule.cache = CacheRule::Never;
        Found { rule, ..found }
    }

    /// Returns the time limit of a call at the nodes, over all attempts and waits.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the rule of a call with known parameters: the adapter [narrows](Adapter::narrow) it, and the operator's
    /// changes to weight, class, block and openable methods apply afterwards. A closed method stays closed.
    pub fn narrow(&self, call: CallView<'_>) -> MethodRule {
        if !call.rule.flags.has(Flags::COMMANDS) {
            return call.rule;
        }
        let name = if call.is_grpc { call.method } else { call.sent };
        let mut rule = self.decided(name, self.adapter.narrow(call));
        if call.is_grpc {
            rule.cache = CacheRule::Never;
        }
        rule.flags = rule.flags.and(call.rule.flags.only(STORED_FLAGS));
        rule
    }

    fn decided(&self, method: &[u8], rule: MethodRule) -> MethodRule {
        let rule = self.opened(&String::from_utf8_lossy(method), rule);
        match self.changed.get(method) {
            Some(changed) => changed.over(rule),
            None => rule,
        }
    }

    /// Closes the method if no node serves it.
    fn taken(&self, sent: &[u8], metered: &[u8], rule: MethodRule) -> MethodRule {
        let is_taken = self.taken.is_empty() || self.taken.iter().any(|node| node.takes(sent, metered));
        if is_taken { rule } else { rule.marked(Flags::CLOSED) }
    }

    fn opened(&self, method: &str, mut rule: MethodRule) -> MethodRule {
        if rule.flags.has(Flags::OPENABLE) {
            let open = self.open.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => method.starts_with(prefix),
                None => method == pattern,
            });
            rule.flags = if open {
                rule.flags.without(Flags::CLOSED).without(Flags::OPENABLE)
            } else {
                rule.flags.and(Flags::CLOSED)
            };
        }
        rule
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{NodeStatus, Permanence, Probe};
    use crate::chain::Method;
    use crate::toy::Toy;
    use std::collections::BTreeSet;

    fn chain(changes: ChainOverrides) -> Chain {
        Chain::new(Arc::new(Toy), changes, true, Arc::default())
    }

    /// Replaces the method's rule once the parameters are known.
    #[derive(Debug)]
    struct Forgetful;

    impl Adapter for Forgetful {
        fn facts(&self) -> &Facts {
            Toy.facts()
        }

        fn methods(&self) -> Vec<Method> {
            let commands = |name, flags| Method::new(name, 1).marked(Flags::COMMANDS.and(flags));
            vec![commands("run", Flags::NONE), commands("shut", Flags::CLOSED), Method::new("plain", 1)]
        }

        fn narrow(&self, call: CallView<'_>) -> MethodRule {
            let flags = if call.params == b"[\"open?\"]" { Flags::OPENABLE } else { Flags::HEAVY };
            MethodRule { cu: 50, cache: CacheRule::secs(9), flags }
        }

        fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence {
            Toy.settled(call, result, finality)
        }

        fn probe(&self) -> Probe {
            Toy.probe()
        }

        fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
            Toy.seen(answer)
        }
    }

    #[test]
    fn the_operator_has_the_last_word_after_the_adapter_has_seen_the_parameters() {
        let narrowed = |changes: ChainOverrides, method: &str, params: &[u8]| {
            let chain = Chain::new(Arc::new(Forgetful), changes, true, Arc::default());
            let sent = method.as_bytes();
            let rule = chain.look_up(method).rule;
            let name = chain.name();
            chain.narrow(CallView {
                chain: name,
                method: sent,
                sent,
                params,
                body: b"",
                is_rest: false,
                is_grpc: false,
                rule,
            })
        };
        let plain = MethodRule { cu: 50, cache: CacheRule::secs(9), flags: Flags::HEAVY };
        assert_eq!(narrowed(ChainOverrides::default(), "run", b"[]"), plain);
        assert_eq!(narrowed(ChainOverrides::default(), "plain", b"[]").cu, 1, "the adapter is not asked");
        let changes = || ChainOverrides {
            cu: vec![("run".into(), 7)],
            cache: vec![("run".into(), CacheRule::Never)],
            blocked: BTreeSet::from(["run".into()]),
            ..ChainOverrides::default()
        };
        let said = MethodRule { cu: 7, cache: CacheRule::Never, flags: Flags::HEAVY.and(Flags::BLOCKED) };
        assert_eq!(narrowed(changes(), "run", b"[]"), said);
        let closed = |changes, method, params| narrowed(changes, method, params).flags.has(Flags::CLOSED);
        let open = || ChainOverrides { open: vec!["r*".into()], ..ChainOverrides::default() };
        assert!(closed(ChainOverrides::default(), "run", b"[\"open?\"]"), "until the operator opens it");
        assert!(!closed(open(), "run", b"[\"open?\"]"));
        assert!(closed(open(), "shut", b"[]"), "no parameter opens a closed method");
    }

    #[test]
    fn a_grpc_call_has_the_rule_of_its_method_in_lower_case_and_is_never_cached() {
        let methods = |changes: ChainOverrides| {
            let chain = chain(changes);
            let path = GrpcPath::parse("/toy.Query/Toy_Read").unwrap();
            chain.look_up_grpc(path)
        };
        let found = methods(ChainOverrides::default());
        assert_eq!((found.rule.cu, found.metered), (5, Some("toy_read")));
        assert_eq!(found.rule.cache, CacheRule::Never, "over HTTP it is kept for two seconds");
        let changed = methods(ChainOverrides {
            cu: vec![("toy_read".into(), 7)],
            blocked: BTreeSet::from(["toy_read".into()]),
            ..ChainOverrides::default()
        });
        assert_eq!((changed.rule.cu, changed.rule.flags.has(Flags::BLOCKED)), (7, true));
        let probe = GrpcPath::parse("/toy.Query/Probe_x").unwrap();
        assert!(chain(ChainOverrides::default()).look_up_grpc(probe).rule.flags.has(Flags::CLOSED));
    }

    #[test]
    fn a_method_in_no_table_costs_one_unit_and_is_metered_as_sent() {
        let found = chain(ChainOverrides::default()).look_up("anything");
        assert_eq!(found, Found { rule: MethodRule::UNLISTED, metered: None });
    }

    #[test]
    fn an_operator_changes_weights_and_classes_of_listed_and_unlisted_methods() {
        let chain = chain(ChainOverrides {
            cu: vec![("toy_read".into(), 7), ("toy_new".into(), 9)],
            cache: vec![("toy_new".into(), CacheRule::secs(3))],
            ..Default::default()
        });
        assert_eq!(chain.look_up("toy_read").rule.cu, 7);
        assert_eq!(chain.look_up("toy_read").metered, Some("toy_read"));
        let new = chain.look_up("toy_new");
        assert_eq!((new.rule.cu, new.rule.cache, new.metered), (9, CacheRule::secs(3), None));
    }

    #[test]
    fn the_operator_blocks_listed_and_unlisted_methods() {
        let blocked = BTreeSet::from(["toy_read".into(), "strange".into()]);
        let chain = chain(ChainOverrides { blocked, ..Default::default() });
        for (method, expected) in [("toy_read", true), ("strange", true), ("toy_id", false), ("other", false)]
        {
            assert_eq!(chain.look_up(method).rule.flags.has(Flags::BLOCKED), expected, "{method}");
        }
    }

    // Shows (Nodes and cache).
    #[test]
    fn a_method_that_no_node_takes_is_closed() {
        let some = |only: &[&str]| NodeMethods::new(only.iter().copied(), [""; 0]);
        let nodes = vec![some(&["toy_read", "probe_*"]), some(&["toy_id"])];
        let open = vec!["probe_*".into()];
        let is_closed = |nodes: Vec<NodeMethods>, method: &str| {
            let chain = chain(ChainOverrides { nodes, open: open.clone(), ..Default::default() });
            chain.look_up(method).rule.flags.has(Flags::CLOSED)
        };
        for (method, expected) in
            [("toy_read", false), ("toy_id", false), ("probe_x", false), ("toy_scan", true), ("other", true)]
        {
            assert_eq!(is_closed(nodes.clone(), method), expected, "{method}");
            assert!(!is_closed(vec![nodes[0].clone(), NodeMethods::default()], method), "{method}");
        }
        assert!(is_closed(vec![NodeMethods::default()], "admin_x"), "a node opens nothing");
    }

    #[test]
    fn openable_methods_are_closed_until_the_operator_opens_them() {
        assert!(chain(ChainOverrides::default()).look_up("probe_x").rule.flags.has(Flags::CLOSED));
        for pattern in ["probe_*", "probe_x"] {
            let open = chain(ChainOverrides { open: vec![pattern.into()], ..Default::default() });
            assert!(!open.look_up("probe_x").rule.flags.has(Flags::CLOSED), "{pattern}");
        }
        let other = chain(ChainOverrides { open: vec!["probe_y".into()], ..Default::default() });
        assert!(other.look_up("probe_x").rule.flags.has(Flags::CLOSED));
    }
}
