//! Reads the server-wide part of eRPC's configuration. Projects have a separate module.

use super::advice::{Advice, advice};
use super::document::Node;
use super::draft::{Draft, TomlValue};
use super::erpc_budgets::Budgets;
use super::erpc_project;
use super::service::{log_level, note_parts_of_redis_url, redis_url, set_listen, set_tls};
use rpcgate_core::chain::ChainName;

const PORT: u16 = 4000;
const METRICS_PORT: u16 = 4001;

const HEDGE: &str =
    "chains.<chain>.hedge sends a read that takes unusually long to a second node; see docs/nodes.md";
const RETRY: &str =
    "a call that only reads is sent to further nodes until it succeeds or its deadline has passed";
const CONSENSUS: &str = "rpcgate does not compare the answers of nodes";
const CIRCUIT_BREAKER: &str = "a node that fails is left alone for a while by itself";

pub(super) const ADVICE: &[Advice] = &[
    advice("server.maxTimeout", "each chain has a timeout of its own: chains.<chain>.timeout"),
    advice(
        "server.writeTimeout",
        "gateway.limits.write_timeout is the time that a client may read nothing, which differs",
    ),
    advice("server.enableGzip", "answers are compressed whenever the client accepts it"),
    advice(
        "server.aliasing",
        "rpcgate serves each chain at one path (/eth, /bsc, …) on any host; rewrite paths in front of it",
    ),
    advice(
        "server.grpcEnabled",
        "eRPC's own gRPC interface does not exist here; gateway.grpc_listen serves the gRPC of chains",
    ),
    advice("server.trustedIPHeaders", "rpcgate reads X-Forwarded-For alone, from gateway.trusted_proxies"),
    advice(
        "server.waitBeforeShutdown",
        "a draining rpcgate reports itself as unready at once; shutdown.grace is for calls in flight",
    ),
    advice(
        "server.waitAfterShutdown",
        "a draining rpcgate reports itself as unready at once; shutdown.grace is for calls in flight",
    ),
    advice("server.executionHeaders", "ask `explain` for what happened to a request; see docs/explain.md"),
    advice("healthCheck", "rpcgate has /healthz and /readyz, which need no settings"),
    advice("admin", "operators use rpcgate-admin; see docs/running.md"),
    advice(
        "tracing",
        "telemetry.otlp sends traces to an OpenTelemetry collector; telemetry.listen serves metrics",
    ),
    advice("proxyPools", "rpcgate connects to nodes directly; route its traffic at the network instead"),
    advice("clusterKey", "gateways that count together share redis.url and redis.prefix"),
    advice("metrics", "rpcgate's metrics have no further settings"),
    advice(
        "database.sharedState",
        "rpcgate shares counters through redis.url; each gateway follows the blocks of its nodes itself",
    ),
    advice("database.svmJsonRpcCache", "one cache in memory serves all chains: cache.bytes"),
    advice("database.evmJsonRpcCache.compression", "cached answers are kept as they are sent"),
    advice("database.evmJsonRpcCache.connectors", "the cache is in the gateway's memory: cache.bytes"),
    advice(
        "database.evmJsonRpcCache.policies",
        "each method has a cache class that knows what is final; change single methods with chains.<chain>.ttl",
    ),
    advice("rateLimiters.store", "rpcgate counts in memory, or in Redis if redis.url is set"),
    advice(
        "rateLimiters.budgets",
        "no caller has this budget, and no node, or its rules are no limits that these can have; rpcgate limits keys, projects and nodes",
    ),
    advice(
        "projects.*.auth.strategies",
        "rpcgate knows callers by API keys alone: put a proxy in front that maps callers to keys",
    ),
    advice("projects.*.auth.strategies.*.allowMethods", "method lists belong to a project: allowed_methods"),
    advice("projects.*.auth.strategies.*.ignoreMethods", "method lists belong to a project: blocked_methods"),
    advice(
        "projects.*.cors",
        "rpcgate allows any origin, because each call needs a key; restrict origins in a proxy in front",
    ),
    advice("projects.*.rateLimitBudget", "there is no such budget, or its period is longer than a day"),
    advice("projects.*.providers.*.overrides", "set it at the node or at the chain"),
    advice("projects.*.providers.*.upstreamIdTemplate", "a node is named by its address"),
    advice("projects.*.providers", "rpcgate needs the URL of each node: write one node for each chain"),
    advice("projects.*.upstreamDefaults", "set it at each node or chain"),
    advice("projects.*.networkDefaults", "set it at each chain"),
    advice("projects.*.networks.*.alias", "the path of a chain is fixed; docs/chains.md lists all"),
    // A list of policies for methods, or one table of policies.
    advice("projects.*.networks.*.failsafe.*.hedge", HEDGE),
    advice("projects.*.networks.*.failsafe.hedge", HEDGE),
    advice("projects.*.networks.*.failsafe.*.retry", RETRY),
    advice("projects.*.networks.*.failsafe.retry", RETRY),
    advice("projects.*.networks.*.failsafe.*.consensus", CONSENSUS),
    advice("projects.*.networks.*.failsafe.consensus", CONSENSUS),
    advice("projects.*.networks.*.failsafe.*.circuitBreaker", CIRCUIT_BREAKER),
    advice("projects.*.networks.*.failsafe.circuitBreaker", CIRCUIT_BREAKER),
    advice("projects.*.networks.*.failsafe", "each chain has one timeout, for all methods"),
    advice(
        "projects.*.networks.*.rateLimitBudget",
        "rpcgate limits keys and projects, and the calls in flight of a chain: max_in_flight",
    ),
    advice(
        "projects.*.networks.*.selectionPolicy",
        "rpcgate prefers healthy, fast nodes by itself; priority says which to use first",
    ),
    advice("projects.*.networks.*.directiveDefaults", "rpcgate takes no directives"),
    advice(
        "projects.*.networks.*.evm",
        "rpcgate has no such setting for a chain; docs/rpcgate.example.toml lists all",
    ),
    advice(
        "projects.*.networks.*.methods",
        "what is known of each method is in docs/chains.md; chains.<chain>.ttl changes its cache class",
    ),
    advice("projects.*.networks.*.staticResponses", "rpcgate answers no call by itself"),
    advice(
        "projects.*.upstreams.*.failsafe",
        "deadline and tries belong to the chain, not to a node: chains.<chain>.timeout",
    ),
    advice(
        "projects.*.upstreams.*.rateLimitBudget",
        "there is no such budget, or it is not calls a second of all methods; nodes have rate_limit and monthly_calls",
    ),
    advice(
        "projects.*.upstreams.*.rateLimitAutoTune",
        "a node that refuses calls is left alone for a while by itself",
    ),
    advice("projects.*.upstreams.*.ignoreMethods", "list them in the except of the node; see docs/nodes.md"),
    advice("projects.*.upstreams.*.allowMethods", "list them in the methods of the node; see docs/nodes.md"),
    advice(
        "projects.*.upstreams.*.routing",
        "rpcgate prefers healthy, fast nodes by itself; priority says which to use first",
    ),
    advice("projects.*.upstreams.*.tags", "nodes have no tags; priority says which to use first"),
    advice("projects.*.upstreams.*.evm", "rpcgate learns what a node has from its answers"),
    advice("projects.*.upstreams.*.shadow", "rpcgate sends no copies of calls"),
    advice(
        "projects.*.upstreams.*.creditUnits",
        "chains.<chain>.cu has the Compute Units of methods, for all nodes",
    ),
];

