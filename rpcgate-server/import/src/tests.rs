mod leaves;

use super::draft::Holds;
use super::*;
use proptest::prelude::*;
use rpcgate_config::{Config, Sources, Url};
use rpcgate_core::chain::Facts;
use rpcgate_core::plan::Tier;
use rpcgate_core::secret::KeyHash;
use rpcgate_layers::nodes::NodeUrl;
use rpcgate_server::gateway::dry_run;
use std::path::Path;

/// The checks of the gateway, without that of Redis.
pub(crate) const CHECKS: GatewayChecks = GatewayChecks {
    node_url: |url, transport| NodeUrl::parse(url, transport).map(drop).map_err(|error| error.to_string()),
    redis: |_| Ok(()),
};

pub(crate) fn import(
    name: &str,
    text: &str,
    form: Option<SourceForm>,
    chain: Option<&str>,
) -> Result<Imported, ImportError> {
    crate::import(name, text, form, chain, CHECKS)
}

const SAMPLES: [(SourceForm, &str, &str); 4] = [
    (SourceForm::Erpc, "erpc.yaml", include_str!("samples/erpc.yaml")),
    (SourceForm::Proxyd, "proxyd.toml", include_str!("samples/proxyd.toml")),
    (SourceForm::Dshackle, "dshackle.yaml", include_str!("samples/dshackle.yaml")),
    (SourceForm::Kong, "kong.yaml", include_str!("samples/kong.yaml")),
];

/// Returns the name and the text of a form's sample, whose files are in `dir`.
fn sample(form: SourceForm, dir: &Path) -> (&'static str, String) {
    let (_, name, text) = SAMPLES.into_iter().find(|(known, ..)| *known == form).unwrap();
    (name, text.replace("@DIR@", &dir.to_string_lossy()))
}

/// Returns the variables that the new file names, each with a value of the kind that its name suggests.
fn variables(toml: &str) -> Vec<(String, String)> {
    let names = toml.split("env = \"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
    names
        .map(|name| {
            let kind =
                ["_WS", "REDIS", "URL", "KEY"].into_iter().find(|part| name.to_uppercase().contains(part));
            let holds = match kind {
                Some("_WS") => Holds::WsUrl,
                Some("REDIS") => Holds::RedisUrl,
                Some("URL") => Holds::HttpUrl,
                Some(_) => Holds::ApiKey,
                None => Holds::Word,
            };
            let value = write::example(&name, holds);
            (name, value)
        })
        .collect()
}

fn config(toml: &str, env: &[(String, String)]) -> Result<Config, String> {
    let adapters: Vec<_> = rpcgate_chains::catalog().collect();
    let chains: Vec<&Facts> = adapters.iter().map(|adapter| adapter.facts()).collect();
    let read = |_: &str| Ok(toml.to_owned());
    let sources = Sources { file: Some("r.toml"), chains: &chains, base: &[], env, flags: &[], read: &read };
    sources.load().map_err(|error| error.to_string())
}

/// Imports a sample and checks it as `rpcgate-server check` does.
fn imported(form: SourceForm) -> (Imported, Config) {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let (name, text) = sample(form, dir.path());
    let imported = import(name, &text, None, None).unwrap();
    assert_eq!(imported.form, form, "it is recognised");
    assert_eq!(import(name, &text, Some(form), None).unwrap(), imported);
    let config = config(&imported.toml, &variables(&imported.toml))
        .unwrap_or_else(|why| panic!("{why}\n{}", imported.toml));
    dry_run(&config).unwrap();
    (imported, config)
}

#[track_caller]
fn note(imported: &Imported, line: usize, part: &str) {
    let found = imported.notes.iter().filter(|note| note.line == line).map(ToString::to_string);
    let found: Vec<_> = found.collect();
    assert!(
        found.iter().any(|note| note.contains(part)),
        "{line}: {part}\n{found:#?}\n{:#?}",
        imported.notes
    );
}

fn line(form: SourceForm, part: &str) -> usize {
    let (_, text) = sample(form, "".as_ref());
    text.lines().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}")) + 1
}

fn urls(config: &Config, chain: &str) -> Vec<String> {
    let nodes = config.chains[chain].nodes.iter();
    nodes.filter_map(|node| node.url.as_ref().map(|url| url.expose().to_owned())).collect()
}

// Shows (Import and transfer): Files of eRPC, proxyd, dshackle and Kong become a configuration that passes the check;
// settings that are not carried over are listed with their line; a malformed file is refused with line and column.
#[test]
fn the_new_file_of_every_sample_passes_the_check_and_has_no_secret() {
    for form in SourceForm::ALL {
        let (imported, _) = imported(form);
        let notes: Vec<_> = imported.notes.iter().map(ToString::to_string).collect();
        for text in [&imported.toml, &notes.join("\n")] {
            assert!(!text.contains("secret-of"), "{form:?}\n{text}");
            assert!(!text.contains("0a1b2c3d"), "{form:?}\n{text}");
        }
        for note in &imported.notes {
            assert!(imported.toml.contains(&format!(":{note}\n")), "every note is a comment: {note}");
        }
    }
}

