//! Changes files of each form leaf by leaf, and adds a setting to each of their tables. The import must show every such
//! change: in the new file, or in a note about the leaf.

use crate::document::{Node, toml, yaml};
use crate::note::is_within;
use crate::tests::import;
use crate::{ImportError, ImportNote, Imported, NoteKind, SourceForm, value};
use rpcgate_config::toml_quote;

/// A setting that no gateway has. As the name of a client's key it is long enough.
const UNKNOWN: &str = "an-unknown-setting";

/// A file with the exceptions of its import.
struct Case {
    form: SourceForm,
    chain: Option<&'static str>,
    text: &'static str,
    /// Leaves that have no effect in the source either.
    leaves: &'static [&'static str],
    /// Tables that have no effect in the source either, with any content.
    tables: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        form: SourceForm::Erpc,
        chain: None,
        text: include_str!("../samples/erpc.yaml"),
        leaves: &["database.evmJsonRpcCache.connectors[0].id", "projects[0].providers[0].id"],
        tables: &[],
    },
    Case {
        form: SourceForm::Proxyd,
        chain: None,
        text: include_str!("../samples/proxyd.toml"),
        leaves: &[],
        tables: &[],
    },
    Case {
        form: SourceForm::Dshackle,
        chain: None,
        text: include_str!("../samples/dshackle.yaml"),
        leaves: &["version", "proxy.preserve-batch-order"],
        tables: &[],
    },
    Case {
        form: SourceForm::Kong,
        chain: None,
        text: include_str!("../samples/kong.yaml"),
        leaves: &[
            "_format_version",
            "_transform",
            // The targets of the upstream have their own ports.
            "services[0].port",
            "services[0].routes[0].name",
            "services[1].routes[0].name",
            "consumers[0].tags[0]",
        ],
        tables: &[],
    },
    Case {
        form: SourceForm::Erpc,
        chain: None,
        text: ERPC,
        leaves: &[
            "database.evmJsonRpcCache.connectors[0].id",
            "server.tls.certFile",
            "metrics.port",
            "projects[0].providers[0].id",
        ],
        tables: &["server.tls", "metrics"],
    },
    Case {
        form: SourceForm::Proxyd,
        chain: Some("eth"),
        text: PROXYD,
        leaves: &["metrics.port"],
        tables: &["metrics"],
    },
    Case {
        form: SourceForm::Dshackle,
        chain: None,
        text: DSHACKLE,
        leaves: &[
            "version",
            "monitoring.prometheus.port",
            "proxy.preserve-batch-order",
            "proxy.tls.server.certificate",
        ],
        tables: &["monitoring", "monitoring.prometheus", "proxy.tls", "proxy.tls.server"],
    },
    Case {
        form: SourceForm::Kong,
        chain: None,
        text: KONG,
        leaves: &[
            "_info.select_tags[0]",
            "services[0].routes[0].name",
            "routes[0].name",
            "plugins[0].config.sync_rate",
            "plugins[4].name",
            "plugins[4].config.minute",
        ],
        tables: &["plugins[4]", "plugins[4].config"],
    },
];

const ERPC: &str = r#"
rateLimiters:
  store: { driver: redis, redis: { addr: "10.0.0.9:6379", username: gate, password: secret-of-the-counters, db: 3 } }
  budgets:
  - { id: all, rules: [{ method: "*", maxCount: 60, period: 1m, waitTime: 0s, perIP: false }] }
database: { evmJsonRpcCache: { connectors: [{ id: hot, driver: memory, memory: { maxTotalSize: 64MB } }] } }
server: { tls: { enabled: false, certFile: /etc/erpc/cert.pem } }
metrics: { enabled: false, port: 4001 }
projects:
- id: main
  auth: { strategies: [{ type: secret, rateLimitBudget: all, secret: { id: web, value: secret-of-the-web-client-1 } }] }
  networks: [{ architecture: evm, evm: { chainId: 1 } }, { architecture: evm, evm: { chainId: 137 } }]
  providers:
  - { id: a, vendor: drpc, onlyNetworks: ["evm:1"], settings: { apiKey: secret-of-drpc-1234567, region: eu } }
  - { id: b, vendor: ankr, ignoreNetworks: ["evm:1", "evm:137"], settings: { apiKey: secret-of-ankr-1234567 } }
  upstreams:
  - id: own
    type: evm
    endpoint: http://10.0.0.1:8545
    evm: { chainId: 1 }
    jsonRpc: { headers: { X-Team: blue } }
    grpc: { headers: { x-team: red } }
