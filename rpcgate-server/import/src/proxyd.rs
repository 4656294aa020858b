//! Reads proxyd's configuration.

use super::accounts::{Accounts, KeyWindows};
use super::advice::{Advice, advice};
use super::document::{Field, Node};
use super::draft::{Draft, TomlValue, chain_header, duration};
use super::error::ImportError;
use super::networks;
use super::nodes::{Upstream, is_rate_limit};
use super::note::NoteKind;
use super::service::{log_level, redis_url, set_listen};
use super::value;
use rpcgate_core::chain::ChainName;
use std::collections::BTreeMap;

const PORT: u16 = 8545;
const METRICS_PORT: u16 = 7300;

const DEADLINE: &str = "one deadline covers a call over all its tries: chains.<chain>.timeout";

pub(super) const ADVICE: &[Advice] = &[
    advice("server.ws_host", "WebSocket streams are served at gateway.listen, at /ws/<chain>"),
    advice("server.ws_port", "WebSocket streams are served at gateway.listen, at /ws/<chain>"),
    advice("server.max_concurrent_ws_rpcs", "plans.*.ws_connections and gateway.ws limit streams"),
    advice(
        "server.enable_request_log",
        "telemetry.access_log writes a line for each call; see docs/watching.md",
    ),
    advice("server.public_access", "rpcgate serves nobody without a key"),
    advice(
        "cache",
        "rpcgate caches by the class of each method: cache.bytes is the size, chains.<chain>.ttl changes a class",
    ),
    advice("redis.read_url", "rpcgate uses one Redis server, which counts: redis.url"),
    advice("redis", "rpcgate counts in memory while Redis is away"),
    advice(
        "rate_limit.method_overrides",
        "limits of single methods are their weights in Compute Units (chains.<chain>.cu) and plans.*.heavy_per_minute",
    ),
    advice("rate_limit", "rpcgate limits keys and projects, not origins and user agents"),
    advice("sender_rate_limit", "rpcgate does not count the senders of transactions"),
    advice("interop_validation", "rpcgate does not check transactions"),
    advice(
        "tx_validation_middleware",
        "rpcgate does not check transactions; put a service in front that does",
    ),
    advice(
        "backend.max_retries",
        "a call that only reads is sent to further nodes until its deadline, chains.<chain>.timeout",
    ),
    advice("backend.response_timeout_seconds", DEADLINE),
    advice("backend.response_timeout_milliseconds", DEADLINE),
    advice("backend.max_response_size_bytes", "gateway.reply_max is the size of all answers of one batch"),
    advice("backend", "nodes that fail are left alone for a while by themselves"),
    advice(
        "backends.*.weight",
        "rpcgate sends calls to the nodes that answer fastest; priority says which to use first",
    ),
    advice("backends.*.max_rps", "0 is no limit, and the highest rate_limit of a node is 1000000"),
    advice("backends.*.max_ws_conns", "plans.*.ws_connections limits streams"),
    advice(
        "backends.*.client_cert_file",
        "rpcgate presents no certificate to nodes: use headers or a password",
    ),
    advice(
        "backends.*.client_key_file",
        "rpcgate presents no certificate to nodes: use headers or a password",
    ),
    advice("backends", "rpcgate learns by itself how a node is"),
    advice("backend_groups", "rpcgate chooses healthy nodes near the newest block by itself"),
    advice(
        "rpc_method_mappings",
        "the file has no group with this name; the methods of a node say which methods it takes: docs/nodes.md",
    ),
    advice("ws_backend_group", "the file has no group with this name"),
    advice("batch", "a batch has at most 100 calls"),
    advice("whitelist_error_message", "refusals have fixed texts"),
];

/// The backends of the file and their chain.
struct Context<'n> {
    root: &'n Node,
    chain: ChainName,
}

/// Reads the file.
///
/// # Errors
/// [`ImportError::NoChain`] if neither the file nor `given` says which chain the backends serve.
pub(super) fn read(root: &Node, given: Option<ChainName>, draft: &mut Draft) -> Result<(), ImportError> {
    let chain = given.or_else(|| guessed(root, draft)).ok_or(ImportError::NoChain)?;
    let context = Context { root, chain };
    context.server(draft);
    context.times(draft);
    context.backends(draft);
    context.callers(draft);
    Ok(())
}