// Shows (Import and transfer).
#[test]
fn erpc_is_carried_over() {
    const FORM: SourceForm = SourceForm::Erpc;
    let (imported, config) = imported(FORM);
    assert_eq!(config.gateway.listen.to_string(), "0.0.0.0:4000");
    assert_eq!(config.telemetry.listen.unwrap().to_string(), "127.0.0.1:4001");
    assert_eq!(config.telemetry.log_filter, "warn");
    assert!(config.gateway.tls.covers_http() && config.gateway.trusted_proxies.len() == 1);
    assert_eq!(config.gateway.limits.body_timeout.as_secs(), 20);
    assert_eq!(config.cache.bytes, 512 << 20);
    assert_eq!(config.redis.url.as_ref().map(Url::scheme), Some("redis"));

    let eth = &config.chains["eth"];
    assert_eq!((eth.timeout.as_secs(), eth.final_depth, eth.probe_interval.as_secs()), (15, Some(96), 2));
    assert_eq!(config.chains["polygon"].timeout.as_secs(), 12);
    let known = urls(&config, "eth");
    assert!(known.contains(&"http://10.0.0.1:8545".to_owned()), "{known:?}");
    assert!(known.contains(&"https://ethereum-rpc.example.com".to_owned()), "{known:?}");
    assert_eq!(known.len(), 5, "with a node of each vendor: {known:?}");
    assert_eq!(urls(&config, "polygon").len(), 3);
    let own = eth.nodes.iter().find(|node| node.headers.len() == 2).unwrap();
    assert_eq!((own.max_batch, own.priority), (20, 0));
    assert!(own.headers.contains_key("authorization"));
    let fallback = eth.nodes.iter().find(|node| node.priority == 1).unwrap();
    assert_eq!((fallback.rate_limit, own.rate_limit), (Some(40), None));
    assert_eq!(eth.nodes.iter().filter(|node| node.priority == 1).count(), 1);

    let keys = config.callers();
    let web = keys.iter().find(|key| key.name == "web").unwrap_or_else(|| panic!("{}", imported.toml));
    assert_eq!(web.hash, KeyHash::of("secret-of-the-web-client-1"));
    assert_eq!((web.caller.plan.tier, web.caller.quota.rps_limit), (Tier::Enterprise, Some(500)));
    assert!(web.caller.lists.blocked.contains(b"eth_newFilter".as_slice()));
    let partner = keys.iter().find(|key| key.name == "partner").unwrap();
    assert_eq!((partner.caller.plan.per_minute, partner.caller.plan.per_day), (600, 50_000));
    assert_eq!(keys.len(), 2);

    for (part, said) in [
        ("enableGzip", "not carried over: answers are compressed"),
        ("rules:", "not carried over: rpcgate serves each chain at one path"),
        ("- id: cold", "not carried over: the cache is in the gateway's memory"),
        ("- id: vendor", "not carried over: no caller has this budget"),
        ("rateLimitBudget: vendor", "not carried over: there is no such budget, or it is not calls a second"),
        ("rateLimitBudget: open", "differs: a node has a limit of its own"),
        ("type: jwt", "not carried over: rpcgate knows callers by API keys alone"),
        (
            "hedge:",
            "not carried over: chains.<chain>.hedge sends a read that takes unusually long to a second node",
        ),
        ("id: arbitrum", "does not serve network 42161 (Arbitrum One)"),
        ("Bearer secret", "to set: set NODE_ETH_OWN_1_AUTHORIZATION to the value of the header"),
        (
            "INFURA_KEY",
            "to set: set NODE_ETH_INFURA_URL to the URL of this line, with its variables replaced",
        ),
        ("debug_*", "without wildcards"),
        ("allowedOrigins", "any origin"),
    ] {
        note(&imported, line(FORM, part), said);
    }
    note(&imported, line(FORM, "chainId: 42161 }") - 1, "does not serve network 42161 (Arbitrum One)");
}

// Shows (Import and transfer).
#[test]
fn proxyd_is_carried_over() {
    const FORM: SourceForm = SourceForm::Proxyd;
    let (imported, config) = imported(FORM);
    assert_eq!(config.gateway.listen.to_string(), "0.0.0.0:8080");
    assert_eq!(config.telemetry.listen.unwrap().to_string(), "127.0.0.1:9761");
    assert_eq!(config.gateway.limits.body, 10 << 20);
    assert_eq!(config.shutdown.grace.as_secs(), 20);
    assert_eq!(config.redis.url.as_ref().map(Url::expose), Some("redis://10.0.0.9:6379"));
    assert_eq!(config.redis.prefix, "proxyd:");
    let eth = &config.chains["eth"];
    assert_eq!((eth.timeout.as_secs(), eth.max_in_flight, eth.max_lag), (20, 1_000, Some(16)));
    assert_eq!(eth.nodes.iter().map(|node| node.priority).collect::<Vec<_>>(), [0, 0, 1]);
    assert!(eth.nodes.iter().all(|node| node.max_batch == 50));
    let geth = &eth.nodes[0];
    assert_eq!(geth.ws.as_ref().map(Url::expose), Some("ws://10.0.0.1:8546"));
    assert!(geth.user.as_deref() == Some("rpc") && geth.password.is_some());
    assert_eq!(geth.rate_limit, Some(300));
    let keys = config.callers();
    let web = keys.iter().find(|key| key.name == "web").unwrap_or_else(|| panic!("{}", imported.toml));
    assert_eq!(web.hash, KeyHash::of("secret-of-the-web-client-1"));
    assert_eq!(web.caller.plan.per_minute, 300);
    assert_eq!(web.caller.lists.allowed.len(), 4);
    assert!(keys.iter().any(|key| key.name == "partner") && keys.len() == 2);

    for (part, said) in [
        ("[backends.geth", "taken for nodes of eth"),
        ("[backends.unused", "no group uses it"),
        ("client_cert_file", "presents no certificate"),
        ("password = \"secret", "set NODE_ETH_GETH_MAINNET_PASSWORD to the password"),
        ("mainnet.infura.io", "a part of it may be a credential"),
        ("test = \"short\"", "too short"),
        ("base_rate", "differs: rpcgate counts the requests of each key"),
        ("ws_port", "at gateway.listen, at /ws/<chain>"),
    ] {
        note(&imported, line(FORM, part), said);
    }
}

