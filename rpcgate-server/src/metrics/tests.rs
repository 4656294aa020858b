//! The page as Prometheus reads it, with real sockets, a real journal and a real database.

use super::meter::Kind;
use crate::gateway::tests::{KEY, Node, is_served, post, read, send};
use crate::gateway::{Gateway, StartOptions};
use crate::start_error::StartError;
use crate::state::State;
use rpcgate_config::{Config, Input, Url};
use rpcgate_core::backend::usage_sink::MemoryUsageSink;
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_layers::nodes::{NodeHealth, SecondReason};
use rpcgate_layers::websocket::CloseReason;
use rpcgate_store::url_of;
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

#[expect(unreachable_pub, reason = "it is public where it belongs")]
#[path = "../../../tests/src/observability.rs"]
mod observability;

struct Fixture {
    home: tempfile::TempDir,
    node: Node,
}

impl Fixture {
    async fn new() -> Self {
        let fixture = Fixture { home: tempfile::tempdir().unwrap(), node: Node::start().await };
        std::fs::create_dir(fixture.home.path().join("data")).unwrap();
        fixture
    }

    fn config(&self, more: &str) -> Config {
        let node = self.node.addr;
        let text = format!(
            "[gateway]\nlisten = \"127.0.0.1:0\"\n[telemetry]\nlisten = \"127.0.0.1:0\"\n\
             [database]\nurl = {:?}\n[journal]\ndir = {:?}\n[tenants.default]\nplan = \"enterprise\"\n\
             [keys.k]\nkey = {KEY:?}\n[chains.eth]\nnodes = [\"http://user:hunter2@{node}\", \"http://user:hunter2@{node}\"]\n\
             probe_interval = \"1d\"\nblocked_methods = [\"blocked\"]\nttl = {{ kept = \"forever\" }}\n{more}",
            url_of(&self.home.path().join("data/rpcgate.db")),
            self.home.path().join("journal"),
        );
        let input = Input { chains: &["eth", "btc"], file: Some(("f", &text)), ..Input::default() };
        Config::read(&input).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// Starts a gateway that stores its records in a journal.
    async fn start(&self) -> Gateway {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let state = Arc::new(State::open(&self.config(""), clock.clone()).unwrap());
        assert!(state.ready().await);
        let options = StartOptions { clock, state: Some(state), ..StartOptions::default() };
        Gateway::start(self.config(""), options).await.unwrap()
    }

    async fn start_with(&self, sink: MemoryUsageSink) -> Gateway {
        let options = StartOptions { sink: Some(Arc::new(sink)), ..StartOptions::default() };
        Gateway::start(self.config(""), options).await.unwrap()
    }
}

async fn get(addr: SocketAddr, target: &str) -> String {
    send(addr, &format!("GET {target} HTTP/1.1\r\nhost: x\r\naccept: application/openmetrics-text\r\nconnection: close\r\n\r\n")).await
}

async fn page(gateway: &Gateway) -> String {
    let answer = get(gateway.metrics_addr().unwrap(), "/metrics").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("application/openmetrics-text"),
        "{head}"
    );
    body.to_owned()
}

/// Returns every series with its value. Fails if the page is not OpenMetrics or contains a series twice.
#[track_caller]
fn series(page: &str) -> BTreeMap<String, f64> {
    let body = page.strip_suffix("# EOF\n").expect("its end");
    let mut all = BTreeMap::new();
    let mut families = HashSet::new();
    let mut family = String::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().unwrap().to_owned();
            assert!(rest.ends_with('.') || rest.ends_with("1"), "{line}");
            assert!(families.insert(family.clone()), "twice: {line}");
        } else if line.starts_with("# ") {
            let word = line.split(' ').nth(1).unwrap();
            assert!(["TYPE", "UNIT"].contains(&word) && line.contains(&family), "{line}");
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with(&family), "{line} among {family}");
            assert!(all.insert(name.to_owned(), value.parse().unwrap()).is_none(), "twice: {line}");
        }
    }
    all
}

fn calls(all: &BTreeMap<String, f64>) -> Vec<(&str, f64)> {
    let ours = |(name, value): (&'_ String, &f64)| {
        Some((all.get_key_value(name)?.0.strip_prefix("rpcgate_calls_total")?, *value))
    };
    all.iter().filter_map(ours).collect()
}

