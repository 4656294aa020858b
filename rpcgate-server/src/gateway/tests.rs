use super::*;
use crate::command::{check, run};
use rpcgate_config::{LogFormat, Setting};
use rpcgate_core::backend::counters::MemoryCounters;
use rpcgate_core::clock::Clock;
use rpcgate_process::load;
use rpcgate_process::testing::CapturedLog;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub(crate) const KEY: &str = "rpcg_ABCDEFGsecretsecretsecret";
const OTHER: &str = "rpcg_HIJKLMNsecretsecretsecret";

/// A node of Ethereum that answers `"0x10"` to every call, except that a call named `held` waits for a permit.
pub(crate) struct Node {
    pub(crate) addr: SocketAddr,
    permits: Arc<Semaphore>,
    asked: Arc<Semaphore>,
}

impl Node {
    pub(crate) async fn start() -> Node {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let node = Node { addr, permits: Arc::new(Semaphore::new(0)), asked: Arc::new(Semaphore::new(0)) };
        let permits = node.permits.clone();
        let asked = node.asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_all(stream, permits.clone(), asked.clone()));
            }
        });
        node
    }
}

async fn answer_all(mut stream: TcpStream, permits: Arc<Semaphore>, asked: Arc<Semaphore>) {
    let mut text = Vec::new();
    while stream.read_buf(&mut text).await.is_ok_and(|read| read > 0) {
        let got = String::from_utf8_lossy(&text).into_owned();
        let Some((_, body)) = got.split_once("\r\n\r\n") else { continue };
        if !body.ends_with('}') {
            continue;
        }
        if body.contains("held") {
            asked.add_permits(1);
            permits.acquire().await.unwrap().forget();
        }
        let result = if body.contains("eth_chainId") { "0x1" } else { "0x10" };
        let answer = format!(r#"{{"jsonrpc":"2.0","result":"{result}"}}"#);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
        stream.write_all(format!("{head}{answer}").as_bytes()).await.unwrap();
        text.clear();
    }
}

struct Fixture {
    node: Node,
    file: PathBuf,
    dir: tempfile::TempDir,
    gateway: Gateway,
}

fn config(file: &Path) -> Config {
    load(Some(file), &[], &[Setting::new("--gateway", "gateway.listen", "127.0.0.1:0")]).unwrap()
}

impl Fixture {
    async fn new(more: &str) -> Fixture {
        let node = Node::start().await;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.toml");
        std::fs::write(&file, text(&node, more)).unwrap();
        let gateway = Gateway::start(config(&file), StartOptions::default()).await.unwrap();
        Fixture { node, file, dir, gateway }
    }

    fn reload(&self, more: &str) {
        std::fs::write(&self.file, text(&self.node, more)).unwrap();
        run::reload(&self.gateway, &self.file);
    }

    async fn send(&self, request: &str) -> String {
        send(self.gateway.addr(), request).await
    }

    async fn call(&self, key: &str, method: &str) -> String {
        self.send(&post("/eth", key, method)).await
    }
}

fn text(node: &Node, more: &str) -> String {
    format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\n[tenants.default]\nplan = \"enterprise\"\n[keys.k]\nkey = {KEY:?}\n\
         [chains.eth]\nnodes = [\"http://{}\"]\n{more}",
        node.addr
    )
}