/// Returns the only chain that the file names: by identifiers, or by words in names and hosts.
fn guessed(root: &Node, draft: &mut Draft) -> Option<ChainName> {
    let ids = root.at_keys(&["sender_rate_limit", "allowed_chain_ids"]).map_or(&[][..], Node::items);
    let interop = root.at_keys(&["interop_validation", "chain_id"]);
    let mut found: Vec<Option<ChainName>> = ids
        .iter()
        .chain(interop)
        .filter_map(|node| value::number(node.peek()?))
        .map(networks::by_id)
        .collect();
    if found.is_empty() {
        let names =
            ["backend_groups", "backends"].iter().filter_map(|key| root.get(key)).flat_map(Node::fields);
        found = names
            .flat_map(|field| {
                let url = field.value.get("rpc_url").and_then(Node::peek).unwrap_or_default();
                let host =
                    url.split("//").nth(1).and_then(|rest| rest.split(['/', '?']).next()).unwrap_or_default();
                [
                    networks::by_words(&field.key),
                    networks::by_words(host.rsplit('@').next().unwrap_or_default()),
                ]
            })
            .filter(Option::is_some)
            .collect();
    }
    let first = found.first().copied().flatten()?;
    if found.iter().any(|other| *other != Some(first)) {
        return None;
    }
    let at = root.get("backends").unwrap_or(root);
    let text =
        format!("its nodes are taken for nodes of {first}, which the file names; --chain says another");
    draft.notes.differs(at, text);
    Some(first)
}

/// The backends of each method, and those of streams.
#[derive(Debug, Default)]
struct Routing<'n> {
    groups: BTreeMap<&'n str, Vec<&'n str>>,
    methods: Vec<(&'n str, &'n str)>,
    mappings: Option<&'n Node>,
    /// The group that gets streams; if absent, all groups do.
    streams: Option<&'n str>,
}

impl<'n> Routing<'n> {
    fn has(&self, group: &str, backend: &str) -> bool {
        self.groups.get(group).is_some_and(|backends| backends.contains(&backend))
    }

    fn has_streams(&self, backend: &str) -> bool {
        self.streams.is_none_or(|group| self.has(group, backend))
    }

    fn has_calls(&self, backend: &str) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|(_, group)| self.has(group, backend))
    }

    /// Returns the methods of a backend that does not get all methods of the file.
    fn methods_of(&self, backend: &str) -> Option<(Vec<String>, &'n Node)> {
        let own = self.methods.iter().filter(|(_, group)| self.has(group, backend));
        let own: Vec<String> = own.map(|(method, _)| (*method).to_owned()).collect();
        let is_part = !own.is_empty() && own.len() < self.methods.len();
        is_part.then_some(own).zip(self.mappings)
    }
}

impl<'n> Context<'n> {
    /// Reads the groups of methods. A method whose group does not exist stays unread, so that it is noted.
    fn routing(&self, groups: &'n [Field], draft: &mut Draft) -> Routing<'n> {
        let names = |group: &'n Node, key: &str| group.list(key).iter().filter_map(Node::peek);
        let backends = |group: &'n Node| names(group, "backends").chain(names(group, "fallbacks")).collect();
        let groups: BTreeMap<&str, Vec<&str>> =
            groups.iter().map(|group| (group.key.as_str(), backends(&group.value))).collect();
        let mappings = self.find(&["rpc_method_mappings"]);
        let mut methods = Vec::new();
        for field in mappings.map_or(&[][..], Node::fields) {
            if let Some(group) = field.value.peek().filter(|group| groups.contains_key(group)) {
                field.value.text();
                methods.push((field.key.as_str(), group));
            }
        }
        let streams = self.find(&["ws_backend_group"]);
        let streams = streams.filter(|group| group.peek().is_some_and(|name| groups.contains_key(name)));
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut differ = false;
        for (place, name) in groups.values().flat_map(|backends| backends.iter().enumerate()) {
            differ |= *places.entry(name).or_insert(place) != place;
        }
        if let Some(node) = self.find(&["backend_groups"]).filter(|_| differ) {
            let text = "a node has one priority: the first of its places in different groups counts";
            draft.notes.differs(node, text);
        }
        Routing { groups, methods, mappings, streams: streams.and_then(Node::text) }
    }

    fn find(&self, keys: &[&str]) -> Option<&'n Node> {
        self.root.at_keys(keys)
    }