/// Sends two calls of one method, the second answered from the cache, one call with too long a name and one blocked
/// call.
async fn ask(addr: SocketAddr) {
    let long = "x".repeat(70);
    for method in ["kept", "kept", &long, "blocked", "eth_call"] {
        let answer = send(addr, &post("/eth", KEY, method)).await;
        assert_eq!(is_served(&answer), method != "blocked", "{answer}");
    }
    let item = r#"{"jsonrpc":"2.0","id":1,"method":"blocked"}"#;
    let batch = format!("[{}]", [item; 7].join(","));
    let head = format!("POST /eth HTTP/1.1\r\nhost: x\r\napikey: {KEY}\r\nconnection: close\r\n");
    send(addr, &format!("{head}content-length: {}\r\n\r\n{batch}", batch.len())).await;
    assert!(send(addr, &post("/btc", KEY, "getblockcount")).await.contains("not available"));
}

const CALLS: [(&str, f64); 6] = [
    ("{chain=\"btc\",method=\"getblockcount\",outcome=\"refused\"}", 1.0),
    ("{chain=\"eth\",method=\"(other)\",outcome=\"answered\"}", 1.0),
    ("{chain=\"eth\",method=\"(other)\",outcome=\"refused\"}", 8.0),
    ("{chain=\"eth\",method=\"eth_call\",outcome=\"answered\"}", 1.0),
    ("{chain=\"eth\",method=\"kept\",outcome=\"answered\"}", 1.0),
    ("{chain=\"eth\",method=\"kept\",outcome=\"cached\"}", 1.0),
];

// Shows (Traces, logs and metrics).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_counted_by_chain_method_and_outcome_with_any_sink() {
    for kept in [true, false] {
        let fixture = Fixture::new().await;
        let gateway =
            if kept { fixture.start().await } else { fixture.start_with(MemoryUsageSink::bounded(9)).await };
        ask(gateway.addr()).await;
        let all = series(&page(&gateway).await);
        assert_eq!(calls(&all), CALLS, "kept: {kept}");
        let of = |name: &str| all.get(name).copied();
        let labels = "{chain=\"eth\",method=\"eth_call\",outcome=\"answered\"";
        assert_eq!(of(&format!("rpcgate_call_duration_seconds_count{labels}}}")), Some(1.0));
        let labels = labels.trim_start_matches('{');
        let slowest = format!("rpcgate_call_duration_seconds_bucket{{le=\"+Inf\",{labels}}}");
        assert_eq!(of(&slowest), Some(1.0));
        assert!(!all.keys().any(|name| name.contains("duration") && name.contains("refused")));
        assert_eq!(of("rpcgate_refused_calls_total{chain=\"eth\",status=\"403\"}"), Some(8.0));
        assert_eq!(of("rpcgate_compute_units_total{chain=\"eth\"}"), Some(18.0), "1 + 1 + 1 + 15");
        assert_eq!(of("rpcgate_window_requests_total{chain=\"eth\"}"), Some(4.0));
        assert!(of("rpcgate_response_bytes_total{chain=\"eth\"}") > Some(100.0));
        for name in ["connections", "refused", "messages"] {
            assert_eq!(of(&format!("rpcgate_ws_{name}_total{{chain=\"eth\"}}")), Some(0.0), "{name}");
        }
        assert_eq!(of("rpcgate_cache_lookups_total{result=\"hit\"}"), Some(1.0));
        assert!(of("rpcgate_cache_lookups_total{result=\"miss\"}") >= Some(1.0));
        assert_eq!(of("rpcgate_journal_segments").is_some(), kept);
    }
}

