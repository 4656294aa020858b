//! Reads the plugins and the consumers of Kong's declarative configuration.

use super::accounts::{Accounts, KeyWindows};
use super::document::Node;
use super::draft::{Draft, TomlValue};
use super::note::NoteKind;
use super::service::{note_parts_of_redis_url, redis_url};
use super::value;

/// The headers and query parameters in which rpcgate reads keys.
const KEY_NAMES: &[&str] = &["apikey", "x-api-key"];

fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.get(key).and_then(Node::peek)
}

fn is_on(plugin: &Node) -> bool {
    text(plugin, "enabled").and_then(value::flag) != Some(false)
}

/// Returns the name of a plugin's entity, in either way to write it.
fn of<'n>(plugin: &'n Node, key: &str) -> Option<&'n str> {
    let node = plugin.get(key)?;
    ["name", "username", "id"].iter().fold(node.peek(), |found, key| found.or_else(|| text(node, key)))
}

/// Reports whether `one` is for `entity`, which it names at `key` by name or identifier.
fn is_for(one: &Node, key: &str, name: Option<&str>, entity: &Node) -> bool {
    of(one, key).is_some_and(|of| Some(of) == name || Some(of) == text(entity, "id"))
}

#[derive(Debug)]
pub(super) struct AddedHeader<'n> {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) from: &'n Node,
}

pub(super) fn node_headers<'n>(root: &'n Node, service: &'n Node) -> Vec<AddedHeader<'n>> {
    let name = text(service, "name");
    let named = |plugin: &&Node| is_for(plugin, "service", name, service);
    let plugins = service.list("plugins").iter().chain(root.list("plugins").iter().filter(named));
    let mut headers = Vec::new();
    for plugin in
        plugins.filter(|plugin| text(plugin, "name") == Some("request-transformer") && is_on(plugin))
    {
        for action in ["add", "append"] {
            let Some(list) = plugin.at_keys(&["config", action, "headers"]) else { continue };
            for from in list.items() {
                if let Some((name, value)) = from.text().and_then(|header| header.split_once(':')) {
                    let name = name.trim().to_lowercase();
                    headers.push(AddedHeader { name, value: value.trim().to_owned(), from });
                }
            }
        }
        plugin.use_keys(&["name", "enabled", "service"]);
    }
    headers
}

#[derive(Clone, Copy, Debug, Default)]
struct PluginLimits {
    second: Option<u64>,
    windows: KeyWindows,
}

pub(super) fn read(root: &Node, draft: &mut Draft) {
    let shared = shared_plugins(root, draft);
    let mut accounts = Accounts::default();
    let consumers = root.list("consumers");
    let mut keys = 0;
    for consumer in consumers {
        let name = text(consumer, "username").or_else(|| text(consumer, "custom_id")).unwrap_or("consumer");
        let named = |one: &&Node| is_for(one, "consumer", Some(name), consumer);
        let own = consumer.list("plugins").iter().chain(root.list("plugins").iter().filter(named));
        let mut credentials = consumer
            .list("keyauth_credentials")
            .iter()
            .chain(root.list("keyauth_credentials").iter().filter(named))
            .peekable();
        let mut limits: Option<PluginLimits> = None;
        for plugin in own.filter(|plugin| is_limit(plugin)) {
            if credentials.peek().is_none() {
                draft.notes.left_out(plugin, "its consumer has no key that rpcgate could limit");
            } else if let Some(scope) = scope(plugin) {
                draft.notes.left_out(plugin, limit_of(scope));
            } else {
                let more = self::limits(plugin, draft);
                limits = Some(limits.map_or(more, |known| both(known, more)));
            }
        }
        if credentials.peek().is_none() {
            continue;
        }
        // Kong applies only the most specific plugin.
        let limits = limits.unwrap_or(shared);
        for key in ["username", "custom_id"] {
            consumer.get(key).and_then(Node::text);
        }
        let project = accounts.project(draft, name, limits.windows, consumer);
        if let Some(second) = limits.second {
            draft.set(&format!("projects.{project}"), "rps_limit", TomlValue::Number(second), consumer);
        }
        for credential in credentials {
            credential.use_keys(&["consumer"]);
            if let Some(node) = credential.get("key")
                && let Some(given) = node.text()
            {
                accounts.key(draft, name, &project, given, node);
                keys += 1;
            }
        }
    }
    if keys == 0 {
        let text = "rpcgate serves nobody without a key: add keys to the file, or run rpcgate-admin; see docs/moving.md";
        draft.notes.add(NoteKind::Differs, root.at, "", text);
    }
}