pub(crate) fn post(path: &str, key: &str, method: &str) -> String {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":[]}}"#);
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\napikey: {key}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends a request over its own connection.
pub(crate) async fn send(addr: SocketAddr, request: &str) -> String {
    let mut client = TcpStream::connect(addr).await.unwrap();
    client.write_all(request.as_bytes()).await.unwrap();
    read(&mut client).await
}

pub(crate) async fn read(client: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // A reset connection counts as closed.
    let _ = client.read_to_end(&mut text).await;
    String::from_utf8_lossy(&text).into_owned()
}

pub(crate) fn is_served(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(r#""result":"0x10"}"#)
}

pub(crate) fn units(answer: &str) -> &str {
    answer.split("x-compute-units: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap_or("none")
}

#[tokio::test]
async fn a_call_goes_to_its_node_and_comes_back() {
    let fixture = Fixture::new("").await;
    assert!(fixture.gateway.ready());
    let answer = fixture.call(KEY, "some_method").await;
    assert!(is_served(&answer), "{answer}");
    assert!(fixture.call("unknown", "some_method").await.starts_with("HTTP/1.1 401 "));
    let answer = fixture.send(&post("/btc", KEY, "getblockcount")).await;
    assert!(answer.contains("chain not available at this location"), "{answer}");
}

// Shows (Routes and bodies): A head that cannot be parsed gets the gateway's error text; `Content-Length` together with
// `Transfer-Encoding` is 400 and ends the connection, except in bytes sent before the answer to an earlier request.
#[tokio::test]
async fn heads_above_the_limits_are_refused_with_a_message() {
    let fixture = Fixture::new("").await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(9 << 10));
    let large = format!("POST /eth HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(17 << 10));
    for (request, status, words) in
        [(long, "414", "URI too long"), (large, "431", "request headers too large")]
    {
        let answer = fixture.send(&request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.ends_with(&format!("{{\"message\":\"{words}\"}}")), "{answer}");
    }
    let many = |count| (0..count).map(|n| format!("x-{n}: y\r\n")).collect::<String>();
    // Hyper itself refuses the second one.
    for count in [101, 500] {
        let answer = fixture.send(&format!("POST /eth HTTP/1.1\r\nhost: x\r\n{}\r\n", many(count))).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
        assert!(answer.ends_with("{\"message\":\"request headers too large\"}"), "{answer}");
    }
    for strange in ["POST /eth\r\n\r\n", "POST /eth HTTP/1.1\r\nx y\r\n\r\n", "\0\r\n\r\n"] {
        let answer = fixture.send(strange).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{strange}: {answer}");
        assert!(answer.ends_with("{\"message\":\"bad request\"}"), "{answer}");
    }
}

// Shows (Routes and bodies).
#[tokio::test]
async fn a_request_with_two_different_lengths_is_refused_and_ends_its_connection() {
    let fixture = Fixture::new("").await;
    let lines = ["content-length: 4", "Transfer-Encoding: chunked"];
    for [one, other] in [lines, [lines[1], lines[0]]] {
        let request = format!(
            "POST /eth HTTP/1.1\r\nhost: x\r\napikey: {KEY}\r\n{one}\r\n{other}\r\n\r\n0\r\n\r\n{}",
            post("/eth", KEY, "some_method")
        );
        let answer = fixture.send(&request).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "what follows is not answered: {answer}");
    }
    // The longest permitted head, with the length last.
    let path = "x".repeat(8_000);
    let long = "y".repeat(15_000);
    let request =
        format!("POST /{path} HTTP/1.1\r\nhost: x\r\nx: {long}\r\n{}\r\n{}\r\n\r\n", lines[1], lines[0]);
    let answer = fixture.send(&request).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("bad request"), "{answer}");
    assert!(is_served(&fixture.call(KEY, "some_method").await));
}

#[tokio::test]
async fn an_encoded_request_right_behind_one_with_a_length_is_served() {
    let fixture = Fixture::new("").await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"some_method"}"#;
    let head = format!("POST /eth HTTP/1.1\r\nhost: x\r\napikey: {KEY}\r\nconnection: close\r\n");
    let encoded = format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{call}\r\n0\r\n\r\n", call.len());
    let before = post("/eth", KEY, "some_method").replace("connection: close\r\n", "");
    let answers = fixture.send(&(before + &encoded)).await;
    assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 2, "{answers}");
}

#[tokio::test]
async fn a_drain_finishes_the_call_in_flight_and_accepts_no_connection() {
    let fixture = Fixture::new("").await;
    let mut client = TcpStream::connect(fixture.gateway.addr()).await.unwrap();
    client.write_all(post("/eth", KEY, "held").as_bytes()).await.unwrap();
    fixture.node.asked.acquire().await.unwrap().forget();
    let drain = async {
        let drained = fixture.gateway.drain().await;
        assert_eq!(drained, Drained { cut: 0 });
    };
    let rest = async {
        while fixture.gateway.ready() {
            tokio::task::yield_now().await;
        }
        while TcpStream::connect(fixture.gateway.addr()).await.is_ok() {
            tokio::task::yield_now().await;
        }
        fixture.node.permits.add_permits(1);
        let answer = read(&mut client).await;
        assert!(is_served(&answer), "{answer}");
    };
    tokio::join!(drain, rest);
    assert_eq!(fixture.gateway.connections(), 0);
}

#[tokio::test]
async fn a_call_beyond_the_grace_is_cut() {
    let fixture = Fixture::new("[shutdown]\ngrace = \"1ms\"\n").await;
    let mut client = TcpStream::connect(fixture.gateway.addr()).await.unwrap();
    client.write_all(post("/eth", KEY, "held").as_bytes()).await.unwrap();
    fixture.node.asked.acquire().await.unwrap().forget();
    assert_eq!(fixture.gateway.drain().await, Drained { cut: 1 });
    assert_eq!(read(&mut client).await, "");
}