#[tokio::test]
async fn nodes_journal_and_databases_have_metrics() {
    let fixture = Fixture::new().await;
    let gateway = fixture.start().await;
    ask(gateway.addr()).await;
    // Records are shipped a moment later.
    let all = loop {
        let all = series(&page(&gateway).await);
        if all["rpcgate_shipments_total"] >= 1.0 && all["rpcgate_journal_unshipped_bytes"] == 0.0 {
            break all;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let version = env!("CARGO_PKG_VERSION");
    for (name, expected) in [
        (format!("rpcgate_build_info{{version=\"{version}\"}}"), 1.0),
        ("rpcgate_ready".into(), 1.0),
        ("rpcgate_chain_served{chain=\"eth\"}".into(), 1.0),
        ("rpcgate_chain_served{chain=\"btc\"}".into(), 0.0),
        ("rpcgate_journal_lost_calls_total".into(), 0.0),
        ("rpcgate_journal_stalled".into(), 0.0),
        ("rpcgate_failed_shipments_total".into(), 0.0),
        ("rpcgate_database_up{database=\"management\"}".into(), 1.0),
        ("rpcgate_database_up{database=\"usage\"}".into(), 1.0),
        ("rpcgate_config_reloads_total{result=\"done\"}".into(), 0.0),
    ] {
        assert_eq!(all.get(&name), Some(&expected), "{name}");
    }
    assert!(all["rpcgate_journal_bytes"] > 0.0 && all["rpcgate_journal_lag_seconds"] < 60.0);
    assert!(all["process_resident_memory_bytes"] > 1e6 || !cfg!(target_os = "linux"));
    for name in ["process_cpu_seconds_total", "process_open_fds", "process_start_time_seconds"] {
        assert!(all.contains_key(name) || !cfg!(target_os = "linux"), "{name}");
    }
    let nodes: Vec<_> = all.keys().filter(|name| name.starts_with("rpcgate_node_well")).collect();
    assert_eq!(nodes.len(), 2, "two nodes with one name are distinguished: {nodes:?}");
}

// Shows (Traces, logs and metrics): The dashboard and the alerts use metrics, labels and values that exist; each alert
// has a section of the runbook whose commands exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboard_and_the_alerts_use_metrics_of_a_gateway() {
    let fixture = Fixture::new().await;
    // Nothing listens there: the gateway counts alone, exports no span, and says so.
    let away = "[redis]\nurl = \"redis://127.0.0.1:1\"\n[telemetry.otlp]\nurl = \"http://127.0.0.1:1\"\n";
    let mut config = fixture.config(away);
    // One of the listeners has TLS, with a certificate that expires in centuries.
    config.gateway.grpc_listen = Some("127.0.0.1:0".parse().unwrap());
    (config.gateway.tls.acme, config.gateway.tls.grpc_only) = (true, true);
    config.acme.directory_url = Url::parse("https://127.0.0.1:1/", &["https"]).ok();
    (config.acme.domains, config.acme.dir) = (vec!["localhost".into()], fixture.home.path().join("acme"));
    std::fs::create_dir(&config.acme.dir).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let made = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
    let certificate = format!("{}{}", key.serialize_pem(), made.pem());
    std::fs::write(config.acme.dir.join("certificate.pem"), certificate).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let state = Arc::new(State::open(&config, clock.clone()).unwrap());
    assert!(state.ready().await);
    let options = StartOptions { clock, state: Some(state), ..StartOptions::default() };
    let gateway = Gateway::start(config, options).await.unwrap();
    ask(gateway.addr()).await;
    let page = page(&gateway).await;
    let outcomes = Kind::ALL.map(Kind::name).to_vec();
    // The page has all values of these labels, whether they are counted or not.
    let all =
        |name: &'static str, label: &'static str| (name, label, observability::values(&page, name, label));
    let on_the_page = [
        all("rpcgate_cache_lookups_total", "result"),
        all("rpcgate_config_reloads_total", "result"),
        all("rpcgate_database_up", "database"),
        all("rpcgate_counters", "standing"),
        all("rpcgate_otlp_spans_total", "result"),
    ];
    let mut closed = vec![
        ("rpcgate_calls_total", "outcome", outcomes.clone()),
        ("rpcgate_call_duration_seconds_bucket", "outcome", outcomes),
        ("rpcgate_ws_closed_total", "reason", CloseReason::ALL.map(CloseReason::name).to_vec()),
        ("rpcgate_node_standing", "standing", NodeHealth::ALL.map(NodeHealth::name).to_vec()),
        ("rpcgate_node_passed_over_total", "reason", vec!["rate", "budget"]),
        ("rpcgate_node_second_requests_total", "reason", SecondReason::ALL.map(SecondReason::name).to_vec()),
    ];
    for (name, label, values) in &on_the_page {
        assert!(values.len() > 1, "{name} {values:?}");
        closed.push((*name, *label, values.iter().map(String::as_str).collect()));
    }
    let ours = |name: &str| !name.starts_with("rpcgate_admin_");
    let (mistakes, compared) = observability::mistakes(ours, &page, &closed);
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(compared > 60, "{compared}");
}

#[tokio::test]
async fn reloads_are_counted() {
    let fixture = Fixture::new().await;
    let gateway = fixture.start_with(MemoryUsageSink::bounded(0)).await;
    assert_eq!(gateway.reload(fixture.config("")).unwrap(), Vec::<&str>::new());
    gateway.refuse_reload();
    gateway.refuse_reload();
    let all = series(&page(&gateway).await);
    let of = |result: &str| all[&format!("rpcgate_config_reloads_total{{result=\"{result}\"}}")];
    assert_eq!((of("done"), of("refused")), (1.0, 2.0));
}

#[tokio::test]
async fn no_secret_is_on_the_page() {
    let fixture = Fixture::new().await;
    let gateway = fixture.start_with(MemoryUsageSink::bounded(0)).await;
    ask(gateway.addr()).await;
    let other = "rpcg_HIJKLMNsecretsecretsecret";
    send(gateway.addr(), &post(&format!("/eth?apikey={other}"), "", other)).await;
    send(gateway.addr(), &post("/eth", KEY, &format!("rpcg_HIJKLMN{}", "secretsecret".repeat(3) + "ab")))
        .await;
    let page = page(&gateway).await;
    assert!(page.contains("node=\"http://user:***@"), "{page}");
    assert!(!page.contains("hunter2") && !page.contains("secretsecret"), "{page}");
}

// Shows (Traces, logs and metrics): Prometheus text at `/metrics` only on `telemetry.listen`.
#[tokio::test]
async fn the_metrics_page_is_not_served_at_the_address_of_callers() {
    let fixture = Fixture::new().await;
    let gateway = fixture.start_with(MemoryUsageSink::bounded(0)).await;
    let addr = gateway.metrics_addr().unwrap();
    assert!(get(addr, "/").await.starts_with("HTTP/1.1 404 "));
    assert!(get(addr, "/eth").await.starts_with("HTTP/1.1 404 "));
    assert!(send(addr, &post("/metrics", "", "x")).await.starts_with("HTTP/1.1 405 "));
    assert!(get(gateway.addr(), "/metrics").await.starts_with("HTTP/1.1 404 "));
    let mut config = fixture.config("");
    config.telemetry.listen = None;
    let silent = Gateway::start(config, StartOptions::default()).await.unwrap();
    assert_eq!(silent.metrics_addr(), None);
}

#[tokio::test]
async fn scrapers_that_hang_do_not_block_the_page_for_long() {
    let fixture = Fixture::new().await;
    let gateway = fixture.start_with(MemoryUsageSink::bounded(0)).await;
    let addr = gateway.metrics_addr().unwrap();
    let mut hanging = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        // Connections beyond the limit may already be closed.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n").await;
        hanging.push(stream);
    }
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(91)).await;
    tokio::time::resume();
    for _ in 0..1_000 {
        if get(addr, "/metrics").await.starts_with("HTTP/1.1 200 ") {
            return;
        }
    }
    panic!("no connection is accepted");
}

#[tokio::test]
async fn the_page_goes_with_its_gateway_and_an_address_that_is_taken_is_named() {
    let fixture = Fixture::new().await;
    let gateway = fixture.start_with(MemoryUsageSink::bounded(0)).await;
    let addr = gateway.metrics_addr().unwrap();
    let mut config = fixture.config("");
    config.telemetry.listen = Some(addr);
    let error = Gateway::start(config, StartOptions::default()).await.unwrap_err();
    assert!(matches!(error, StartError::Telemetry { .. }) && !error.is_configuration(), "{error}");
    assert!(error.to_string().starts_with(&format!("telemetry.listen: {addr}: ")), "{error}");
    let mut open = TcpStream::connect(addr).await.unwrap();
    drop(gateway);
    assert_eq!(read(&mut open).await, "");
    while TcpStream::connect(addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