"#;

const PROXYD: &str = r#"
[server]
timeout_seconds = 10
[redis]
url = "redis://10.0.0.9:6379"
[metrics]
enabled = false
port = 7300
[rate_limit]
use_redis = false
base_rate = 100
base_interval = "1m"
[backends.a]
rpc_url = "https://10.0.0.1:8545"
ca_file = "/etc/proxyd/ca.pem"
headers = { X-Team = "blue", x-team = "red" }
[backend_groups.main]
backends = ["a"]
routing_strategy = "fallback"
[rpc_method_mappings]
eth_call = "main"
"#;

const DSHACKLE: &str = r#"
version: v1
monitoring: { enabled: false, prometheus: { port: 8081 } }
proxy:
  preserve-batch-order: false
  tls: { enabled: false, server: { certificate: /etc/dshackle/proxy.crt } }
  routes: [{ id: eth, blockchain: ethereum }]
cluster:
  upstreams:
  - id: a
    blockchain: ethereum
    role: secondary
    connection:
      ethereum:
        rpc: { url: "http://10.0.0.1:8545", bearer-auth: { token: secret-of-the-node-1 } }
        ws: { url: "ws://10.0.0.1:8546", bearer-auth: { token: secret-of-the-node-2 } }
"#;

const KONG: &str = r#"
_info: { select_tags: [team], defaults: { service: { retries: 2 } } }
services:
- id: 5f0c
  name: eth
  url: http://10.0.0.1:8545
  routes:
  - name: eth
    paths: [/eth]
    strip_path: true
    methods: [POST]
    protocols: [http, https]
    preserve_host: false
    path_handling: v0
    https_redirect_status_code: 426
    request_buffering: true
    response_buffering: true
- name: aptos
  host: aptos-nodes
  path: /v1
  routes:
  - paths: [/aptos]
    methods: [GET]
    protocols: [https]
    https_redirect_status_code: 301
    request_buffering: false
    path_handling: v1
upstreams:
- { name: aptos-nodes, targets: [{ target: "10.0.0.5:80" }] }
routes:
- { name: more, service: { id: 5f0c }, paths: [/v1/eth] }
consumers:
- { id: 7a1d, username: web, keyauth_credentials: [{ key: secret-of-the-web-client-1 }] }
- { username: partner, keyauth_credentials: [{ key: secret-of-the-partner-1 }] }
plugins:
- name: rate-limiting-advanced
  config:
    limit: [300]
    window_size: [60]
    window_type: fixed
    strategy: redis
    sync_rate: -1
    namespace: edge
    redis: { host: 10.0.0.9, port: 6379, password: secret-of-the-counters, database: 1, ssl: true, timeout: 2000 }
- { name: key-auth, config: { key_names: [x-api-key], key_in_query: true, key_in_header: true, hide_credentials: true } }
- { name: request-size-limiting, service: eth, config: { allowed_payload_size: 2, size_unit: megabytes } }
- { name: request-transformer, service: { id: 5f0c }, config: { add: { headers: ["X-Team: blue", "x-team: red"] } } }
- { name: rate-limiting, enabled: false, config: { minute: 5 } }
- { name: rate-limiting, consumer: { id: 7a1d }, config: { minute: 60, policy: cluster, limit_by: credential } }
"#;

struct Numbers(u64);

impl Numbers {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Returns another valid text: the other flag, another number or address, or another name.
    fn other(&mut self, text: &str) -> String {
        if let Some(flag) = value::flag(text) {
            return (!flag).to_string();
        }
        let Some(at) = text.rfind(|c: char| c.is_ascii_digit()) else {
            return format!("{text}{}", if self.draw().is_multiple_of(2) { "x" } else { "-b" });
        };
        let digit = text[at..=at].parse::<u64>().unwrap();
        format!("{}{}{}", &text[..at], (digit + 1 + self.draw() % 3) % 10, &text[at + 1..])
    }
}