fn both(a: PluginLimits, b: PluginLimits) -> PluginLimits {
    PluginLimits { second: a.second.into_iter().chain(b.second).min(), windows: a.windows.and(b.windows) }
}

fn is_limit(plugin: &Node) -> bool {
    is_on(plugin) && matches!(text(plugin, "name"), Some("rate-limiting" | "rate-limiting-advanced"))
}

/// The part of the traffic that a plugin is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    Service,
    Route,
    ConsumerGroup,
}

/// Returns the scope that a plugin itself names, apart from its consumer.
fn scope(plugin: &Node) -> Option<Scope> {
    let scopes =
        [("route", Scope::Route), ("service", Scope::Service), ("consumer_group", Scope::ConsumerGroup)];
    scopes
        .into_iter()
        .find(|(key, _)| plugin.get(key).is_some_and(|node| !node.is_nothing()))
        .map(|(_, scope)| scope)
}

/// Returns the reason why a limit of this scope is not carried over.
fn limit_of(scope: Scope) -> &'static str {
    match scope {
        Scope::Service | Scope::Route => {
            "it limits one service or route alone; rpcgate's limits belong to a key or a project and hold on all its \
             chains: plans, projects.*.rps_limit"
        }
        Scope::ConsumerGroup => {
            "it limits a group of consumers; give their tenants a plan of your own: rpcgate-admin custom-plan create"
        }
    }
}

/// Returns all plugins except those of consumers, with their scopes; `None` is all traffic.
fn scoped_plugins(root: &Node) -> impl Iterator<Item = (&Node, Option<Scope>)> {
    let below = |list: &'static str, within| {
        root.list(list).iter().flat_map(|one| one.list("plugins")).map(move |plugin| (plugin, Some(within)))
    };
    let in_routes =
        root.list("services").iter().flat_map(|s| s.list("routes")).flat_map(|r| r.list("plugins"));
    let of_file = root.list("plugins").iter().map(|plugin| (plugin, scope(plugin)));
    of_file
        .chain(below("services", Scope::Service))
        .chain(below("routes", Scope::Route))
        .chain(in_routes.map(|plugin| (plugin, Some(Scope::Route))))
        .chain(below("consumer_groups", Scope::ConsumerGroup))
}

/// Reads the plugins that are not for one consumer. Returns the limits for all traffic.
fn shared_plugins(root: &Node, draft: &mut Draft) -> PluginLimits {
    let mut shared: Option<PluginLimits> = None;
    for (plugin, scope) in scoped_plugins(root) {
        let name = text(plugin, "name");
        if of(plugin, "consumer").is_some() {
            if !is_limit(plugin) {
                draft.notes.left_out(plugin, plugin_advice(name.unwrap_or_default()));
            }
            continue;
        }
        if !is_on(plugin) {
            // It has no effect in Kong either.
            plugin.settle();
            continue;
        }
        match (name, scope) {
            (Some("key-auth"), _) => key_auth(plugin, draft),
            (Some("rate-limiting" | "rate-limiting-advanced"), Some(scope)) => {
                draft.notes.left_out(plugin, limit_of(scope));
            }
            (Some("rate-limiting" | "rate-limiting-advanced"), None) => {
                let limits = limits(plugin, draft);
                shared = Some(shared.map_or(limits, |known| both(known, limits)));
            }
            (Some("request-size-limiting"), _) => {
                if scope.is_some() {
                    draft.notes.differs(
                        plugin,
                        "gateway.limits.body is for all chains: the largest limit of the file",
                    );
                }
                body_size(plugin, draft);
            }
            (Some("cors"), _) => cors(plugin, draft),
            (Some("request-transformer"), _) if plugin.is_used() => {}
            (Some(name), _) => draft.notes.left_out(plugin, plugin_advice(name)),
            (None, _) => {}
        }
    }
    shared.unwrap_or_default()
}

/// Reads the CORS plugin. We allow any origin, and the headers that a browser asks for.
fn cors(plugin: &Node, draft: &mut Draft) {
    let origins = plugin.at_keys(&["config", "origins"]).map(Node::texts).unwrap_or_default();
    if !origins.is_empty() && origins != ["*"] {
        draft.notes.left_out(plugin, "rpcgate allows any origin, because each call needs a key");
        return;
    }
    plugin.use_keys(&["name", "enabled", "service", "route"]);
    for field in plugin.get("config").map_or(&[][..], Node::fields).iter().filter(|f| f.key != "origins") {
        if !field.value.is_nothing() {
            draft.notes.left_out(&field.value, "rpcgate answers preflights by itself, without credentials");
        }
    }
}