pub(super) fn read(root: &Node, chain: Option<ChainName>, draft: &mut Draft) {
    log_level(root.get("logLevel"), draft);
    if let Some(server) = root.get("server") {
        read_server(server, draft);
    }
    if let Some(metrics) = root.get("metrics") {
        read_metrics(metrics, draft);
    }
    if let Some(cache) = root.at_keys(&["database", "evmJsonRpcCache"]) {
        read_cache(cache, draft);
    }
    let store = root.at_keys(&["rateLimiters", "store"]);
    if let Some(redis) = store.and_then(|store| store.get("redis")) {
        let driver = store.and_then(|store| store.get("driver"));
        if driver.and_then(Node::peek).is_none_or(|driver| driver == "redis") {
            driver.and_then(Node::text);
            read_redis(redis, draft);
        } else {
            draft.notes.left_out(redis, "the store has another driver, so eRPC does not use it either");
        }
    }
    let budgets = Budgets::read(root.at_keys(&["rateLimiters"]), draft);
    let max_timeout = root.at_keys(&["server", "maxTimeout"]);
    erpc_project::read_all(root.list("projects"), chain, &budgets, max_timeout, draft);
}

fn read_server(server: &Node, draft: &mut Draft) {
    let off = |node: Option<&Node>, draft: &mut Draft| draft.flag(node, "gateway.listen") == Some(false);
    let v4 = server.get("httpPortV4").or_else(|| server.get("httpPort"));
    if off(server.get("listenV4"), draft) {
        set_listen(draft, "gateway", server.get("httpHostV6"), server.get("httpPortV6"), PORT);
    } else {
        set_listen(draft, "gateway", server.get("httpHostV4"), v4, PORT);
        if draft.flag(server.get("listenV6"), "gateway.listen") == Some(true)
            && let Some(node) = server.get("listenV6")
        {
            draft.notes.left_out(node, "rpcgate listens at one address: [::] as gateway.listen accepts both");
        }
    }
    if let Some(tls) = server.get("tls") {
        if draft.flag(tls.get("enabled"), "gateway.tls.cert") == Some(false) {
            // The rest of the table has no effect in eRPC either.
            tls.settle();
        } else {
            set_tls(draft, tls.get("certFile"), tls.get("keyFile"));
        }
    }
    if let Some(millis) = draft.millis(server.get("readTimeout"), "gateway.limits.body_timeout", 1)
        && let Some(node) = server.get("readTimeout")
    {
        draft.set("gateway.limits", "body_timeout", super::draft::duration(millis), node);
    }
    if let Some(node) = server.get("trustedIPForwarders") {
        let peers: Vec<String> = node.texts().iter().map(|text| (*text).to_owned()).collect();
        if !peers.is_empty() {
            draft.set("gateway", "trusted_proxies", TomlValue::Texts(peers), node);
        }
    }
    let headers = server.get("trustedIPHeaders");
    if let Some(node) = headers
        && node
            .items()
            .iter()
            .all(|item| item.peek().is_some_and(|name| name.eq_ignore_ascii_case("x-forwarded-for")))
    {
        node.use_all();
    }
}

