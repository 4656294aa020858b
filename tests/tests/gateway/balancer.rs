//! Balancers that forward bytes and send the client's address with the PROXY protocol.

use crate::*;
use rpcgate_tests::TIMEOUT;
use rpcgate_tests::certificate::TestCertificate;
use rpcgate_tests::services::haproxy::Haproxy;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const V1: &[u8] = b"PROXY TCP4 198.51.100.7 10.0.0.1 40000 443\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc6\x33\x64\x07\x0a\0\0\x01\x9c\x40\x01\xbb";
const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

/// Returns the answer to a request after these bytes, or an empty text.
async fn asked(addr: SocketAddr, before: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(&[before, HEALTH].concat()).await.unwrap();
    let mut answer = Vec::new();
    // Unread bytes are lost when the connection closes.
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap()
}

/// Returns the answer over TLS to a request after these bytes.
async fn asked_securely(addr: SocketAddr, certificate: &TestCertificate, before: &[u8]) -> String {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(before).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream = timeout(TIMEOUT, connector.connect(name, stream)).await.unwrap().unwrap();
    stream.write_all(HEALTH).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap()
}

// Shows (Commands and configuration).
#[tokio::test]
async fn a_header_is_required_of_a_trusted_balancer() {
    let gateway = Setup::new().set("gateway", "proxy_protocol = [\"127.0.0.1\"]").start().await;
    for header in [V1, V2, b"PROXY UNKNOWN\r\n", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
        let answer = asked(gateway.addr(), header).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{header:?}: {answer}");
    }
    for header in [&b""[..], b"PROXY TCP4 nobody 10.0.0.1 40000 443\r\n", &V2[..12]] {
        assert_eq!(asked(gateway.addr(), header).await, "", "{header:?}");
    }
    until("connections end", || gateway.server.connections() == 0).await;
}

// Shows (Commands and configuration).
#[tokio::test]
async fn a_header_of_another_peer_is_a_bad_request() {
    for setup in [Setup::new(), Setup::new().set("gateway", "proxy_protocol = [\"10.0.0.0/8\"]")] {
        let gateway = setup.start().await;
        assert!(asked(gateway.addr(), b"").await.starts_with("HTTP/1.1 200 "));
        for header in [V1, V2] {
            let answer = asked(gateway.addr(), header).await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{header:?}: {answer}");
        }
    }
}

// Shows (Commands and configuration).
#[tokio::test]
async fn the_header_comes_before_tls_at_both_addresses() {
    let certificate = TestCertificate::new();
    let setup = certificate.used_by(Setup::new()).set("gateway", "proxy_protocol = [\"127.0.0.1\"]");
    let gateway = setup.start().await;
    for addr in [gateway.addr(), gateway.server.grpc_addr().unwrap()] {
        for header in [V1, V2] {
            let answer = asked_securely(addr, &certificate, header).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{header:?}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_drain_waits_for_no_header() {
    let setup = Setup::new().set("gateway", "proxy_protocol = [\"127.0.0.1\"]");
    let gateway = setup.set("shutdown", "grace = \"1s\"").start().await;
    let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
    stream.write_all(b"PROXY ").await.unwrap();
    until("the connection is open", || gateway.server.connections() == 1).await;
    let drained = gateway.server.drain().await;
    assert_eq!(drained.cut, 0);
}

// Shows (Commands and configuration): HAProxy names its clients in both versions of the protocol.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_haproxy), ignore = "needs haproxy (apt install haproxy)")]
async fn haproxy_names_clients_in_both_versions_and_its_checks_are_answered() {
    let node = Node::evm().await;
    let certificate = TestCertificate::new();
    let plain = Setup::of("eth", &node.url()).set("gateway", "proxy_protocol = [\"127.0.0.1\"]");
    let gateway = plain.start().await;
    let balancer = Haproxy::before(gateway.addr(), &["send-proxy", "send-proxy-v2", ""]);
    for addr in &balancer.addrs[..2] {
        let client = TestClient::new(*addr, Some(&key("default")));
        for _ in 0..3 {
            assert_eq!(client.call("eth", "m", "[]").await.json()["result"], "ok");
        }
    }
    assert_eq!(asked(balancer.addrs[2], b"").await, "", "without a header nothing is served");

    let secure = certificate.used_by(Setup::new()).set("gateway", "proxy_protocol = [\"127.0.0.1\"]");
    let gateway = secure.start().await;
    let balancer = Haproxy::before(gateway.addr(), &["send-proxy", "send-proxy-v2"]);
    for addr in &balancer.addrs {
        let answer = asked_securely(*addr, &certificate, b"").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}