impl Case {
    fn root(&self) -> Node {
        let text = self.text.replace("@DIR@", "/etc/rpcgate");
        if self.form == SourceForm::Proxyd {
            toml::parse(&text).unwrap()
        } else {
            yaml::parse(&text).unwrap()
        }
    }

    /// Returns the values of one table, with one more if it is the table at `extended`.
    fn fields(&self, table: &Node, extended: Option<&str>) -> Vec<String> {
        let equals = if self.form == SourceForm::Proxyd { " = " } else { ": " };
        let mut fields: Vec<String> = table
            .fields()
            .iter()
            .map(|field| {
                format!("{}{equals}{}", toml_quote(&field.key), self.written(&field.value, extended))
            })
            .collect();
        if extended == Some(table.path.as_str()) {
            fields.push(format!("{UNKNOWN}{equals}\"1\""));
        }
        fields
    }

    fn written(&self, node: &Node, extended: Option<&str>) -> String {
        if let Some(text) = node.peek() {
            return toml_quote(text);
        }
        if node.is_table() {
            return format!("{{{}}}", self.fields(node, extended).join(", "));
        }
        let items: Vec<String> = node.items().iter().map(|item| self.written(item, extended)).collect();
        if node.is_list() { format!("[{}]", items.join(", ")) } else { "null".to_owned() }
    }

    /// Writes the tree as a file and imports it. Each top setting stays on its line, so that notes about others stay
    /// the same. Returns `None` if the file is refused because nothing in it names the chain.
    fn imported(&self, root: &Node, extended: Option<&str>) -> Option<Imported> {
        let text = if self.form == SourceForm::Proxyd {
            self.fields(root, extended).join("\n")
        } else {
            self.written(root, extended)
        };
        match import("f", &text, Some(self.form), self.chain) {
            Err(ImportError::NoChain) => None,
            imported => Some(imported.unwrap_or_else(|why| panic!("{why}\n{text}"))),
        }
    }
}

/// Collects the indices of all values, with their paths.
fn places(node: &Node, at: &mut Vec<usize>, found: &mut Vec<(Vec<usize>, String)>) {
    found.push((at.clone(), node.path.clone()));
    for (n, below) in node.children().enumerate() {
        at.push(n);
        places(below, at, found);
        at.pop();
    }
}

/// Reports whether the note is about the leaf at `path`, its list, or a table that was left out as a whole.
fn is_about(note: &ImportNote, path: &str) -> bool {
    let item = path.strip_prefix(note.path.as_str()).filter(|_| !note.path.is_empty());
    let is_item =
        item.is_some_and(|item| item.starts_with('[') && item.find(']') == item.len().checked_sub(1));
    note.path == path || is_item || note.kind == NoteKind::LeftOut && is_within(path, &note.path)
}

// Shows (Import and transfer): An import names every leaf that it did not carry over: each changed leaf and each
// unknown setting of files of each form shows in the new file or in a note (promise 89).
#[test]
fn an_import_shows_every_change_of_a_leaf_and_every_unknown_setting() {
    let mut numbers = Numbers(89);
    for (n, case) in CASES.iter().enumerate() {
        let mut root = case.root();
        let before = case.imported(&root, None).unwrap();
        let mut all = Vec::new();
        places(&root, &mut Vec::new(), &mut all);
        let mut leaves = Vec::new();
        let mut tables = Vec::new();
        for (at, path) in &all {
            let is_shown = |after: Option<Imported>| {
                let is_changed = after.is_none_or(|after| after.toml != before.toml);
                is_changed || before.notes.iter().any(|note| is_about(note, path))
            };
            let node = root.descendant_mut(at).unwrap();
            if let Some(text) = node.peek().map(str::to_owned) {
                node.set_text(numbers.other(&text));
                if !is_shown(case.imported(&root, None)) {
                    leaves.push(path.as_str());
                }
                root.descendant_mut(at).unwrap().set_text(text);
            } else if node.is_table() && !is_shown(case.imported(&root, Some(path.as_str()))) {
                tables.push(path.as_str());
            }
        }
        let mut without_effect = case.leaves.to_vec();
        let mut silent = case.tables.to_vec();
        without_effect.sort_unstable();
        silent.sort_unstable();
        leaves.sort_unstable();
        tables.sort_unstable();
        assert_eq!(leaves, without_effect, "leaves of file {n}, {:?}", case.form);
        assert_eq!(tables, silent, "tables of file {n}, {:?}", case.form);
    }
}