    fn server(&self, draft: &mut Draft) {
        set_listen(
            draft,
            "gateway",
            self.find(&["server", "rpc_host"]),
            self.find(&["server", "rpc_port"]),
            PORT,
        );
        log_level(self.find(&["server", "log_level"]), draft);
        let body = self.find(&["server", "max_body_size_bytes"]);
        if let (Some(bytes), Some(node)) = (draft.number(body, "gateway.limits.body"), body) {
            draft.set("gateway.limits", "body", TomlValue::Number(bytes), node);
        }
        let most = self.find(&["server", "max_concurrent_rpcs"]);
        if let (Some(most), Some(node)) = (draft.number(most, "max_in_flight"), most)
            && most > 0
        {
            draft.set(&chain_header(self.chain), "max_in_flight", TomlValue::Number(most), node);
        }
        let grace = self.find(&["server", "graceful_shutdown_seconds"]);
        if let (Some(millis), Some(node)) = (draft.millis(grace, "shutdown.grace", 1_000), grace) {
            draft.set("shutdown", "grace", duration(millis), node);
        }
        if let Some(node) = self.find(&["server", "allow_all_origins"])
            && draft.flag(Some(node), "cors") == Some(false)
        {
            draft.notes.differs(node, "rpcgate allows any origin, because each call needs a key");
        }
        if draft.flag(self.find(&["metrics", "enabled"]), "telemetry.listen") == Some(true) {
            set_listen(
                draft,
                "telemetry",
                self.find(&["metrics", "host"]),
                self.find(&["metrics", "port"]),
                METRICS_PORT,
            );
        } else if let Some(node) = self.find(&["metrics"]) {
            node.settle();
        }
        if let Some(node) = self.find(&["redis", "url"]).filter(|node| node.peek() != Some("")) {
            let text = node.text().unwrap_or_default().to_owned();
            let value = redis_url(draft, &text, false, None, node);
            draft.set("redis", "url", value, node);
        }
        let namespace = self.find(&["redis", "namespace"]);
        if let (Some(prefix), Some(node)) = (draft.plain(namespace, "redis.prefix"), namespace) {
            draft.set("redis", "prefix", TomlValue::Text(format!("{prefix}:")), node);
        }
    }

    /// Sets one deadline over all tries: proxyd's own, or the sum of its tries.
    fn times(&self, draft: &mut Draft) {
        let whole = self.find(&["server", "timeout_seconds"]);
        let seconds = self.find(&["backend", "response_timeout_seconds"]);
        let millis = self.find(&["backend", "response_timeout_milliseconds"]);
        let header = chain_header(self.chain);
        if let Some(time) = draft.millis(whole, "timeout", 1_000).filter(|time| *time > 0)
            && let Some(node) = whole
        {
            draft.set(&header, "timeout", duration(time), node);
            return;
        }
        let one = draft.millis(millis, "timeout", 1).filter(|time| *time > 0);
        let (one, node) = match one {
            Some(time) => (Some(time), millis),
            None => (draft.millis(seconds, "timeout", 1_000), seconds),
        };
        let (Some(time), Some(node)) = (one, node) else { return };
        let retries =
            self.find(&["backend", "max_retries"]).and_then(Node::peek).and_then(value::number).unwrap_or(0);
        let all = time.saturating_mul(retries.saturating_add(1));
        draft.notes.differs(node, "chains.<chain>.timeout is the deadline of a call over all its tries");
        draft.set(&header, "timeout", duration(all), node);
    }