// Shows (Import and transfer).
#[test]
fn dshackle_is_carried_over() {
    const FORM: SourceForm = SourceForm::Dshackle;
    let (imported, config) = imported(FORM);
    assert_eq!(config.gateway.listen.to_string(), "0.0.0.0:8080");
    assert!(config.gateway.tls.covers_http());
    assert_eq!(config.telemetry.listen.unwrap().to_string(), "127.0.0.1:8081");
    let eth = &config.chains["eth"];
    assert_eq!((eth.timeout.as_secs(), config.chains["btc"].timeout.as_secs()), (40, 25));
    assert_eq!(eth.nodes.iter().map(|node| node.priority).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(eth.nodes[0].ws.as_ref().map(Url::expose), Some("ws://10.0.0.1:8546"));
    assert_eq!(eth.nodes[0].user.as_deref(), Some("node"));
    let btc = &config.chains["btc"].nodes[0];
    assert_eq!((btc.user.as_deref(), btc.priority), (Some("bitcoin"), 1));
    assert_eq!(urls(&config, "polygon"), ["http://10.0.0.3:8545"]);
    for (part, said) in [
        ("host: 0.0.0.0", "own gRPC interface"),
        ("access-log:", "telemetry.access_log writes a line for each call"),
        ("id: main", "this chain is at /btc"),
        ("- id: sepolia", "does not serve this chain"),
        ("upstreams-extra", "import each of these files"),
        ("fullnode", "nodes have no labels"),
        ("id: testnet", "rpcgate does not serve \"sepolia\""),
        ("id: remote", "rpcgate reaches nodes themselves"),
        ("INFURA_USER", "our user is a text"),
        ("tcp://", "chains.<chain>.probe_interval"),
        ("origin: \"http", "headers"),
        ("min-peers", "rpcgate learns by itself"),
    ] {
        note(&imported, line(FORM, part), said);
    }
}

// Shows (Import and transfer).
#[test]
fn kong_is_carried_over() {
    const FORM: SourceForm = SourceForm::Kong;
    let (imported, config) = imported(FORM);
    assert_eq!(urls(&config, "eth"), ["http://10.0.0.1:8545/eth", "http://10.0.0.2:8545/eth"]);
    assert_eq!(urls(&config, "btc"), ["http://10.0.0.5:8332/"]);
    assert_eq!(urls(&config, "solana").len(), 1);
    let eth = &config.chains["eth"];
    assert_eq!(eth.timeout.as_secs(), 15);
    assert!(
        eth.nodes
            .iter()
            .all(|node| node.headers.contains_key("authorization") && node.headers.contains_key("x-team"))
    );
    assert_eq!(config.gateway.limits.body, 8 << 20);
    assert_eq!(config.redis.url.as_ref().map(Url::expose), Some("redis://10.0.0.9:6379/2"));
    let keys = config.callers();
    let web = keys.iter().find(|key| key.name == "web").unwrap_or_else(|| panic!("{}", imported.toml));
    assert_eq!(web.hash, KeyHash::of("secret-of-the-web-client-1"));
    assert_eq!((web.caller.plan.per_minute, web.caller.quota.rps_limit), (300, Some(20)));
    let partner = keys.iter().find(|key| key.name == "partner").unwrap();
    assert_eq!((partner.caller.plan.per_minute, partner.caller.quota.rps_limit), (1_000, None));
    for (part, said) in [
        ("retries: 5", "until its deadline"),
        ("rpc.example.com", "on any host"),
        ("proxy-cache", "rpcgate caches by the class"),
        ("/v1/bitcoin", "clients call /btc instead"),
        ("name: shop", "no chain that rpcgate serves is recognised"),
        ("10.0.0.3:8545", "it gets no calls"),
        ("weight: 50", "the nodes that answer fastest"),
        ("- group: partners", "keys.*.chains"),
        ("month:", "a minute, an hour and a day"),
        ("x-shop-key", "send their key as `apikey`"),
        ("name: prometheus", "telemetry.listen"),
    ] {
        note(&imported, line(FORM, part), said);
    }
    note(&imported, line(FORM, "basicauth_credentials") + 1, "rpcgate knows callers by API keys");
}

#[test]
fn methods_of_a_proxyd_file_go_to_the_nodes_of_their_group() {
    let text = "[backends.writer]\nrpc_url = 'http://10.0.0.1:1'\n[backends.reader]\nrpc_url = 'http://10.0.0.2:1'\nws_url = 'ws://10.0.0.2:2'\n\
                [backends.both]\nrpc_url = 'http://10.0.0.3:1'\nws_url = 'ws://10.0.0.3:2'\n[backend_groups.write]\nbackends = ['writer', 'both']\n\
                [backend_groups.read]\nbackends = ['reader', 'both']\n[rpc_method_mappings]\neth_sendRawTransaction = 'write'\neth_call = 'read'\n\
                eth_chainId = 'gone'\n";
    let imported = import("p.toml", text, Some(SourceForm::Proxyd), Some("eth")).unwrap();
    let config = config(&imported.toml, &[]).unwrap();
    let nodes: Vec<_> = config.chains["eth"].nodes.iter().map(|node| node.methods.join(" ")).collect();
    assert_eq!(nodes, ["eth_sendRawTransaction", "eth_call", ""], "the third is in both groups");
    note(&imported, 16, "no group with this name");
}

#[test]
fn streams_of_a_proxyd_file_go_to_the_nodes_of_their_group() {
    let text = "ws_backend_group = 's'\n[backends.a]\nrpc_url = 'http://10.0.0.1:1'\nws_url = 'ws://10.0.0.1:2'\n[backends.b]\nrpc_url = 'http://10.0.0.2:1'\n\
                ws_url = 'ws://10.0.0.2:2'\n[backend_groups.main]\nbackends = ['a', 'b', 'c']\n[backend_groups.s]\nbackends = ['a']\n";
    let imported = import("p.toml", text, Some(SourceForm::Proxyd), Some("eth")).unwrap();
    let config = config(&imported.toml, &[]).unwrap();
    assert_eq!(
        config.chains["eth"].nodes.iter().map(|node| node.ws.is_some()).collect::<Vec<_>>(),
        [true, false]
    );
    note(&imported, 7, "ws_backend_group does not name its groups");
    note(&imported, 9, "the file has no backend with this name");
}

#[test]
fn the_authorities_of_a_proxyd_node_are_carried_over() {
    let text = "[backends.a]\nrpc_url = 'https://10.0.0.1:1'\nca_file = '/etc/proxyd/ca.pem'\n[backend_groups.main]\nbackends = ['a']\n";
    let imported = import("p.toml", text, Some(SourceForm::Proxyd), Some("eth")).unwrap();
    let config = config(&imported.toml, &[]).unwrap();
    let node = &config.chains["eth"].nodes[0];
    assert_eq!(node.ca_file.as_deref(), Some(Path::new("/etc/proxyd/ca.pem")));
}

#[test]
fn a_node_without_an_address_is_noted_in_every_form() {
    let proxyd = "[backends.a]\nrpc_url = ''\nmax_rps = 3\n[backend_groups.main]\nbackends = ['a']\n";
    let erpc = "projects:\n  - id: p\n    upstreams:\n      - { id: a, endpoint: '', evm: { chainId: 1 } }\n";
    let dshackle = "cluster:\n  upstreams:\n    - id: a\n      blockchain: eth\n      connection: { ethereum: { rpc: { url: '' } } }\n";
    for (form, text, line) in
        [(SourceForm::Proxyd, proxyd, 1), (SourceForm::Erpc, erpc, 4), (SourceForm::Dshackle, dshackle, 3)]
    {
        let imported = import("f", text, Some(form), Some("eth")).unwrap();
        note(&imported, line, "it has no address that rpcgate can use");
        assert!(!imported.toml.contains("[[chains"), "{}", imported.toml);
    }
}

fn kong(service: &str, credential: &str, plugins: &str) -> Imported {
    let text = format!(
        "services:\n- {{ name: eth, url: 'http://10.0.0.1:8545', routes: [{{ name: eth, paths: [/eth] }}]{service} }}\nconsumers:\n\
         - {{ username: someone, keyauth_credentials: [{{ key: a-key-of-someone-with-length{credential} }}] }}\nplugins:\n{plugins}"
    );
    import("kong.yaml", &text, Some(SourceForm::Kong), None).unwrap()
}

#[test]
fn a_limit_of_one_service_or_route_limits_no_key_and_is_noted() {
    let limit = "{ name: rate-limiting, config: { minute: 6 } }";
    for (service, plugins) in [
        (format!(", plugins: [{limit}]"), String::new()),
        (String::new(), "- { name: rate-limiting, service: eth, config: { minute: 6 } }\n".to_owned()),
        (
            String::new(),
            "- { name: rate-limiting, route: eth, consumer: someone, config: { minute: 6 } }\n".to_owned(),
        ),
        (
            String::new(),
            "- { name: rate-limiting, consumer_group: gold, config: { minute: 6 } }\n".to_owned(),
        ),
    ] {
        let imported = kong(&service, "", &plugins);
        assert!(!imported.toml.contains("per_minute = 6\n"), "{}", imported.toml);
        let about = |note: &ImportNote| note.kind == NoteKind::LeftOut && note.text.starts_with("it limits ");
        assert_eq!(imported.notes.iter().filter(|note| about(note)).count(), 1, "{:#?}", imported.notes);
    }
    let for_all = kong("", "", "- { name: rate-limiting, config: { minute: 6 } }\n");
    assert!(for_all.toml.contains("per_minute = 6\n"), "{}", for_all.toml);
}

#[test]
fn places_of_keys_and_their_lifetimes_in_a_kong_file_are_noted_where_they_differ() {
    let plugin = "- { name: key-auth, config: { key_names: [x-api-key], key_in_query: false, key_in_body: true, hide_credentials: true, anonymous: x } }\n";
    let imported = kong("", ", ttl: 3600", plugin);
    for text in ["also takes keys from the query", "takes no keys from bodies", "no call without a key"] {
        note(&imported, 6, text);
    }
    note(&imported, 4, "the key does not expire here");
    let paths: Vec<_> = imported.notes.iter().map(|note| note.path.as_str()).collect();
    assert!(
        !paths.iter().any(|path| path.contains("key_names") || path.contains("hide_credentials")),
        "{paths:?}"
    );
}

fn kong_service(service: &str) -> Imported {
    import("kong.yaml", &format!("services:\n- {service}\n"), Some(SourceForm::Kong), None).unwrap()
}

// Shows (Import and transfer): Kong's kept paths, streams and gRPC, and the budgets of eRPC are carried over, or listed
// with the reason.
#[test]
fn a_path_that_kong_keeps_is_in_the_url_of_the_node() {
    for (chain, url, path, node) in [
        ("eth", "http://10.0.0.1:1", "/eth", "http://10.0.0.1:1/eth"),
        ("eth", "http://10.0.0.1:1/base/?a=b", "/v1/eth/", "NODE_ETH_N_URL"),
        ("eth", "http://10.0.0.1:1/base/", "/v1/eth/", "http://10.0.0.1:1/base/v1/eth"),
        ("eth", "http://10.0.0.1:1/base", "~/eth$", "http://10.0.0.1:1/base/eth"),
        ("eth", "http://10.0.0.1:1/base", "~/eth/.*$", "http://10.0.0.1:1/base"),
        ("avax", "http://10.0.0.1:1", "/ext/bc/C/rpc", "http://10.0.0.1:1/ext/bc/C/rpc"),
        // In REST calls the client's path follows.
        ("aptos", "http://10.0.0.1:1", "/aptos/v1", "http://10.0.0.1:1/aptos"),
        ("aptos", "http://10.0.0.1:1", "/nodes/aptos", "http://10.0.0.1:1/nodes/aptos"),
    ] {
        let service =
            |strip: &str| format!("{{ name: n, url: '{url}', routes: [{{ paths: ['{path}']{strip} }}] }}");
        let of = |strip: &str| {
            import("k", &format!("services:\n- {}\n", service(strip)), Some(SourceForm::Kong), Some(chain))
                .unwrap()
        };
        let kept = of(", strip_path: false");
        let line = kept.toml.lines().find(|line| line.starts_with("url = ")).unwrap_or_default();
        assert!(line.contains(&format!("\"{node}\"")), "{path}: {}", kept.toml);
        let is_noted = kept.notes.iter().any(|note| note.path.ends_with("strip_path"));
        assert_eq!(is_noted, node.starts_with("NODE") || path.contains('*'), "{path}: {:#?}", kept.notes);
        for removed in ["", ", strip_path: true"] {
            let removed = of(removed);
            assert!(
                node.starts_with("NODE") || removed.toml.contains(&format!("\"{url}\"")),
                "{}",
                removed.toml
            );
            assert!(
                removed
                    .notes
                    .iter()
                    .all(|note| !note.path.ends_with("strip_path") && !note.text.contains("Kong")),
                "{:#?}",
                removed.notes
            );
        }
    }
}

#[test]
fn routes_of_a_kong_service_that_lead_to_several_paths_of_a_node_are_noted() {
    let routes = "{ paths: [/eth], strip_path: false }, { paths: [/v1/eth], strip_path: false }, { paths: [/eth2] }, { hosts: [h] }";
    let imported = kong_service(&format!("{{ name: eth, url: 'http://10.0.0.1:1', routes: [{routes}] }}"));
    assert!(imported.toml.contains("url = \"http://10.0.0.1:1/eth\""), "{}", imported.toml);
    let about = |path: &str, part: &str| {
        imported.notes.iter().filter(|note| note.path.ends_with(path) && note.text.contains(part)).count()
    };
    assert_eq!(about("routes[1].strip_path", "Kong sends /v1/eth to the node for this route"), 1);
    assert_eq!(about("routes[2].paths[0]", "Kong sends the path of the service alone"), 1);
    assert_eq!(about("routes[0].strip_path", ""), 0, "{:#?}", imported.notes);
}

#[test]
fn a_path_that_kong_adds_to_a_url_of_the_environment_is_noted() {
    for url in ["{vault://env/node-url}", "http://user:secret-of-node@10.0.0.1:1"] {
        let imported = kong_service(&format!(
            "{{ name: eth, url: '{url}', routes: [{{ paths: [/eth], strip_path: false }}] }}"
        ));
        note(&imported, 2, "Kong adds /eth to the URL of the node");
    }
}

// Shows (Import and transfer).
#[test]
fn streams_and_grpc_of_a_kong_file_become_addresses_of_nodes() {
    for (service, chain, line) in [
        (
            "{ name: sol, url: 'ws://10.0.0.9:8900', routes: [{ paths: [/ws/solana] }] }",
            "solana",
            "ws = \"ws://10.0.0.9:8900\"",
        ),
        (
            "{ name: sol, protocol: wss, host: h.example, port: 443, path: /, routes: [{ paths: [/solana] }] }",
            "solana",
            "ws = \"wss://h.example:443/\"",
        ),
        (
            "{ name: tron-grpc, protocol: grpc, host: 10.0.0.4, port: 50051, routes: [{ paths: [/protocol.Wallet], protocols: [grpc], strip_path: false }] }",
            "tron",
            "grpc = \"grpc://10.0.0.4:50051\"",
        ),
        (
            "{ name: cosmos, url: 'grpcs://10.0.0.4:9090', routes: [{ paths: [/cosmos.bank] }] }",
            "cosmos",
            "grpc = \"grpcs://10.0.0.4:9090\"",
        ),
    ] {
        let imported = kong_service(service);
        let node = format!("[[chains.{chain}.nodes]]\n{line}\n");
        assert!(imported.toml.contains(&node), "{}", imported.toml);
        assert!(config(&imported.toml, &[]).is_ok());
        let is_lost = |note: &&ImportNote| note.kind == NoteKind::LeftOut;
        assert_eq!(imported.notes.iter().find(is_lost), None);
        if chain == "tron" || chain == "cosmos" {
            note(&imported, 2, "clients call gRPC at gateway.grpc_listen");
        }
    }
    let streamed = kong_service("{ name: sol, url: 'ws://10.0.0.9:8900', routes: [{ paths: [/solana] }] }");
    note(&streamed, 2, "clients call /ws/solana instead");
    for (url, chain) in [("ws://10.0.0.1:1", "btc"), ("grpc://10.0.0.1:1", "eth")] {
        let imported = kong_service(&format!("{{ name: {chain}, url: '{url}' }}"));
        note(&imported, 2, "does not serve");
        assert!(!imported.toml.contains("[[chains"), "{}", imported.toml);
    }
}

#[test]
fn kongs_treatment_of_hosts_and_slashes_is_noted_where_it_differs() {
    let notes = |route: &str| {
        let imported = kong_service(&format!(
            "{{ name: eth, url: 'http://10.0.0.1:1', routes: [{{ paths: [/eth], {route} }}] }}"
        ));
        imported
            .notes
            .iter()
            .map(ToString::to_string)
            .filter(|note| note.contains("routes[0]"))
            .collect::<Vec<_>>()
    };
    assert_eq!(notes("preserve_host: false, path_handling: v0"), [""; 0]);
    for (route, part) in
        [("preserve_host: true", "the host of its URL"), ("path_handling: v1", "by one slash")]
    {
        let found = notes(route);
        assert!(found.len() == 1 && found[0].contains(part), "{route}: {found:#?}");
    }
}

#[test]
fn a_token_of_a_dshackle_node_becomes_a_header_to_be_set() {
    let text = "cluster:\n  upstreams:\n    - id: a\n      blockchain: eth\n      connection:\n        ethereum:\n          rpc:\n            url: http://10.0.0.1:8545\n            \
                bearer-auth: { token: secret-of-the-node }\n";
    let imported = import("d.yaml", text, Some(SourceForm::Dshackle), None).unwrap();
    assert!(
        imported.toml.contains("headers = { authorization = { env = \"NODE_ETH_A_AUTHORIZATION\" } }"),
        "{}",
        imported.toml
    );
    assert!(!imported.toml.contains("secret-of"), "{}", imported.toml);
    note(&imported, 9, "set NODE_ETH_A_AUTHORIZATION to Bearer, a blank and the token");
}

#[test]
fn policies_of_erpc_have_the_same_reason_in_a_list_and_in_a_table() {
    for policies in [
        "[{ hedge: { delay: 1s }, retry: { maxAttempts: 3 } }]",
        "{ hedge: { delay: 1s }, retry: { maxAttempts: 3 } }",
    ] {
        let text = format!(
            "projects:\n  - id: p\n    networks:\n      - {{ evm: {{ chainId: 1 }}, failsafe: {policies} }}\n"
        );
        let imported = import("e.yaml", &text, Some(SourceForm::Erpc), None).unwrap();
        note(&imported, 4, "chains.<chain>.hedge sends a read");
        note(&imported, 4, "a call that only reads is sent to further nodes");
    }
}

// Shows (Import and transfer).
#[test]
fn additional_settings_of_an_erpc_budget_are_noted_with_their_reason() {
    let rule = |more: &str| format!("{{ method: '*', maxCount: 60, period: 1m{more} }}");
    for (rules, part) in [
        (rule(", waitTime: 100ms"), "rules[0].waitTime: not carried over: no call waits for a limit"),
        (
            rule(", perIP: true"),
            "rules[0].perIP: not carried over: limits belong to keys, projects and nodes",
        ),
        (
            rule(", perUser: true"),
            "rules[0].perUser: not carried over: a minute, an hour and a day are counted",
        ),
        (rule(", perNetwork: true"), "rules[0].perNetwork: not carried over: the limits of a key"),
        (rule(", else: x"), "rules[0].else: not carried over: limits of rpcgate have no such setting"),
        (
            format!("{}, {{ method: eth_call, maxCount: 5, period: 1m }}", rule("")),
            "rules[1]: not carried over: this rule is for single methods",
        ),
        (
            format!("{}, {{ method: '*', maxCount: 5, period: 7s }}", rule("")),
            "rules[1]: not carried over: limits are for a second",
        ),
    ] {
        let text = format!(
            "rateLimiters:\n  budgets:\n  - {{ id: b, rules: [{rules}] }}\nprojects:\n- id: main\n  auth: {{ strategies: [{{ type: secret, \
             rateLimitBudget: b, secret: {{ id: x, value: secret-value-1234567 }} }}] }}\n"
        );
        let imported = import("e.yaml", &text, Some(SourceForm::Erpc), None).unwrap();
        assert!(imported.toml.contains("per_minute = 60\n"), "{}", imported.toml);
        let notes: Vec<_> =
            imported.notes.iter().filter(|note| note.line == 3).map(ToString::to_string).collect();
        assert!(notes.len() == 1 && notes[0].contains(part), "{part}\n{notes:#?}");
    }
    let none = "rateLimiters: { budgets: [{ id: b, rules: [{ method: '*', maxCount: 60, period: 1m, waitTime: 0s, perIP: false }] }] }\n\
                projects: [{ id: main, auth: { strategies: [{ type: secret, rateLimitBudget: b, secret: { id: x, value: secret-value-1234567 } }] } }]\n";
    let imported = import("e.yaml", none, Some(SourceForm::Erpc), None).unwrap();
    assert!(imported.notes.iter().all(|note| note.line != 1), "{:#?}", imported.notes);
}

// Shows (Commands and configuration).
#[test]
fn no_secret_of_a_nodes_url_is_in_the_new_file_or_in_a_note() {
    for url in [
        "https://planted1User:planted-word@h.example/rpc",
        "https://planted@h.example/",
        "https://h.example/v2/Planted3x",
        "https://h.example/rpc?apikey=planted",
    ] {
        for (form, text) in [
            (
                SourceForm::Erpc,
                format!("projects: [{{id: p, upstreams: [{{endpoint: '{url}', evm: {{chainId: 1}}}}]}}]\n"),
            ),
            (
                SourceForm::Proxyd,
                format!("[backends.a]\nrpc_url = '{url}'\n[backend_groups.main]\nbackends = ['a']\n"),
            ),
            (
                SourceForm::Dshackle,
                format!(
                    "cluster: {{upstreams: [{{id: a, blockchain: eth, connection: {{ethereum: {{rpc: {{url: '{url}'}}}}}}}}]}}\n"
                ),
            ),
            (
                SourceForm::Kong,
                format!("services: [{{name: eth, url: '{url}', routes: [{{paths: [/eth]}}]}}]\n"),
            ),
        ] {
            let imported = import("f", &text, Some(form), Some("eth")).unwrap();
            let notes: Vec<_> = imported.notes.iter().map(ToString::to_string).collect();
            let shown = format!("{}{}", imported.toml, notes.join("\n"));
            assert!(shown.contains("[[chains.eth.nodes]]"), "{form:?}: {shown}");
            assert!(!shown.to_lowercase().contains("planted"), "{form:?} {url}: {shown}");
        }
    }
}

#[test]
fn a_program_that_makes_a_configuration_is_refused_with_the_reason() {
    let error = import("conf/erpc.ts", "export default createConfig({})", None, None).unwrap_err();
    assert_eq!(error, ImportError::Program);
    assert!(error.to_string().contains("a program that makes a configuration"), "{error}");
}

/// Values of the samples that match rpcgate's behaviour, or that only the source's own tools read.
const WITHOUT_EFFECT: &[&str] = &[
    "_format_version",
    "_transform",
    "tags: [frontend]",
    "version: v1",
    "enabled: true",
    "jvm: false",
    "path: /metrics",
    "websocket: true",
    "preserve-batch-order",
    "cors-origin",
    "public_access",
    "port: 80",
    "path: /",
    "architecture: evm",
    "supportsBatch: true",
    "trustedIPHeaders",
    "matchMethod",
    "driver:",
    "consensus_aware",
    "port: 6379",
    "use_redis",
    "method: \"*\"",
    "httpHostV4: 0.0.0.0",
    "httpPortV4: 4000",
    "port: 4001",
    "ws_backend_group = \"main\"",
    "rpc_host = \"0.0.0.0\"",
    "ws_url = \"\"",
    "username = \"\"",
    "password = \"\"",
    "eth_call = \"main\"",
    "host: 0.0.0.0",
    "protocol: http",
    "paths: [/eth]",
    "paths: [/solana]",
    "limit_by: consumer",
    "origins: [\"*\"]",
];

/// Reports whether a note is about line `n`, counted from 0, or about a table or list that contains it.
fn contains(lines: &[&str], note: &ImportNote, n: usize) -> bool {
    let above = note.line - 1;
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
    let header = lines[..n].iter().rposition(|line| line.starts_with('['));
    let key = lines[above].trim_start_matches([' ', '-']).split(':').next().unwrap_or_default();
    // A note about a whole map is at the map's first key.
    let least = indent(lines[above]) + usize::from(note.path.ends_with(key));
    let is_parent = above < n && lines[above..=n].iter().skip(1).all(|line| indent(line) >= least);
    above == n || is_parent || header == Some(above)
}

// Shows (Import and transfer).
#[test]
fn every_value_of_every_sample_is_carried_over_or_noted() {
    let mut lost = Vec::new();
    for form in SourceForm::ALL {
        let (name, text) = sample(form, "/etc/rpcgate".as_ref());
        let imported = import(name, &text, Some(form), None).unwrap();
        let ignored = imported.notes.iter().filter(|note| note.text.starts_with("it was read, but nothing"));
        lost.extend(ignored.map(|note| format!("{form:?}: {}", note.path)));
        let lines: Vec<&str> = text.lines().collect();
        let settings = |toml: &str| {
            toml.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
        };
        let texts = |notes: &[ImportNote]| {
            notes.iter().map(|note| (note.path.clone(), note.text.clone())).collect::<Vec<_>>()
        };
        for (n, line) in lines.iter().enumerate().filter(|(_, line)| line.contains([':', '='])) {
            let without = [&lines[..n], &lines[n + 1..]].concat().join("\n");
            let Ok(other) = import(name, &without, Some(form), None) else { continue };
            let is_changed = settings(&other.toml) != settings(&imported.toml)
                || texts(&other.notes) != texts(&imported.notes);
            let is_noted = imported.notes.iter().any(|note| contains(&lines, note, n));
            let is_known = WITHOUT_EFFECT.iter().any(|known| line.contains(known)) || line.starts_with('#');
            if !(is_changed || is_noted || is_known) {
                lost.push(format!("{form:?}:{}: {line}", n + 1));
            }
        }
    }
    assert_eq!(lost, [""; 0]);
}

#[test]
fn a_file_whose_form_is_not_clear_must_be_named() {
    let error = |text: &str, form| import("f", text, form, None).unwrap_err();
    assert_eq!(error("a: 1\n", None), ImportError::Ambiguous);
    assert_eq!(error("upstreams: []\n", None), ImportError::Ambiguous);
    assert_eq!(
        error("[x]\ny = 1\n", Some(SourceForm::Proxyd)).to_string(),
        "1:1: this is no proxyd file: it has none of backends and backend_groups"
    );
    assert!(matches!(error("projects: [\n", None), ImportError::Syntax { .. }));
    assert_eq!(error(&"#".repeat(MAX_SOURCE + 1), None), ImportError::TooLarge { limit: MAX_SOURCE });
}

#[test]
fn nodes_whose_chain_the_file_does_not_name_need_one() {
    let text = "[backends.a]\nrpc_url = \"http://h:1\"\n[backend_groups.main]\nbackends = [\"a\"]\n";
    assert_eq!(import("p.toml", text, None, None).unwrap_err(), ImportError::NoChain);
    let named = import("p.toml", text, None, Some("Polygon")).unwrap();
    assert!(named.toml.contains("[[chains.polygon.nodes]]"), "{}", named.toml);
    let unknown = import("p.toml", text, None, Some("base")).unwrap_err();
    assert_eq!(unknown, ImportError::UnknownChain("base".into()));
}

#[test]
fn settings_that_our_configuration_refuses_are_omitted_with_the_reason() {
    let text = "projects:\n  - id: x\n    networks:\n      - { architecture: evm, evm: { chainId: 1 }, failsafe: { timeout: { duration: 9h } } }\n    upstreams:\n      - { endpoint: 'http://h:0/', evm: { chainId: 1 } }\n      - { endpoint: 'http://h:1/', evm: { chainId: 1 }, jsonRpc: { headers: { 'bad name': secret-of-x } } }\n";
    let imported = import("e.yaml", text, None, None).unwrap();
    note(&imported, 4, "rpcgate refuses it: chains.eth.timeout must lie between");
    note(&imported, 6, "the URL has a port that is not between 1 and 65535");
    note(&imported, 7, "rpcgate refuses it: ");
    assert!(config(&imported.toml, &variables(&imported.toml)).is_ok());
    assert!(!imported.toml.contains("secret-of-x"));
    let text = "[server]\nrpc_port = 99999\n[backends.a]\nrpc_url = 'http://h:1/'\n[backend_groups.main]\nbackends = ['a']\n";
    let imported = import("p.toml", text, Some(SourceForm::Proxyd), Some("eth")).unwrap();
    note(&imported, 2, "it is no port: set gateway.listen");
}

/// Words of the four forms, so that readers find something to read.
const WORDS: &[&str] = &[
    "projects",
    "id",
    "upstreams",
    "endpoint",
    "evm",
    "chainId",
    "networks",
    "failsafe",
    "timeout",
    "duration",
    "auth",
    "strategies",
    "type",
    "secret",
    "value",
    "rateLimiters",
    "budgets",
    "rules",
    "method",
    "maxCount",
    "period",
    "rateLimitBudget",
    "jsonRpc",
    "headers",
    "batchMaxSize",
    "server",
    "httpPortV4",
    "httpHostV4",
    "tls",
    "certFile",
    "keyFile",
    "backends",
    "backend_groups",
    "rpc_url",
    "ws_url",
    "username",
    "password",
    "authentication",
    "main",
    "rate_limit",
    "base_rate",
    "base_interval",
    "cluster",
    "blockchain",
    "connection",
    "ethereum",
    "rpc",
    "ws",
    "url",
    "basic-auth",
    "role",
    "proxy",
    "host",
    "port",
    "services",
    "routes",
    "paths",
    "name",
    "targets",
    "target",
    "weight",
    "consumers",
    "keyauth_credentials",
    "key",
    "plugins",
    "config",
    "minute",
    "second",
    "redis",
    "policy",
    "limit_by",
    "providers",
    "vendor",
    "cors",
    "allowMethods",
    "ignoreMethods",
    "rpc_method_mappings",
    "metrics",
    "cache",
    "<<",
];
const TEXTS: &[&str] = &[
    "eth",
    "1",
    "137",
    "0",
    "-1",
    "99999999999999999999",
    "true",
    "secret",
    "rate-limiting",
    "key-auth",
    "30s",
    "1m",
    "http://10.0.0.1:8545",
    "ws://h:1/",
    "https://h/v3/SECRET0SECRET0SECRET0",
    "http://u:SECRETx@h/",
    "$A",
    "${A}",
    "x${A}y",
    "{vault://env/a}",
    "alchemy://SECRETSECRETSECRET0",
    "SECRETSECRETSECRET0",
    "*",
    "/eth",
    "a\"b\n\u{7}",
    "127.0.0.1",
    "solana",
    "redis",
    "main",
    "fallback",
    "",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => proptest::sample::select(TEXTS).prop_map(str::to_owned), 1 => "[ -~]{0,20}"]
}

