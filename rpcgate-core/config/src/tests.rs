//! Tests of the configuration as a whole: precedence, error texts and masking.

use super::*;
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::caller::{ProjectQuota, Scope};
use rpcgate_core::chain::{NodePrice, NodeRate, OverBudget};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{BatchCounts, Price, Tier};
use rpcgate_core::secret::KeyHash;
use std::time::Duration;

const CHAINS: &[&str] = &["eth", "bsc", "btc"];
const KEY: &str = "rpcg_1234567abcdefgh";

fn pairs(env: &[(&str, &str)]) -> Vec<(String, String)> {
    env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn input(text: &str) -> Input<'_> {
    Input {
        chains: CHAINS,
        aliases: &[("ethereum", "eth")],
        file: Some(("f.toml", text)),
        ..Input::default()
    }
}

fn read(text: &str) -> Config {
    Config::read(&input(text)).unwrap_or_else(|errors| panic!("{errors}"))
}

fn errors(text: &str) -> Vec<String> {
    Config::read(&input(text)).unwrap_err().iter().map(ToString::to_string).collect()
}

/// Returns the only error of a one-line text under `table`, without its location.
fn error(table: &str, line: &str) -> String {
    let all = errors(&format!("[{table}]\n{line}\n"));
    let [one] = all.as_slice() else { panic!("{all:?}") };
    one.strip_prefix("f.toml:2: ").unwrap_or_else(|| panic!("{one}")).to_owned()
}

fn env_errors(env: &[(&str, &str)]) -> Vec<String> {
    let env = pairs(env);
    let input = Input { env: &env, ..input("") };
    Config::read(&input).unwrap_err().iter().map(ToString::to_string).collect()
}

