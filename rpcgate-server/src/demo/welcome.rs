//! The text that a ready demo prints: lines to paste into a shell.

use super::sheet::Sheet;
use rpcgate_core::adapter::{Adapter, Probe};
use std::path::Path;
use std::sync::Arc;

const SHOWN: &str = "eth";

/// One of the accounts that development nodes, including the simulated ones, fund at the start.
const ACCOUNT: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
/// A token contract of Ethereum, which the simulated node has too; a node without it answers `0x`.
const TOKEN: &str = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
/// `totalSupply()`, by the ABI of EIP-20.
const TOTAL_SUPPLY: &str = "0x18160ddd";

/// A gRPC call for each chain that has any: the method, and the request as JSON.
const GRPC_CALLS: [(&str, &str, &str); 2] = [
    ("tron", "protocol.Wallet/GetNowBlock", ""),
    ("cosmos", "cosmos.bank.v1beta1.Query/SupplyOf", r#"{"denom":"uatom"}"#),
];

const SUBSCRIPTION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#;

/// Returns the text. Each `curl` line is a separate command. Passwords and node URLs are only in the file.
pub(super) fn text(sheet: &Sheet, plan: &str, file: &Path) -> String {
    let served: Vec<_> = rpcgate_chains::catalog()
        .filter(|adapter| sheet.nodes.iter().any(|(chain, _)| *chain == adapter.facts().name.as_str()))
        .collect();
    let chains = match served.len() {
        1 => "1 chain".to_owned(),
        count => format!("{count} chains"),
    };
    let mut lines = vec![
        format!("rpcgate serves {chains} at {} (plan: {plan}).", sheet.gateway),
        format!(
            "The management API is at {admin}, a browser of it at {admin}/swagger/.",
            admin = sheet.admin
        ),
        format!("The dashboard is at {}/: log in as the user in {}.", sheet.dashboard, file.display()),
    ];
    lines.extend(sheet.outbox.iter().map(|folder| format!("Mails are written as files to {folder}.")));
    let mut section = |title: &str, commands: Vec<String>| {
        if !commands.is_empty() {
            lines.extend([String::new(), title.to_owned()]);
            lines.extend(commands);
        }
    };
    // A chain that is only a stream has no newest block to call for.
    let called: Vec<_> = served.iter().filter(|adapter| adapter.facts().https).collect();
    let heads = called.iter().map(|adapter| head(sheet, "-s", adapter)).collect();
    section("The newest block of each chain:", heads);
    if let Some(adapter) = served.iter().find(|adapter| path(adapter) == SHOWN) {
        let block = call(adapter, 1, "eth_getBlockByNumber", r#"["latest",false]"#);
        let balance = call(adapter, 2, "eth_getBalance", &format!(r#"["{ACCOUNT}","latest"]"#));
        let supply = format!(r#"[{{"to":"{TOKEN}","data":"{TOTAL_SUPPLY}"}},"latest"]"#);
        let supply = call(adapter, 1, "eth_call", &supply);
        section("Two calls in one batch:", vec![curl(sheet, "-s", SHOWN, &format!("[{block},{balance}]"))]);
        section("A token's total supply, read from its contract:", vec![curl(sheet, "-s", SHOWN, &supply)]);
    }
    let calls = GRPC_CALLS.iter().filter(|(chain, ..)| served.iter().any(|adapter| path(adapter) == *chain));
    let calls = calls.filter_map(|call| grpcurl(sheet, call, &file.with_file_name(protoset(call.0))));
    section("Calls over gRPC, with the messages of a file that the demo has written:", calls.collect());
    section("New blocks as they come, over a stream (either line):", stream(sheet));
    let with_headers = called.first().map(|adapter| head(sheet, "-si", adapter));
    section(
        "With headers: what is left of the plan's windows, the Compute Units charged, X-Cache (HIT when asked twice):",
        with_headers.into_iter().collect(),
    );
    lines.extend([
        String::new(),
        format!("Key, ids and node URLs, for programs, and what to log in with: {}", file.display()),
        "Ctrl-C (or SIGTERM) finishes the calls in flight and stops; the next start goes on from here."
            .to_owned(),
    ]);
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the file name in the demo's folder that describes the gRPC services of a chain.
pub(super) fn protoset(chain: &str) -> String {
    format!("{chain}.protoset")
}

/// Returns the command for a gRPC call; `None` if gRPC is not served.
fn grpcurl(sheet: &Sheet, (_, method, request): &(&str, &str, &str), protoset: &Path) -> Option<String> {
    let authority = sheet.grpc.as_deref()?.split_once("://")?.1;
    let trusted = sheet.grpc_ca.as_ref().map(|ca| format!(" -cacert {}", quoted(ca))).unwrap_or_default();
    let request = if request.is_empty() { String::new() } else { format!(" -d '{request}'") };
    let protoset = quoted(&protoset.display().to_string());
    let key = &sheet.api_key;
    Some(format!("grpcurl{trusted} -protoset {protoset} -H 'apikey: {key}'{request} {authority} {method}"))
}

fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if path.chars().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

/// Returns the commands that open a stream and subscribe to new blocks, if [`SHOWN`] has streams.
fn stream(sheet: &Sheet) -> Vec<String> {
    if !sheet.streams.iter().any(|chain| chain == SHOWN) {
        return Vec::new();
    }
    let url = format!("{}/ws/{SHOWN}?apikey={}", sheet.ws, sheet.api_key);
    vec![
        format!("wscat -c '{url}' -w 60 -x '{SUBSCRIPTION}'"),
        format!("echo '{SUBSCRIPTION}' | websocat -n '{url}'"),
    ]
}

fn path(adapter: &Arc<dyn Adapter>) -> &'static str {
    adapter.facts().name.as_str()
}

fn head(sheet: &Sheet, options: &str, adapter: &Arc<dyn Adapter>) -> String {
    match adapter.probe() {
        Probe::Rpc { method, params } => {
            curl(sheet, options, path(adapter), &call(adapter, 1, method, params))
        }
        Probe::Rest { target, body: Some(body) } => {
            curl(sheet, options, &format!("{}{target}", path(adapter)), body)
        }
        Probe::Rest { target, body: None } => {
            let gateway = &sheet.gateway;
            let chain = path(adapter);
            let key = &sheet.api_key;
            format!("curl {options} {gateway}/{chain}{target} -H 'apikey: {key}'")
        }
    }
}

/// Returns a call in the form that clients of the chain write.
fn call(adapter: &Arc<dyn Adapter>, id: u32, method: &str, params: &str) -> String {
    let params = if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
    match adapter.facts().dialect.version() {
        Some(version) => format!(r#"{{"jsonrpc":{version},"id":{id},"method":"{method}"{params}}}"#),
        None => format!(r#"{{"method":"{method}"{params}}}"#),
    }
}

fn curl(sheet: &Sheet, options: &str, chain: &str, body: &str) -> String {
    format!("curl {options} {}/{chain} -H 'apikey: {}' -d '{body}'", sheet.gateway, sheet.api_key)
}

#[cfg(test)]
mod tests {
    use super::super::login::SignedIn;
    use super::*;

    fn sheet(chains: &[&str]) -> Sheet {
        Sheet {
            gateway: "http://127.0.0.1:8080".into(),
            ws: "ws://127.0.0.1:8080".into(),
            streams: chains.iter().map(|chain| (*chain).to_owned()).collect(),
            grpc: Some("https://127.0.0.1:8443".into()),
            grpc_ca: Some("/a demo/ca.pem".into()),
            admin: "http://127.0.0.1:8081".into(),
            dashboard: "http://localhost:8081".into(),
            owner: SignedIn { email: "a@h".into(), password: "secret".into() },
            operator: SignedIn { email: "b@h".into(), password: "secret".into() },
            outbox: None,
            tenant_id: "t".into(),
            project_id: "p".into(),
            key_id: "k".into(),
            api_key: "rpcg_x".into(),
            nodes: chains.iter().map(|chain| ((*chain).to_owned(), "http://u:secret@h".to_owned())).collect(),
        }
    }

    #[test]
    fn only_served_chains_have_a_line() {
        let all: Vec<_> = rpcgate_chains::catalog().map(|adapter| path(&adapter)).collect();
        let text = super::text(&sheet(&all), "free", Path::new("d/demo.json"));
        for adapter in rpcgate_chains::catalog() {
            let chain = path(&adapter);
            let has_line = text.lines().any(|line| {
                line.strip_prefix(&format!("curl -s http://127.0.0.1:8080/{chain}"))
                    .is_some_and(|rest| rest.contains(" -H 'apikey: rpcg_x'"))
            });
            assert_eq!(has_line, adapter.facts().https, "{chain}: {text}");
        }
        assert!(
            text.lines().count() < 50 && text.contains("plan: free") && text.contains("d/demo.json"),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
        assert!(text.contains(
            "API is at http://127.0.0.1:8081, a browser of it at http://127.0.0.1:8081/swagger/.\n\
                 The dashboard is at http://localhost:8081/: log in as the user in d/demo.json."
        ));
        assert!(!text.contains("Mails"), "a server takes them: {text}");
        let text =
            super::text(&Sheet { outbox: Some("d/outbox".into()), ..sheet(&[]) }, "free", Path::new("d"));
        assert!(text.contains("\nMails are written as files to d/outbox.\n"), "{text}");
        let text = super::text(&sheet(&["btc"]), "free", Path::new("d"));
        assert!(
            text.contains("8080/btc") && !text.contains("8080/eth") && text.contains("serves 1 chain at"),
            "{text}"
        );
    }

    #[test]
    fn without_chains_there_is_nothing_to_paste() {
        assert!(!super::text(&sheet(&[]), "free", Path::new("d")).contains("curl"));
    }

    // Shows (Commands and configuration).
    #[test]
    fn a_stream_has_a_line_for_each_client_if_there_is_one() {
        let text = super::text(&sheet(&["eth"]), "free", Path::new("d"));
        let url = "'ws://127.0.0.1:8080/ws/eth?apikey=rpcg_x'";
        assert!(text.contains(&format!("\nwscat -c {url} -w 60 -x '{SUBSCRIPTION}'\n")), "{text}");
        assert!(text.contains(&format!("\necho '{SUBSCRIPTION}' | websocat -n {url}\n")), "{text}");
        let without = Sheet { streams: vec!["xrp".into()], ..sheet(&["eth", "xrp"]) };
        assert!(!super::text(&without, "free", Path::new("d")).contains("/ws/"));
    }

    #[test]
    fn a_chain_with_grpc_has_a_line_for_it() {
        let lines = |sheet: &Sheet| {
            let text = super::text(sheet, "free", Path::new("d/demo.json"));
            text.lines().filter(|line| line.starts_with("grpcurl")).map(str::to_owned).collect::<Vec<_>>()
        };
        let mut sheet = sheet(&["eth", "cosmos", "tron"]);
        let start = "grpcurl -cacert '/a demo/ca.pem' -protoset d/";
        assert_eq!(
            lines(&sheet),
            [
                format!(
                    "{start}tron.protoset -H 'apikey: rpcg_x' 127.0.0.1:8443 protocol.Wallet/GetNowBlock"
                ),
                format!(
                    "{start}cosmos.protoset -H 'apikey: rpcg_x' -d '{{\"denom\":\"uatom\"}}' 127.0.0.1:8443 \
                     cosmos.bank.v1beta1.Query/SupplyOf"
                ),
            ]
        );
        sheet.grpc_ca = None;
        assert!(lines(&sheet)[0].starts_with("grpcurl -protoset "));
        sheet.grpc = None;
        assert!(lines(&sheet).is_empty());
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