fn quoted(text: &str) -> String {
    rpcgate_config::toml_quote(text)
}

/// Generates a value as JSON, which is YAML too.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![3 => text().prop_map(|text| quoted(&text)), 1 => Just("null".to_owned()), 1 => Just("7".to_owned())];
    leaf.prop_recursive(6, 60, 6, |inner| {
        let key = proptest::sample::select(WORDS);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            proptest::collection::btree_map(key, inner, 0..6).prop_map(|fields| {
                let fields: Vec<_> =
                    fields.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
                format!("{{{}}}", fields.join(", "))
            }),
        ]
    })
}

fn holds(form: SourceForm, text: &str) -> Result<(), TestCaseError> {
    let imported = match import("f", text, Some(form), Some("eth")) {
        Ok(imported) => imported,
        Err(ImportError::Unsettled(why)) => return Err(TestCaseError::fail(why)),
        Err(_) => return Ok(()),
    };
    let read = config(&imported.toml, &variables_of(&imported.toml));
    prop_assert!(read.is_ok(), "{:?}\n{}", read.err(), imported.toml);
    Ok(())
}

/// Returns a valid value for each variable, by its setting. A variable that also holds a word is no word.
fn variables_of(toml: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in toml.lines().filter(|line| line.contains("env = \"") && !line.starts_with('#')) {
        let key = line.split(' ').next().unwrap_or_default();
        let in_redis = toml.split("[redis]\n").nth(1).is_some_and(|rest| rest.lines().next() == Some(line));
        for rest in line.split("env = \"").skip(1) {
            let name = rest.split('"').next().unwrap_or_default().to_owned();
            let holds = match key {
                "url" if in_redis => Holds::RedisUrl,
                "url" => Holds::HttpUrl,
                "ws" => Holds::WsUrl,
                "grpc" => Holds::GrpcUrl,
                "key" => Holds::ApiKey,
                _ => Holds::Word,
            };
            let value = write::example(&name, holds);
            match found.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) if known == "word" => *known = value,
                Some(_) => {}
                None => found.push((name, value)),
            }
        }
    }
    found
}

