//! The demo from the view of its user: started, called through its gateway, stopped, started again.

mod account;
mod grpc;
mod management;
mod process;
mod usage;

use super::*;
use crate::journal::JournalError;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rpcgate_core::clock::{ManualClock, Time};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;

const NOW: Time = Time::from_secs(1_800_000_000);

fn options(dir: &Path) -> DemoOptions {
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    DemoOptions {
        dir: dir.to_owned(),
        gateway: free,
        admin: free,
        grpc: free,
        nodes: Vec::new(),
        plan: None,
        config: None,
        webhook_echo: None,
        otlp: None,
    }
}

fn with_file(options: DemoOptions, home: &tempfile::TempDir, text: &str) -> DemoOptions {
    let file = home.path().join("rpcgate.toml");
    std::fs::write(&file, text).unwrap();
    DemoOptions { config: Some(file), ..options }
}

async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), wait).await.is_ok(), "never happened: {what}");
}

async fn start(options: &DemoOptions) -> Demo {
    start_at(options, Arc::new(ManualClock::at(NOW))).await
}

async fn start_at(options: &DemoOptions, clock: Arc<ManualClock>) -> Demo {
    let mut started = None;
    until("it starts", async || {
        let start = StartOptions { clock: clock.clone(), ..StartOptions::default() };
        let demo = async { Prepared::new(options).await?.start(start).await };
        started = match demo.await {
            Ok(demo) => Some(demo),
            // A dropped demo is about to release its lock. A process that another test starts may also hold it for a
            // moment.
            Err(
                DemoError::Start(StartError::Journal(JournalError::InUse { .. }))
                | DemoError::Dir(DirError::InUse { .. }),
            ) => None,
            Err(error) => panic!("{error}"),
        };
        started.is_some()
    })
    .await;
    started.unwrap()
}

fn sheet(demo: &Demo) -> Value {
    serde_json::from_str(&std::fs::read_to_string(demo.file()).unwrap()).unwrap()
}

async fn post(url: &str, headers: &[(String, String)], body: &str) -> http::Response<Value> {
    try_post(url, headers, body).await.unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// Like [`post`], where the server may be gone.
async fn try_post(
    url: &str,
    headers: &[(String, String)],
    body: &str,
) -> Result<http::Response<Value>, Box<dyn std::error::Error + Send + Sync>> {
    send("POST", url, headers, body).await
}

async fn send(
    verb: &str,
    url: &str,
    headers: &[(String, String)],
    body: &str,
) -> Result<http::Response<Value>, Box<dyn std::error::Error + Send + Sync>> {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap_or((&url[7..], ""));
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let mut request = http::Request::builder().method(verb).uri(format!("/{path}")).header("host", address);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(bytes::Bytes::from(body.to_owned())))?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    driver.abort();
    let value = serde_json::from_slice(&body).map_err(|error| format!("{error}: {body:?}"))?;
    Ok(http::Response::from_parts(head, value))
}

async fn ask(demo: &Demo, chain: &str, body: &Value) -> Value {
    ask_as(demo, sheet(demo)["api_key"].as_str().unwrap(), chain, &body.to_string()).await.into_body()
}

/// Calls as the holder of `key`.
async fn ask_as(demo: &Demo, key: &str, chain: &str, body: &str) -> http::Response<Value> {
    let url = format!("http://{}/{chain}", demo.addr());
    post(&url, &[("apikey".to_owned(), key.to_owned())], body).await
}

fn call(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// Splits a printed line into words as a shell does, without single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match (letter, words.last_mut()) {
            ('\'', _) => quoted = !quoted,
            (' ', _) if !quoted => words.push(String::new()),
            (letter, Some(word)) => word.push(letter),
            (_, None) => {}
        }
    }
    assert!(!quoted, "{line}");
    words
}

/// Returns the number of chains that are served over HTTP.
fn served() -> usize {
    rpcgate_chains::catalog().filter(|adapter| adapter.facts().https).count()
}

