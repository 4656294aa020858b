use super::*;
use crate::Input;

/// 2026-01-01.
const NOW: Time = Time::from_secs(1_767_225_600);

fn warnings(text: &str) -> Vec<String> {
    let input = Input { chains: &["eth", "tron"], file: Some(("f.toml", text)), ..Input::default() };
    let config = Config::read(&input).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    config.warnings(&[], NOW).iter().map(ToString::to_string).collect()
}

// Shows (Commands and configuration): `check` names settings without effect in any spelling, and no default (promise
// 92).
#[test]
fn a_setting_that_can_have_no_effect_is_named_with_the_reason() {
    let node = |more: &str| format!("[[chains.eth.nodes]]\nurl = \"http://a:1\"\n{more}");
    let account = "[projects.p]\n[keys.k]\nkey = \"0123456789abcdef\"\nproject = \"p\"\n";
    for (text, warning) in [
        (
            "[gateway]\nlisten = \"127.0.0.1:9000\"\ngrpc_listen = \"127.0.0.1:9000\"\ntls = { cert = \"/c\", key = \"/k\" }\n",
            "gateway.grpc_listen: is 127.0.0.1:9000, which gateway.listen has too",
        ),
        (
            "[telemetry]\nlisten = \"0.0.0.0:8081\"\n",
            "telemetry.listen: is 0.0.0.0:8081, which admin.listen has too",
        ),
        (
            "[telemetry]\nlisten = \"[::ffff:127.0.0.1]:8080\"\n",
            "telemetry.listen: is [::ffff:127.0.0.1]:8080, which gateway.listen has too",
        ),
        (
            "[telemetry]\nlisten = \"127.0.0.1:9000\"\n[acme]\nhttp_listen = \"0.0.0.0:9000\"\ndomains = [\"a.example\"]\nchallenge = \"http-01\"\n[gateway.tls]\nacme = true\n",
            "acme.http_listen: is 0.0.0.0:9000, which telemetry.listen has too",
        ),
        (
            "[telemetry.access_log]\none_in = 5\n",
            "telemetry.access_log: has no effect: telemetry.access_log.file is not set",
        ),
        (
            "[gateway]\ngrpc_descriptors = \"/d\"\n",
            "gateway.grpc_descriptors: has no effect: gateway.grpc_reflection is false",
        ),
        (
            "[webhooks]\nattempts = 3\nwaits = [\"1s\", \"2s\", \"3s\", \"4s\"]\n",
            "webhooks.waits: has 4 entries; 3 attempts use only 2",
        ),
        ("[redis]\nprefix = \"x:\"\n", "redis.prefix: has no effect without redis.url"),
        (
            "[gateway.overload]\nenabled = false\ntolerance = 200\n",
            "gateway.overload: has no effect: gateway.overload.enabled is false",
        ),
        ("[safeguard]\nminutes = 9\n", "safeguard: has no effect: safeguard.enabled is false"),
        ("[telemetry.otlp]\nratio = 0.5\n", "telemetry.otlp: has no effect: telemetry.otlp.url is not set"),
        (
            "[telemetry.otlp]\nurl = \"http://c:4317\"\nca_file = \"/a.pem\"\n",
            "telemetry.otlp.ca_file: has no effect: telemetry.otlp.url is not https",
        ),
        ("[acme]\ndomains = [\"a.example\"]\n", "acme: has no effect: neither"),
        (
            "[plans.free]\nper_minute = 501\n",
            "plans.free.per_minute: is 501 and can never be reached: per_hour is 500",
        ),
        (
            "[plans.free]\nper_hour = 601\n",
            "plans.free.per_hour: is 601 and can never be reached: per_minute is 10",
        ),
        (
            "[plans.free]\nper_day = 12001\n",
            "plans.free.per_day: is 12001 and can never be reached: per_hour is 500",
        ),
        ("[chains.eth]\ntimeout = \"9s\"\n", "chains.eth: has settings but no nodes"),
        (
            &format!("[chains.eth]\nbroadcast_nodes = 2\n{}", node("")),
            "chains.eth.broadcast_nodes: is 2, but 1 of its nodes",
        ),
        (
            &format!("[chains.eth]\nnext_node_after = \"1s\"\n{}", node("")),
            "chains.eth.next_node_after: has no effect with fewer than two",
        ),
        (
            &format!(
                "[chains.eth]\nnext_node_after = \"30s\"\n{}{}",
                node(""),
                "[[chains.eth.nodes]]\nurl = \"http://b:1\"\n"
            ),
            "chains.eth.next_node_after: has no effect: it is not shorter",
        ),
        (
            &format!("[chains.eth.hedge]\nenabled = true\n{}", node("")),
            "chains.eth.hedge: has no effect with fewer than two",
        ),
        (
            &format!("[chains.eth.batching]\nenabled = true\n{}", node("max_batch = 1\n")),
            "chains.eth.batching: has no effect: max_batch of every node is 1",
        ),
        (
            &format!("[chains.eth.batching]\nmax_calls = 5\n{}", node("")),
            "chains.eth.batching: has no effect: chains.eth.batching.enabled is false",
        ),
        (
            &format!("[chains.eth.hedge]\npercentile = 90\n{}", node("")),
            "chains.eth.hedge: has no effect: chains.eth.hedge.enabled is false",
        ),
        (
            &format!("[chains.eth]\nenabled = false\n{}", node("priority = 1\n")),
            "chains.eth.enabled: is false, so its nodes get no calls",
        ),
        (
            &format!("[chains.eth]\nhosts = [\"h.example\", \"H.example\"]\n{}", node("")),
            "chains.eth.hosts: lists H.example twice",
        ),
        (
            &format!("{}[[chains.eth.nodes]]\nurl = \"http://A:1/\"\n", node("")),
            "chains.eth.nodes: lists one address twice, as numbers 1 and 2",
        ),
        (&node("priority = 1\n"), "chains.eth.nodes: has a priority"),
        (
            &format!("{}{}", node(""), node("")),
            "chains.eth.nodes: lists one address twice, as numbers 1 and 2",
        ),
        (&node("over_budget = \"allow\"\n"), "chains.eth.nodes: has over_budget without monthly_calls"),
        (
            &node("methods = [\"eth_call\"]\nexcept = [\"eth_call\"]\n"),
            "chains.eth.nodes: has eth_call in methods and in except",
        ),
        (
            &format!("[cache]\nbytes = 0\n[chains.eth]\nttl = {{ eth_call = \"5s\" }}\n{}", node("")),
            "chains.eth.ttl: has no effect: cache.bytes is 0",
        ),
        ("[projects.p]\n", "projects.p: has no key in this file"),
        ("[tenants.t]\n", "tenants.t: has no project in this file"),
        (
            &format!(
                "{account}[projects.q]\nallowed_methods = [\"a\"]\nblocked_methods = [\"a\"]\n[keys.l]\nkey = \"0123456789abcdeg\"\nproject = \"q\"\n"
            ),
            "projects.q.allowed_methods: allows a, which blocked_methods blocks",
        ),
        (
            "[projects.p]\n[keys.k]\nkey = \"0123456789abcdef\"\nproject = \"p\"\nchains = [\"tron\"]\n",
            "keys.k.chains: names only chains that this file gives no node",
        ),
        (
            &format!("{account}[keys.l]\nkey = \"0123456789abcdeg\"\nexpires_at = 2026-01-01T00:00:00Z\n"),
            "keys.l.expires_at: is past, so calls with this key are refused",
        ),
        (
            "[projects.p]\nrps_limit = 11\n[keys.k]\nkey = \"0123456789abcdef\"\nproject = \"p\"\n",
            "projects.p.rps_limit: is 11 and can never be reached: plans.free.per_minute is 10",
        ),
        (
            "[projects.p]\nrps_limit = 21\n[keys.k]\nkey = \"0123456789abcdef\"\nproject = \"p\"\n[keys.l]\nkey = \"0123456789abcdeg\"\nproject = \"p\"\n",
            "projects.p.rps_limit: is 21 and can never be reached: plans.free.per_minute is 10 for each of 2 keys",
        ),
    ] {
        let found = warnings(text);
        assert!(found.iter().any(|found| found.starts_with(warning)), "{warning}\n{found:#?}");
        assert_eq!(found.len(), 1, "{found:#?}\n{text}");
    }
}