#[tokio::test]
async fn a_reload_changes_keys_weights_and_chains_at_once() {
    let fixture = Fixture::new("").await;
    let mut kept = TcpStream::connect(fixture.gateway.addr()).await.unwrap();
    assert_eq!(units(&fixture.call(KEY, "some_method").await), "1");
    fixture.reload(&format!("cu = {{ some_method = 7 }}\n[keys.other]\nkey = {OTHER:?}\n"));
    assert_eq!(units(&fixture.call(KEY, "some_method").await), "7");
    assert!(is_served(&fixture.call(OTHER, "some_method").await));
    fixture.reload("enabled = false\n");
    assert!(fixture.call(OTHER, "some_method").await.starts_with("HTTP/1.1 401 "));
    assert!(fixture.call(KEY, "some_method").await.contains("chain not available"));
    fixture.reload("");
    kept.write_all(post("/eth", KEY, "some_method").as_bytes()).await.unwrap();
    let answer = read(&mut kept).await;
    assert!(is_served(&answer), "a connection survives it: {answer}");
}

#[tokio::test]
async fn an_invalid_file_changes_nothing_and_the_log_has_the_reason() {
    let lines = CapturedLog::default();
    let _listening = lines.capture("info", LogFormat::Json);
    let fixture = Fixture::new("cu = { some_method = 7 }\n").await;
    fixture.reload("cu = { some_method = 8 }\nno_such_key = 1\n");
    assert_eq!(units(&fixture.call(KEY, "some_method").await), "7");
    assert!(lines.text().contains("unknown key chains.eth.no_such_key"), "{}", lines.text());
    std::fs::remove_file(&fixture.file).unwrap();
    run::reload(&fixture.gateway, &fixture.file);
    assert!(lines.text().contains("cannot be read"), "{}", lines.text());
    assert!(is_served(&fixture.call(KEY, "some_method").await));
}

#[tokio::test]
async fn a_reload_lists_the_settings_that_need_a_restart() {
    let fixture = Fixture::new("").await;
    let mut config = config(&fixture.file);
    assert_eq!(fixture.gateway.reload(config.clone()).unwrap(), Vec::<&str>::new());
    config.gateway.limits.body = 1 << 20;
    config.cache.bytes = 0;
    config.shutdown.grace = Duration::ZERO;
    for _ in 0..2 {
        assert_eq!(fixture.gateway.reload(config.clone()).unwrap(), ["gateway", "cache"]);
    }
    assert_eq!(fixture.gateway.reloadable.grace(), Duration::ZERO, "the grace is live");
}

#[tokio::test]
async fn an_overlay_survives_a_reload_until_it_is_replaced() {
    let fixture = Fixture::new("cu = { some_method = 3 }\n").await;
    let weights = [("eth".to_owned(), [("some_method".to_owned(), 7)].into())].into();
    fixture.gateway.overlay(&Overlay { weights, ..Overlay::default() }).unwrap();
    assert_eq!(units(&fixture.call(KEY, "some_method").await), "7");
    fixture.reload("cu = { some_method = 4, other = 5 }\n");
    assert_eq!(units(&fixture.call(KEY, "some_method").await), "7");
    assert_eq!(units(&fixture.call(KEY, "other").await), "5");
    let chains = [("eth".to_owned(), false)].into();
    fixture.gateway.overlay(&Overlay { chains, ..Overlay::default() }).unwrap();
    assert!(fixture.call(KEY, "some_method").await.contains("chain not available"));
    fixture.reload("enabled = true\n");
    assert!(fixture.call(KEY, "some_method").await.contains("chain not available"), "both must enable it");
    fixture.gateway.overlay(&Overlay::default()).unwrap();
    assert_eq!(units(&fixture.call(KEY, "some_method").await), "1");
}

#[tokio::test]
async fn counters_that_are_brought_along_are_counted_on() {
    let fixture = Fixture::new("").await;
    let config = config(&fixture.file);
    let counters = Arc::new(MemoryCounters::default());
    let clock =
        Arc::new(rpcgate_core::clock::ManualClock::at(rpcgate_core::clock::Time::from_secs(1_000_000)));
    let used = [("k", [7, 8, 9])].map(|(name, used)| (config.keys[name].id, used)).to_vec();
    let restored =
        rpcgate_core::backend::counters::Restored { now: clock.now(), windows: used, units: Vec::new() };
    counters.restore(&restored);
    let options = StartOptions { clock, counters: Some(counters), ..StartOptions::default() };
    let gateway = Gateway::start(config, options).await.unwrap();
    let answer = send(gateway.addr(), &post("/eth", KEY, "some_method")).await;
    assert!(answer.contains("x-ratelimit-remaining-minute: 992\r\n"), "{answer}");
}