#[tokio::test]
async fn every_printed_line_is_answered_with_a_result() {
    let home = tempfile::tempdir().unwrap();
    let demo = start(&options(home.path())).await;
    let welcome = demo.welcome();
    let lines: Vec<_> = welcome.lines().filter(|line| line.starts_with("curl ")).collect();
    assert!(lines.len() >= served() + 3, "{welcome}");
    for line in lines {
        let words = words(line);
        let after = |flag: &str| words.iter().skip_while(|word| *word != flag).nth(1);
        let (name, value) = after("-H").expect(line).split_once(": ").expect(line);
        let url = words.iter().find(|word| word.starts_with("http://")).expect(line);
        let verb = if after("-d").is_some() { "POST" } else { "GET" };
        let headers = [(name.to_owned(), value.to_owned())];
        let answer = send(verb, url, &headers, after("-d").map_or("", String::as_str)).await.expect(line);
        assert_eq!(answer.status(), 200, "{line}");
        assert!(answer.headers().contains_key("x-ratelimit-remaining-minute"), "{line}");
        let items = match answer.into_body() {
            Value::Array(items) => items,
            one => vec![one],
        };
        for item in items {
            // REST chains have no `result`.
            assert!(item.is_object() && item["error"].is_null(), "{line}: {item}");
            assert!(item.get("result").is_none_or(|result| !result.is_null()), "{line}: {item}");
        }
    }
    assert_eq!(demo.stop().await, Drained { cut: 0 });
}

// Shows (Commands and configuration): The demo's second start has the same key, ids, usage and blocks; its plan stays
// until another is set.
#[tokio::test]
async fn a_second_start_has_the_same_key_ids_and_blocks() {
    let home = tempfile::tempdir().unwrap();
    let block = call("eth_getBlockByNumber", &json!(["latest", true]));
    let tip = call("getbestblockhash", &json!([]));
    let mut seen = Vec::new();
    for _ in 0..2 {
        let demo = start(&options(home.path())).await;
        let mut sheet = sheet(&demo);
        let blocks = (ask(&demo, "eth", &block).await, ask(&demo, "btc", &tip).await);
        assert!(blocks.0["result"]["hash"].is_string() && blocks.1["result"].is_string(), "{blocks:?}");
        let file = demo.file();
        demo.stop().await;
        assert!(file.exists());
        for changing in ["gateway", "ws", "grpc", "admin", "dashboard", "nodes"] {
            sheet[changing] = Value::Null;
        }
        seen.push((sheet, blocks));
    }
    assert_eq!(seen[0], seen[1]);

    let other = tempfile::tempdir().unwrap();
    let demo = start(&options(other.path())).await;
    assert_ne!(ask(&demo, "eth", &block).await["result"]["hash"], seen[0].1.0["result"]["hash"]);
    assert_ne!(sheet(&demo)["api_key"], seen[0].0["api_key"]);
}

#[tokio::test]
async fn demo_json_has_the_address_of_everything() {
    let home = tempfile::tempdir().unwrap();
    let demo = start(&options(home.path())).await;
    let sheet = sheet(&demo);
    assert_eq!(sheet["gateway"], format!("http://{}", demo.addr()));
    assert_eq!(demo.file(), home.path().join("demo.json"));
    let nodes = sheet["nodes"].as_object().unwrap();
    assert_eq!(nodes.len(), rpcgate_chains::catalog().count());
    // The URL of a node is the node's own: no key, no rate headers.
    let answer =
        post(nodes["eth"].as_str().unwrap(), &[], &call("eth_chainId", &json!([])).to_string()).await;
    assert!(!answer.headers().contains_key("x-ratelimit-remaining-minute"));
    assert_eq!(answer.body()["result"], "0x1");
}