// Shows (Commands and configuration).
#[test]
fn settings_that_have_an_effect_are_not_named() {
    for text in [
        "",
        "[gateway]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n",
        "[gateway]\nlisten = \"10.0.0.1:9000\"\n[admin]\nlisten = \"10.0.0.2:9000\"\n",
        "[plans.free]\nper_minute = 300\nper_hour = 1000000000000\nper_day = 1000000000000\n",
        "[chains.eth]\nbroadcast_nodes = 2\nnext_node_after = \"1s\"\nnodes = [\"http://a:1\", \"http://b:1\", \"ws://a:2\"]\n",
        "[chains.eth]\nenabled = false\n",
        // The operator did not write defaults that another setting makes too long.
        "[webhooks]\nattempts = 1\n",
        "[webhooks]\nattempts = 3\nwaits = [\"1s\", \"2s\"]\n",
        "[telemetry]\nlisten = \"127.0.0.1:9000\"\n[acme]\nhttp_listen = \"127.0.0.1:9000\"\ndomains = [\"a.example\"]\n[gateway.tls]\nacme = true\n",
        "[gateway]\ngrpc_descriptors = \"/d\"\ngrpc_reflection = true\n",
        "[telemetry.access_log]\nfile = \"-\"\none_in = 5\n",
        "[[chains.eth.nodes]]\nurl = \"http://a:1\"\nuser = \"u\"\n[[chains.eth.nodes]]\nurl = \"http://a:1\"\nuser = \"v\"\n",
        "[[chains.eth.nodes]]\nurl = \"http://a:1/x\"\n[[chains.eth.nodes]]\nurl = \"http://a:1/y\"\n",
        "[chains.eth]\nhosts = [\"a.example\", \"b.example\"]\nnodes = [\"http://a:1\"]\n",
        "[keys.k]\nkey = \"0123456789abcdef\"\nexpires_at = 2026-01-01T00:00:01Z\n",
        "[keys.k]\nkey = \"0123456789abcdef\"\nexpires_at = 2025-01-01T00:00:00Z\nrevoked = true\n",
        "[projects.default]\nrps_limit = 10\n[keys.k]\nkey = \"0123456789abcdef\"\n",
        "[projects.default]\nrps_limit = 5000\n",
    ] {
        assert_eq!(warnings(text), [""; 0], "{text}");
    }
}
