//! Checks that `docs/chains.md` agrees with the catalog. `RPCGATE_WRITE_DOCS=1 cargo test -p rpcgate-chains --test
//! document` regenerates it. The package does not include this test, since it does not include the document.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

use rpcgate_chains::{by_path, catalog};
use rpcgate_core::adapter::{Adapter, ClosedMethods, Probe, method_table};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::chain::{Dialect, Flags, Method, MethodRule};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
# Chains

The facts and methods of each chain, written from its adapter. An operator's configuration changes weights (`cu`), cache
classes (`ttl`), the depth at which a block is final (`final_depth`), the lag that a node may have (`max_lag`), and which
methods are open or blocked.

A method in no table costs 1 CU and is not cached. *Final* is the number of blocks on top of a block that make its data
final for the cache; *lag* is the number of blocks that a node may be behind the others before it is used only if no
better one is left.

";

const CLOSED: &str = "
## Closed methods, with reasons

Methods are closed to all callers if they control a node or its wallet, if they make a node run, schedule or dial what the
parameters name, or if they keep a node waiting until something happens. Such a call is answered -32601 `method not
available` (on `/eth` `debug_*` 403), reaches no node and costs nothing. `open_methods` of a chain opens those that can be
opened, by name or as `trace_*`. Names are those of the nodes' own documentation; a method that a node does not have is
closed nevertheless. On EVM chains a name with anything but visible ASCII is closed too: no method has such a name, and a
node that compares loosely must not find another method in it.

These wait and stay open, since clients are built on them: NEAR's `broadcast_tx_commit`, `send_tx` and `tx` (a node ends
them after 10 s), Aptos' `transactions/wait_by_hash` (after 1 s), Sui's `sui_executeTransactionBlock` with
`WaitForLocalExecution` (after 10 s), Cardano's `nextBlock` and the like (over HTTPS Ogmios opens a session for each call
and answers it at once). They are charged like other calls.
";

fn protocol(adapter: &dyn Adapter) -> &'static str {
    match adapter.facts().dialect {
        _ if !adapter.facts().https => "none over HTTPS",
        Dialect::JsonRpc2 | Dialect::Near => "JSON-RPC 2.0",
        Dialect::Utxo => "JSON-RPC 1.0",
        Dialect::Xrp => "rippled's JSON-RPC",
        Dialect::Ogmios => "Ogmios' JSON-RPC 2.0",
        Dialect::Ton => "TonCenter: JSON-RPC and REST",
        Dialect::Rest => "REST",
        _ => "its own",
    }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "" }
}

fn status_call(probe: Probe) -> String {
    match probe {
        Probe::Rpc { method, .. } => format!("`{method}`"),
        Probe::Rest { target, body: None } => format!("`GET {target}`"),
        Probe::Rest { target, body: Some(_) } => format!("`POST {target}`"),
    }
}

fn class(cache: CacheRule) -> String {
    match cache {
        CacheRule::Never => String::new(),
        CacheRule::Short(time) => format!("{} s", time.as_secs()),
        CacheRule::Static => "for ever".into(),
        CacheRule::Immutable { unsettled } => {
            format!("for ever once final, {} s until then", unsettled.as_secs())
        }
    }
}

fn marks(flags: Flags) -> String {
    let names = [
        (Flags::HEAVY, "heavy"),
        (Flags::PACED, "once a minute"),
        (Flags::BROADCAST, "submits"),
        (Flags::FORBIDDEN, "forbidden"),
        (Flags::OPENABLE, "closed, can be opened"),
        (Flags::CLOSED, "closed"),
        (Flags::COMMANDS, "by its parameters"),
    ];
    let marked = names.iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, name)| *name);
    marked.collect::<Vec<_>>().join(", ")
}

/// Returns methods with the same rule in one row.
fn rows(methods: &[Method]) -> BTreeMap<(u32, String, String), Vec<String>> {
    let mut rows: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for Method { name, metered, rule: MethodRule { cu, cache, flags, .. }, .. } in methods {
        let name = if name == metered { format!("`{name}`") } else { format!("`{name}` (as `{metered}`)") };
        rows.entry((*cu, class(*cache), marks(*flags))).or_default().push(name);
    }
    rows
}