fn plugin_advice(name: &str) -> &'static str {
    match name {
        "proxy-cache" | "proxy-cache-advanced" => "rpcgate caches by the class of each method: cache.bytes",
        "prometheus" | "statsd" | "datadog" => "telemetry.listen serves rpcgate's metrics",
        "ip-restriction" | "bot-detection" => {
            "rpcgate does not filter addresses: do it at the network or in a proxy in front"
        }
        "acl" => "keys.*.chains says which chains a key may use",
        "jwt" | "oauth2" | "basic-auth" | "hmac-auth" | "ldap-auth" | "openid-connect" | "mtls-auth" => {
            "rpcgate knows callers by API keys: put a proxy in front that maps callers to keys"
        }
        "file-log" | "http-log" | "tcp-log" | "syslog" | "loggly" => {
            "telemetry.access_log writes a line for each call; usage is in the database"
        }
        "request-termination" => "chains.<chain>.enabled = false closes a chain",
        "correlation-id" => "every answer has an x-request-id",
        "opentelemetry" | "zipkin" => "telemetry.otlp sends traces to an OpenTelemetry collector",
        "request-transformer" | "response-transformer" => "headers for nodes belong to a node: headers",
        _ => "rpcgate has no such plugin",
    }
}

/// Reads the places of clients' keys. Only differences from rpcgate's are noted.
fn key_auth(plugin: &Node, draft: &mut Draft) {
    plugin.use_keys(&["name", "enabled", "service", "route", "protocols"]);
    let Some(config) = plugin.get("config") else { return };
    if let Some(node) = config.get("key_names") {
        let is_ours =
            |name: &Node| name.peek().is_some_and(|name| KEY_NAMES.contains(&&*name.to_lowercase()));
        if node.items().iter().all(is_ours) {
            node.use_all();
        } else {
            let text = "clients send their key as `apikey` or `x-api-key`, in a header or the query";
            draft.notes.differs(node, text);
            node.settle();
        }
    }
    // The value of a switch that matches rpcgate's behaviour, and the note for the other value.
    let switches = [
        ("key_in_query", true, "rpcgate also takes keys from the query, where logs of others may show them"),
        ("key_in_header", true, "rpcgate also takes keys from headers"),
        ("key_in_body", false, "rpcgate takes no keys from bodies: clients send them in a header"),
        ("hide_credentials", true, "rpcgate never passes a key on to a node"),
        ("run_on_preflight", false, "rpcgate answers preflights without a key"),
    ];
    for (key, ours, text) in switches {
        let Some(node) = config.get(key).filter(|node| !node.is_nothing()) else { continue };
        if draft.flag(Some(node), "a key of each client").is_some_and(|given| given != ours) {
            draft.notes.differs(node, text);
        }
    }
    if let Some(node) = config.get("anonymous").filter(|node| !node.is_nothing() && node.peek() != Some("")) {
        draft.notes.left_out(node, "rpcgate serves no call without a key");
    }
}

fn body_size(plugin: &Node, draft: &mut Draft) {
    let size = plugin.at_keys(&["config", "allowed_payload_size"]);
    let unit = plugin.at_keys(&["config", "size_unit"]);
    let unit: u64 = match unit.and_then(Node::text) {
        Some("bytes") => 1,
        Some("kilobytes") => 1024,
        Some("megabytes") | None => 1024 * 1024,
        Some(_) => {
            draft.notes.left_out(plugin, "its size_unit is none of megabytes, kilobytes and bytes");
            return;
        }
    };
    if let (Some(amount), Some(node)) = (draft.number(size, "gateway.limits.body"), size) {
        draft.set_larger("gateway.limits", "body", amount.saturating_mul(unit), node);
    }
    plugin.use_keys(&["name", "enabled", "service", "route"]);
}

