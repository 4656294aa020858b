//! Reads the plugins and the consumers of Kong's declarative configuration.

use super::accounts::{Accounts, KeyWindows};
use super::document::Node;
use super::draft::{Draft, TomlValue};
use super::note::NoteKind;
use super::service::redis_url;
use super::value;

/// Names of keys that rpcgate reads, in headers and queries.
const KEY_NAMES: &[&str] = &["apikey", "x-api-key"];

fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.get(key).and_then(Node::peek)
}

fn is_on(plugin: &Node) -> bool {
    text(plugin, "enabled").and_then(value::flag) != Some(false)
}

/// The name of what a plugin is for, in one of the ways to write it.
fn of<'n>(plugin: &'n Node, key: &str) -> Option<&'n str> {
    let node = plugin.get(key)?;
    node.peek().or_else(|| text(node, "name")).or_else(|| text(node, "username"))
}

/// Headers that a request transformer adds to the requests of a service: names and values.
pub(super) fn node_headers(root: &Node, service: &Node) -> Vec<(String, String)> {
    let name = text(service, "name");
    let named = |plugin: &&Node| of(plugin, "service").is_some() && of(plugin, "service") == name;
    let plugins = service.list("plugins").iter().chain(root.list("plugins").iter().filter(named));
    let mut headers = Vec::new();
    for plugin in
        plugins.filter(|plugin| text(plugin, "name") == Some("request-transformer") && is_on(plugin))
    {
        for action in ["add", "append"] {
            let Some(list) = plugin.at_keys(&["config", action, "headers"]) else { continue };
            for header in list.texts() {
                if let Some((name, value)) = header.split_once(':') {
                    headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
                }
            }
        }
        for key in ["name", "enabled", "service"] {
            plugin.get(key).into_iter().for_each(Node::use_all);
        }
    }
    headers
}

