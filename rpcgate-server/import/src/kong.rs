//! Reads Kong's declarative configuration: services, routes and upstreams become nodes.

use super::advice::{Advice, advice};
use super::document::Node;
use super::draft::{Draft, Holds, chain_header, duration};
use super::kong_plugins;
use super::kong_routes::{SentPath, read_route, routes, sent_path, text};
use super::networks;
use super::nodes::Upstream;
use super::value::{self, Given};
use rpcgate_chains::by_path;
use rpcgate_core::chain::ChainName;
use rpcgate_core::tally::Transport;

const TTL: &str = "the key does not expire here: write the moment into expires_at of the key";
const PLUGIN: &str = "what rpcgate does instead of this plugin has no such setting";

pub(super) const ADVICE: &[Advice] = &[
    advice("_info.defaults", "rpcgate has no defaults of decK: write them at each service and each route"),
    advice("_plugin_configs", "write the shared settings at each plugin that names them"),
    advice("certificates", "write certificate and key into files: gateway.tls.cert and gateway.tls.key"),
    advice(
        "ca_certificates",
        "write the authorities of nodes into a file: ca_file of the chain or of the node",
    ),
    advice("snis", "rpcgate has one certificate: gateway.tls"),
    advice("vaults", "rpcgate reads secrets from files and from variables of the environment"),
    advice("consumer_groups", "groups with limits of their own are plans: rpcgate-admin custom-plan"),
    advice("consumers.*.keyauth_credentials.*.ttl", TTL),
    advice("consumers.*.keyauth_credentials", "a key of rpcgate has no such setting"),
    advice("consumers.*.basicauth_credentials", "rpcgate knows callers by API keys: give this one a key"),
    advice("consumers.*.jwt_secrets", "rpcgate knows callers by API keys: give this one a key"),
    advice("consumers.*.hmacauth_credentials", "rpcgate knows callers by API keys: give this one a key"),
    advice("consumers.*.oauth2_credentials", "rpcgate knows callers by API keys: give this one a key"),
    advice("consumers.*.acls", "keys.*.chains says which chains a key may use"),
    advice("consumers.*.groups", "groups with limits of their own are plans: rpcgate-admin custom-plan"),
    advice("consumers.*.plugins", "rpcgate has no such setting for a caller"),
    advice("consumers", "rpcgate has no such setting for a caller; it knows callers by API keys"),
    advice("keyauth_credentials.*.ttl", TTL),
    advice("keyauth_credentials", "the file has no consumer with this name"),
    advice(
        "services.*.retries",
        "a call that only reads is sent to further nodes until its deadline, chains.<chain>.timeout",
    ),
    advice(
        "services.*.connect_timeout",
        "one deadline covers a call over all its tries: chains.<chain>.timeout",
    ),
    advice(
        "services.*.write_timeout",
        "one deadline covers a call over all its tries: chains.<chain>.timeout",
    ),
    advice("services.*.tls_verify", "the certificates of nodes are always verified"),
    advice(
        "services.*.client_certificate",
        "rpcgate presents no certificate to nodes: use headers or a password",
    ),
    advice("services.*.routes", "the path of a chain is fixed, on any host; docs/chains.md lists all"),
    advice("services", "rpcgate has no such setting for a chain"),
    advice("routes", "the path of a chain is fixed, on any host; docs/chains.md lists all"),
    advice(
        "upstreams.*.healthchecks",
        "rpcgate learns by itself how a node is: chains.<chain>.probe_interval",
    ),
    advice("upstreams.*.algorithm", "rpcgate sends calls to the nodes that answer fastest"),
    advice(
        "upstreams.*.targets.*.weight",
        "rpcgate sends calls to the nodes that answer fastest; priority says which to use first",
    ),
    advice("upstreams", "rpcgate chooses among the nodes of a chain by itself"),
    advice("services.*.plugins.*.config", PLUGIN),
    advice("services.*.routes.*.plugins.*.config", PLUGIN),
    advice("routes.*.plugins.*.config", PLUGIN),
    advice("plugins.*.config", PLUGIN),
    advice("plugins", "rpcgate has no plugins"),
];