// Shows (Commands and configuration): The demo serves the streams of eight chains from simulated nodes, or from a real
// one with `--node CHAIN.ws=URL`.
#[tokio::test]
async fn every_stream_is_served_from_its_simulated_node() {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::Message;
    let home = tempfile::tempdir().unwrap();
    let demo = start(&options(home.path())).await;
    let ws = sheet(&demo)["ws"].clone();
    let key = sheet(&demo)["api_key"].clone();
    let streams = rpcgate_chains::catalog().filter(|adapter| adapter.facts().ws);
    for chain in streams.map(|adapter| adapter.facts().name.as_str()) {
        let (call, answer) = match chain {
            "xrp" => (json!({ "id": 1, "command": "ledger_current" }), "/result/ledger_current_index"),
            "cosmos" => (call("status", &json!({})), "/result/sync_info/latest_block_height"),
            "cardano" => (call("findIntersection", &json!({ "points": ["origin"] })), "/result/tip/height"),
            "solana" => (call("slotSubscribe", &json!([])), "/result"),
            _ => (call("eth_subscribe", &json!(["newHeads"])), "/result"),
        };
        let url = format!("{}/ws/{chain}?apikey={}", ws.as_str().unwrap(), key.as_str().unwrap());
        let (mut stream, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        stream.send(Message::text(call.to_string())).await.unwrap();
        let message = stream.next().await.unwrap().unwrap();
        let answered: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        assert!(answered.pointer(answer).is_some_and(|value| !value.is_null()), "{chain}: {answered}");
    }
}

// Shows (Commands and configuration): `demo.json` exists only once the demo is ready.
#[tokio::test]
async fn demo_json_exists_only_once_the_demo_is_ready() {
    let home = tempfile::tempdir().unwrap();
    start(&options(home.path())).await.stop().await;
    let file = home.path().join(FILE);
    assert!(file.exists(), "it stays when the demo stops");

    // The usage database cannot be opened temporarily.
    let database = home.path().join("rpcgate-usage.db");
    let aside = home.path().join("aside");
    std::fs::rename(&database, &aside).unwrap();
    std::fs::create_dir(&database).unwrap();
    // Below the ports that the system gives to the connections of other tests.
    let mut addrs = (20_000..32_000).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let gateway = addrs.find(|addr| std::net::TcpListener::bind(addr).is_ok()).unwrap();
    let prepared = Prepared::new(&DemoOptions { gateway, ..options(home.path()) }).await.unwrap();
    assert!(!file.exists(), "the last start's would mislead");
    let starting = tokio::spawn(prepared.start(StartOptions::default()));
    until("it accepts", async || TcpStream::connect(gateway).await.is_ok()).await;
    let body = call("eth_chainId", &json!([])).to_string();
    let key = ("apikey".to_owned(), DemoState::read(&kept(&home)).unwrap().api_key);
    let answer = post(&format!("http://{gateway}/eth"), std::slice::from_ref(&key), &body).await;
    assert_eq!(answer.status(), 503, "{answer:?}");
    assert!(!file.exists() && !starting.is_finished());

    std::fs::remove_dir(&database).unwrap();
    std::fs::rename(&aside, &database).unwrap();
    until("it is ready", async || file.exists()).await;
    let answer = post(&format!("http://{gateway}/eth"), &[key], &body).await;
    assert_eq!((answer.status().as_u16(), &answer.body()["result"]), (200, &json!("0x1")));
    starting.await.unwrap().unwrap().stop().await;
}

fn kept(home: &tempfile::TempDir) -> String {
    std::fs::read_to_string(home.path().join("state.json")).unwrap()
}

#[tokio::test]
async fn a_real_node_replaces_the_simulated_one() {
    let elsewhere = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let real = start(&options(elsewhere.path())).await;
    let url = sheet(&real)["nodes"]["eth"].as_str().unwrap().to_owned();
    let with_login = url.replace("http://", "http://us%3Aer:pass%2Fword@");
    let node = ("eth".to_owned(), "url".to_owned(), with_login.clone());
    let demo = start(&DemoOptions { nodes: vec![node], ..options(home.path()) }).await;
    let latest = call("eth_getBlockByNumber", &json!(["latest", false]));
    let both = (ask(&demo, "eth", &latest).await, ask(&real, "eth", &latest).await);
    assert!(both.0["result"]["hash"].is_string());
    assert_eq!(both.0, both.1);
    assert_eq!(sheet(&demo)["nodes"]["eth"], with_login);
    assert!(!demo.welcome().contains("pass"));
    let tip = call("getbestblockhash", &json!([]));
    assert_ne!(ask(&demo, "btc", &tip).await["result"], ask(&real, "btc", &tip).await["result"]);
}

/// Calls a chain's node without the gateway and its cache.
async fn node(demo: &Demo, chain: &str, method: &str, params: Value) -> Value {
    let url = sheet(demo)["nodes"][chain].as_str().unwrap().to_owned();
    let mut answer = post(&url, &[], &call(method, &params).to_string()).await.into_body();
    assert!(answer["error"].is_null(), "{chain} {method}: {answer}");
    answer["result"].take()
}

/// Builds a payment from the coinbase of block `height`, without a valid signature.
async fn payment(demo: &Demo, chain: &str, height: u64) -> String {
    let hash = node(demo, chain, "getblockhash", json!([height])).await;
    let txid = node(demo, chain, "getblock", json!([hash])).await["tx"][0].as_str().unwrap().to_owned();
    let made = node(demo, chain, "getrawtransaction", json!([txid, true])).await;
    let value = (made["vout"][0]["value"].as_f64().unwrap() * 1e8).round() as u64;
    // A hash is shown in reverse byte order.
    let bytes: Vec<_> = txid.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap()).collect();
    let source: String = bytes.into_iter().rev().collect();
    let to_le = |bytes: [u8; 8]| bytes.map(|byte| format!("{byte:02x}")).concat();
    let script = format!("1976a914{}88ac", "05".repeat(20));
    let open = |value: u64| to_le(value.to_le_bytes());
    if chain != "liquid" {
        return format!("0200000001{source}000000000151ffffffff01{}{script}00000000", open(value - 20_000));
    }
    // Elements: a flag for witnesses, an asset and a marked big-endian value, a separate fee, nothing hidden.
    let asset = made["vout"][0]["asset"].as_str().unwrap();
    let asset: Vec<_> = asset.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap()).collect();
    let asset: String = asset.into_iter().rev().collect();
    let output = |value: u64, script: &str| format!("01{asset}01{value:016x}00{script}");
    let outputs = [output(value - 20_000, &script), output(20_000, "00")].concat();
    format!("020000000001{source}000000000151ffffffff02{outputs}00000000")
}