    fn backends(&self, draft: &mut Draft) {
        let groups = self.find(&["backend_groups"]).map_or(&[][..], Node::fields);
        let routing = self.routing(groups, draft);
        let batch = self.find(&["server", "max_upstream_batch_size"]);
        let batch = draft.number(batch, "max_batch").filter(|size| *size > 0).zip(batch);
        let mut ranked: Vec<(&str, u64)> = Vec::new();
        for group in groups {
            self.group(&group.value, &mut ranked, draft);
        }
        for field in self.find(&["backends"]).map_or(&[][..], Node::fields) {
            let backend = &field.value;
            let Some((_, rank)) = ranked.iter().find(|(name, _)| *name == field.key) else {
                draft.notes.left_out(backend, "no group uses it");
                continue;
            };
            let mut node = Upstream::new(self.chain, &field.key, backend);
            for (theirs, ours) in [("rpc_url", "url"), ("ws_url", "ws")] {
                let Some(url) = backend.get(theirs) else { continue };
                let unused = match ours {
                    "ws" if !routing.has_streams(&field.key) => "ws_backend_group does not name its groups",
                    "url" if !routing.has_calls(&field.key) => "rpc_method_mappings does not name its groups",
                    _ => "",
                };
                if unused.is_empty() || url.peek() == Some("") {
                    node.url(draft, ours, url);
                } else {
                    draft.notes.left_out(url, unused);
                }
            }
            if let Some((methods, from)) = routing.methods_of(&field.key) {
                node.methods(methods, from);
            }
            node.authorities(draft, backend.get("ca_file"));
            node.login(draft, backend.get("username"), backend.get("password"));
            for header in backend.get("headers").map_or(&[][..], Node::fields) {
                node.header(draft, &header.key, &header.value);
            }
            if let Some((size, from)) = batch {
                node.number("max_batch", size.min(100), from);
            }
            if *rank > 0 {
                node.number("priority", *rank, backend);
            }
            let rate = backend.get("max_rps");
            let is_rate = |text: &str| value::number(text).is_some_and(is_rate_limit);
            if let Some(from) = rate.filter(|from| from.peek().is_some_and(is_rate))
                && let Some(rate) = draft.number(Some(from), "rate_limit")
            {
                node.number("rate_limit", rate, from);
            }
            for key in ["username", "password", "ca_file", "client_cert_file", "client_key_file"] {
                backend.get(key).filter(|node| node.peek() == Some("")).and_then(Node::text);
            }
            node.add(draft);
        }
    }

