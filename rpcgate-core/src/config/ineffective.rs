//! Settings that are valid but can have no effect, such as the weight of a method that no chain has. They are warnings and
//! not errors: an operator may prepare a setting before what it needs exists.

use super::DEFAULT_NAME;
use super::nearest::near_name;
use super::{
    ChainSettings, Config, NodeSettings, OtlpSettings, OverloadSettings, ProjectSettings, SafeguardSettings,
};
use crate::adapter::{Adapter, method_table};
use crate::chain::{Dialect, MethodRule, OverBudget};
use crate::plan::Tier;
use std::fmt;
use std::net::SocketAddr;

/// The largest window of a plan, which means that the plan has no such window.
const NO_WINDOW: u64 = 1_000_000_000_000;

/// A setting that can have no effect. Displayed as `key: why`, so that [`Sources::placed`](super::Sources::placed) finds its
/// line.
///
/// ```
/// use rpcgate_core::config::{Config, Input};
///
/// let text = "[redis]\nprefix = \"gate:\"\n";
/// let config = Config::read(&Input { file: Some(("rpcgate.toml", text)), ..Input::default() })?;
/// let warnings: Vec<String> = config.warnings(&[]).iter().map(ToString::to_string).collect();
/// assert_eq!(warnings, ["redis.prefix: has no effect without redis.url"]);
/// # Ok::<(), rpcgate_core::config::ConfigErrors>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConfigWarning {
    /// The key: `chains.eth.cu.eth_cal`.
    pub key: String,
    /// The rest of the sentence.
    pub why: String,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.why)
    }
}

impl Config {
    /// The settings that can have no effect. `adapters` are the chains of this build; what is said of methods is said only
    /// of these.
    pub fn warnings(&self, adapters: &[&dyn Adapter]) -> Vec<ConfigWarning> {
        let mut warnings = Warnings::default();
        self.listeners(&mut warnings);
        self.shared_parts(&mut warnings);
        for tier in Tier::ALL {
            self.windows(tier, &mut warnings);
        }
        for (name, chain) in &self.chains {
            let adapter = adapters.iter().find(|adapter| adapter.facts().name.as_str() == name);
            of_chain(name, chain, &mut warnings);
            if let Some(adapter) = adapter {
                of_methods(name, chain, *adapter, &mut warnings);
                of_transports(name, chain, *adapter, &mut warnings);
            }
            if self.cache.bytes == 0 && !chain.ttl.is_empty() {
                warnings.add(format!("chains.{name}.ttl"), "has no effect: cache.bytes is 0");
            }
        }
        self.accounts(adapters, &mut warnings);
        warnings.0
    }

    /// Addresses at which two listeners of one host would listen.
    fn listeners(&self, warnings: &mut Warnings) {
        let listeners = [
            ("gateway.listen", Some(self.gateway.listen)),
            ("gateway.grpc_listen", self.gateway.grpc_listen),
            ("admin.listen", Some(self.admin.listen)),
            ("telemetry.listen", self.telemetry.listen),
        ];
        let known = listeners.iter().filter_map(|(key, address)| address.map(|address| (*key, address)));
        let known: Vec<(&str, SocketAddr)> = known.collect();
        for (n, (key, address)) in known.iter().enumerate() {
            if let Some((other, _)) = known.iter().take(n).find(|(_, other)| overlap(*address, *other)) {
                warnings.add(
                    *key,
                    format!("is {address}, which {other} has too: one host can listen there once"),
                );
            }
        }
    }