pub(super) fn read(root: &Node, given: Option<ChainName>, draft: &mut Draft) {
    for key in ["_format_version", "_transform", "_comment", "_workspace"] {
        root.get(key).into_iter().for_each(Node::settle);
    }
    if let Some(info) = root.get("_info") {
        // These say which entities decK wrote into the file.
        info.settle_keys(&["select_tags"]);
    }
    tags(root);
    for service in root.list("services") {
        read_service(root, service, given, draft);
    }
    for upstream in root.list("upstreams") {
        if !upstream.is_used() {
            draft.notes.left_out(upstream, "no service that was carried over uses it");
        }
    }
    kong_plugins::read(root, draft);
}

/// Settles an entity's tags, identifiers and times, which only Kong's own tools read.
fn tags(node: &Node) {
    for field in node.fields() {
        match field.key.as_str() {
            "tags" | "id" | "created_at" | "updated_at" => field.value.settle(),
            // The settings of a plugin, and references to other entities, have an effect.
            "config" | "service" | "route" | "consumer" | "consumer_group" => {}
            _ => tags(&field.value),
        }
    }
    node.items().iter().for_each(tags);
}

fn chain_of(root: &Node, service: &Node) -> Option<ChainName> {
    let paths: Vec<&str> =
        routes(root, service).flat_map(|route| route.list("paths")).filter_map(Node::peek).collect();
    let mut found = paths.iter().filter_map(|path| networks::by_words(path));
    if let Some(first) = found.next() {
        return found.all(|other| other == first).then_some(first);
    }
    let url = text(service, "url").unwrap_or_default();
    let host = url.split("//").nth(1).and_then(|rest| rest.split(['/', '?']).next());
    [text(service, "name"), text(service, "host"), host].into_iter().flatten().find_map(networks::by_words)
}

/// Notes that a service, with everything below it, is not carried over. Top-level routes have their own notes.
fn leave_out(root: &Node, service: &Node, why: impl Into<String>, draft: &mut Draft) {
    draft.notes.left_out(service, why);
    for route in routes(root, service).filter(|route| !route.is_used()) {
        draft.notes.left_out(route, "its service is not carried over");
    }
}

fn read_service(root: &Node, service: &Node, given: Option<ChainName>, draft: &mut Draft) {
    let name = text(service, "name").unwrap_or("service");
    if text(service, "enabled").and_then(value::flag) == Some(false) {
        return leave_out(root, service, "it is not enabled", draft);
    }
    let adapter = chain_of(root, service).or(given).and_then(|chain| by_path(chain.as_str()));
    let Some(adapter) = adapter else {
        let why = "no chain that rpcgate serves is recognised in its paths, its name or its host: say it with --chain, or \
                   add its nodes by hand";
        return leave_out(root, service, why, draft);
    };
    let facts = adapter.facts();
    let chain = facts.name;
    let transport = transport(service);
    let (key, is_served) = match transport {
        Transport::Ws => ("ws", facts.ws),
        Transport::Grpc => ("grpc", !facts.grpc.is_empty()),
        Transport::Http => ("url", true),
    };
    if !is_served {
        let why = format!(
            "rpcgate does not serve {chain} by this protocol; docs/chains.md lists those of each chain"
        );
        return leave_out(root, service, why, draft);
    }
    for key in ["name", "enabled"] {
        service.get(key).and_then(Node::text);
    }
    for route in routes(root, service) {
        read_route(route, facts, transport, draft);
    }
    let headers: Vec<_> = kong_plugins::node_headers(root, service)
        .into_iter()
        .map(|header| {
            let value = match draft.form.read(&header.value) {
                Given::Variable(variable) => draft.variable(variable, Holds::Word),
                _ => {
                    let text = format!("the value of the header {}, which is not copied", header.name);
                    let stem = format!("NODE_{chain}_{}", header.name);
                    draft.new_variable(&stem, Holds::Word, header.from, &text)
                }
            };
            (header.name, value)
        })
        .collect();
    let sent = sent_path(root, service, facts, transport, draft);
    for address in addresses(root, service, draft) {
        let mut node = Upstream::new(chain, name, address.from);
        let url = sent.as_ref().map_or_else(|| address.url.clone(), |sent| with_path(&address.url, sent));
        let is_variable = node.url_text(draft, key, &url, address.from);
        if let Some(sent) = sent.as_ref().filter(|_| is_variable) {
            let text = format!("Kong adds {} to the URL of the node: add it to the variable too", sent.path);
            draft.notes.differs(sent.from, text);
        }
        for (name, value) in &headers {
            node.header_value(name, value.clone());
        }
        node.add(draft);
    }
    if transport == Transport::Grpc
        && let Some(from) = service.get("url").or_else(|| service.get("protocol"))
    {
        let text =
            "clients call gRPC at gateway.grpc_listen, over TLS, or at gateway.listen with gateway.h2c";
        draft.notes.differs(from, text);
    }
    let header = chain_header(chain);
    if let Some(from) = service.get("read_timeout")
        && draft.get(&header, "timeout").is_none()
        && let Some(millis) = draft.millis(Some(from), &format!("{header}.timeout"), 1)
    {
        draft.notes.differs(from, "chains.<chain>.timeout is the deadline of a call over all its tries");
        draft.set(&header, "timeout", duration(millis), from);
    }
}

