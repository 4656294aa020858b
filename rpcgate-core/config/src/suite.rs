//! For tests of a program's reload: two configurations for every key that differ only in that key, and a reader of the
//! table in `docs/configuring.md` that says which changes need a restart.
#![expect(clippy::panic, reason = "a suite fails by panicking")]

use super::{Config, ConfigProgram, Input, ReloadEffect, Setting};
use rpcgate_core::plan::PlanFigure;

/// The common part of both configurations.
const BASE: &str = r#"
[gateway.tls]
cert = "a.pem"
key = "a.key"
[admin.tls]
cert = "a.pem"
key = "a.key"
client_ca = "a.pem"
[tenants.t]
[tenants.u]
[projects.p]
tenant = "t"
[projects.q]
tenant = "u"
[keys.k]
key = "rpcg_1234567abcdefgh"
project = "p"
"#;

const NODE: &str = "url = \"http://a\"";

/// The value of the key in the second configuration, in the form of a variable.
const CHANGED: &[(&str, &str)] = &[
    ("gateway.listen", "127.0.0.1:1"),
    ("gateway.grpc_listen", "127.0.0.1:1"),
    ("gateway.h2c", "true"),
    ("gateway.grpc_reflection", "true"),
    ("gateway.grpc_descriptors", "b.protoset"),
    ("gateway.trusted_proxies", "10.0.0.0/8"),
    ("gateway.proxy_protocol", "10.0.0.0/8"),
    ("gateway.key_secret", "sixteen-bytes-or-more"),
    ("gateway.reply_buffer", "1MiB"),
    ("gateway.reply_max", "32MiB"),
    ("gateway.reply_stream_max", "2GiB"),
    ("gateway.reply_stream_timeout", "10m"),
    ("gateway.explain_requests", "1000"),
    ("gateway.tls.cert", "b.pem"),
    ("gateway.tls.key", "b.key"),
    ("gateway.tls.grpc_only", "true"),
    ("gateway.limits.body", "1MiB"),
    ("gateway.limits.bodies_total", "128MiB"),
    ("gateway.limits.grpc_message", "1MiB"),
    ("gateway.limits.headers", "8KiB"),
    ("gateway.limits.header_count", "50"),
    ("gateway.limits.uri", "4KiB"),
    ("gateway.limits.header_timeout", "5s"),
    ("gateway.limits.body_grace", "5s"),
    ("gateway.limits.body_rate", "2KiB"),
    ("gateway.limits.body_timeout", "61s"),
    ("gateway.limits.write_timeout", "31s"),
    ("gateway.limits.idle_timeout", "60s"),
    ("gateway.overload.enabled", "false"),
    ("gateway.overload.least", "7"),
    ("gateway.overload.tolerance", "300"),
    ("gateway.overload.latency", "70ms"),
    ("gateway.overload.weights.free", "7"),
    ("gateway.overload.weights.standard", "7"),
    ("gateway.overload.weights.premium", "7"),
    ("gateway.overload.weights.enterprise", "7"),
    ("gateway.ws.calls_per_second", "9"),
    ("gateway.ws.max_message", "1MiB"),
    ("gateway.ws.max_backlog", "1MiB"),
    ("gateway.ws.ping_interval", "10s"),
    ("gateway.ws.dead_after", "90s"),
    ("admin.listen", "127.0.0.1:1"),
    ("admin.proxy_protocol", "10.0.0.0/8"),
    ("admin.api_url", "https://b.example.com"),
    ("admin.dash_url", "https://b.example.com"),
    ("admin.gateway_url", "https://b.example.com"),
    ("admin.grpc_url", "https://b.example.com"),
    ("admin.auth_per_minute", "99"),
    ("admin.operator_mfa", "true"),
    ("admin.tls.cert", "b.pem"),
    ("admin.tls.key", "b.key"),
    ("admin.tls.client_ca", "b.pem"),
    ("admin.tls.client_auth", "optional"),
    ("admin.jwt.secret", "thirty-two-bytes-and-some-more-of-them"),
    ("admin.jwt.access_ttl", "10m"),
    ("admin.jwt.refresh_ttl", "10d"),
    ("admin.jwt.session_ttl", "11d"),
    ("admin.mail.from", "b@example.com"),
    ("admin.mail.smtp", "smtp://b.example.com"),
    ("admin.mail.smtp_ca", "b"),
    ("admin.mail.tls", "required"),
    ("admin.mail.hello", "b.example.com"),
    ("admin.mail.outbox", "b"),
    ("admin.challenge.difficulty", "50000"),
    ("admin.challenge.site_key", "b"),
    ("admin.challenge.secret", "b"),
    ("admin.challenge.verify_url", "https://b.example.com"),
    ("admin.challenge.hostnames", "b.example.com"),
    ("admin.challenge.timeout", "7s"),
    ("admin.tickets.mail_to", "b@example.com"),
    ("admin.tickets.open", "7"),
    ("admin.tickets.attachment_bytes", "7MiB"),
    ("admin.tickets.scan", "b"),
    ("admin.tickets.scan_timeout", "7s"),
    ("acme.domains", "b.example.com"),
    ("acme.contacts", "b@example.com"),
    ("acme.directory_url", "https://b.example.com/directory"),
    ("acme.dir", "b"),
    ("acme.http_listen", "127.0.0.1:1"),
    ("acme.ca_file", "b.pem"),
    ("database.url", "sqlite://b.db"),
    ("database.migrate", "false"),
    ("redis.url", "redis://b"),
    ("redis.prefix", "b"),
    ("redis.timeout", "70ms"),
    ("redis.prefix", "other:"),
    ("redis.timeout", "1s"),
    ("cache.bytes", "1MiB"),
    ("journal.dir", "b"),
    ("journal.on_full", "refuse"),
    ("journal.memory", "32MiB"),
    ("journal.sync_interval", "1s"),
    ("retention.events", "10d"),
    ("retention.ledger", "200d"),
    ("webhooks.allow_private_targets", "true"),
    ("webhooks.timeout", "5s"),
    ("webhooks.attempts", "4"),
    ("webhooks.waits", "2s,5s,30s,5m,30m"),
    ("webhooks.retention", "10d"),
    ("webhooks.egress_proxy", "http://b:3128"),
    ("webhooks.ca_file", "b"),
    ("webhooks.concurrency", "77"),
    ("webhooks.per_endpoint", "7"),
    ("webhooks.disable_after", "7d"),
    ("webhooks.catch_up_per_second", "7"),
    ("webhooks.catch_up_blocks", "77"),
    ("webhooks.block_patience", "7m"),
    ("billing.seller", "b"),
    ("billing.seller_address", "b"),
    ("billing.seller_tax_id", "b"),
    ("billing.tax_name", "b"),
    ("billing.tax_basis_points", "77"),
    ("billing.close_after", "7h"),
    ("billing.pay_within", "7d"),
    ("billing.remind_before", "7d"),
    ("billing.reminders", "2d"),
    ("billing.suspend_after", "7d"),
    ("billing.fees.free", "7"),
    ("billing.fees.standard", "7"),
    ("billing.fees.premium", "7"),
    ("billing.fees.enterprise", "7"),
    ("billing.stripe.api_url", "https://b.example.com"),
    ("shutdown.grace", "5s"),
    ("safeguard.enabled", "true"),
    ("safeguard.refusals", "77"),
    ("safeguard.minutes", "7"),
    ("safeguard.percent", "33"),
    ("safeguard.cooldown", "30m"),
    ("telemetry.listen", "127.0.0.1:1"),
    ("telemetry.log_filter", "warn"),
    ("telemetry.log_format", "text"),
    ("telemetry.access_log.file", "b"),
    ("telemetry.access_log.one_in", "7"),
    ("telemetry.access_log.errors", "false"),
    ("telemetry.access_log.slow", "7s"),
    ("telemetry.otlp.url", "http://b:4317"),
    ("telemetry.otlp.ca_file", "b"),
    ("telemetry.otlp.headers", "x-b=b"),
    ("telemetry.otlp.ratio", "0.7"),
    ("telemetry.otlp.service_name", "b"),
    ("telemetry.otlp.queue", "7"),
    ("telemetry.otlp.batch", "7"),
    ("telemetry.otlp.interval", "7s"),
    ("telemetry.otlp.timeout", "7s"),
    ("plans.batch_counts", "items"),
    ("chains.*.enabled", "false"),
    ("chains.*.timeout", "5s"),
    ("chains.*.next_node_after", "7s"),
    ("chains.*.max_in_flight", "77"),
    ("chains.*.probe_interval", "7s"),
    ("chains.*.final_depth", "77"),
    ("chains.*.max_lag", "7"),
    ("chains.*.network", "b"),
    ("chains.*.ca_file", "b"),
    ("chains.*.broadcast_nodes", "7"),
    ("chains.*.hosts", "b"),
    ("chains.*.blocked_methods", "b"),
    ("chains.*.open_methods", "b"),
    ("chains.*.cu", "b=7"),
    ("chains.*.ttl", "b=7s"),
    ("chains.*.batching.enabled", "true"),
    ("chains.*.batching.wait", "7ms"),
    ("chains.*.batching.max_calls", "7"),
    ("chains.*.batching.timeout", "7ms"),
    ("chains.*.hedge.enabled", "true"),
    ("chains.*.hedge.percentile", "77"),
    ("chains.*.hedge.at_least", "7ms"),
    ("chains.*.hedge.max_percent", "7"),
    ("chains.*.nodes.*.url", "url = \"http://b\""),
    ("chains.*.nodes.*.ws", "ws = \"ws://b\""),
    ("chains.*.nodes.*.grpc", "grpc = \"grpc://b\""),
    ("chains.*.nodes.*.user", "user = \"b\""),
    ("chains.*.nodes.*.password", "user = \"a\", password = \"b\""),
    ("chains.*.nodes.*.headers", "headers = { x-b = \"b\" }"),
    ("chains.*.nodes.*.max_batch", "max_batch = 7"),
    ("chains.*.nodes.*.priority", "priority = 7"),
    ("chains.*.nodes.*.methods", "methods = [\"b\"]"),
    ("chains.*.nodes.*.except", "except = [\"b\"]"),
    ("chains.*.nodes.*.archive", "archive = true"),
    ("chains.*.nodes.*.network", "network = \"b\""),
    ("chains.*.nodes.*.ca_file", "ca_file = \"b\""),
    ("chains.*.nodes.*.rate_limit", "rate_limit = 7"),
    ("chains.*.nodes.*.rate_burst", "rate_limit = 7, rate_burst = 77"),
    ("chains.*.nodes.*.monthly_calls", "monthly_calls = 7"),
    ("chains.*.nodes.*.over_budget", "over_budget = \"allow\""),
    ("chains.*.nodes.*.price_per_million", "price_per_million = 7.5"),
    ("tenants.*.id", "3f1c0d8a-52e4-8c43-9a5e-5d0f0a3b7c11"),
    ("tenants.*.plan", "premium"),
    ("tenants.*.suspended", "true"),
    ("projects.*.id", "3f1c0d8a-52e4-8c43-9a5e-5d0f0a3b7c12"),
    ("projects.*.tenant", "u"),
    ("projects.*.cu_per_day", "7"),
    ("projects.*.cu_per_month", "7"),
    ("projects.*.rps_limit", "7"),
    ("projects.*.allowed_methods", "b"),
    ("projects.*.blocked_methods", "b"),
    ("keys.*.id", "3f1c0d8a-52e4-8c43-9a5e-5d0f0a3b7c13"),
    ("keys.*.key", "rpcg_7654321abcdefgh"),
    ("keys.*.project", "q"),
    ("keys.*.chains", "eth"),
    ("keys.*.expires_at", "2030-01-01T00:00:00Z"),
    ("keys.*.revoked", "true"),
];

