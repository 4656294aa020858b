//! Gateways that order their certificate. The authority checks the names at their own listener.

use crate::{clock, settings};
use rpcgate_config::Config;
use rpcgate_core::backend::usage_sink::MemoryUsageSink;
use rpcgate_core::clock::{Clock, ManualClock};
use rpcgate_process::acme::{CertificateOrders, OrderStep};
use rpcgate_server::{Gateway, StartOptions};
use rpcgate_tests::gateway::Setup;
use rpcgate_tests::services::pebble::Pebble;
use rpcgate_tests::{TIMEOUT, until_within};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const NAME: &str = "gate.example.com";
const DAY: Duration = Duration::from_secs(86_400);
/// The maximum time from an order to the use of its certificate.
const ORDERED: Duration = Duration::from_secs(120);

/// Starts a gateway at this port that orders a certificate for [`NAME`] and `rpc.example.com`.
async fn started(pebble: &Pebble, dir: &Path, port: u16, clock: &Arc<ManualClock>) -> Gateway {
    let mut config: Config = Setup::new().config();
    config.gateway.listen.set_port(port);
    config.gateway.tls.acme = true;
    config.acme = settings(pebble, dir, &[NAME, "rpc.example.com"]);
    config.telemetry.listen = Some("127.0.0.1:0".parse().unwrap());
    let sink = Arc::new(MemoryUsageSink::default());
    let options = StartOptions { clock: clock.clone(), sink: Some(sink), ..StartOptions::default() };
    Gateway::start(config, options).await.unwrap()
}

/// Connects over TLS to a server of this name, whose certificate must be signed by one of `roots`.
async fn connected(addr: SocketAddr, name: &str, roots: &RootCertStore) -> io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    let stream = TcpStream::connect(addr).await?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    timeout(TIMEOUT, TlsConnector::from(Arc::new(config)).connect(name, stream)).await.unwrap()
}

fn trusting(pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    roots
}

/// Returns the authority that signs the certificates, from its own management interface.
async fn authority(pebble: &Pebble) -> RootCertStore {
    let own = trusting(&std::fs::read_to_string(pebble.ca_file()).unwrap());
    let mut stream = connected(pebble.management(), "localhost", &own).await.unwrap();
    stream.write_all(b"GET /roots/0 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    timeout(TIMEOUT, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    trusting(&answer)
}

/// Reports whether the gateway answers over this connection, which stays open.
async fn answers(stream: &mut TlsStream<TcpStream>) -> bool {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let mut bytes = [0; 1_024];
        let read = timeout(TIMEOUT, stream.read(&mut bytes)).await.unwrap().unwrap();
        assert!(read > 0, "the connection has ended");
        answer.extend_from_slice(&bytes[..read]);
    }
    answer.starts_with(b"HTTP/1.1 200 ")
}

