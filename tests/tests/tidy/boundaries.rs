//! Code that belongs in one module only: libraries, method names, numbers of refusals, the clock, input and output.

use crate::source::{Kind, Source};
use crate::{none, tree};

/// The beginnings of method names in the APIs of chains.
const METHOD_STARTS: &[&str] = &[
    "eth_",
    "net_version",
    "net_listening",
    "net_peerCount",
    "web3_",
    "debug_",
    "trace_",
    "bor_",
    "txpool_",
    "personal_",
    "miner_",
    "clique_",
    "engine_",
    "sui_",
    "suix_",
    "EXPERIMENTAL_",
    "getblock",
    "getbestblockhash",
    "getrawtransaction",
    "sendrawtransaction",
    "gettxout",
    "estimatesmartfee",
    "getmempool",
    "getnetworkinfo",
    "getmininginfo",
    "invalidateblock",
    "getnowblock",
    "gettransaction",
    "broadcasttransaction",
    "broadcasthex",
    "triggersmartcontract",
    "triggerconstantcontract",
    "server_info",
    "server_state",
    "ledger_current",
    "account_info",
    "submit_multisigned",
    "broadcast_tx_",
    "abci_query",
    "getMasterchainInfo",
    "runGetMethod",
    "sendBoc",
    "queryNetwork",
    "queryLedgerState",
    "getLatestBlockhash",
    "getSlot",
];
/// The ends of such names.
const METHOD_ENDS: &[&str] = &["_getTokenBalances"];

const METHOD_EXCEPTIONS: &[(&str, &str)] = &[
    (
        "rpcgate-core/src/refusal.rs",
        "the specification words the refusal of the eth_getLogs guard, and refusals are worded in one table",
    ),
    ("rpcgate-server/src/demo/welcome.rs", "lines for a person to paste, one for each kind of chain"),
];

const REFUSALS: &str = "rpcgate-core/src/refusal.rs";

const SQL_EXCEPTIONS: &[(&str, &str)] = &[(
    "rpcgate-core/src/sql.rs",
    "types of core are columns, and only the crate of a type can implement sea-orm's traits for it",
)];

const STATUS_EXCEPTIONS: &[(&str, &str)] = &[
    ("rpcgate-chains/src/cardano.rs", "errors with which a node says that it cannot serve a call now"),
    ("rpcgate-chains/src/family/evm/blocks.rs", "numbers with which nodes answer that they lack a method"),
    ("rpcgate-chains/src/family/evm.rs", "errors with which a node says that it cannot serve a call now"),
    ("rpcgate-chains/src/family/unserved.rs", "the error with which a node says that it lacks a method"),
    ("rpcgate-chains/src/family/utxo.rs", "errors with which a node says that it cannot serve a call now"),
    ("rpcgate-chains/src/near/blocks.rs", "the error with which a node says that a block is unknown"),
    ("rpcgate-chains/src/solana/blocks.rs", "errors with which a node says that a slot has no block"),
    ("rpcgate-chains/src/solana.rs", "errors with which a node says that it cannot serve a call now"),
    ("rpcgate-chains/src/sui.rs", "errors with which a node says that it cannot serve a call now"),
    ("rpcgate-core/src/tally.rs", "the status under which an abandoned call is counted; it is never sent"),
    ("rpcgate-layers/src/transport/h1/client.rs", "a node's 408 on a connection it was about to close"),
    (
        "rpcgate-layers/src/transport/h1/answer.rs",
        "statuses with which a node asks for a pause or rejects the gateway",
    ),
    (
        "rpcgate-layers/src/upstream/connection_status.rs",
        "statuses with which a node, or a proxy before it, answers about the connection",
    ),
    ("rpcgate-server/src/demo/echo.rs", "a receiver of webhooks, which no call comes to"),
    ("rpcgate-server/src/listen/builtin.rs", "a panic's 500, which is no refusal"),
    (
        "rpcgate-server/src/metrics/listen.rs",
        "the metrics have a listener of their own, which no call comes to",
    ),
];

const CLOCK: &str = "rpcgate-core/src/clock.rs";

fn excepted(exceptions: &[(&str, &str)], path: &str) -> bool {
    exceptions.iter().any(|(listed, _)| *listed == path)
}

fn stray_library(source: &Source, names: &[&str], module: &str) -> Vec<String> {
    if !source.is_shipped()
        || source.path.split('/').any(|part| part == module || part == format!("{module}.rs"))
    {
        return Vec::new();
    }
    let used = source.paths().into_iter().filter(|named| {
        let first = named.segments[0].as_str();
        names.contains(&first) && (named.segments.len() > 1 || source.find(&["use", first]).next().is_some())
    });
    used.map(|named| source.at(named.line, &named.segments.join("::"))).collect()
}