/// Keys that need another base.
const OTHERWISE: &[(&str, &str, &str)] = &[
    (
        "gateway.former_key_secrets",
        "[gateway]\nkey_secret = \"sixteen-bytes-or-more\"\n",
        "[gateway]\nkey_secret = \"sixteen-bytes-or-more\"\nformer_key_secrets = [\"sixteen-bytes-or-less\"]\n",
    ),
    (
        "admin.jwt.former_secrets",
        "[admin.jwt]\nsecret = \"thirty-two-bytes-and-some-more-of-them\"\n",
        "[admin.jwt]\nsecret = \"thirty-two-bytes-and-some-more-of-them\"\n\
         former_secrets = [\"thirty-two-bytes-and-some-other-ones\"]\n",
    ),
    (
        "admin.challenge.kind",
        "[admin.challenge]\nsite_key = \"a\"\nsecret = \"a\"\n",
        "[admin.challenge]\nkind = \"hcaptcha\"\nsite_key = \"a\"\nsecret = \"a\"\n",
    ),
    (
        "billing.stripe.secret_key",
        "[billing.stripe]\nsecret_key = \"aaaaaaaa\"\nwebhook_secret = \"aaaaaaaa\"\n",
        "[billing.stripe]\nsecret_key = \"bbbbbbbb\"\nwebhook_secret = \"aaaaaaaa\"\n",
    ),
    (
        "billing.stripe.webhook_secret",
        "[billing.stripe]\nsecret_key = \"aaaaaaaa\"\nwebhook_secret = \"aaaaaaaa\"\n",
        "[billing.stripe]\nsecret_key = \"aaaaaaaa\"\nwebhook_secret = \"bbbbbbbb\"\n",
    ),
    (
        "gateway.tls.acme",
        "[acme]\ndomains = [\"a.example.com\"]\n",
        "[acme]\ndomains = [\"a.example.com\"]\n[gateway.tls]\nacme = true\n",
    ),
    (
        "admin.tls.acme",
        "[acme]\ndomains = [\"a.example.com\"]\n",
        "[acme]\ndomains = [\"a.example.com\"]\n[admin.tls]\nacme = true\n",
    ),
    ("acme.challenge", "", "[acme]\nchallenge = \"http-01\"\nhttp_listen = \"127.0.0.1:1\"\n"),
    (
        "acme.eab_key_id",
        "[acme]\neab_key_id = \"a\"\neab_key = \"sixteen-bytes-or-more\"\n",
        "[acme]\neab_key_id = \"b\"\neab_key = \"sixteen-bytes-or-more\"\n",
    ),
    (
        "acme.eab_key",
        "[acme]\neab_key_id = \"a\"\neab_key = \"sixteen-bytes-or-more\"\n",
        "[acme]\neab_key_id = \"a\"\neab_key = \"sixteen-bytes-or-less\"\n",
    ),
    (
        "keys.*.sha256",
        "[keys.k]\nsha256 = \"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"\n",
        "[keys.k]\nsha256 = \"ca7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"\n",
    ),
];