fn leaf(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

/// Waits until new connections get a certificate other than `before` and returns it.
async fn next_leaf(addr: SocketAddr, roots: &RootCertStore, before: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    until_within(ORDERED, "another certificate is in use", async || {
        if let Ok(stream) = connected(addr, NAME, roots).await {
            found = leaf(&stream);
        }
        !found.is_empty() && found != before
    })
    .await;
    found
}

async fn metrics(gateway: &Gateway) -> String {
    let mut stream = TcpStream::connect(gateway.metrics_addr().unwrap()).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    timeout(TIMEOUT, stream.read_to_string(&mut text)).await.unwrap().unwrap();
    text
}

// Shows (Commands and configuration): With ACME both programs order their certificate, which is checked over TLS at
// their own listener or over HTTP; until the first one exists, handshakes are refused and the gateway is not ready; a
// restart orders nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_pebble), ignore = "needs pebble (apt install pebble)")]
async fn the_first_certificate_is_ordered_over_the_own_listener_and_a_restart_orders_none() {
    let pebble = Pebble::new();
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let process = pebble.run();
    let roots = authority(&pebble).await;
    let gateway = started(&pebble, dir.path(), pebble.tls_port, &clock).await;
    let first = next_leaf(gateway.addr(), &roots, b"").await;
    for name in [NAME, "rpc.example.com"] {
        let mut stream = connected(gateway.addr(), name, &roots).await.unwrap();
        assert!(leaf(&stream) == first && answers(&mut stream).await, "{name}");
    }
    assert!(gateway.ready());
    let text = metrics(&gateway).await;
    for line in [
        "rpcgate_certificate_orders_total{result=\"done\"} 1\n",
        "rpcgate_certificate_orders_total{result=\"failed\"} 0\n",
        "rpcgate_certificate_order_failures 0\n",
        "rpcgate_certificate_expiry_seconds ",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    drop(process);
    gateway.drain().await;
    let state = std::fs::read_to_string(dir.path().join("state.json")).unwrap();

    let gateway = started(&pebble, dir.path(), pebble.tls_port, &clock).await;
    assert!(gateway.ready(), "the certificate is there");
    let mut stream = connected(gateway.addr(), NAME, &roots).await.unwrap();
    assert!(leaf(&stream) == first && answers(&mut stream).await);
    assert_eq!(std::fs::read_to_string(dir.path().join("state.json")).unwrap(), state);
}

// Shows (Commands and configuration).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_pebble), ignore = "needs pebble (apt install pebble)")]
async fn handshakes_are_refused_and_the_gateway_is_unready_until_the_first_certificate() {
    let pebble = Pebble::new();
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let gateway = started(&pebble, dir.path(), pebble.tls_port, &clock).await;
    let error = connected(gateway.addr(), NAME, &RootCertStore::empty()).await.unwrap_err();
    assert!(error.to_string().contains("alert"), "{error}");
    assert!(!gateway.ready());
    until_within(ORDERED, "the failure is counted", async || {
        metrics(&gateway).await.contains("rpcgate_certificate_order_failures 1\n")
    })
    .await;
    assert!(!gateway.ready(), "it goes on");
}

// Shows (Commands and configuration): A renewal by ACME ends no connection; a failed order leaves the old certificate
// in use and is repeated after minutes to a day, across restarts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_pebble), ignore = "needs pebble (apt install pebble)")]
async fn a_renewal_applies_to_new_connections_and_ends_no_open_one() {
    let pebble = Pebble::new();
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let _process = pebble.run();
    let roots = authority(&pebble).await;
    let gateway = started(&pebble, dir.path(), pebble.tls_port, &clock).await;
    let first = next_leaf(gateway.addr(), &roots, b"").await;
    let mut open = connected(gateway.addr(), NAME, &roots).await.unwrap();
    assert!(answers(&mut open).await);
    clock.advance(64 * DAY);
    let second = next_leaf(gateway.addr(), &roots, &first).await;
    assert_ne!(first, second);
    assert!(answers(&mut open).await && leaf(&open) == first);
    assert!(metrics(&gateway).await.contains("rpcgate_certificate_renewals_total{result=\"done\"} 2\n"));
}

// Shows (Commands and configuration): Programs that share `acme.dir` order one certificate, one at a time, and answer
// the checks of each other's orders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_pebble), ignore = "needs pebble (apt install pebble)")]
async fn two_gateways_with_one_folder_order_one_certificate() {
    let pebble = Pebble::new();
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let _process = pebble.run();
    let roots = authority(&pebble).await;
    let gateways = [
        started(&pebble, dir.path(), pebble.tls_port, &clock).await,
        started(&pebble, dir.path(), 0, &clock).await,
    ];
    let first = next_leaf(gateways[0].addr(), &roots, b"").await;
    assert_eq!(next_leaf(gateways[1].addr(), &roots, b"").await, first);
    let mut done = 0;
    for gateway in &gateways {
        let text = metrics(gateway).await;
        done += u32::from(text.contains("rpcgate_certificate_orders_total{result=\"done\"} 1\n"));
        assert!(text.contains("rpcgate_certificate_orders_total{result=\"failed\"} 0\n"), "{text}");
    }
    assert_eq!(done, 1);
}

// Shows (Commands and configuration).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_pebble), ignore = "needs pebble (apt install pebble)")]
async fn a_gateway_answers_the_checks_of_another_programs_order() {
    let pebble = Pebble::new();
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let _process = pebble.run();
    let roots = authority(&pebble).await;
    // Makes the gateway itself wait.
    let last = serde_json::json!({
        "directory": pebble.directory_url(),
        "domains": [NAME, "rpc.example.com"],
        "failures": 1,
        "next": clock.now().plus(DAY).secs(),
        "why": "",
    });
    let state = serde_json::json!({ "last": last });
    std::fs::write(dir.path().join("state.json"), state.to_string()).unwrap();
    let gateway = started(&pebble, dir.path(), pebble.tls_port, &clock).await;
    let wanted = settings(&pebble, dir.path(), &[NAME, "rpc.example.com", "admin.example.com"]);
    let other = CertificateOrders::new(&wanted, clock.clone(), Arc::default()).unwrap();
    let step = other.step().await;
    assert!(matches!(step, OrderStep::Done { .. }), "{step:?}");
    next_leaf(gateway.addr(), &roots, b"").await;
    assert!(connected(gateway.addr(), "admin.example.com", &roots).await.is_ok());
    assert!(metrics(&gateway).await.contains("rpcgate_certificate_orders_total{result=\"done\"} 0\n"));
}
