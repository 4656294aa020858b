//! Reads dshackle's configuration and the files of upstreams that it includes.

use super::advice::{Advice, advice};
use super::document::Node;
use super::draft::{Draft, chain_header, duration};
use super::networks;
use super::nodes::Upstream;
use super::note::NoteKind;
use super::service::{set_listen, set_tls};
use rpcgate_core::chain::ChainName;

const PORT: u16 = 8080;
const METRICS_PORT: u16 = 8081;

/// Tables with HTTP and WebSocket connections; versions name them differently.
const CONNECTIONS: &[&str] = &["ethereum", "bitcoin", "generic", "execution"];

pub(super) const ADVICE: &[Advice] = &[
    advice(
        "host",
        "dshackle's own gRPC interface does not exist here; gateway.grpc_listen serves the gRPC of chains",
    ),
    advice(
        "port",
        "dshackle's own gRPC interface does not exist here; gateway.grpc_listen serves the gRPC of chains",
    ),
    advice("tls", "it is for dshackle's own gRPC interface; gateway.tls is for ours"),
    advice("compress", "answers are compressed whenever the client accepts it"),
    advice("monitoring.prometheus.path", "metrics are at /metrics"),
    advice("monitoring", "rpcgate's metrics have no further settings"),
    advice("health", "rpcgate has /healthz and /readyz at gateway.listen, which need no settings"),
    advice(
        "cache.redis",
        "the cache is in the gateway's memory: cache.bytes; redis.url is for shared counters",
    ),
    advice("cache", "the cache is in the gateway's memory: cache.bytes"),
    advice("signed-response", "rpcgate does not sign answers"),
    advice("tokens", "rpcgate does not follow balances; webhooks tell of transfers, see docs/webhooks.md"),
    advice("access-log", "telemetry.access_log writes a line for each call; see docs/watching.md"),
    advice("accessLog", "telemetry.access_log writes a line for each call; see docs/watching.md"),
    advice("request-log", "ask `explain` for what happened to a request; see docs/explain.md"),
    advice("requestLog", "ask `explain` for what happened to a request; see docs/explain.md"),
    advice("egress-log", "ask `explain` for what happened to a request; see docs/explain.md"),
    advice("ingress-log", "ask `explain` for what happened to a request; see docs/explain.md"),
    advice("proxy.tls.client", "rpcgate asks clients for keys, not for certificates"),
    advice("proxy.websocket", "WebSocket streams are always served, at /ws/<chain>"),
    advice("proxy.cors-origin", "rpcgate allows any origin, because each call needs a key"),
    advice("proxy.cors-allowed-headers", "the allowed headers are fixed"),
    advice("proxy.routes", "the path of a chain is fixed; docs/chains.md lists all"),
    advice("cluster.include", "import each of these files with --from dshackle too, and join the results"),
    advice("include", "import each of these files with --from dshackle too, and join the results"),
    advice("cluster.defaults", "rpcgate learns by itself how a node is"),
    advice("defaultOptions", "rpcgate learns by itself how a node is"),
    advice("cluster.upstreams.*.labels", "nodes have no labels; priority says which to use first"),
    advice(
        "cluster.upstreams.*.methods",
        "a node takes what its methods and except list; chains.<chain>.blocked_methods and open_methods are for all nodes; see docs/nodes.md",
    ),
    advice(
        "cluster.upstreams.*.priority",
        "dshackle's priority decides forks; ours says which node to use first, and came from the role",
    ),
    advice(
        "cluster.upstreams.*.connection.dshackle",
        "rpcgate reaches nodes themselves: write the nodes of that dshackle, or its proxy address, as nodes",
    ),
    advice(
        "cluster.upstreams.*.connection.grpc",
        "rpcgate reaches nodes themselves: write the nodes of that dshackle, or its proxy address, as nodes",
    ),
    advice("cluster.upstreams.*.connection.*.esplora", "rpcgate passes calls to nodes alone"),
    advice(
        "cluster.upstreams.*.connection.*.zeromq",
        "rpcgate asks nodes for their newest block: chains.<chain>.probe_interval",
    ),
    advice(
        "cluster.upstreams.*.connection.*.ws.origin",
        "put it into the node's headers if the node needs it",
    ),
    advice("cluster.upstreams.*.connection.*.ws", "gateway.ws has the limits of streams"),
    advice("cluster.upstreams.*", "rpcgate learns by itself how a node is"),
    advice("upstreams.*.labels", "nodes have no labels; priority says which to use first"),
    advice(
        "upstreams.*.methods",
        "a node takes what its methods and except list; chains.<chain>.blocked_methods and open_methods are for all nodes; see docs/nodes.md",
    ),
    advice(
        "upstreams.*.connection.dshackle",
        "rpcgate reaches nodes themselves: write the nodes of that dshackle, or its proxy address, as nodes",
    ),
    advice(
        "upstreams.*.connection.*.zeromq",
        "rpcgate asks nodes for their newest block: chains.<chain>.probe_interval",
    ),
    advice("upstreams.*", "rpcgate learns by itself how a node is"),
];