fn with_env(env: &[(&str, &str)], text: &str) -> Config {
    let env = pairs(env);
    Config::read(&Input { env: &env, ..input(text) }).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn an_empty_file_gives_the_defaults_and_every_chain() {
    let config = read("");
    assert_eq!(config.chains.keys().collect::<Vec<_>>(), ["bsc", "btc", "eth"]);
    assert!(config.chains.values().all(|chain| *chain == ChainSettings::default()));
    assert_eq!(Config { chains: BTreeMap::new(), ..config }, Config::default());
    assert_eq!(Config::default().database.url(), "sqlite://rpcgate.db");
}

#[test]
fn a_later_source_overrides_an_earlier_one() {
    let file =
        "[gateway]\nlisten = \"127.0.0.1:2\"\n[chains.eth]\nnodes = [\"http://file\"]\ntimeout = \"2s\"\n";
    let env = pairs(&[
        ("RPCGATE_GATEWAY__LISTEN", "127.0.0.1:3"),
        ("RPCGATE_CHAINS__ETH__NODES", "http://a, http://b"),
    ]);
    let base = [
        Setting::new("demo", "gateway.listen", "127.0.0.1:1"),
        Setting::new("demo", "admin.listen", "127.0.0.1:1"),
    ];
    let flags = [Setting::new("--gateway", "gateway.listen", "127.0.0.1:4")];
    let port = |input: &Input<'_>| Config::read(input).unwrap().gateway.listen.port();
    let none = Input { chains: CHAINS, ..Input::default() };
    assert_eq!(port(&none), 8080);
    assert_eq!(port(&Input { base: &base, ..none }), 1);
    assert_eq!(port(&Input { base: &base, ..input(file) }), 2);
    assert_eq!(port(&Input { base: &base, env: &env, ..input(file) }), 3);
    let all = Config::read(&Input { base: &base, env: &env, flags: &flags, ..input(file) }).unwrap();
    assert_eq!((all.gateway.listen.port(), all.admin.listen.port()), (4, 1));
    let hosts: Vec<_> = all.chains["eth"].nodes.iter().map(|n| n.url.as_ref().unwrap().expose()).collect();
    assert_eq!(
        (hosts.as_slice(), all.chains["eth"].timeout),
        (&["http://a", "http://b"][..], Duration::from_secs(2))
    );
}

#[test]
fn environment_variables_can_set_everything_that_the_file_can() {
    let config = with_env(
        &[
            ("RPCGATE_CHAINS__ETH__CU", "eth_call=3, queryNetwork/tip=4"),
            ("RPCGATE_CHAINS__ETH__TTL", "a=2s,b=forever"),
            ("RPCGATE_GATEWAY__TRUSTED_PROXIES", "10.0.0.0/8,::1"),
            ("RPCGATE_WEBHOOKS__ALLOW_PRIVATE_TARGETS", "true"),
            ("RPCGATE_PLANS__FREE__PRICE_PER_CU", "0.5"),
            ("RPCGATE_GATEWAY__LIMITS__BODY", "1048576"),
            ("RPCGATE_SHUTDOWN__GRACE", "5"),
            ("RPCGATE_KEYS__CI__KEY", KEY),
            ("RPCGATE_REDIS__URL", ""),
            ("RPCGATE_LOG", "debug"),
            ("RPCGATE_REQUIRE_SERVICES", "1"),
            ("PATH", "/bin"),
        ],
        "[redis]\nurl = \"redis://h\"\n",
    );
    let eth = &config.chains["eth"];
    assert_eq!((eth.cu["eth_call"], eth.cu["queryNetwork/tip"], eth.ttl["b"]), (3, 4, CacheRule::Static));
    assert_eq!(config.gateway.trusted_proxies.len(), 2);
    assert!(config.webhooks.allow_private_targets);
    assert_eq!(
        (config.plans.free.price, config.gateway.limits.body),
        (Price::from_usd(0.5).unwrap(), 1 << 20)
    );
    assert_eq!(config.shutdown.grace, Duration::from_secs(5));
    assert_eq!(config.keys["ci"].hash(), Some(KeyHash::of(KEY)));
    assert_eq!(config.redis.url, None, "an empty variable takes the value away");
}

#[test]
fn all_errors_are_reported_in_the_order_of_their_lines() {
    assert_eq!(
        errors(
            "[gateway]\nlisen = 1\nlisten = 1\nlisten = 2\n[chains.etc]\n[plans.gold]\n[shutdown]\ngrace = \"x\"\n"
        ),
        [
            "f.toml:2: unknown key gateway.lisen; the nearest known key is gateway.listen",
            "f.toml:3: gateway.listen must be an address with a port such as \"127.0.0.1:8080\", found 1",
            "f.toml:4: listen is given twice",
            "f.toml:5: chains: unknown chain \"etc\"; the nearest known chain is \"eth\"",
            "f.toml:6: unknown key plans.gold; the nearest known key is plans.free",
            "f.toml:8: shutdown.grace must be a duration such as \"250ms\", \"30s\", \"5m\", \"1h\" or \"90d\", found \"x\"",
        ]
    );
}

#[test]
fn an_error_has_its_column() {
    let all = Config::read(&input("[gateway]\n  lisen = 1\n")).unwrap_err();
    let location = ConfigLocation::File { file: "f.toml".into(), line: 2, column: 3 };
    assert_eq!(all.iter().map(|e| &e.location).collect::<Vec<_>>(), [&location]);
}

#[test]
fn a_file_that_is_not_toml_has_one_error() {
    assert_eq!(errors("[gateway\nlisen = 1\n"), ["f.toml:1: not valid TOML: unclosed table, expected `]`"]);
}

#[test]
fn the_error_of_each_type_names_the_wanted_form() {
    for (table, line, says) in [
        ("database", "migrate = 1", "database.migrate must be true or false, found 1"),
        ("plans.free", "per_day = \"x\"", "plans.free.per_day must be a whole number, found \"x\""),
        ("plans.free", "per_day = -1", "plans.free.per_day must be a whole number, not below 0, found -1"),
        ("plans.free", "per_day = 0", "plans.free.per_day must lie between 1 and 1000000000000, found 0"),
        (
            "plans.free",
            "price_per_cu = -1",
            "plans.free.price_per_cu must be a price in USD between 0 and 1000, found -1",
        ),
        (
            "plans",
            "batch_counts = \"x\"",
            "plans.batch_counts must be one of \"request\", \"items\", found \"x\"",
        ),
        ("plans", "free = 1", "plans.free must be a table, found a number"),
        (
            "gateway.limits",
            "body = \"5MB\"",
            "gateway.limits.body must be a size such as \"256KiB\" or \"5MiB\", or a number of bytes, found \"5MB\"",
        ),
        ("gateway.limits", "body = 1", "gateway.limits.body must lie between 1KiB and 1GiB, found 1"),
        ("shutdown", "grace = \"2h\"", "shutdown.grace must lie between 0s and 1h, found \"2h\""),
        (
            "gateway",
            "trusted_proxies = [\"10.0.0.0/33\"]",
            "gateway.trusted_proxies must be an address or a network such as \"10.0.0.0/8\", found \"10.0.0.0/33\"",
        ),
        (
            "admin",
            "proxy_protocol = [\"10.0.0.0/33\"]",
            "admin.proxy_protocol must be an address or a network such as \"10.0.0.0/8\", found \"10.0.0.0/33\"",
        ),
        ("gateway", "trusted_proxies = \"x\"", "gateway.trusted_proxies must be a list, found a text"),
        ("journal", "dir = \"\"", "journal.dir must be a path, found \"\""),
        (
            "chains.eth",
            "cu = { a = 4294967296 }",
            "chains.eth.cu.a must lie between 0 and 4294967295, found 4294967296",
        ),
        ("chains.eth", "cu = 1", "chains.eth.cu must be a table of names and values, found a number"),
        (
            "chains.eth",
            "ttl = { a = \"x\" }",
            "chains.eth.ttl.a must be a duration such as \"2s\", or \"never\", \"forever\" or \"immutable 2s\", found \"x\"",
        ),
        ("chains.eth", "final_depth = 1.5", "chains.eth.final_depth must be a whole number, found 1.5"),
        (
            "chains.eth",
            "nodes = [{ url = \"http://a\", price_per_million = 0.0000001 }]",
            "chains.eth.nodes[0].price_per_million must be 0, or a price between 0.000001 and 1000000000, found 0.0000001",
        ),
        (
            "tenants.a",
            "plan = \"gold\"",
            "tenants.a.plan must be one of \"free\", \"standard\", \"premium\", \"enterprise\", found \"gold\"",
        ),
        ("tenants.a", "id = \"x\"", "tenants.a.id must be a UUID, found \"x\""),
    ] {
        assert_eq!(error(table, line), says);
    }
    for (line, found) in [("2026-01-01", "2026-01-01"), ("\"soon\"", "\"soon\"")] {
        let text = format!("[keys.a]\nkey = \"{KEY}\"\nexpires_at = {line}\n");
        let says = format!(
            "f.toml:3: keys.a.expires_at must be a moment such as 2027-01-31T12:00:00Z, found {found}"
        );
        assert_eq!(errors(&text), [says]);
    }
}

#[test]
fn urls_are_refused_without_being_repeated() {
    for (table, line, says) in [
        ("redis", "url = \"http://u:pw@h\"", "redis.url must begin with one of redis://, rediss://"),
        (
            "database",
            "url = \"mysql://u:pw@h\"",
            "database.url must begin with one of sqlite://, postgres://, postgresql://",
        ),
        ("admin", "dash_url = \"https://h/#top\"", "admin.dash_url must not have a fragment (#…)"),
        ("chains.eth", "nodes = [\"http://a\", \"http://u:pw@:1\"]", "chains.eth.nodes[1] must name a host"),
        (
            "chains.eth",
            "nodes = [{ url = \"h:1\" }]",
            "chains.eth.nodes[0].url must begin with one of http://, https://",
        ),
        (
            "chains.eth",
            "nodes = [\"http://%zz@h\"]",
            "chains.eth.nodes[0] has a user or password with a broken percent-escape",
        ),
    ] {
        assert_eq!(error(table, line), says);
    }
}

#[test]
fn values_that_may_contain_a_secret_are_not_shown_in_errors() {
    for (table, line, says) in [
        ("chains.eth", "nodes = \"http://u:pw@h\"", "chains.eth.nodes must be a list, found a text"),
        ("keys", "a = \"the key itself\"", "keys.a must be a table, found a text"),
        (
            "gateway",
            "key_secret = [\"x\"]",
            "gateway.key_secret must be a text, { file = \"…\" } or { env = \"…\" }, found a list",
        ),
    ] {
        assert_eq!(error(table, line), says);
    }
}

#[test]
fn rules_about_several_keys_are_checked() {
    for (table, line, says) in [
        (
            "gateway",
            "reply_max = \"1KiB\"",
            "gateway.reply_max must not be smaller than gateway.reply_buffer",
        ),
        (
            "gateway",
            "reply_stream_max = \"1KiB\"",
            "gateway.reply_stream_max must not be smaller than gateway.reply_buffer",
        ),
        (
            "gateway.limits",
            "bodies_total = \"1MiB\"",
            "gateway.limits.bodies_total must not be smaller than gateway.limits.body",
        ),
        ("admin.tls", "cert = \"c\"", "admin.tls.cert needs admin.tls.key beside it"),
        ("admin.tls", "client_ca = \"c\"", "admin.tls.client_ca needs admin.tls.cert beside it"),
        (
            "admin.tls",
            "client_auth = \"optional\"",
            "admin.tls.client_auth needs admin.tls.client_ca beside it",
        ),
        ("gateway.tls", "cert = \"c\"", "gateway.tls.cert needs gateway.tls.key beside it"),
        (
            "gateway.tls",
            "acme = true",
            "gateway.tls.acme = true needs acme.domains, the names that the certificate is for",
        ),
        (
            "admin.tls",
            "acme = true",
            "admin.tls.acme = true needs acme.domains, the names that the certificate is for",
        ),
        (
            "acme",
            "challenge = \"http-01\"",
            "acme.challenge = \"http-01\" needs acme.http_listen beside it, to which port 80 of the names must lead",
        ),
        ("acme", "eab_key_id = \"a\"", "acme.eab_key_id needs acme.eab_key beside it"),
        ("acme", "eab_key = \"0123456789abcdef\"", "acme.eab_key needs acme.eab_key_id beside it"),
        ("acme", "directory_url = \"http://a.example\"", "acme.directory_url must begin with https://"),
        ("acme", "contacts = [\"x\"]", "acme.contacts must be at most 10 mail addresses"),
        (
            "acme",
            "domains = [\"*.example.com\"]",
            "acme.domains must be at most 100 names such as rpc.example.com, in lower case; an authority checks no names \
             with * in this way",
        ),
        (
            "gateway",
            "grpc_listen = \"0.0.0.0:1\"",
            "gateway.grpc_listen needs gateway.tls.cert and gateway.tls.key, or gateway.tls.acme: gRPC is served over TLS only",
        ),
        (
            "admin.challenge",
            "kind = \"turnstile\"",
            "admin.challenge.kind = \"turnstile\" needs admin.challenge.site_key and admin.challenge.secret",
        ),
        ("admin.mail", "from = \"x\"", "admin.mail.from must be a mail address"),
        (
            "admin.mail",
            "smtp = \"smtp://8.8.8.8\"\ntls = \"none\"",
            "admin.mail.smtp has a public address, for which admin.mail.tls = \"none\" is not allowed",
        ),
        (
            "admin.mail",
            "smtp = \"smtps://relay\"\ntls = \"none\"",
            "admin.mail.smtp requires TLS, but admin.mail.tls is \"none\"",
        ),
        (
            "admin.mail",
            "smtp = \"smtp://u:secret@relay?tls=required\"\ntls = \"none\"",
            "admin.mail.smtp requires TLS, but admin.mail.tls is \"none\"",
        ),
        ("admin.mail", "smtp = \"smtp://secret@relay\"", "admin.mail.smtp has a user without a password"),
        (
            "admin.tickets",
            "mail_to = [\"a@b.example\", \"x\"]",
            "admin.tickets.mail_to must be at most 10 mail addresses",
        ),
        ("webhooks", "attempts = 7", "webhooks.waits has 5 entries, but 7 attempts need 6"),
        ("webhooks", "waits = [\"8d\", 1, 1, 1]", "webhooks.waits has an entry longer than 7d"),
        (
            "billing",
            "reminders = [\"2d\", \"1d\"]",
            "billing.reminders must have at most 10 entries, each longer than the one before",
        ),
        ("billing", "reminders = [\"366d\"]", "billing.reminders has an entry longer than 365d"),
        ("billing", "seller = \"a\\nb\"", "billing.seller must be one line of at most 200 characters"),
        ("billing", "seller = \"a\u{2028}b\"", "billing.seller must be one line of at most 200 characters"),
        (
            "billing",
            "seller_address = [\"a\\nb\"]",
            "billing.seller_address must have at most 10 lines of at most 200 characters",
        ),
        (
            "billing.stripe",
            "secret_key = \"sk_test_1\"",
            "billing.stripe.secret_key needs billing.stripe.secret_key and billing.stripe.webhook_secret",
        ),
        (
            "chains.eth",
            "nodes = [{ priority = 1 }]",
            "chains.eth.nodes has an entry (number 1) without url, ws and grpc: give one of them",
        ),
        (
            "chains.eth",
            "nodes = [{ url = \"http://h\", password = \"p\" }]",
            "chains.eth.nodes[0].password needs a user beside it",
        ),
        (
            "chains.eth",
            "nodes = [{ url = \"http://u:p@h\", user = \"v\" }]",
            "chains.eth.nodes[0].url has another user or password than the node has elsewhere",
        ),
        (
            "chains.eth",
            "nodes = [{ url = \"http://h\", headers = { \"a b\" = \"c\" } }]",
            "chains.eth.nodes[0].headers has a name or value that HTTP does not allow: \"a b\"",
        ),
        (
            "chains.eth",
            "nodes = [{ url = \"http://h\", rate_limit = 0 }]",
            "chains.eth.nodes[0].rate_limit must be between 1 and 1000000",
        ),
        (
            "chains.eth",
            "nodes = [{ url = \"http://h\", rate_burst = 9 }]",
            "chains.eth.nodes[0].rate_burst needs a rate_limit beside it",
        ),
        (
            "chains.eth",
            "nodes = [{ url = \"http://h\", monthly_calls = 0 }]",
            "chains.eth.nodes[0].monthly_calls must be between 1 and 1000000000000",
        ),
        (
            "chains.eth",
            "nodes = [{ url = \"http://h\", methods = [\"a*b\"] }]",
            "chains.eth.nodes[0].methods has the name \"a*b\": * may stand at the end only",
        ),
        (
            "chains.eth",
            "nodes = [{ url = \"http://h\", except = [\"\"] }]",
            "chains.eth.nodes[0].except has a name that no method can have: \"\"",
        ),
        (
            "chains.eth",
            "blocked_methods = [\"trace_*\"]",
            "chains.eth.blocked_methods has the name \"trace_*\": methods are named one by one, without *",
        ),
        (
            "chains.eth",
            "open_methods = [\"*a\"]",
            "chains.eth.open_methods has the name \"*a\": * may stand at the end only",
        ),
        ("chains.eth", "cu = { \"a b\" = 1 }", "chains.eth.cu has a name that no method can have: \"a b\""),
        ("projects.a", "rps_limit = 0", "projects.a.rps_limit must not be 0: leave it out for no bound"),
        ("projects.a", "tenant = \"b\"", "projects.a.tenant: unknown tenant \"b\""),
    ] {
        assert_eq!(error(table, line), says);
    }
}

#[test]
fn api_keys_must_be_complete_valid_and_different() {
    let text = format!(
        "[keys.a]\nkey = \"{KEY}\"\nproject = \"wallte\"\nchains = [\"ethereum\", \"etherum\"]\n[keys.b]\nsha256 = \"{}\"\n\
         [keys.c]\nrevoked = true\n[keys.d]\nsha256 = \"{KEY}\"\n[keys.e]\nkey = \"short\"\n[keys.F]\n[keys.g]\n\
         key = \"has spaces in its middle\"\n[projects.wallet]\n",
        KeyHash::of(KEY)
    );
    assert_eq!(
        errors(&text),
        [
            "f.toml:3: keys.a.project: unknown project \"wallte\"; the nearest known project is \"wallet\"",
            "f.toml:4: keys.a.chains: unknown chain \"etherum\"; the nearest known chain is \"ethereum\"",
            "f.toml:5: keys.b holds the same key as keys.a",
            "f.toml:7: keys.c needs key or sha256",
            "f.toml:10: keys.d.sha256 must be 64 hexadecimal digits, found something else",
            "f.toml:12: keys.e.key must have at least 16 bytes, found 5",
            "f.toml:13: keys has a name that is not 1 to 64 lower-case letters, digits, _ or -: \"F\"",
            "f.toml:15: keys.g.key has characters that no header carries safely: use visible ASCII",
        ]
    );
    let both = format!("[keys.a]\nkey = \"{KEY}\"\nsha256 = \"{}\"\n", KeyHash::of("x"));
    assert_eq!(errors(&both), ["f.toml:3: keys.a.sha256 stands beside key: give one of them"]);
}

#[test]
fn errors_of_variables_and_flags_begin_with_their_name() {
    assert_eq!(
        env_errors(&[
            ("RPCGATE_GATEWAY__LISTEN", "x"),
            ("RPCGATE_GATWAY__LISTEN", "x"),
            ("RPCGATE_GATEWAY__LIMITS__BODDY", "x"),
            ("RPCGATE_LOGS", "x"),
            ("RPCGATE_ADMIN", "x"),
            ("RPCGATE_CHAINS__ETC__TIMEOUT", "1s"),
            ("RPCGATE_CHAINS__ETH__CU", "eth_call"),
        ]),
        [
            "RPCGATE_ADMIN: admin must be a table, found a text",
            "RPCGATE_CHAINS__ETC__TIMEOUT: chains: unknown chain \"etc\"; the nearest known chain is \"eth\"",
            "RPCGATE_CHAINS__ETH__CU: chains.eth.cu must be pairs such as method=15,other=75, found \"eth_call\"",
            "RPCGATE_GATEWAY__LIMITS__BODDY: unknown name; the nearest known name is RPCGATE_GATEWAY__LIMITS__BODY",
            "RPCGATE_GATEWAY__LISTEN: gateway.listen must be an address with a port such as \"127.0.0.1:8080\", found \"x\"",
            "RPCGATE_GATWAY__LISTEN: unknown name; the nearest known name is RPCGATE_GATEWAY__LISTEN",
            "RPCGATE_LOGS: unknown name; the nearest known name is RPCGATE_LOG",
        ]
    );
    assert_eq!(
        env_errors(&[("RPCGATE_SHUTDOWN__GRACE", "1"), ("RPCGATE_SHUTDOWN__grace", "2")]),
        ["RPCGATE_SHUTDOWN__grace: shutdown.grace is given twice"]
    );
    let flags = [Setting::new("--gateway", "gateway.listen", "8080"), Setting::new("--set", "gatewy.x", "1")];
    let all = Config::read(&Input { flags: &flags, ..input("") }).unwrap_err();
    assert_eq!(
        all.to_string(),
        "--gateway: gateway.listen must be an address with a port such as \"127.0.0.1:8080\", found \"8080\"\n\
         --set: unknown key gatewy.x; the nearest known key is gateway.x"
    );
}

#[test]
fn secrets_come_from_text_file_or_variable() {
    let env = pairs(&[("SECRET", "from the environment"), ("RPCGATE_ADMIN__JWT__SECRET__FILE", "jwt")]);
    let files = |path: &str| match path {
        "jwt" => Ok("from a file, long enough for a JWT\r\n".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let text = "[gateway]\nkey_secret = { env = \"SECRET\" }\n[chains.eth]\nnodes = [{ url = \"http://h\", headers = { a = \"inline\" } }]\n";
    let config = Config::read(&Input { env: &env, secret_file: &files, ..input(text) }).unwrap();
    let shown = |secret: &Option<Secret>| secret.as_ref().unwrap().expose().to_owned();
    assert_eq!(shown(&config.gateway.key_secret), "from the environment");
    assert_eq!(shown(&config.admin.jwt.secret), "from a file, long enough for a JWT");
    assert_eq!(config.chains["eth"].nodes[0].headers["a"].expose(), "inline");

    let text = "[gateway]\nkey_secret = { env = \"NO\" }\n[admin.jwt]\nsecret = { file = \"no\" }\n[admin.challenge]\n\
                secret = { path = \"x\" }\n[redis]\nurl = 7\n[admin.mail]\nsmtp = \"***\"\n";
    let all = Config::read(&Input { secret_file: &files, ..input(text) }).unwrap_err();
    assert_eq!(
        all.to_string(),
        "f.toml:2: gateway.key_secret wants environment variable NO, which is not set\n\
         f.toml:4: admin.jwt.secret cannot be read from file \"no\": no such file\n\
         f.toml:6: admin.challenge.secret must be a text, { file = \"…\" } or { env = \"…\" }, found a table\n\
         f.toml:8: redis.url must be a text, { file = \"…\" } or { env = \"…\" }, found a number\n\
         f.toml:10: admin.mail.smtp is masked: *** stands for a secret that was left out"
    );
}

#[test]
fn an_overridden_secret_need_not_exist() {
    let config = with_env(
        &[("RPCGATE_GATEWAY__KEY_SECRET", "sixteen bytes here")],
        "[gateway]\nkey_secret = { file = \"/run/secrets/none\" }\n",
    );
    assert_eq!(config.gateway.key_secret, Some(Secret::new("sixteen bytes here")));
}

#[test]
fn nodes_have_a_short_and_a_long_form() {
    let config = read(
        "[chains.btc]\nnodes = [\"http://u:p%40@a:1/x\", \"wss://b\", \"grpcs://c\", { url = \"http://d\", ws = \"ws://u@d\", max_batch = 1, priority = 2 }]\n",
    );
    let [http, ws, grpc, long] = config.chains["btc"].nodes.as_slice() else { panic!("four nodes") };
    assert_eq!(http.url.as_ref().map(Url::expose), Some("http://a:1/x"));
    assert_eq!((http.user.as_deref(), &http.password), (Some("u"), &Some(Secret::new("p@"))));
    assert_eq!((ws.ws.as_ref().map(Url::expose), &ws.url), (Some("wss://b"), &None));
    assert_eq!((grpc.grpc.as_ref().map(Url::expose), grpc.max_batch), (Some("grpcs://c"), 100));
    assert_eq!(
        (long.user.as_deref(), &long.password, long.max_batch, long.priority),
        (Some("u"), &None, 1, 2)
    );
}

#[test]
fn a_node_has_an_allowance_by_its_limits_and_its_price_and_none_without() {
    let config = read(
        "[chains.btc]\nnodes = [\"http://a\", { url = \"http://b\", rate_limit = 50, monthly_calls = 1000 }, \
         { url = \"http://c\", rate_limit = 5, rate_burst = 9, over_budget = \"allow\", price_per_million = 2.5 }]\n",
    );
    let [own, paid, dear] = config.chains["btc"].nodes.as_slice() else { panic!("three nodes") };
    assert!(own.allowance().is_none());
    let paid = paid.allowance();
    assert_eq!(paid.rate, Some(NodeRate { per_second: 50, burst: 50 }));
    assert_eq!((paid.monthly_calls, paid.hard_budget(), paid.price), (Some(1_000), Some(1_000), None));
    let dear = dear.allowance();
    assert_eq!(dear.rate, Some(NodeRate { per_second: 5, burst: 9 }));
    assert_eq!((dear.over_budget, dear.price), (OverBudget::Allow, Some(NodePrice(2_500_000))));
}

#[test]
fn a_chain_returns_its_changes_to_the_method_table() {
    let config = read(
        "[chains.eth]\nblocked_methods = [\"b\"]\nopen_methods = [\"trace_*\"]\nfinal_depth = 0\ncu = { a = 7 }\n\
         ttl = { c = \"immutable 3s\", d = \"0s\", e = 4 }\n",
    );
    let changes = config.chains["eth"].changes();
    assert_eq!(changes.cu, [("a".to_owned(), 7)]);
    let rules = [("c", CacheRule::immutable(3)), ("d", CacheRule::Never), ("e", CacheRule::secs(4))];
    assert_eq!(changes.cache, rules.map(|(name, rule)| (name.to_owned(), rule)));
    assert!(changes.blocked.contains("b"));
    assert_eq!((changes.open, changes.final_depth), (vec!["trace_*".to_owned()], Some(0)));
}

#[test]
fn keys_become_callers() {
    let config = read(&format!(
        "[plans.premium]\nper_minute = 7\n[tenants.acme]\nplan = \"premium\"\nsuspended = true\n[projects.wallet]\ntenant = \"acme\"\n\
         rps_limit = 5\nblocked_methods = [\"x\"]\n[keys.a]\nkey = \"{KEY}\"\nproject = \"wallet\"\n\
         chains = [\"ethereum\", \"btc\"]\nexpires_at = 1970-01-01T00:00:01Z\n[keys.b]\nsha256 = \"{}\"\nrevoked = true\n",
        KeyHash::of("other")
    ));
    let callers = config.callers();
    let [a, b] = callers.as_slice() else { panic!("two keys") };
    assert_eq!((a.name.as_str(), a.hash, a.revoked), ("a", KeyHash::of(KEY), false));
    assert_eq!((a.caller.plan.tier, a.caller.plan.per_minute, a.caller.suspended), (Tier::Premium, 7, true));
    assert_eq!(a.caller.scope, Scope::Only(["eth".into(), "btc".into()].into()));
    assert_eq!(a.caller.quota, ProjectQuota { rps_limit: Some(5), has_row: true, ..ProjectQuota::default() });
    assert!(a.caller.lists.blocked.contains(b"x".as_slice()));
    assert_eq!(a.caller.expires_at, Some(Time::from_secs(1)));
    assert_eq!(
        (b.hash, b.revoked, b.caller.plan.tier, &b.caller.scope),
        (KeyHash::of("other"), true, Tier::Free, &Scope::All)
    );
    assert_eq!(
        (b.caller.project, b.caller.tenant),
        (config.projects["default"].id, config.tenants["default"].id)
    );
    assert_ne!(a.caller.key, b.caller.key);
}

#[test]
fn the_safeguard_is_off_until_it_is_enabled() {
    let rule = |text: &str| read(text).safeguard.rule();
    assert_eq!(rule("[safeguard]\nrefusals = 5\n"), None);
    let hour = std::time::Duration::from_secs(3_600);
    let expected =
        rpcgate_core::safeguard::SafeguardRule { refusals: 300, minutes: 5, percent: 25, cooldown: hour };
    assert_eq!(rule("[safeguard]\nenabled = true\n"), Some(expected));
    let changed =
        rpcgate_core::safeguard::SafeguardRule { minutes: 2, percent: 50, cooldown: 2 * hour, ..expected };
    assert_eq!(
        rule("[safeguard]\nenabled = true\nminutes = 2\npercent = 50\ncooldown = \"2h\"\n"),
        Some(changed)
    );
}

#[test]
fn a_printed_configuration_without_secrets_reads_back_unchanged() {
    let text = format!(
        "[chains.btc]\nenabled = false\nttl = {{ a = \"2s\", \"b/c\" = \"forever\" }}\nnodes = [\"http://h\", \"ws://h\"]\n\
         [plans]\nbatch_counts = \"items\"\n[plans.free]\nprice_per_cu = 0.000000000001\n[keys.a]\nsha256 = \"{}\"\n\
         chains = [\"ethereum\"]\nexpires_at = 2030-01-01T00:00:00.5Z\n",
        KeyHash::of("x")
    );
    let config = read(&text);
    assert_eq!(config.plans.batch_counts, BatchCounts::Items);
    assert_eq!(read(&config.to_toml_masked()), config);
    assert!(!config.to_toml_masked().contains("chains.eth"), "an untouched chain is left out");
    assert_eq!(read(&read("").to_toml_masked()), read(""));
}

// Shows (Commands and configuration): The variables of a service called `rpcgate` are no settings.
#[test]
fn variables_of_a_service_called_rpcgate_are_no_settings_and_typos_are_errors() {
    let config = with_env(
        &[
            ("RPCGATE_PORT", "tcp://10.0.0.1:8080"),
            ("RPCGATE_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
            ("RPCGATE_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("RPCGATE_SERVICE_HOST", "10.0.0.1"),
            ("RPCGATE_SERVICE_PORT", "8080"),
            ("RPCGATE_SERVICE_PORT_HTTP", "8080"),
        ],
        "",
    );
    assert_eq!(config, with_env(&[], ""));
    for name in
        ["RPCGATE_PORTS", "RPCGATE_SERVICE", "RPCGATE_SERVICE_HOSTS", "RPCGATE_HOST", "RPCGATE_GATEWAY_PORT"]
    {
        assert_eq!(env_errors(&[(name, "1")]).len(), 1, "{name}");
    }
}

// Shows (Commands and configuration): An entry in the form `::ffff:10.0.0.7` is refused with the form to write (promise
// 92).
#[test]
fn an_ipv4_address_in_the_form_of_ipv6_is_refused_with_the_form_to_write() {
    const ADDRESS: &str = "which is an IPv4 address in the form of IPv6: write ";
    const NETWORK: &str = "which is an IPv4 network in the form of IPv6: write ";
    for (given, why) in [
        ("::ffff:127.0.0.1", format!("{ADDRESS}\"127.0.0.1\"")),
        ("::ffff:7f00:1", format!("{ADDRESS}\"127.0.0.1\"")),
        ("0:0:0:0:0:FFFF:a00:7/128", format!("{ADDRESS}\"10.0.0.7\"")),
        ("::ffff:127.0.0.0/104", format!("{NETWORK}\"127.0.0.0/8\"")),
        ("::ffff:0:0/96", format!("{NETWORK}\"0.0.0.0/0\"")),
        (
            "::ffff:10.0.0.0/95",
            "which is not an IPv4 network: in the form of IPv6, the length of one is at least 96".to_owned(),
        ),
    ] {
        for (table, key) in
            [("gateway", "proxy_protocol"), ("gateway", "trusted_proxies"), ("admin", "proxy_protocol")]
        {
            let line = format!("{key} = [\"10.0.0.7\", \"{given}\"]");
            assert_eq!(error(table, &line), format!("{table}.{key} has {given:?}, {why}"));
        }
    }
    for given in ["10.0.0.7", "::/0", "::/80", "::1", "2001:db8::/32", "64:ff9b::a00:7"] {
        let config = with_env(&[], &format!("[gateway]\nproxy_protocol = [{given:?}]\n"));
        assert_eq!(config.gateway.proxy_protocol.len(), 1, "{given}");
    }
}

// Shows (Routes and bodies): A host belongs to one chain.
#[test]
fn a_host_belongs_to_one_chain_and_is_a_name_without_a_port() {
    let of = |eth: &str, btc: &str| format!("[chains.eth]\nhosts = [{eth}]\n[chains.btc]\nhosts = [{btc}]\n");
    let config = with_env(&[], &of("\"eth.example.com\", \"ETH.internal\"", "\"10.0.0.7\""));
    assert_eq!(config.chains["eth"].hosts, ["eth.example.com", "ETH.internal"]);
    assert_eq!(config.chains["eth"].changes().hosts, config.chains["eth"].hosts);
    let problems = errors(&of("\"A.example.com\"", "\"b.example.com\", \"a.Example.com\""));
    assert_eq!(
        problems,
        ["f.toml:2: chains.eth.hosts has \"A.example.com\", which is a host of chains.btc already"]
    );
    for bad in ["", "a:80", "a b", "https://a", "a/", "[::1]", "-a", "a..b", "a.", "*.a"] {
        let problems = errors(&of(&format!("{bad:?}"), ""));
        assert_eq!(problems.len(), 1, "{bad}: {problems:?}");
        assert!(problems[0].contains("give the name of a host alone"), "{problems:?}");
    }
}