fn transport(service: &Node) -> Transport {
    let scheme = match text(service, "url") {
        Some(url) => url.split("://").next(),
        None => text(service, "protocol"),
    };
    match scheme {
        Some("ws" | "wss") => Transport::Ws,
        Some("grpc" | "grpcs") => Transport::Grpc,
        _ => Transport::Http,
    }
}

/// Returns the URL with the path that Kong adds. A URL in a variable stays as it is.
fn with_path(url: &str, sent: &SentPath<'_>) -> String {
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| !scheme.starts_with(['{', '$']))
    else {
        return url.to_owned();
    };
    let (address, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    format!("{scheme}://{}{}{query}", address.trim_end_matches('/'), sent.path)
}

/// The address of a node, combined from a service and perhaps the target of an upstream.
struct Address<'n> {
    url: String,
    from: &'n Node,
}

fn addresses<'n>(root: &'n Node, service: &'n Node, draft: &mut Draft) -> Vec<Address<'n>> {
    let (scheme, host, port, path) = match text(service, "url") {
        Some(url) if url.contains("://") && draft.form.read(url) == Given::Text(url.to_owned()) => {
            let (scheme, rest) = url.split_once("://").unwrap_or_default();
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (scheme.to_owned(), authority.to_owned(), None, path.to_owned())
        }
        Some(url) => {
            let from = service.get("url").unwrap_or(service);
            from.text();
            return vec![Address { url: url.to_owned(), from }];
        }
        None => {
            let get = |key: &str| text(service, key).unwrap_or_default().to_owned();
            let scheme = text(service, "protocol").unwrap_or("http").to_owned();
            (scheme, get("host"), text(service, "port").map(str::to_owned), get("path"))
        }
    };
    for key in ["url", "protocol", "host", "port", "path"] {
        service.get(key).and_then(Node::text);
    }
    let upstream =
        root.list("upstreams").iter().find(|upstream| text(upstream, "name") == Some(host.as_str()));
    if upstream.is_some() {
        // The targets of an upstream have their own ports.
        service.settle_keys(&["port"]);
    }
    let Some(upstream) = upstream else {
        let from = service.get("url").or_else(|| service.get("host")).unwrap_or(service);
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        return vec![Address { url: format!("{scheme}://{host}{port}{path}"), from }];
    };
    upstream.get("name").and_then(Node::text);
    let mut addresses = Vec::new();
    let weights: Vec<Option<&str>> =
        upstream.list("targets").iter().map(|target| text(target, "weight")).collect();
    let equal = weights.windows(2).all(|pair| pair[0] == pair[1]);
    for target in upstream.list("targets") {
        let Some(node) = target.get("target") else { continue };
        if text(target, "weight").and_then(value::number) == Some(0) {
            draft.notes.left_out(target, "its weight is 0, so it gets no calls");
            continue;
        }
        if equal {
            target.get("weight").and_then(Node::text);
        }
        if let Some(host) = node.text() {
            // The default port of Kong's targets is 8000.
            let port =
                if host.rsplit(']').next().is_some_and(|end| end.contains(':')) { "" } else { ":8000" };
            addresses.push(Address { url: format!("{scheme}://{host}{port}{path}"), from: node });
        }
    }
    addresses
}