pub(super) fn read(root: &Node, given: Option<ChainName>, draft: &mut Draft) {
    root.get("version").into_iter().for_each(Node::settle);
    if let Some(proxy) = root.get("proxy") {
        read_proxy(proxy, draft);
    }
    let prometheus = root.at_keys(&["monitoring", "prometheus"]);
    let off = ["enabled"].iter().any(|key| {
        let of =
            |node: Option<&Node>| node.and_then(|node| node.get(key)).and_then(Node::peek) == Some("false");
        of(root.get("monitoring")) || of(prometheus)
    });
    if off {
        root.get("monitoring").into_iter().for_each(Node::settle);
    } else if let Some(prometheus) = prometheus {
        for node in [root.get("monitoring"), Some(prometheus)].into_iter().flatten() {
            node.get("enabled").and_then(Node::text);
        }
        prometheus.get("path").filter(|path| path.peek() == Some("/metrics")).and_then(Node::text);
        set_listen(draft, "telemetry", prometheus.get("bind"), prometheus.get("port"), METRICS_PORT);
    }
    let cluster = root.get("cluster").unwrap_or(root);
    let upstreams = cluster.list("upstreams");
    for upstream in upstreams {
        read_upstream(upstream, given, draft);
    }
    defaults(cluster, draft);
    if let Some(first) = upstreams.first() {
        let text = "rpcgate serves nobody without a key: add keys to the file, or run rpcgate-admin; see docs/moving.md";
        draft.notes.add(NoteKind::Differs, first.at, "", text);
    }
}

fn read_proxy(proxy: &Node, draft: &mut Draft) {
    set_listen(draft, "gateway", proxy.get("host"), proxy.get("port"), PORT);
    if let Some(tls) = proxy.get("tls") {
        if draft.flag(tls.get("enabled"), "gateway.tls.cert") == Some(false) {
            // The rest of the table has no effect in dshackle either.
            tls.settle();
        } else if let Some(server) = tls.get("server") {
            set_tls(draft, server.get("certificate"), server.get("key"));
        }
    }
    // Our answers of a batch are always in the order of its calls.
    proxy.settle_keys(&["preserve-batch-order"]);
    proxy.get("websocket").filter(|node| node.peek() == Some("true")).and_then(Node::text);
    proxy.get("cors-origin").filter(|node| node.peek() == Some("*")).and_then(Node::text);
    for route in proxy.list("routes") {
        let id = route.get("id");
        let chain = route.get("blockchain").or_else(|| route.get("chain"));
        let served = chain.and_then(Node::peek).and_then(networks::by_name);
        match (id.and_then(Node::peek), served) {
            (Some(id), Some(served)) if id == served.as_str() => {
                route.use_keys(&["id", "blockchain", "chain"]);
            }
            (_, Some(served)) => {
                draft.notes.left_out(route, format!("this chain is at /{served}, whatever its route was"));
            }
            (_, None) => draft
                .notes
                .left_out(route, "rpcgate does not serve this chain; docs/chains.md lists its chains"),
        }
    }
}