#[tokio::test]
async fn a_restart_keeps_submissions_on_utxo_chains() {
    let home = tempfile::tempdir().unwrap();
    let options = options(home.path());
    let clock = Arc::new(ManualClock::at(NOW));
    let demo = start_at(&options, clock.clone()).await;
    let mut sent = Vec::new();
    for chain in ["btc", "doge", "liquid"] {
        let head = node(&demo, chain, "getblockcount", json!([])).await.as_u64().unwrap();
        let old = (head - 150) / 4 * 4 + 3;
        let raw = payment(&demo, chain, old).await;
        let settled = ask(&demo, chain, &call("sendrawtransaction", &json!([raw]))).await["result"].take();
        assert!(settled.is_string(), "{chain}");
        sent.push((chain, head, settled, payment(&demo, chain, old - 4).await));
    }
    clock.advance(Duration::from_secs(40));
    let mut before = Vec::new();
    for (chain, head, settled, raw) in &sent {
        let waiting = node(&demo, chain, "sendrawtransaction", json!([raw])).await;
        before.push(seen(&demo, chain, *head, settled, &waiting).await);
    }
    demo.stop().await;

    let demo = start_at(&options, clock.clone()).await;
    let mut later = Vec::new();
    for ((chain, head, settled, _), before) in sent.iter().zip(&before) {
        let waiting = &before[0][0];
        assert_eq!(seen(&demo, chain, *head, settled, waiting).await, *before, "{chain}");
        assert_eq!(before[1]["blockhash"], before[4], "{chain}: it stands in the block after its moment");
    }
    // A pending transaction enters the block that it would have entered.
    clock.advance(Duration::from_secs(400_000));
    for ((chain, ..), before) in sent.iter().zip(&before) {
        let waiting = &before[0][0];
        later.push(node(&demo, chain, "getrawtransaction", json!([waiting, true])).await);
    }
    demo.stop().await;
    let demo = start_at(&options, clock.clone()).await;
    for (((chain, ..), before), later) in sent.iter().zip(&before).zip(later) {
        let waiting = &before[0][0];
        let next = before[3]["height"].as_u64().unwrap() + 1;
        let hash = node(&demo, chain, "getblockhash", json!([next])).await;
        assert_eq!(later["blockhash"], hash, "{chain}");
        assert_eq!(node(&demo, chain, "getrawtransaction", json!([waiting, true])).await, later, "{chain}");
    }
}