fn is_method(word: &str) -> bool {
    METHOD_STARTS.iter().any(|start| word.starts_with(start))
        || METHOD_ENDS.iter().any(|end| word.ends_with(end))
}

fn method_names(source: &Source) -> Vec<String> {
    let elsewhere = source.is_shipped() && !source.path.starts_with("rpcgate-chains/");
    if !elsewhere || excepted(METHOD_EXCEPTIONS, &source.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for token in source.code().filter(|token| token.kind == Kind::Text) {
        let words = token.text.split(|mark: char| !(mark.is_ascii_alphanumeric() || mark == '_'));
        findings.extend(words.filter(|word| is_method(word)).map(|word| source.at(token.line, word)));
    }
    findings
}

/// Finds error numbers in the ranges of JSON-RPC 2.0 (section 5.1) and HTTP statuses of 4xx and 5xx.
fn refusal_numbers(source: &Source) -> Vec<String> {
    // A simulated node answers with its own errors; the management side has its own table (`error.rs`).
    let ours = source.is_shipped()
        && !source.path.starts_with("rpcgate-chains/simulate/")
        && !source.path.starts_with("rpcgate-admin/");
    if !ours || source.path == REFUSALS || excepted(STATUS_EXCEPTIONS, &source.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let code: Vec<_> = source.code().collect();
    for (at, token) in code.iter().enumerate() {
        let before = |back: usize| at.checked_sub(back).map_or("", |at| code[at].text.as_str());
        let found = match token.kind {
            Kind::Number => {
                let negative = before(1) == "-" && is_error_number(&token.text.replace('_', ""));
                negative || (before(2) == "from_u16" && token.text.starts_with(['4', '5']))
            }
            Kind::Text => token
                .text
                .match_indices('-')
                .any(|(at, _)| token.text.get(at + 1..at + 6).is_some_and(is_error_number)),
            Kind::Word => before(2) == "StatusCode" && before(1) == "::" && refuses(&token.text),
            _ => false,
        };
        if found {
            findings.push(source.at(token.line, &token.text));
        }
    }
    findings
}

fn is_error_number(text: &str) -> bool {
    text.parse::<u32>()
        .is_ok_and(|number| (32_000..=32_099).contains(&number) || (32_600..=32_700).contains(&number))
}

/// Reports whether a constant of crate `http` is a status of 4xx or 5xx.
fn refuses(constant: &str) -> bool {
    let fine = [
        "OK",
        "CREATED",
        "ACCEPTED",
        "CONTINUE",
        "PROCESSING",
        "EARLY_HINTS",
        "SWITCHING_PROTOCOLS",
        "FOUND",
    ];
    let is_constant = constant.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
    let harmless =
        ["_CONTENT", "_HINTS", "MULTI", "MOVED", "SEE_", "NOT_MODIFIED", "_REDIRECT", "NON_AUTH", "REPORTED"];
    is_constant && !fine.contains(&constant) && !harmless.iter().any(|part| constant.contains(part))
}

fn clock_readings(source: &Source) -> Vec<String> {
    if source.path == CLOCK || source.path.contains("/benches/") {
        return Vec::new();
    }
    // A deadline on tokio's timer concerns waiting, which tests pause, not the time of day.
    let imported: Vec<_> = source.paths().into_iter().map(|named| named.segments.join("::")).collect();
    let waits = imported.iter().any(|path| path.starts_with("tokio::time::Instant"))
        && !imported.iter().any(|path| path.starts_with("std::time::Instant"));
    let readings: &[_] = if waits { &["SystemTime"] } else { &["Instant", "SystemTime"] };
    readings
        .iter()
        .flat_map(|clock| source.find(&[clock, "::", "now"]).map(|at| at.line).collect::<Vec<_>>())
        .map(|line| source.at(line, "reads the machine's clock"))
        .collect()
}

fn core_input_output(source: &Source) -> Vec<String> {
    let is_pure = ["rpcgate-core/src/", "rpcgate-core/config/src/"];
    if !is_pure.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let forbidden = |segments: &[String]| match segments {
        [std, module, ..] if std == "std" => {
            let sockets =
                segments.last().is_some_and(|name| name.starts_with("Tcp") || name.starts_with("Udp"));
            let module = module.as_str();
            matches!(module, "fs" | "env" | "process" | "os") || (module == "net" && sockets)
        }
        _ => false,
    };
    let used = source.paths().into_iter().filter(|named| !named.test && forbidden(&named.segments));
    used.map(|named| source.at(named.line, &named.segments.join("::"))).collect()
}

fn unsafe_code(source: &Source) -> Vec<String> {
    source.find(&["unsafe"]).map(|token| source.at(token.line, "unsafe")).collect()
}

/// The interfaces to the actions of the management: the folder of each, and the path of its module.
const INTERFACES: [(&str, &[&str]); 3] = [
    ("rpcgate-admin/src/api/", &["crate", "api"]),
    ("rpcgate-admin/dashboard/", &["rpcgate_dashboard"]),
    ("rpcgate-admin/src/command/", &["crate", "command"]),
];

/// Finds paths of an interface in another one.
fn stray_interface(source: &Source) -> Vec<String> {
    let Some(own) = INTERFACES.iter().find(|(folder, _)| source.path.starts_with(folder)) else {
        return Vec::new();
    };
    let others = || INTERFACES.iter().filter(|one| *one != own);
    let paths = source.paths();
    let used = paths.iter().filter(|named| !named.test);
    let stray = used.filter(|named| {
        others().any(|(_, module)| module.iter().eq(named.segments.iter().take(module.len())))
    });
    stray.map(|named| source.at(named.line, &named.segments.join("::"))).collect()
}

fn over_all(rule: fn(&Source) -> Vec<String>) -> Vec<String> {
    tree::sources().iter().flat_map(rule).collect()
}

#[test]
fn sea_orm_is_used_only_under_store() {
    let rule = |source: &Source| {
        if excepted(SQL_EXCEPTIONS, &source.path) {
            return Vec::new();
        }
        stray_library(source, &["sea_orm", "sea_orm_migration", "sqlx"], "store")
    };
    none(&over_all(rule), "SQL belongs under store/: ask it there by a function that says what is wanted.");
}

#[test]
fn api_pages_and_commands_do_not_know_each_other() {
    none(
        &over_all(stray_interface),
        "Interfaces are siblings over the actions. What two of them share belongs in shape/, document/ or action/.",
    );
}

#[test]
fn redis_is_used_only_under_redis() {
    let rule = |source: &Source| stray_library(source, &["redis"], "redis");
    none(
        &over_all(rule),
        "Redis belongs under redis/, behind a backend. For a module of ours write crate::redis.",
    );
}

#[test]
fn method_names_occur_only_in_the_chains() {
    none(
        &over_all(method_names),
        "A chain's method is named only in rpcgate-chains: ask the adapter for the property that you need.",
    );
}

#[test]
fn refusals_have_their_numbers_only_in_the_table() {
    none(
        &over_all(refusal_numbers),
        "What says no is a variant of Refusal; its status and error number stand in rpcgate-core/src/refusal.rs.",
    );
}

#[test]
fn only_the_clock_reads_the_time() {
    none(&over_all(clock_readings), "Take a Clock, or better take `now` as an argument.");
}

#[test]
fn core_does_no_input_or_output() {
    none(
        &over_all(core_input_output),
        "Core knows no file, socket, process or environment: put it behind a backend.",
    );
}

#[test]
fn nothing_is_unsafe() {
    none(&over_all(unsafe_code), "No crate of ours uses unsafe; find a crate that is kept well and does.");
}

#[test]
fn listed_exceptions_are_still_needed() {
    let sources = tree::sources();
    let listed = METHOD_EXCEPTIONS.iter().chain(STATUS_EXCEPTIONS).chain(SQL_EXCEPTIONS);
    let gone: Vec<_> = listed
        .filter(|(path, _)| !sources.iter().any(|source| source.path == *path))
        .map(|(path, reason)| format!("{path}: excepted because {reason}"))
        .collect();
    none(&gone, "The file is gone: take its exception out of the list.");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: fn(&Source) -> Vec<String>, path: &str, text: &str) -> usize {
        rule(&Source::new(path, text)).len()
    }

    #[test]
    fn an_interface_in_another_one_is_found() {
        let found =
            |path: &str, text: &str| found(stray_interface, &format!("rpcgate-admin/src/{path}"), text);
        assert_eq!(found("command/key.rs", "use crate::api::keys::create;"), 1);
        assert_eq!(found("api/keys.rs", "use crate::command::key;"), 1);
        assert_eq!(found("api/keys.rs", "fn f() { rpcgate_dashboard::with_pages() }"), 1);
        assert_eq!(found("api/keys.rs", "use crate::api::etag::Tagged;"), 0);
        assert_eq!(found("router.rs", "use crate::api::keys;\nuse rpcgate_dashboard::with_pages;"), 0);
        let test = "#[cfg(test)]\nmod tests { use crate::api::keys::tests::key; }";
        assert_eq!(found("command/key.rs", test), 0);
    }

    #[test]
    fn a_library_in_the_wrong_place_is_found() {
        let orm = |source: &Source| stray_library(source, &["sea_orm"], "store");
        let redis = |source: &Source| stray_library(source, &["redis"], "redis");
        assert_eq!(
            found(orm, "rpcgate-admin/management/src/action/keys.rs", "use sea_orm::{Set, Value};"),
            2
        );
        assert_eq!(
            found(orm, "rpcgate-admin/management/src/action/keys.rs", "fn f(x: sea_orm::Value) {}"),
            1
        );
        assert_eq!(
            found(
                orm,
                "rpcgate-admin/management/src/action/keys.rs",
                "// sea_orm::Set\nfn f() { \"sea_orm::Set\"; }"
            ),
            0
        );
        assert_eq!(found(orm, "rpcgate-admin/store/src/keys.rs", "use sea_orm::Set;"), 0);
        assert_eq!(found(redis, "rpcgate-server/src/assemble.rs", "use redis;"), 1);
        assert_eq!(
            found(redis, "rpcgate-server/src/assemble.rs", "use crate::redis::Windows; let redis = 1;"),
            0
        );
        assert_eq!(found(redis, "rpcgate-layers/src/redis/windows.rs", "use redis::Script;"), 0);
    }

    #[test]
    fn a_method_name_outside_the_chains_is_found() {
        let layer = "rpcgate-layers/src/call/pace.rs";
        assert_eq!(found(method_names, layer, "fn f() { call == \"eth_getLogs\" }"), 1);
        assert_eq!(found(method_names, layer, "const X: &str = r#\"{\"method\":\"getblock\"}\"#;"), 1);
        assert_eq!(found(method_names, layer, "const X: &str = \"vendor_getTokenBalances\";"), 1);
        assert_eq!(found(method_names, layer, "/// `\"eth_getLogs\"`\nfn f() { \"method not found\"; }"), 0);
        assert_eq!(
            found(method_names, layer, "#[cfg(test)]\nmod tests { const X: &str = \"eth_call\"; }"),
            0
        );
        assert_eq!(found(method_names, "rpcgate-chains/src/eth.rs", "const X: &str = \"eth_call\";"), 0);
    }

    #[test]
    fn a_refusal_number_outside_the_table_is_found() {
        let layer = "rpcgate-layers/src/call/quota.rs";
        assert_eq!(found(refusal_numbers, layer, "let code = -32005;"), 1);
        assert_eq!(found(refusal_numbers, layer, "let code = -32_601; let body = \"code\\\":-32700\";"), 2);
        assert_eq!(
            found(
                refusal_numbers,
                layer,
                "StatusCode::TOO_MANY_REQUESTS; StatusCode::OK; StatusCode::NO_CONTENT"
            ),
            1
        );
        assert_eq!(found(refusal_numbers, layer, "StatusCode::from_u16(429); Duration::from_secs(429)"), 1);
        assert_eq!(
            found(refusal_numbers, layer, "let a = b - 32; let c = 32_005; let d = \"2026-11-21\";"),
            0
        );
        assert_eq!(found(refusal_numbers, REFUSALS, "let code = -32005;"), 0);
        assert_eq!(
            found(refusal_numbers, "rpcgate-chains/simulate/src/evm/method.rs", "let code = -32601;"),
            0
        );
    }

    #[test]
    fn a_reading_of_the_clock_is_found() {
        assert_eq!(found(clock_readings, "tests/src/node.rs", "let a = std::time::Instant::now();"), 1);
        assert_eq!(found(clock_readings, "examples/src/a.rs", "SystemTime::now(); fn now() {}"), 1);
        assert_eq!(found(clock_readings, CLOCK, "Instant::now()"), 0);
        assert_eq!(
            found(clock_readings, "tests/src/a.rs", "use tokio::time::Instant; Instant::now() + limit"),
            0
        );
        let both = "use std::time::Instant; tokio::time::Instant::now(); Instant::now()";
        assert!(found(clock_readings, "tests/src/a.rs", both) > 0);
    }

    #[test]
    fn input_in_core_is_found() {
        for path in ["rpcgate-core/src/tally.rs", "rpcgate-core/config/src/read.rs"] {
            assert_eq!(
                found(core_input_output, path, "use std::{fs, net::{IpAddr, TcpStream}};"),
                2,
                "{path}"
            );
            assert_eq!(found(core_input_output, path, "std::env::var(\"X\")"), 1, "{path}");
            assert_eq!(
                found(core_input_output, path, "#[cfg(test)]\nmod tests { use std::fs; }"),
                0,
                "{path}"
            );
        }
        assert_eq!(found(core_input_output, "rpcgate-server/src/main.rs", "use std::fs;"), 0);
    }

    #[test]
    fn unsafe_is_found_as_a_word_of_the_code_only() {
        assert_eq!(found(unsafe_code, "rpcgate-core/src/a.rs", "fn f() { unsafe { g() } }"), 1);
        assert_eq!(
            found(
                unsafe_code,
                "rpcgate-core/src/a.rs",
                "// unsafe\nlet a = \"unsafe\"; let unsafe_path = 1;"
            ),
            0
        );
    }
}