#[tokio::test]
async fn pools_and_heads_of_chains_that_stay_are_kept() {
    let fixture = Fixture::new("").await;
    let state = || {
        let pools = fixture.gateway.reloadable.pools.load();
        let chains = fixture.gateway.reloadable.chains.load();
        let chain = chains.get("eth").unwrap();
        (pools.get(chain.name()).unwrap().clone(), chain.head().clone())
    };
    let before = state();
    fixture.reload("cu = { some_method = 7 }\n");
    let after = state();
    assert!(Arc::ptr_eq(&before.0, &after.0) && Arc::ptr_eq(&before.1, &after.1));
    fixture.reload("timeout = \"1s\"\n");
    let changed = state();
    assert!(!Arc::ptr_eq(&before.0, &changed.0) && Arc::ptr_eq(&before.1, &changed.1));
}

#[tokio::test]
async fn no_log_contains_a_key() {
    let lines = CapturedLog::default();
    let _listening = lines.capture("trace", LogFormat::Text);
    let fixture = Fixture::new("[chains.bsc]\nnodes = [\"http://user:hunter2@127.0.0.1:1\"]\n").await;
    assert!(is_served(&fixture.call(KEY, "some_method").await));
    fixture.call(OTHER, "some_method").await;
    fixture.send(&post(&format!("/eth?apikey={OTHER}"), "", "some_method")).await;
    assert!(fixture.send(&post("/bsc", KEY, "some_method")).await.contains("backend request failed"));
    fixture.send(&format!("POST /{KEY} HTTP/1.1\r\nhost: x\r\n{KEY}\r\n\r\n")).await;
    fixture.reload(&format!("bad = 1\n[keys.twice]\nkey = {KEY:?}\n"));
    fixture.gateway.drain().await;
    let text = lines.text();
    assert!(text.contains("failed"), "the failed call is reported: {text}");
    assert!(!text.contains("secretsecret") && !text.contains("hunter2"), "{text}");
}

// Shows (Commands and configuration): No secret of a URL (user, password, path key, query key) is shown or stored
// outside the configuration: not by `check`, and not in versions, differences, history, logs, metrics, pages or imports
// (promise 90).
#[tokio::test]
async fn no_secret_of_a_nodes_url_is_in_the_log_the_metrics_or_the_output_of_check() {
    let lines = CapturedLog::default();
    let _listening = lines.capture("trace", LogFormat::Text);
    let url = "http://planted1User:planted-word@127.0.0.1:1/v2/planted/rpc/Planted3?apikey=planted&planted";
    let more = format!("[telemetry]\nlisten = \"127.0.0.1:0\"\n[chains.bsc]\nnodes = [{url:?}]\n");
    let fixture = Fixture::new(&more).await;
    assert!(fixture.send(&post("/bsc", KEY, "some_method")).await.contains("backend request failed"));
    let request = "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let metrics = send(fixture.gateway.metrics_addr().unwrap(), request).await;
    let mut printed = Vec::new();
    let mut messages = Vec::new();
    check::execute(&fixture.file, &mut printed, &mut messages).unwrap();
    printed.append(&mut messages);
    fixture.gateway.drain().await;
    let printed = String::from_utf8(printed).unwrap();
    for (place, text) in [("log", lines.text()), ("metrics", metrics), ("check", printed)] {
        let is_named = text.contains("127.0.0.1:1/v2/***/rpc/***?apikey=***&***");
        assert!(is_named, "the node is in the {place}: {text}");
        assert!(!text.to_lowercase().contains("planted"), "{place}: {text}");
    }
}

#[tokio::test]
async fn a_start_that_fails_leaves_nothing_behind() {
    let fixture = Fixture::new("").await;
    let mut taken = config(&fixture.file);
    taken.gateway.listen = fixture.gateway.addr();
    let error = Gateway::start(taken, StartOptions::default()).await.unwrap_err();
    assert!(matches!(error, StartError::Listen { .. }) && !error.is_configuration(), "{error}");
    let mut broken = config(&fixture.file);
    broken.gateway.tls.cert = Some(fixture.dir.path().join("none.pem"));
    broken.gateway.tls.key = Some(fixture.dir.path().join("none.pem"));
    let error = Gateway::start(broken, StartOptions::default()).await.unwrap_err();
    assert!(error.is_configuration(), "{error}");
}

#[tokio::test]
async fn a_dropped_gateway_stops_serving() {
    let fixture = Fixture::new("").await;
    let mut client = TcpStream::connect(fixture.gateway.addr()).await.unwrap();
    client.write_all(post("/eth", KEY, "held").as_bytes()).await.unwrap();
    fixture.node.asked.acquire().await.unwrap().forget();
    let addr = fixture.gateway.addr();
    drop(fixture.gateway);
    assert_eq!(read(&mut client).await, "");
    while TcpStream::connect(addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
