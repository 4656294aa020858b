//! A chain as the stack sees it: its facts, its method table with the operator's changes, and its head.

use crate::adapter::{Adapter, method_table};
use crate::cache_rule::CacheRule;
use crate::call::CallView;
use crate::intern::intern;
use crate::rest::Path;
use foldhash::fast::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

pub use crate::method::{Flags, Method, MethodRule};

/// A chain's canonical path name, such as `eth`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainName(&'static str);

impl ChainName {
    /// The chain served at `/<path>`.
    pub const fn new(path: &'static str) -> Self {
        ChainName(path)
    }

    /// The chain served at a `/<path>` that is known only at run time: the name is [interned](crate::intern).
    pub fn interned(path: &str) -> Self {
        ChainName(intern(path))
    }

    /// The path segment.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The form of the answers of a chain's nodes, which the gateway uses too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Dialect {
    /// JSON-RPC 2.0: a result or an error, never both members.
    JsonRpc2,
    /// The UTXO daemons' JSON-RPC 1.0: `result`, `error` and `id` always present, one of the first two null.
    Utxo,
    /// The XRP ledger server's: only a `result`, with errors in it; neither version nor id.
    Xrp,
    /// Ogmios': JSON-RPC 2.0 with the method's name in every answer.
    Ogmios,
    /// TonCenter's: `ok` beside `result`, or beside an `error` that is a text and a `code`.
    Ton,
    /// No envelope: an HTTP status, headers and a body.
    Rest,
}

impl Dialect {
    /// The version in the gateway's own calls: the JSON text of their `jsonrpc`. `None`: they have neither
    /// version nor id.
    pub const fn version(self) -> Option<&'static str> {
        match self {
            Dialect::JsonRpc2 | Dialect::Ogmios | Dialect::Ton | Dialect::Rest => Some("\"2.0\""),
            Dialect::Utxo => Some("\"1.0\""),
            Dialect::Xrp => None,
        }
    }

    /// Whether the HTTP status of a node's answer is part of it and is forwarded to the client.
    pub const fn has_status(self) -> bool {
        matches!(self, Dialect::Utxo | Dialect::Ton | Dialect::Rest)
    }
}

/// The constants of a chain.
///
/// Built by a constructor and changed by struct update, so that a new fact breaks no adapter. Names that are known only
/// at run time are [interned](crate::intern).
///
/// ```
/// use rpcgate_core::chain::Facts;
///
/// // Blocks come every four seconds and are final at once.
/// static FACTS: Facts = Facts { aliases: &["algorand"], max_lag: 8, ..Facts::rest("algo", "Algorand") };
/// assert!(FACTS.rest && !FACTS.batch);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The path name.
    pub name: ChainName,
    /// The name in prose.
    pub title: &'static str,
    /// Other names that are accepted in the scope of a key; never in a path.
    pub aliases: &'static [&'static str],
    /// The shape of answers.
    pub dialect: Dialect,
    /// Whether the chain is served over HTTP.
    pub https: bool,
    /// Whether calls have paths below the chain's own.
    pub rest: bool,
    /// Whether a JSON array of calls may be posted.
    pub batch: bool,
    /// Whether the chain has a WebSocket stream at `/ws/<path>`. A handshake for a chain without one is refused like one for
    /// a chain that does not exist.
    pub ws: bool,
    /// Whether the chain has a gRPC service, found by the proto package of a call.
    pub grpc: bool,
    /// The number of blocks on top of a block that make its data final for the cache. 0: final at once.
    pub final_depth: u64,
    /// The number of blocks that a node may be behind the others: about half a minute of blocks, and at least two.
    pub max_lag: u64,
}

impl Facts {
    /// A chain at `/<path>` whose nodes accept JSON-RPC 2.0, alone and in batches, by `POST`. Its blocks are final at once,
    /// and a node may be 2 blocks behind.
    pub const fn json_rpc(path: &'static str, title: &'static str) -> Self {
        Facts {
            name: ChainName::new(path),
            title,
            aliases: &[],
            dialect: Dialect::JsonRpc2,
            https: true,
            rest: false,
            batch: true,
            ws: false,
            grpc: false,
            final_depth: 0,
            max_lag: 2,
        }
    }

    /// A chain at `/<path>` whose calls are paths, without an envelope. Its blocks are final at once, and a node may be
    /// 2 blocks behind.
    pub const fn rest(path: &'static str, title: &'static str) -> Self {
        Facts { dialect: Dialect::Rest, rest: true, batch: false, ..Facts::json_rpc(path, title) }
    }
}