/// The limits of requests that a plugin sets.
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
        let named = |plugin: &&Node| of(plugin, "consumer") == Some(name);
        let own = consumer.list("plugins").iter().chain(root.list("plugins").iter().filter(named));
        let own = own.filter(|plugin| is_limit(plugin)).fold(None, |known: Option<PluginLimits>, plugin| {
            let limits = limits(plugin, draft);
            Some(known.map_or(limits, |known| both(known, limits)))
        });
        // Kong applies the most exact plugin alone.
        let limits = own.unwrap_or(shared);
        let credentials = consumer.list("keyauth_credentials");
        if credentials.is_empty() {
            continue;
        }
        for key in ["username", "custom_id"] {
            consumer.get(key).and_then(Node::text);
        }
        let project = accounts.project(draft, name, limits.windows, consumer);
        if let Some(second) = limits.second {
            draft.set(&format!("projects.{project}"), "rps_limit", TomlValue::Number(second), consumer);
        }
        for credential in credentials {
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

/// Plugins that are for all, for a service or for a route. The limits are those for all consumers.
fn shared_plugins(root: &Node, draft: &mut Draft) -> PluginLimits {
    let mut shared: Option<PluginLimits> = None;
    let below = |key: &'static str| root.list(key).iter().flat_map(|one| one.list("plugins"));
    let in_routes =
        root.list("services").iter().flat_map(|s| s.list("routes")).flat_map(|r| r.list("plugins"));
    let all = root.list("plugins").iter().chain(below("services")).chain(below("routes")).chain(in_routes);
    for plugin in all {
        if of(plugin, "consumer").is_some() {
            continue;
        }
        if !is_on(plugin) {
            plugin.use_all();
            continue;
        }
        match text(plugin, "name") {
            Some("key-auth") => key_names(plugin, draft),
            Some("rate-limiting" | "rate-limiting-advanced") => {
                let limits = limits(plugin, draft);
                shared = Some(shared.map_or(limits, |known| both(known, limits)));
            }
            Some("request-size-limiting") => body_size(plugin, draft),
            Some("cors") => {
                let origins = plugin.at_keys(&["config", "origins"]).map(Node::texts).unwrap_or_default();
                if origins.is_empty() || origins == ["*"] {
                    plugin.use_all();
                } else {
                    draft.notes.left_out(plugin, "rpcgate allows any origin, because each call needs a key");
                }
            }
            Some("request-transformer") if plugin.is_used() => {}
            Some(name) => draft.notes.left_out(plugin, plugin_advice(name)),
            None => {}
        }
    }
    shared.unwrap_or_default()
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

fn key_names(plugin: &Node, draft: &mut Draft) {
    let names = plugin.at_keys(&["config", "key_names"]);
    if let Some(node) = names
        && node
            .items()
            .iter()
            .any(|name| name.peek().is_none_or(|name| !KEY_NAMES.contains(&&*name.to_lowercase())))
    {
        draft
            .notes
            .differs(node, "clients send their key as `apikey` or `x-api-key`, in a header or the query");
    }
    plugin.use_all();
}

fn body_size(plugin: &Node, draft: &mut Draft) {
    let (size, unit) =
        (plugin.at_keys(&["config", "allowed_payload_size"]), plugin.at_keys(&["config", "size_unit"]));
    let unit: u64 = match unit.and_then(Node::text) {
        Some("bytes") => 1,
        Some("kilobytes") => 1024,
        _ => 1024 * 1024,
    };
    if let (Some(amount), Some(node)) = (draft.number(size, "gateway.limits.body"), size) {
        draft.set_larger("gateway.limits", "body", amount.saturating_mul(unit), node);
    }
    plugin.use_all();
}

/// The bounds of a plugin that limits rates.
fn limits(plugin: &Node, draft: &mut Draft) -> PluginLimits {
    let mut limits = PluginLimits::default();
    plugin.get("name").and_then(Node::text);
    for key in ["enabled", "consumer", "service", "route"] {
        plugin.get(key).into_iter().for_each(Node::use_all);
    }
    let Some(config) = plugin.get("config") else { return limits };
    let get = |key: &str| config.get(key);
    let bound = |key: &str, draft: &mut Draft| draft.number(get(key), "plans").filter(|bound| *bound > 0);
    limits.second = bound("second", draft);
    limits.windows =
        KeyWindows { minute: bound("minute", draft), hour: bound("hour", draft), day: bound("day", draft) };
    advanced(config, &mut limits);
    for key in ["month", "year"] {
        if let Some(node) = get(key).filter(|node| !node.is_nothing()) {
            draft.notes.left_out(node, "the windows of a plan are a minute, an hour and a day");
        }
    }
    if let Some(node) = get("limit_by").or_else(|| get("identifier"))
        && !matches!(node.text(), Some("consumer" | "credential"))
    {
        draft.notes.differs(node, "rpcgate counts the requests of each key, in a plan's windows");
    }
    let text = "it was for some services or routes; a plan's windows are for all chains";
    if ["service", "route"].iter().any(|key| plugin.get(key).is_some()) {
        draft.notes.differs(plugin, text);
    }
    redis(config, draft);
    for key in [
        "policy",
        "fault_tolerant",
        "hide_client_headers",
        "sync_rate",
        "strategy",
        "namespace",
        "window_type",
    ] {
        get(key).into_iter().for_each(Node::use_all);
    }
    limits
}

/// The form with one list of limits and one of window sizes in seconds.
fn advanced(config: &Node, limits: &mut PluginLimits) {
    for (limit, window) in config.list("limit").iter().zip(config.list("window_size")) {
        let read = |node: &Node| node.peek().and_then(value::number);
        let slot = match read(window) {
            Some(1) => &mut limits.second,
            Some(60) => &mut limits.windows.minute,
            Some(3_600) => &mut limits.windows.hour,
            Some(86_400) => &mut limits.windows.day,
            _ => continue,
        };
        if let Some(bound) = read(limit).filter(|bound| *bound > 0) {
            *slot = Some(bound);
            limit.use_all();
            window.use_all();
        }
    }
}

fn redis(config: &Node, draft: &mut Draft) {
    if text(config, "policy") != Some("redis") {
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
    for key in ["username", "password", "timeout", "ssl", "ssl_verify"] {
        get(key).into_iter().for_each(Node::use_all);
    }
    let tls = get("ssl").and_then(Node::peek).and_then(value::flag) == Some(true);
    let scheme = if tls { "rediss" } else { "redis" };
    let value = redis_url(draft, &format!("{scheme}://{name}:{port}"), login, number, host);
    draft.set("redis", "url", value, host);
}