fn limits(plugin: &Node, draft: &mut Draft) -> PluginLimits {
    let mut limits = PluginLimits::default();
    plugin.use_keys(&["name", "enabled", "consumer"]);
    let Some(config) = plugin.get("config") else { return limits };
    let get = |key: &str| config.get(key);
    let bound = |key: &str, draft: &mut Draft| draft.number(get(key), "plans").filter(|bound| *bound > 0);
    limits.second = bound("second", draft);
    limits.windows =
        KeyWindows { minute: bound("minute", draft), hour: bound("hour", draft), day: bound("day", draft) };
    advanced(config, &mut limits, draft);
    for key in ["month", "year"] {
        if let Some(node) = get(key).filter(|node| !node.is_nothing()) {
            draft.notes.left_out(node, "the windows of a plan are a minute, an hour and a day");
        }
    }
    if let Some(node) = get("limit_by").or_else(|| get("identifier"))
        && !matches!(node.text(), Some("consumer" | "credential"))
    {
        draft.notes.differs(node, "rpcgate counts the requests of each key, in a plan's windows");
        node.settle();
    }
    redis(config, draft);
    counters(config, draft);
    // The value of a switch that matches rpcgate's behaviour, and the note for the other value.
    for (key, ours, text) in [
        ("fault_tolerant", true, "while Redis is away, each gateway counts by itself"),
        ("hide_client_headers", false, "every answer has the headers of the windows"),
    ] {
        let Some(node) = get(key).filter(|node| !node.is_nothing()) else { continue };
        if draft.flag(Some(node), "nothing").is_some_and(|given| given != ours) {
            draft.notes.differs(node, text);
        }
    }
    limits
}

/// Reads the storage of Kong's counters and the kind of its windows.
fn counters(config: &Node, draft: &mut Draft) {
    // The interval at which Kong synchronises its inexact counters; rpcgate's are exact.
    config.settle_keys(&["sync_rate"]);
    for node in ["policy", "strategy"].iter().filter_map(|key| config.get(key)) {
        match node.text() {
            Some("redis" | "local") | None => {}
            Some("cluster") => {
                draft.notes.differs(node, "gateways count together only if they share redis.url");
            }
            Some(_) => draft.notes.left_out(node, "rpcgate counts in memory, or in Redis: redis.url"),
        }
    }
    if let Some(node) = config.get("window_type").filter(|node| !node.is_nothing())
        && node.text() != Some("fixed")
    {
        draft.notes.differs(node, "the windows of a plan are fixed: the minutes, hours and days of UTC");
        node.settle();
    }
    if let Some(node) = config.get("namespace").filter(|node| !node.is_nothing()) {
        draft.notes.left_out(node, "gateways count together if they share redis.url and redis.prefix");
    }
}

/// Reads the form with one list of limits and one of window sizes in seconds.
fn advanced(config: &Node, limits: &mut PluginLimits, draft: &mut Draft) {
    for (limit, window) in config.list("limit").iter().zip(config.list("window_size")) {
        let read = |node: &Node| node.peek().and_then(value::number);
        let slot = match read(window) {
            Some(1) => &mut limits.second,
            Some(60) => &mut limits.windows.minute,
            Some(3_600) => &mut limits.windows.hour,
            Some(86_400) => &mut limits.windows.day,
            _ => {
                let text = "the windows of a plan are a minute, an hour and a day";
                draft.notes.left_out(window, text);
                limit.use_all();
                continue;
            }
        };
        if let Some(bound) = read(limit).filter(|bound| *bound > 0) {
            *slot = Some(bound);
            limit.use_all();
            window.use_all();
        }
    }
}

fn redis(config: &Node, draft: &mut Draft) {
    if ["policy", "strategy"].iter().all(|key| text(config, key) != Some("redis")) {
        return;
    }
    let nested = config.get("redis");
    let get =
        |short: &str| nested.and_then(|r| r.get(short)).or_else(|| config.get(&format!("redis_{short}")));
    let Some(host) = get("host") else { return };
    let Some(name) = host.text().map(str::to_owned) else { return };
    let port = draft.number(get("port"), "redis.url").unwrap_or(6379);
    let number = draft.number(get("database"), "redis.url");
    let login = ["username", "password"].iter().any(|key| get(key).is_some_and(|node| !node.is_nothing()));
    get("ssl").into_iter().for_each(Node::use_all);
    for (key, text) in [
        ("timeout", "rpcgate waits a fixed time for Redis"),
        ("ssl_verify", "rpcgate always verifies the certificate of Redis"),
    ] {
        if let Some(node) = get(key).filter(|node| !node.is_nothing() && node.peek() != Some("true")) {
            draft.notes.left_out(node, text);
        } else {
            get(key).into_iter().for_each(Node::use_all);
        }
    }
    let tls = get("ssl").and_then(Node::peek).and_then(value::flag) == Some(true);
    let scheme = if tls { "rediss" } else { "redis" };
    let value = redis_url(draft, &format!("{scheme}://{name}:{port}"), login, number, host);
    if host.is_settled() {
        let parts = ["username", "password", "port", "database", "ssl"].into_iter().filter_map(get);
        note_parts_of_redis_url(draft, &value, parts);
    }
    draft.set("redis", "url", value, host);
}