/// An operator's changes to a chain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChainOverrides {
    /// Weights by method, as sent or as metered. The name as sent takes precedence.
    pub cu: Vec<(String, u32)>,
    /// Cache classes by method, likewise. With [`CacheRule::Immutable`] the adapter still decides which results are settled.
    pub cache: Vec<(String, CacheRule)>,
    /// Methods that are blocked for all callers, by the name as sent or as metered; they are refused like those on a
    /// project's block list.
    pub blocked: BTreeSet<String>,
    /// Methods, or families of methods written `trace_*`, that are opened although closed by default.
    pub open: Vec<String>,
    /// Replaces [`Facts::final_depth`].
    pub final_depth: Option<u64>,
    /// The deadline of a call at the nodes, over all attempts and waits; 30 s by default.
    pub timeout: Option<Duration>,
}

/// The newest block height that a chain's nodes have reported.
#[derive(Debug, Default)]
pub struct ChainHead(AtomicU64);

impl ChainHead {
    /// The height; `None` until one is known.
    pub fn height(&self) -> Option<u64> {
        match self.0.load(Relaxed) {
            0 => None,
            height => Some(height),
        }
    }

    /// Sets the height. A node at height 0 knows nothing.
    pub fn set(&self, height: u64) {
        self.0.store(height, Relaxed);
    }
}

/// The result of looking up a method: its rule, and the name under which it is metered if the table contains it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The rule.
    pub rule: MethodRule,
    /// `None`: metered as sent.
    pub metered: Option<&'static str>,
}

/// A chain with all settings applied: built at start and rebuilt after each change, otherwise only read.
#[derive(Debug)]
pub struct Chain {
    adapter: Arc<dyn Adapter>,
    table: HashMap<Box<[u8]>, Found, RandomState>,
    /// The operator's changes to methods of the table.
    said: HashMap<Box<[u8]>, Said, RandomState>,
    open: Vec<String>,
    final_depth: u64,
    timeout: Duration,
    served: bool,
    head: Arc<ChainHead>,
}

const TIMEOUT: Duration = Duration::from_secs(30);

/// An operator's changes to one method.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Said {
    cu: Option<u32>,
    cache: Option<CacheRule>,
    is_blocked: bool,
}

impl Said {
    /// The changes to the method that is sent as `name` and metered as `metered`; those to the name as sent take
    /// precedence.
    fn of(changes: &ChainOverrides, name: &str, metered: Option<&str>) -> Self {
        let is_it = |known: &str, by: Option<&str>| by == Some(known);
        let find = |by: Option<&str>| {
            let cu = changes.cu.iter().rev().find(|(known, _)| is_it(known, by)).map(|(_, cu)| *cu);
            let cache =
                changes.cache.iter().rev().find(|(known, _)| is_it(known, by)).map(|(_, cache)| *cache);
            (cu, cache)
        };
        let (own, general) = (find(Some(name)), find(metered));
        let is_blocked =
            changes.blocked.iter().any(|known| is_it(known, Some(name)) || is_it(known, metered));
        Said { cu: own.0.or(general.0), cache: own.1.or(general.1), is_blocked }
    }

    fn over(self, mut rule: MethodRule) -> MethodRule {
        rule.cu = self.cu.unwrap_or(rule.cu);
        rule.cache = self.cache.unwrap_or(rule.cache);
        if self.is_blocked {
            rule.flags = rule.flags.and(Flags::BLOCKED);
        }
        rule
    }
}

impl Chain {
    /// The chain of `adapter` with `changes`. `served`: the chain is enabled and has a node.
    pub fn new(
        adapter: Arc<dyn Adapter>,
        changes: ChainOverrides,
        served: bool,
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
        let final_depth = changes.final_depth.unwrap_or(adapter.facts().final_depth);
        let mut said = HashMap::default();
        for (name, found) in &table {
            let told = Said::of(&changes, &String::from_utf8_lossy(name), found.metered);
            if told != Said::default() {
                said.insert(name.clone(), told);
            }
        }
        let timeout = changes.timeout.unwrap_or(TIMEOUT);
        let open = changes.open;
        let mut chain =
            Chain { adapter, table: HashMap::default(), said, open, final_depth, timeout, served, head };
        for (name, found) in &mut table {
            found.rule = chain.decided(name, found.rule);
        }
        chain.table = table;
        chain
    }