// Shows (Import and transfer).
#[test]
fn a_note_covers_its_leaf_its_list_and_omitted_settings_of_its_table() {
    let note =
        |kind, path: &str| ImportNote { line: 1, column: 1, path: path.into(), kind, text: String::new() };
    for (kind, noted, path, about) in [
        (NoteKind::Differs, "a.b", "a.b", true),
        (NoteKind::Differs, "a.b", "a.b[1]", true),
        (NoteKind::Differs, "a.b", "a.b[1].c", false),
        (NoteKind::Differs, "a.b", "a.bc", false),
        (NoteKind::Differs, "", "a", false),
        (NoteKind::LeftOut, "a", "a.b[1].c", true),
        (NoteKind::LeftOut, "a", "ab", false),
        (NoteKind::LeftOut, "", "a", false),
    ] {
        assert_eq!(is_about(&note(kind, noted), path), about, "{noted} {path}");
    }
}

fn notes(form: SourceForm, text: &str, path: &str) -> Vec<String> {
    let imported = import("f", text, Some(form), Some("eth")).unwrap();
    imported.notes.iter().filter(|note| note.path == path).map(ToString::to_string).collect()
}

// Shows (Import and transfer).
#[test]
fn a_value_with_an_unneeded_variable_is_noted_as_omitted() {
    let found = notes(SourceForm::Proxyd, PROXYD, "backends.a.headers.x-team");
    assert!(found.len() == 1 && found[0].contains("not carried over: nothing that was carried"), "{found:?}");
    let found = notes(SourceForm::Proxyd, PROXYD, "backends.a.headers.X-Team");
    assert!(found.len() == 1 && found[0].contains("to set: set NODE_ETH_A_X_TEAM to"), "{found:?}");
}

// Shows (Import and transfer).
#[test]
fn formerly_ignored_settings_have_their_own_reason() {
    let other = ERPC.replace("driver: redis", "driver: memory");
    for (form, text, path, part) in [
        (SourceForm::Erpc, ERPC, "rateLimiters.store.redis.password", "a part of the URL in REDIS_URL"),
        (SourceForm::Erpc, ERPC, "projects[0].providers[0].settings.apiKey", "a key is not copied"),
        (SourceForm::Erpc, ERPC, "projects[0].providers[1]", "leave no network of the project"),
        (SourceForm::Erpc, other.as_str(), "rateLimiters.store.redis", "the store has another driver"),
        (SourceForm::Proxyd, PROXYD, "rate_limit.use_redis", "count together"),
        (SourceForm::Kong, KONG, "_info.defaults", "no defaults of decK"),
        (SourceForm::Kong, KONG, "services[1].routes[0].methods", "follow from the chain's calls"),
        (SourceForm::Kong, KONG, "services[1].routes[0].https_redirect_status_code", "redirects no call"),
        (SourceForm::Kong, KONG, "plugins[0].config.namespace", "redis.prefix"),
        (SourceForm::Kong, KONG, "plugins[0].config.redis.database", "a part of the URL in REDIS_URL"),
        (SourceForm::Kong, KONG, "plugins[5].config.policy", "only if they share redis.url"),
    ] {
        let found = notes(form, text, path);
        assert!(found.iter().any(|note| note.contains(part)), "{path}: {found:#?}");
    }
}

// Shows (Import and transfer).
#[test]
fn a_kong_plugin_that_names_an_entity_by_identifier_applies_to_it_alone() {
    let imported = import("f", KONG, Some(SourceForm::Kong), None).unwrap();
    let lines: Vec<&str> = imported.toml.lines().collect();
    // The consumer with its own limit, and the one with the limit of all.
    assert!(lines.contains(&"per_minute = 60") && lines.contains(&"per_minute = 300"), "{}", imported.toml);
    assert!(
        imported.toml.contains("headers = { x-team = { env = \"NODE_ETH_X_TEAM\" } }"),
        "{}",
        imported.toml
    );
}