    fn shared_parts(&self, warnings: &mut Warnings) {
        let default = Config::default();
        if self.redis.url.is_none() && self.redis.prefix != default.redis.prefix {
            warnings.add("redis.prefix", "has no effect without redis.url");
        }
        let changed = |warnings: &mut Warnings, key: &str, is_changed: bool, switch: &str| {
            if is_changed {
                warnings.add(key, format!("has no effect: {switch}"));
            }
        };
        let overload = &self.gateway.overload;
        let off = OverloadSettings { enabled: false, ..default.gateway.overload.clone() };
        changed(
            warnings,
            "gateway.overload",
            !overload.enabled && *overload != off,
            "gateway.overload.enabled is false",
        );
        let safeguard = &self.safeguard;
        let off = SafeguardSettings { enabled: false, ..default.safeguard.clone() };
        changed(warnings, "safeguard", !safeguard.enabled && *safeguard != off, "safeguard.enabled is false");
        let otlp = &self.telemetry.otlp;
        let is_set = *otlp != OtlpSettings::default();
        changed(warnings, "telemetry.otlp", otlp.url.is_none() && is_set, "telemetry.otlp.url is not set");
        let is_plain = otlp.url.as_ref().is_some_and(|url| url.scheme() == "http");
        changed(
            warnings,
            "telemetry.otlp.ca_file",
            is_plain && otlp.ca_file.is_some(),
            "telemetry.otlp.url is not https",
        );
        let uses_acme = self.gateway.tls.acme || self.admin.tls.acme;
        let is_set = self.acme != default.acme;
        changed(
            warnings,
            "acme",
            !uses_acme && is_set,
            "neither gateway.tls.acme nor admin.tls.acme is true",
        );
        let tls = &self.gateway.tls;
        changed(
            warnings,
            "gateway.tls.grpc_only",
            tls.grpc_only && !tls.is_served(),
            "gateway.tls has no certificate",
        );
    }

    /// Windows of a plan that another window makes unreachable.
    fn windows(&self, tier: Tier, warnings: &mut Warnings) {
        let plan = self.plans.of(tier);
        let windows = [
            ("per_minute", plan.per_minute, 60 * 24),
            ("per_hour", plan.per_hour, 24),
            ("per_day", plan.per_day, 1),
        ];
        let key = |name: &str| format!("plans.{tier}.{name}");
        for (n, (longer, most, in_day)) in windows.iter().enumerate().filter(|(_, w)| w.1 < NO_WINDOW) {
            for (shorter, bound, times) in &windows[..n] {
                if bound > most && *bound < NO_WINDOW {
                    warnings.add(
                        key(shorter),
                        format!("is {bound} and can never be reached: {longer} is {most}"),
                    );
                } else if bound.saturating_mul(times / in_day) < *most {
                    warnings.add(
                        key(longer),
                        format!("is {most} and can never be reached: {shorter} is {bound}"),
                    );
                    break;
                }
            }
        }
    }

    fn accounts(&self, adapters: &[&dyn Adapter], warnings: &mut Warnings) {
        // Keys without a project have one of this name, which no file has to name.
        let is_named = |name: &&String| *name != DEFAULT_NAME;
        for (name, project) in self.projects.iter().filter(|(name, _)| is_named(name)) {
            let key = format!("projects.{name}");
            if !self.keys.values().any(|known| known.project == *name) {
                warnings.add(&key, "has no key in this file, so no call uses it");
            }
            for method in project.allowed_methods.iter().filter(|name| project.blocked_methods.contains(name))
            {
                let text = format!("allows {method}, which blocked_methods blocks");
                warnings.add(format!("{key}.allowed_methods"), text);
            }
            of_lists(&key, project, adapters, warnings);
        }
        for name in self.tenants.keys().filter(is_named) {
            if !self.projects.values().any(|project| project.tenant == *name) {
                warnings.add(format!("tenants.{name}"), "has no project in this file");
            }
        }
        let is_served = |chain: &String| {
            self.chains.get(chain).is_none_or(|chain| chain.enabled && !chain.nodes.is_empty())
        };
        for (name, key) in &self.keys {
            if !key.chains.is_empty() && !key.chains.iter().any(is_served) {
                warnings.add(format!("keys.{name}.chains"), "names only chains that this file gives no node");
            }
        }
    }
}

#[derive(Default)]
struct Warnings(Vec<ConfigWarning>);

impl Warnings {
    fn add(&mut self, key: impl Into<String>, why: impl Into<String>) {
        self.0.push(ConfigWarning { key: key.into(), why: why.into() });
    }
}