fn read(text: &str, flags: &[Setting]) -> Config {
    let input = Input { chains: &["eth"], file: Some(("f", text)), flags, ..Input::default() };
    Config::read(&input).unwrap_or_else(|errors| panic!("{errors}\n{text}\n{flags:?}"))
}

fn with_node(more: &str) -> String {
    format!("{BASE}[chains.eth]\nnodes = [{{ {more} }}]\n")
}

/// Replaces each `*` of a key by a concrete name or index.
fn concrete(key: &str) -> String {
    let names = [
        ("chains.*", "chains.eth"),
        ("tenants.*", "tenants.t"),
        ("projects.*", "projects.p"),
        ("keys.*", "keys.k"),
    ];
    names.iter().fold(key.to_owned(), |key, (any, one)| key.replace(any, one))
}

fn changed(key: &str) -> Option<&'static str> {
    let is_figure =
        || key.starts_with("plans.") && key.rsplit('.').next().and_then(PlanFigure::named).is_some();
    let listed = CHANGED.iter().find(|(other, _)| *other == key).map(|(_, value)| *value);
    listed.or_else(|| is_figure().then_some("1"))
}

/// Returns, for each of [`Config::known_keys`], the key and two configurations that differ in it.
///
/// # Panics
/// Panics if this file has no second value for a key.
pub fn changes() -> Vec<(String, Config, Config)> {
    let change = |key: String| {
        if let Some((_, before, after)) = OTHERWISE.iter().find(|(other, ..)| *other == key) {
            return (key, read(before, &[]), read(after, &[]));
        }
        let Some(value) = changed(&key) else {
            panic!("{key}: give it another value than its default in rpcgate-core/config/src/suite.rs");
        };
        let before = read(&with_node(NODE), &[]);
        let after = if key.contains(".nodes") {
            let line = if value.starts_with("url") { value.to_owned() } else { format!("{NODE}, {value}") };
            read(&with_node(&line), &[])
        } else {
            read(&with_node(NODE), &[Setting::new("suite", concrete(&key), value)])
        };
        (key, before, after)
    };
    Config::known_keys().into_iter().map(change).collect()
}