    /// Ranks the backends of a group: a load-balanced group has one rank, any other tries them in order.
    fn group(&self, group: &'n Node, ranked: &mut Vec<(&'n str, u64)>, draft: &mut Draft) {
        let is = |key: &str| group.get(key).and_then(Node::text).and_then(value::flag) == Some(true);
        let strategy = group.get("routing_strategy").and_then(Node::text);
        let balanced =
            is("consensus_aware") || is("weighted_routing") || strategy.is_some_and(|s| s != "fallback");
        if strategy == Some("multicall")
            && let Some(node) = group.get("routing_strategy")
        {
            let text = "only transactions go to several nodes at once: chains.<chain>.broadcast_nodes";
            draft.notes.differs(node, text);
        }
        let fallbacks = group.get("fallbacks").map(Node::texts).unwrap_or_default();
        let backends = group.get("backends").map(Node::texts).unwrap_or_default();
        for (n, name) in backends.into_iter().enumerate() {
            let order = u64::try_from(n).unwrap_or(u64::MAX).min(1_000);
            let rank = if fallbacks.contains(&name) {
                1
            } else if balanced {
                0
            } else {
                order
            };
            match ranked.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = rank.min(*known),
                None => ranked.push((name, rank)),
            }
        }
        for name in fallbacks {
            if ranked.iter().all(|(known, _)| *known != name) {
                ranked.push((name, 1));
            }
        }
        let backends = self.find(&["backends"]);
        for name in ["backends", "fallbacks"].iter().filter_map(|key| group.get(key)).flat_map(Node::items) {
            if name.peek().is_some_and(|name| backends.and_then(|backends| backends.get(name)).is_none()) {
                draft.notes.left_out(name, "the file has no backend with this name");
            }
        }
        let lag = group.get("consensus_max_block_lag");
        if let (Some(lag), Some(node)) = (draft.number(lag, "max_lag"), lag) {
            draft.set(&chain_header(self.chain), "max_lag", TomlValue::Number(lag), node);
        }
    }

    /// Reads keys, the limit of each, and the permitted methods.
    fn callers(&self, draft: &mut Draft) {
        let mut accounts = Accounts::default();
        let keys = self.find(&["authentication"]).filter(|node| !node.fields().is_empty());
        let at = keys.unwrap_or(self.root);
        let windows = self.windows(draft);
        let project = accounts.project(draft, "proxyd", windows, at);
        for field in keys.map_or(&[][..], Node::fields) {
            let name = field.value.text().unwrap_or("key").to_owned();
            // The key is the name of the setting, so its path must not be shown.
            let mut hidden = field.value.clone();
            hidden.path = "authentication".to_owned();
            hidden.at = field.at;
            accounts.key(draft, &name, &project, &field.key, &hidden);
        }
        if let Some(keys) = keys {
            // The names of these settings are keys, which no note may show, so they are compared here.
            for field in keys.fields().iter().filter(|field| field.value.peek().is_none()) {
                let text = "a key has the name of its client as its value";
                draft.notes.add(NoteKind::LeftOut, field.at, "authentication", text);
            }
            keys.settle();
            let text = "clients send their key as `apikey` or `x-api-key` (header or query), not in the path";
            draft.notes.add(NoteKind::Differs, at.at, "authentication", text);
        } else {
            let text = "rpcgate serves nobody without a key: add keys to the file, or run rpcgate-admin; see docs/moving.md";
            draft.notes.add(NoteKind::Differs, at.at, "", text);
        }
        let mapped = self.find(&["rpc_method_mappings"]).map_or(&[][..], Node::fields);
        let streams = self.find(&["ws_method_whitelist"]);
        let mut methods: Vec<String> = mapped.iter().map(|field| field.key.clone()).collect();
        methods.extend(streams.map(Node::texts).unwrap_or_default().into_iter().map(str::to_owned));
        methods.sort();
        methods.dedup();
        if let Some(node) = self.find(&["rpc_method_mappings"]).or(streams)
            && !methods.is_empty()
        {
            draft.set(&format!("projects.{project}"), "allowed_methods", TomlValue::Texts(methods), node);
        }
    }

    fn windows(&self, draft: &mut Draft) -> KeyWindows {
        let rate = self.find(&["rate_limit", "base_rate"]);
        let interval = self.find(&["rate_limit", "base_interval"]);
        let none = KeyWindows::default();
        let (Some(bound), Some(node)) =
            (draft.number(rate, "plans.standard.per_minute").filter(|n| *n > 0), rate)
        else {
            return none;
        };
        let Some(millis) = draft.millis(interval, "plans.standard.per_minute", 1_000) else { return none };
        let is_shared = self.find(&["redis", "url"]).is_some_and(|url| url.peek() != Some(""));
        if let Some(node) = self.find(&["rate_limit", "use_redis"])
            && draft.flag(Some(node), "redis.url") == Some(false)
            && is_shared
        {
            draft.notes.differs(node, "gateways that share redis.url count together");
        }
        let windows = match millis {
            1..60_000 => KeyWindows { minute: Some(bound.saturating_mul(60_000 / millis)), ..none },
            60_000 => KeyWindows { minute: Some(bound), ..none },
            3_600_000 => KeyWindows { hour: Some(bound), ..none },
            86_400_000 => KeyWindows { day: Some(bound), ..none },
            _ => {
                draft.notes.left_out(node, "rpcgate has windows of a minute, an hour and a day");
                return none;
            }
        };
        draft.notes.differs(
            node,
            "rpcgate counts the requests of each key, in a plan's windows, not those of an address",
        );
        windows
    }
}