fn read_metrics(metrics: &Node, draft: &mut Draft) {
    if draft.flag(metrics.get("enabled"), "telemetry.listen") == Some(false) {
        metrics.settle();
        return;
    }
    let host = metrics.get("hostV4").or_else(|| metrics.get("hostV6"));
    set_listen(draft, "telemetry", host, metrics.get("port"), METRICS_PORT);
}

/// Reads the size of the cache in memory, or that there is no cache.
fn read_cache(cache: &Node, draft: &mut Draft) {
    if cache.is_nothing() {
        draft.set("cache", "bytes", TomlValue::Number(0), cache);
        return;
    }
    for connector in cache.list("connectors") {
        if connector.get("driver").and_then(Node::peek) != Some("memory") {
            continue;
        }
        connector.get("driver").and_then(Node::text);
        // It names the connector for the policies, which have notes.
        connector.settle_keys(&["id"]);
        let size = connector.at_keys(&["memory", "maxTotalSize"]);
        if let (Some(bytes), Some(node)) = (draft.bytes(size, "cache.bytes"), size) {
            draft.set("cache", "bytes", TomlValue::Number(bytes), node);
        }
    }
}

/// Reads a server that shares counters: its URI, or its address with log-in.
fn read_redis(redis: &Node, draft: &mut Draft) {
    let Some(node) = redis.get("uri").or_else(|| redis.get("addr")) else { return };
    let Some(text) = node.text().map(str::to_owned) else { return };
    let login: Vec<&Node> = ["username", "password"].iter().filter_map(|key| redis.get(key)).collect();
    let number = draft.number(redis.get("db"), "redis.url");
    let value = redis_url(draft, &text, !login.is_empty(), number, node);
    if node.is_settled() {
        let parts = ["username", "password", "db"].iter().filter_map(|key| redis.get(key));
        note_parts_of_redis_url(draft, &value, parts);
    }
    draft.set("redis", "url", value, node);
}