/// Returns the effect of a reload of `program` on each setting that differs.
pub fn effects(program: ConfigProgram, before: &Config, after: &Config) -> Vec<ReloadEffect> {
    before.exact_changes(after).iter().map(|change| program.effect(change)).collect()
}

/// A table of keys with lines such as ``| `a`, `b.c` | live | restart |``. The longest matching key prefix decides.
#[derive(Debug)]
pub struct ReloadTable {
    rows: Vec<(String, Vec<String>)>,
}

impl ReloadTable {
    const HEADER: &str = "| keys | `rpcgate-server` | `rpcgate-admin` |";

    /// Parses the table of a document.
    ///
    /// # Panics
    /// Panics if the document has no such table.
    pub fn read(document: &str) -> Self {
        let Some((_, table)) = document.split_once(Self::HEADER) else { panic!("no line {}", Self::HEADER) };
        let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let rows = lines.flat_map(|line| {
            let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
            let keys = cells.next().unwrap_or_default();
            let cells: Vec<_> = cells.collect();
            let name = |key: &str| key.trim().trim_matches('`').to_owned();
            keys.split(',').map(|key| (name(key), cells.clone())).collect::<Vec<_>>()
        });
        ReloadTable { rows: rows.collect() }
    }

    /// Reports whether the program in this column, from 0, does not use `key`.
    ///
    /// # Panics
    /// Panics if the table does not contain the key.
    pub fn is_unused(&self, key: &str, column: usize) -> bool {
        self.cell(key, column) == "–"
    }