    /// The chain of `adapter` with its deployed defaults, enabled.
    pub fn deployed(adapter: Arc<dyn Adapter>) -> Self {
        Chain::new(adapter, ChainOverrides::default(), true, Arc::default())
    }

    /// The chain's constants.
    pub fn facts(&self) -> &Facts {
        self.adapter.facts()
    }

    /// Its path name.
    pub fn name(&self) -> ChainName {
        self.facts().name
    }

    /// The adapter, which knows its API.
    pub fn adapter(&self) -> &dyn Adapter {
        &*self.adapter
    }

    /// Whether it is enabled here and has a node.
    pub fn is_served(&self) -> bool {
        self.served
    }

    /// The newest height.
    pub fn head(&self) -> &Arc<ChainHead> {
        &self.head
    }

    /// The number of blocks on top of a block that make it final.
    pub fn final_depth(&self) -> u64 {
        self.final_depth
    }

    /// Whether the block at `height` is final: false while the head is not known.
    pub fn is_final(&self, height: u64) -> bool {
        self.head.height().is_some_and(|head| head >= height.saturating_add(self.final_depth))
    }

    /// The name of a REST call, if the adapter [names](Adapter::rest_methods) its path.
    pub fn rest_name(&self, verb: &http::Method, path: &Path) -> Option<&'static str> {
        let rows = self.adapter.rest_methods();
        rows.iter().find(|row| row.matches(verb, path)).map(|row| row.row().name)
    }

    /// The rule of `method`, with resolved escapes, if it is in the table.
    pub fn listed(&self, method: &[u8]) -> Option<Found> {
        self.table.get(method).copied()
    }

    /// The rule of `method`, with resolved escapes.
    pub fn look_up(&self, method: &str) -> Found {
        match self.listed(method.as_bytes()) {
            Some(found) => found,
            None => Found { rule: self.opened(method, self.adapter.unlisted(method)), metered: None },
        }
    }

    /// The deadline of a call at the nodes, over all attempts and waits.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The rule of a call, now that its parameters are known: the adapter [narrows](Adapter::narrow) it, and the operator's
    /// changes to weight, class, block and openable methods apply afterwards. A method that is closed for every call stays
    /// closed.
    pub fn narrow(&self, call: CallView<'_>) -> MethodRule {
        if !call.rule.flags.has(Flags::COMMANDS) {
            return call.rule;
        }
        let mut rule = self.decided(call.sent, self.adapter.narrow(call));
        for mark in [Flags::CLOSED, Flags::BLOCKED, Flags::FORBIDDEN] {
            if call.rule.flags.has(mark) {
                rule.flags = rule.flags.and(mark);
            }
        }
        rule
    }

    /// An adapter's rule with the operator's changes.
    fn decided(&self, method: &[u8], rule: MethodRule) -> MethodRule {
        let rule = self.opened(&String::from_utf8_lossy(method), rule);
        match self.said.get(method) {
            Some(said) => said.over(rule),
            None => rule,
        }
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

/// All chains of a gateway by path. Replaced as a whole when one changes.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    by_path: HashMap<&'static str, Arc<Chain>, RandomState>,
}

impl Chains {
    /// The chain at `/<path>`.
    pub fn get(&self, path: &str) -> Option<&Arc<Chain>> {
        self.by_path.get(path)
    }

    /// All chains, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Chain>> {
        self.by_path.values()
    }
}

impl FromIterator<Arc<Chain>> for Chains {
    fn from_iter<I: IntoIterator<Item = Arc<Chain>>>(chains: I) -> Self {
        Chains { by_path: chains.into_iter().map(|chain| (chain.name().as_str(), chain)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{NodeStatus, Probe, Settled};
    use crate::toy::Toy;

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

        fn settled(&self, call: CallView<'_>, result: &[u8], chain: &Chain) -> Settled {
            Toy.settled(call, result, chain)
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
            let (sent, rule) = (method.as_bytes(), chain.look_up(method).rule);
            let name = chain.name();
            chain.narrow(CallView {
                chain: name,
                method: sent,
                sent,
                params,
                body: b"",
                is_rest: false,
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

    #[test]
    fn a_block_is_final_when_enough_blocks_follow_it() {
        let chain = chain(ChainOverrides { final_depth: Some(6), ..Default::default() });
        assert!(!chain.is_final(1), "no head is known");
        chain.head().set(106);
        assert!(chain.is_final(100) && !chain.is_final(101));
    }
}