/// Whether two sockets cannot both be opened. A port of 0 is another one each time.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && (is_any || one.ip() == other.ip())
}

fn of_chain(name: &str, chain: &ChainSettings, warnings: &mut Warnings) {
    let key = |part: &str| format!("chains.{name}.{part}");
    let calls = chain.nodes.iter().filter(|node| node.url.is_some()).count();
    let default = ChainSettings::default();
    if chain.nodes.is_empty() && chain.enabled && *chain != default {
        warnings.add(format!("chains.{name}"), "has settings but no nodes, so the chain is not served");
        return;
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
    if chain.hedge.enabled && calls < 2 {
        warnings.add(key("hedge"), alone);
    } else if chain.hedge.enabled && chain.hedge.at_least >= chain.timeout {
        warnings.add(key("hedge.at_least"), "has no effect: it is not shorter than timeout");
    }
    if chain.batching.enabled && calls > 0 && chain.nodes.iter().all(|node| node.max_batch == 1) {
        warnings.add(key("batching"), "has no effect: max_batch of every node is 1");
    }
    if chain.nodes.len() == 1 && chain.nodes.iter().any(|node| node.priority > 0) {
        warnings.add(key("nodes"), "has a priority, which has no effect with one node");
    }
    for (n, node) in chain.nodes.iter().enumerate() {
        of_node(&key("nodes"), n, node, &chain.nodes[..n], warnings);
    }
}

/// One node, and the nodes before it.
fn of_node(key: &str, n: usize, node: &NodeSettings, before: &[NodeSettings], warnings: &mut Warnings) {
    let number = n + 1;
    let has_same = |other: &NodeSettings| {
        let same = |one: &Option<super::Url>, other: &Option<super::Url>| {
            one.as_ref().is_some_and(|one| other.as_ref().is_some_and(|other| one.expose() == other.expose()))
        };
        same(&node.url, &other.url) || same(&node.ws, &other.ws) || same(&node.grpc, &other.grpc)
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

/// Addresses for a transport that the chain does not have.
fn of_transports(name: &str, chain: &ChainSettings, adapter: &dyn Adapter, warnings: &mut Warnings) {
    let facts = adapter.facts();
    for (n, node) in chain.nodes.iter().enumerate() {
        let unused =
            [("ws", node.ws.is_some() && !facts.ws), ("grpc", node.grpc.is_some() && facts.grpc.is_empty())];
        for (part, _) in unused.iter().filter(|(_, is_unused)| *is_unused) {
            let text = format!("has {part} in number {}, but the chain has no such transport", n + 1);
            warnings.add(format!("chains.{name}.nodes"), text);
        }
    }
}

/// Names of methods that the chain does not have.
fn of_methods(name: &str, chain: &ChainSettings, adapter: &dyn Adapter, warnings: &mut Warnings) {
    let adapters = [adapter];
    let methods = KnownMethods::of(&adapters);
    let tables: [(&str, Vec<&String>, bool); 4] = [
        ("cu", chain.cu.keys().collect(), true),
        ("ttl", chain.ttl.keys().collect(), true),
        ("blocked_methods", chain.blocked_methods.iter().collect(), false),
        ("open_methods", chain.open_methods.iter().collect(), false),
    ];
    for (table, names, is_table) in tables {
        for method in names {
            if let Some(why) = methods.unknown(method) {
                let (key, why) = match is_table {
                    true => (format!("chains.{name}.{table}.{method}"), why),
                    false => (format!("chains.{name}.{table}"), format!("names {method}, and {why}")),
                };
                warnings.add(key, why);
            }
        }
    }
    for (n, node) in chain.nodes.iter().enumerate() {
        for method in node.methods.iter().chain(&node.except) {
            if let Some(why) = methods.unknown(method) {
                warnings.add(
                    format!("chains.{name}.nodes"),
                    format!("names {method} in number {}, and {why}", n + 1),
                );
            }
        }
    }
}

/// Methods of a project that no chain has.
fn of_lists(key: &str, project: &ProjectSettings, adapters: &[&dyn Adapter], warnings: &mut Warnings) {
    if adapters.is_empty() {
        return;
    }
    let methods = KnownMethods::of(adapters);
    for (list, names) in
        [("allowed_methods", &project.allowed_methods), ("blocked_methods", &project.blocked_methods)]
    {
        for method in names {
            if let Some(why) = methods.unknown(method) {
                warnings.add(format!("{key}.{list}"), format!("names {method}, and {why}"));
            }
        }
    }
}

/// The methods that some chains are known to have.
struct KnownMethods<'a> {
    adapters: &'a [&'a dyn Adapter],
    names: Vec<String>,
    /// Whether the last segment of any path is a method too.
    is_open: bool,
}

impl<'a> KnownMethods<'a> {
    fn of(adapters: &'a [&'a dyn Adapter]) -> Self {
        let names =
            adapters.iter().flat_map(|adapter| method_table(*adapter)).map(|row| row.name.to_string());
        let is_open = adapters.iter().any(|adapter| adapter.facts().dialect == Dialect::Rest);
        KnownMethods { adapters, names: names.collect(), is_open }
    }

    /// The reason to think that the chains have no such method, as the end of a sentence.
    fn unknown(&self, method: &str) -> Option<String> {
        let stem = method.strip_suffix('*');
        let is_known = match stem {
            Some(stem) => self.names.iter().any(|name| name.starts_with(stem)),
            None => self.names.iter().any(|name| name == method),
        };
        // A rule for a whole family, such as `debug_*`, is not in the table.
        let probe = stem.map_or_else(|| method.to_owned(), |stem| format!("{stem}x"));
        let in_family = self.adapters.iter().any(|adapter| adapter.unlisted(&probe) != MethodRule::UNLISTED);
        if is_known || in_family {
            return None;
        }
        match near_name(method, self.names.iter().map(String::as_str)) {
            Some(near) => Some(format!("no such method is known; the nearest is {near}")),
            None if self.is_open => None,
            None => Some("no such method is known".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Input;

    fn warnings(text: &str) -> Vec<String> {
        let input = Input { chains: &["eth", "tron"], file: Some(("f.toml", text)), ..Input::default() };
        let config = Config::read(&input).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        config.warnings(&[]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_setting_that_can_have_no_effect_is_named_with_the_reason() {
        let node = |more: &str| format!("[[chains.eth.nodes]]\nurl = \"http://a:1\"\n{more}");
        let account = "[projects.p]\n[keys.k]\nkey = \"0123456789abcdef\"\nproject = \"p\"\n";
        for (text, warning) in [
            (
                "[gateway]\nlisten = \"127.0.0.1:9000\"\ngrpc_listen = \"127.0.0.1:9000\"\ntls = { cert = \"/c\", key = \"/k\" }\n",
                "gateway.grpc_listen: is 127.0.0.1:9000, which gateway.listen has too",
            ),
            (
                "[telemetry]\nlisten = \"0.0.0.0:8081\"\n",
                "telemetry.listen: is 0.0.0.0:8081, which admin.listen has too",
            ),
            ("[redis]\nprefix = \"x:\"\n", "redis.prefix: has no effect without redis.url"),
            (
                "[gateway.overload]\nenabled = false\ntolerance = 200\n",
                "gateway.overload: has no effect: gateway.overload.enabled is false",
            ),
            ("[safeguard]\nminutes = 9\n", "safeguard: has no effect: safeguard.enabled is false"),
            (
                "[telemetry.otlp]\nratio = 0.5\n",
                "telemetry.otlp: has no effect: telemetry.otlp.url is not set",
            ),
            (
                "[telemetry.otlp]\nurl = \"http://c:4317\"\nca_file = \"/a.pem\"\n",
                "telemetry.otlp.ca_file: has no effect: telemetry.otlp.url is not https",
            ),
            ("[acme]\ndomains = [\"a.example\"]\n", "acme: has no effect: neither"),
            (
                "[plans.free]\nper_minute = 501\n",
                "plans.free.per_minute: is 501 and can never be reached: per_hour is 500",
            ),
            (
                "[plans.free]\nper_hour = 601\n",
                "plans.free.per_hour: is 601 and can never be reached: per_minute is 10",
            ),
            (
                "[plans.free]\nper_day = 12001\n",
                "plans.free.per_day: is 12001 and can never be reached: per_hour is 500",
            ),
            ("[chains.eth]\ntimeout = \"9s\"\n", "chains.eth: has settings but no nodes"),
            (
                &format!("[chains.eth]\nbroadcast_nodes = 2\n{}", node("")),
                "chains.eth.broadcast_nodes: is 2, but 1 of its nodes",
            ),
            (
                &format!("[chains.eth]\nnext_node_after = \"1s\"\n{}", node("")),
                "chains.eth.next_node_after: has no effect with fewer than two",
            ),
            (
                &format!(
                    "[chains.eth]\nnext_node_after = \"30s\"\n{}{}",
                    node(""),
                    "[[chains.eth.nodes]]\nurl = \"http://b:1\"\n"
                ),
                "chains.eth.next_node_after: has no effect: it is not shorter",
            ),
            (
                &format!("[chains.eth.hedge]\nenabled = true\n{}", node("")),
                "chains.eth.hedge: has no effect with fewer than two",
            ),
            (
                &format!("[chains.eth.batching]\nenabled = true\n{}", node("max_batch = 1\n")),
                "chains.eth.batching: has no effect: max_batch of every node is 1",
            ),
            (&node("priority = 1\n"), "chains.eth.nodes: has a priority"),
            (
                &format!("{}{}", node(""), node("")),
                "chains.eth.nodes: lists one address twice, as numbers 1 and 2",
            ),
            (&node("over_budget = \"allow\"\n"), "chains.eth.nodes: has over_budget without monthly_calls"),
            (
                &node("methods = [\"eth_call\"]\nexcept = [\"eth_call\"]\n"),
                "chains.eth.nodes: has eth_call in methods and in except",
            ),
            (
                &format!("[cache]\nbytes = 0\n[chains.eth]\nttl = {{ eth_call = \"5s\" }}\n{}", node("")),
                "chains.eth.ttl: has no effect: cache.bytes is 0",
            ),
            ("[projects.p]\n", "projects.p: has no key in this file"),
            ("[tenants.t]\n", "tenants.t: has no project in this file"),
            (
                &format!(
                    "{account}[projects.q]\nallowed_methods = [\"a\"]\nblocked_methods = [\"a\"]\n[keys.l]\nkey = \"0123456789abcdeg\"\nproject = \"q\"\n"
                ),
                "projects.q.allowed_methods: allows a, which blocked_methods blocks",
            ),
            (
                "[projects.p]\n[keys.k]\nkey = \"0123456789abcdef\"\nproject = \"p\"\nchains = [\"tron\"]\n",
                "keys.k.chains: names only chains that this file gives no node",
            ),
        ] {
            let found = warnings(text);
            assert!(found.iter().any(|found| found.starts_with(warning)), "{warning}\n{found:#?}");
            assert_eq!(found.len(), 1, "{found:#?}\n{text}");
        }
    }

    #[test]
    fn settings_that_have_an_effect_are_not_named() {
        for text in [
            "",
            "[gateway]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n",
            "[gateway]\nlisten = \"10.0.0.1:9000\"\n[admin]\nlisten = \"10.0.0.2:9000\"\n",
            "[plans.free]\nper_minute = 300\nper_hour = 1000000000000\nper_day = 1000000000000\n",
            "[chains.eth]\nbroadcast_nodes = 2\nnext_node_after = \"1s\"\nnodes = [\"http://a:1\", \"http://b:1\", \"ws://a:2\"]\n",
            "[chains.eth]\nenabled = false\n",
        ] {
            assert_eq!(warnings(text), [""; 0], "{text}");
        }
    }
}