    fn cell(&self, key: &str, column: usize) -> &str {
        let says =
            |name: &str| key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let row = self.rows.iter().filter(|(name, _)| says(name)).max_by_key(|(name, _)| name.len());
        let cell = row.and_then(|(_, cells)| cells.get(column)).map_or("", String::as_str);
        let Some(first) = cell.split([' ', ':']).next().filter(|first| !first.is_empty()) else {
            panic!("{key}: the table does not say")
        };
        first
    }

    /// Reports whether the program in this column, from 0, needs a restart for a change of `key`.
    ///
    /// # Panics
    /// Panics if the table does not contain the key, or its cell is neither `live`, `restart` nor `–`.
    pub fn needs_restart(&self, key: &str, column: usize) -> bool {
        match self.cell(key, column) {
            "restart" => true,
            "live" | "–" => false,
            cell => panic!("{key}: the table says {cell:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_decides() {
        let table = ReloadTable::read(
            "a\n| keys | `rpcgate-server` | `rpcgate-admin` |\n|---|---|---|\n| `a`, `b` | live: some | – |\n| `a.b` | restart | live |\n\n| `a.b.c` | live | live |\n",
        );
        let told = ["a.c", "a.b", "a.b.c", "a.bc", "b"]
            .map(|key| (table.needs_restart(key, 0), table.needs_restart(key, 1)));
        assert_eq!(told, [(false, false), (true, false), (true, false), (false, false), (false, false)]);
    }

    #[test]
    fn every_key_has_two_configurations_that_differ() {
        let changes = changes();
        assert!(changes.len() > 100, "{}", changes.len());
        for (key, before, after) in changes {
            assert!(before != after, "{key}");
        }
    }
}