fn document() -> String {
    let mut out = String::from(HEAD);
    out.push_str(
        "| path | chain | scope alias | protocol | batch | WebSocket | gRPC | final | lag | status call |\n",
    );
    out.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
    for adapter in catalog() {
        let facts = adapter.facts();
        let mut status = status_call(adapter.probe());
        if let Some(second) = adapter.second_probe() {
            write!(status, ", {}", status_call(second)).unwrap();
        }
        writeln!(
            out,
            "| `/{}` | {} | {} | {} | {} | {} | {} | {} | {} | {status} |",
            facts.name,
            facts.title,
            facts.aliases.join(", "),
            protocol(&*adapter),
            yes(facts.batch),
            yes(facts.ws),
            yes(!facts.grpc.is_empty()),
            facts.final_depth,
            facts.max_lag,
        )
        .unwrap();
    }
    for adapter in catalog() {
        let methods = method_table(&*adapter);
        if methods.is_empty() {
            continue;
        }
        let facts = adapter.facts();
        writeln!(
            out,
            "\n## {}, `/{}`\n\n| CU | kept | marks | methods |\n|---|---|---|---|",
            facts.title, facts.name
        )
        .unwrap();
        for ((cu, cache, marks), names) in rows(&methods) {
            writeln!(out, "| {cu} | {cache} | {marks} | {} |", names.join(", ")).unwrap();
        }
    }
    out.push_str(CLOSED);
    for (title, closed) in alike() {
        writeln!(out, "\n### {title}\n").unwrap();
        if closed.is_empty() {
            out.push_str("None of its methods makes a node run, schedule, dial or wait.\n");
            continue;
        }
        out.push_str("| closed | because | can be opened |\n|---|---|---|\n");
        for ClosedMethods { methods, only, because, openable, .. } in closed {
            let mut names = methods.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            if !only.is_empty() {
                write!(names, " {only}").unwrap();
            }
            writeln!(out, "| {names} | {because}. | {} |", yes(openable)).unwrap();
        }
    }
    out
}

/// Returns the closed methods of each chain. Those that all chains of a family share are listed once, under their
/// joined names.
fn alike() -> Vec<(String, Vec<ClosedMethods>)> {
    let mut groups: Vec<(Vec<String>, Vec<ClosedMethods>)> = Vec::new();
    let name = |adapter: &dyn Adapter| format!("{}, `/{}`", adapter.facts().title, adapter.facts().name);
    let families: [&[&str]; 2] =
        [&["eth", "bsc", "polygon", "avax"], &["btc", "ltc", "bch", "doge", "dash", "liquid"]];
    for adapter in catalog() {
        let path = adapter.facts().name.as_str();
        let closed = adapter.closed();
        let family = families.iter().find(|family| family.contains(&path));
        let shared = family.map_or_else(Vec::new, |family| {
            let all: Vec<_> = family.iter().map(|path| by_path(path).unwrap().closed()).collect();
            closed.iter().filter(|row| all.iter().all(|rows| rows.contains(row))).cloned().collect()
        });
        if let Some(family) = family.filter(|family| family[0] == path) {
            let names = family.iter().map(|path| name(&*by_path(path).unwrap())).collect();
            groups.push((names, shared.clone()));
        }
        let own: Vec<_> = closed.into_iter().filter(|row| !shared.contains(row)).collect();
        if family.is_none() || !own.is_empty() {
            groups.push((vec![name(&*adapter)], own));
        }
    }
    groups.into_iter().map(|(names, rows)| (names.join("; "), rows)).collect()
}

// Shows (Limits, budget and quota): docs/chains.md lists the closed methods of each chain with reasons.
#[test]
fn the_document_of_chains_matches_the_catalog() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/chains.md");
    if std::env::var_os("RPCGATE_WRITE_DOCS").is_some() {
        std::fs::write(&file, document()).unwrap();
    }
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(text == document(), "docs/chains.md is not what RPCGATE_WRITE_DOCS=1 writes");
}