fn read_upstream(upstream: &Node, given: Option<ChainName>, draft: &mut Draft) {
    let named = upstream.get("blockchain").or_else(|| upstream.get("chain"));
    let chain = match named.and_then(Node::peek) {
        Some(name) => networks::by_name(name),
        None => given,
    };
    let options = upstream.get("options");
    let option = |key: &str| upstream.get(key).or_else(|| options.and_then(|options| options.get(key)));
    if option("enabled").and_then(Node::peek) == Some("false") {
        draft.notes.left_out(upstream, "it is not enabled");
        return;
    }
    let connection = upstream.get("connection");
    let found = CONNECTIONS.iter().find_map(|kind| connection.and_then(|connection| connection.get(kind)));
    let (Some(chain), Some(found)) = (chain, found) else {
        let text = match (named.and_then(Node::peek), found) {
            (Some(name), Some(_)) => format!("rpcgate does not serve {name:?}; docs/chains.md lists its chains"),
            (None, Some(_)) => "it does not say which chain it serves: say it with --chain".to_owned(),
            (_, None) => {
                "rpcgate reaches nodes themselves: write the nodes of that server, or its proxy address, as nodes".to_owned()
            }
        };
        draft.notes.left_out(upstream, text);
        return;
    };
    for node in [named, option("enabled")].into_iter().flatten() {
        node.text();
    }
    let name = draft.label(upstream.get("id")).unwrap_or_else(|| "node".to_owned());
    let mut node = Upstream::new(chain, &name, upstream);
    // Older versions have the addresses one level deeper.
    let found = found.get("execution").unwrap_or(found);
    for (theirs, ours) in [("rpc", "url"), ("ws", "ws")] {
        let Some(part) = found.get(theirs) else { continue };
        if let Some(url) = part.get("url") {
            node.url(draft, ours, url);
        }
        node.authorities(draft, part.at_keys(&["tls", "ca"]));
        for kind in ["basic-auth", "bearer-auth"] {
            let Some(auth) = part.get(kind) else { continue };
            if ours == "ws"
                && ["basic-auth", "bearer-auth"].iter().any(|kind| found.at_keys(&["rpc", kind]).is_some())
            {
                draft
                    .notes
                    .left_out(auth, "a node has one log-in for all its addresses, which came from rpc");
            } else if kind == "basic-auth" {
                node.login(draft, auth.get("username"), auth.get("password"));
            } else {
                node.bearer(draft, auth.get("token").unwrap_or(auth));
            }
        }
    }
    if let Some(role) = option("role") {
        match role.text() {
            Some("secondary") => node.number("priority", 1, role),
            Some("fallback") => node.number("priority", 2, role),
            _ => {}
        }
    }
    node.add(draft);
    set_timeout(chain, option("timeout"), draft);
}

/// Reads the default options of all upstreams of some chains; only the timeout has a counterpart.
fn defaults(cluster: &Node, draft: &mut Draft) {
    for entry in cluster.list("defaults").iter().chain(cluster.list("defaultOptions")) {
        let timeout = entry.get("timeout").or_else(|| entry.at_keys(&["options", "timeout"]));
        let names = entry.get("blockchains").or_else(|| entry.get("chains"));
        if timeout.is_none() {
            continue;
        }
        let chains: Vec<ChainName> =
            names.map(Node::texts).unwrap_or_default().into_iter().filter_map(networks::by_name).collect();
        for chain in chains {
            if draft.get(&chain_header(chain), "timeout").is_none() {
                set_timeout(chain, timeout, draft);
            }
        }
    }
}

fn set_timeout(chain: ChainName, node: Option<&Node>, draft: &mut Draft) {
    let header = chain_header(chain);
    if let Some(millis) = draft.millis(node, &format!("{header}.timeout"), 1_000)
        && let Some(node) = node
    {
        draft.set(&header, "timeout", duration(millis), node);
    }
}