/// Returns a user's view of a UTXO chain on which one transaction was submitted at height `since` and another waits.
async fn seen(demo: &Demo, chain: &str, since: u64, settled: &Value, waiting: &Value) -> Vec<Value> {
    let tip = node(demo, chain, "getbestblockhash", json!([])).await;
    let mut seen = vec![
        node(demo, chain, "getrawmempool", json!([])).await,
        node(demo, chain, "getrawtransaction", json!([settled, true])).await,
        node(demo, chain, "getmempoolentry", json!([waiting])).await,
        node(demo, chain, "getblockheader", json!([tip])).await,
    ];
    assert_eq!(seen[0], json!([waiting]), "{chain}");
    for height in since + 1..=seen[3]["height"].as_u64().unwrap() {
        seen.push(node(demo, chain, "getblockhash", json!([height])).await);
    }
    assert!(seen.len() > 10, "{chain}");
    seen
}

const SIGNED: &str = include_str!("../../../rpcgate-chains/simulate/golden/transactions.json");
const SENDER: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";

#[tokio::test]
async fn a_restart_keeps_submissions_on_eth_and_drops_a_truncated_line() {
    let home = tempfile::tempdir().unwrap();
    let options = options(home.path());
    let clock = Arc::new(ManualClock::at(NOW));
    let signed: Value = serde_json::from_str(SIGNED).unwrap();
    let demo = start_at(&options, clock.clone()).await;
    let send = |name: &str| call("eth_sendRawTransaction", &json!([signed["eth"][name]["raw"]]));
    let batch = json!([send("dynamic"), send("token"), send("token"), send("foreign")]);
    let answers = ask(&demo, "eth", &batch).await;
    assert!(answers[1]["result"].is_string() && answers[3]["error"].is_object(), "{answers}");
    clock.advance(Duration::from_secs(30));
    for name in ["legacy", "gap"] {
        assert_eq!(ask(&demo, "eth", &send(name)).await["result"], signed["eth"][name]["hash"], "{name}");
    }
    let look = async |demo: &Demo| {
        let mut seen = Vec::new();
        for (method, params) in [
            ("eth_getTransactionReceipt", json!([signed["eth"]["dynamic"]["hash"]])),
            ("eth_getTransactionReceipt", json!([signed["eth"]["token"]["hash"]])),
            ("eth_getBalance", json!([SENDER, "latest"])),
            ("eth_getTransactionCount", json!([SENDER, "pending"])),
            ("txpool_content", json!([])),
            ("eth_getBlockByNumber", json!(["latest", true])),
        ] {
            seen.push(node(demo, "eth", method, params).await);
        }
        for back in 1..8 {
            let height = seen[5]["number"].as_str().unwrap().trim_start_matches("0x");
            let height = format!("{:#x}", u64::from_str_radix(height, 16).unwrap() - back);
            seen.push(node(demo, "eth", "eth_getBlockByNumber", json!([height, true])).await);
        }
        seen
    };
    let before = look(&demo).await;
    assert_eq!((&before[0]["status"], &before[1]["status"]), (&json!("0x1"), &json!("0x1")));
    let pending = before[4]["pending"].as_object().unwrap().values().next().unwrap();
    assert_eq!(pending.as_object().unwrap().len(), 2, "{pending}");
    demo.stop().await;

    let file = home.path().join("eth.submissions");
    let whole = std::fs::read_to_string(&file).unwrap();
    assert_eq!(whole.lines().count(), 5, "a seed and the accepted submissions only: {whole}");
    std::fs::write(&file, format!("{whole}18000000310")).unwrap();
    let demo = start_at(&options, clock.clone()).await;
    assert_eq!(look(&demo).await, before);
    clock.advance(Duration::from_secs(30));
    let access = ask(&demo, "eth", &send("access")).await;
    assert!(access["result"].is_string(), "{access}");
    clock.advance(Duration::from_secs(30));
    let later = look(&demo).await;
    assert_ne!(later[2], before[2], "what waited has been paid");
    drop(demo);
    let demo = start_at(&options, clock.clone()).await;
    assert_eq!(look(&demo).await, later);
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 6);
}