proptest! {
    // Shows (Import and transfer): The new configuration is accepted for any imported file, and neither it nor a note
    // contains a secret; the size is bounded.
    #[test]
    fn the_new_configuration_is_accepted_for_any_input_file(
        form in proptest::sample::select(vec![SourceForm::Erpc, SourceForm::Dshackle, SourceForm::Kong]),
        mark in proptest::sample::select(vec!["projects", "cluster", "upstreams", "services", "consumers"]),
        marked in value(),
        others in proptest::collection::btree_map(proptest::sample::select(WORDS), value(), 0..4),
    ) {
        let mut fields = vec![format!("\"{mark}\": {marked}")];
        fields.extend(others.iter().filter(|(key, _)| **key != mark && **key != "<<").map(|(key, value)| format!("\"{key}\": {value}")));
        holds(form, &format!("{{{}}}", fields.join(", ")))?;
    }

    #[test]
    fn the_new_configuration_is_accepted_for_any_proxyd_backends(
        names in proptest::collection::btree_set("[a-z]{1,3}", 1..5),
        urls in proptest::collection::vec(text(), 5),
        keys in proptest::collection::btree_map(text(), text(), 0..4),
        rate in text(),
        interval in text(),
    ) {
        let mut text = format!("[rate_limit]\nbase_rate = {}\nbase_interval = {}\n", quoted(&rate), quoted(&interval));
        for (name, url) in names.iter().zip(&urls) {
            text.push_str(&format!("[backends.{name}]\nrpc_url = {}\npassword = {}\nusername = \"u\"\n", quoted(url), quoted(&rate)));
        }
        let list: Vec<_> = names.iter().map(|name| quoted(name)).collect();
        text.push_str(&format!("[backend_groups.main]\nbackends = [{}]\n[authentication]\n", list.join(", ")));
        keys.iter().for_each(|(key, name)| text.push_str(&format!("{} = {}\n", quoted(key), quoted(name))));
        holds(SourceForm::Proxyd, &text)?;
    }

    // Shows (Import and transfer).
    #[test]
    fn no_secret_of_a_file_is_in_the_new_one_or_in_a_note(secret in "[A-Z][a-z0-9]{24,40}") {
        let erpc = format!(
            "projects:\n  - id: p\n    auth: {{strategies: [{{type: secret, secret: {{id: k, value: {secret}}}}}]}}\n    \
             networks: [{{evm: {{chainId: 1}}}}]\n    upstreams:\n      - {{endpoint: 'https://h/{secret}', evm: {{chainId: 1}}}}\n      \
             - {{endpoint: 'https://u:{secret}@h/', evm: {{chainId: 1}}, jsonRpc: {{headers: {{x: {secret}}}}}}}\n      \
             - {{endpoint: 'alchemy://{secret}'}}\n    providers: [{{endpoint: 'infura://{secret}'}}]\n\
             rateLimiters: {{store: {{driver: redis, redis: {{addr: 'h:1', password: {secret}}}}}}}\n"
        );
        let proxyd = format!(
            "[backends.a]\nrpc_url = \"http://h/?k={secret}\"\nusername = \"u\"\npassword = \"{secret}\"\nheaders = {{ x = \"{secret}\" }}\n\
             [backend_groups.main]\nbackends = [\"a\"]\n[authentication]\n{secret} = \"web\"\n[authentication.x{secret}]\ny = 1\n"
        );
        let dshackle = format!(
            "cluster:\n  upstreams:\n    - id: a\n      blockchain: eth\n      connection:\n        ethereum:\n          rpc:\n            \
             url: http://h/{secret}/\n            basic-auth: {{username: u, password: {secret}}}\n"
        );
        let kong = format!(
            "_format_version: '3.0'\nservices:\n  - name: eth\n    url: https://h/{secret}\n    plugins: [{{name: request-transformer, \
             config: {{add: {{headers: ['x: {secret}']}}}}}}]\nconsumers: [{{username: u, keyauth_credentials: [{{key: {secret}}}], \
             jwt_secrets: [{{secret: {secret}}}]}}]\n"
        );
        for (form, text) in [
            (SourceForm::Erpc, erpc), (SourceForm::Proxyd, proxyd), (SourceForm::Dshackle, dshackle), (SourceForm::Kong, kong),
        ] {
            let imported = import("f", &text, Some(form), Some("eth")).unwrap();
            let notes: Vec<_> = imported.notes.iter().map(ToString::to_string).collect();
            let shown = format!("{}{}", imported.toml, notes.join("\n")).to_lowercase();
            prop_assert!(!shown.contains(&secret.to_lowercase()), "{shown}");
            prop_assert!(shown.contains("[[chains.eth.nodes]]"), "{shown}");
        }
    }

    #[test]
    fn no_text_causes_a_panic(text in "[-\\[\\]{}:,&*#|>?!%@'\"\\\\ \n\ta-c0-9<~=.$]{0,200}") {
        for form in SourceForm::ALL {
            let _ = import("f", &text, Some(form), Some("eth"));
        }
        let _ = import("f", &text, None, None);
    }
}