#[tokio::test]
async fn a_file_of_submissions_that_no_demo_wrote_is_reported() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("btc.submissions"), "0200000001\n").unwrap();
    let prepared = Prepared::new(&options(home.path())).await.unwrap();
    let failure = Failure::from(prepared.start(StartOptions::default()).await.unwrap_err());
    assert_eq!(failure.code(), 1);
    assert!(failure.to_string().contains("btc.submissions: line 1: no seed"), "{failure}");
}

#[tokio::test]
async fn a_folder_in_use_is_refused_and_unchanged() {
    let home = tempfile::tempdir().unwrap();
    let demo = start(&options(home.path())).await;
    let before = sheet(&demo);
    let failure = Failure::from(Prepared::new(&options(home.path())).await.unwrap_err());
    let code = failure.code();
    let text = failure.to_string();
    assert_eq!(code, 1);
    assert!(
        text.contains("in use by another demo") && text.contains(&std::process::id().to_string()),
        "{text}"
    );
    assert_eq!(sheet(&demo), before);
    assert!(ask(&demo, "eth", &call("eth_chainId", &json!([]))).await["result"].is_string());
}

#[tokio::test]
async fn an_error_names_the_option_with_the_unusable_value() {
    let home = tempfile::tempdir().unwrap();
    let node = ("btc".to_owned(), "url".to_owned(), "http://u:secret@h:0".to_owned());
    let failure = Failure::from(
        Prepared::new(&DemoOptions { nodes: vec![node], ..options(home.path()) }).await.unwrap_err(),
    );
    assert_eq!((failure.code(), failure.to_string().contains("secret")), (2, false));
    assert!(failure.to_string().starts_with("--node btc: the URL has a port"), "{failure}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gateway = taken.local_addr().unwrap();
    let prepared = Prepared::new(&DemoOptions { gateway, ..options(home.path()) }).await.unwrap();
    let failure = Failure::from(prepared.start(StartOptions::default()).await.unwrap_err());
    let text = failure.to_string();
    assert!(text.contains(&gateway.to_string()) && text.contains("--gateway"), "{text}");
    assert_eq!(failure.code(), 1);
    assert!(!home.path().join("demo.json").exists(), "nothing is ready");
    // Nothing is left running that would obstruct the next demo.
    let prepared = Prepared::new(&options(home.path())).await.unwrap();
    prepared.start(StartOptions::default()).await.unwrap().stop().await;
}
