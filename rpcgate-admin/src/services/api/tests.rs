//! Tests of the API over real sockets.

use super::*;
use crate::testing::Site;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rpcgate_config::{AcmeSettings, AdminTls, ClientAuth};
use rpcgate_process::tls::CertificatePaths;
use rustls::{HandshakeKind, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use std::io;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
const SOON: Duration = Duration::from_secs(10);

async fn started(text: &str) -> (Site, Api) {
    let site = Site::of(text).await;
    let api = Api::start(&site.app, ANY, None).unwrap();
    (site, api)
}

/// Returns the answer to `text`, read until the connection closes.
async fn reported(api: &Api, text: &str) -> String {
    let mut stream = TcpStream::connect(api.addr()).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    rest(stream).await
}

async fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    tokio::time::timeout(SOON, read).await.unwrap().unwrap();
    String::from_utf8(answer).unwrap()
}

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn both_versions_of_http_are_spoken_without_tls() {
    let (_site, api) = started("").await;
    let request = |path: &str| Request::get(path).header("host", "a").body(Empty::<Bytes>::new()).unwrap();
    let stream = TokioIo::new(TcpStream::connect(api.addr()).await.unwrap());
    let (mut one, connection) = http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let stream = TokioIo::new(TcpStream::connect(api.addr()).await.unwrap());
    let (mut two, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let answers =
        [one.send_request(request("/healthz")).await, two.send_request(request("http://a/healthz")).await];
    for answer in answers {
        let body = answer.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), json!({"status": "ok"}));
    }
}

#[tokio::test]
async fn a_client_that_writes_a_large_body_before_it_reads_gets_the_early_answer() {
    let (_site, api) = started("").await;
    let body = format!("{{\"name\":\"{}\"}}", "x".repeat(5 << 20));
    for (line, status) in [
        ("POST /api/v1/auth/login", "413"),
        ("PUT /api/v1/auth/me", "401"),
        ("POST /nothing", "404"),
        ("POST /api/v1/plans", "405"),
    ] {
        let head = format!(
            "{line} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        let answer = reported(&api, &(head + &body)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {answer}");
    }
}

#[tokio::test]
async fn no_more_than_a_part_of_an_endless_body_is_read_after_the_answer() {
    let (_site, api) = started("").await;
    let mut stream = TcpStream::connect(api.addr()).await.unwrap();
    let head = format!("POST /nothing HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", 1_u64 << 40);
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![b'x'; 64 << 10];
    let mut sent = 0;
    while stream.write_all(&piece).await.is_ok() {
        sent += piece.len();
        assert!(sent < 64 << 20, "it still reads");
    }
    assert!(sent > 15 << 20, "it read too little after the answer: {sent}");
}

#[tokio::test]
async fn a_body_that_stops_arriving_after_the_answer_does_not_keep_the_connection_open() {
    let (_site, api) = started("").await;
    let mut stream = TcpStream::connect(api.addr()).await.unwrap();
    let head = "POST /nothing HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nx";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 404");
    tokio::time::pause();
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(40), stream.read_to_end(&mut answer)).await;
    assert!(ended.is_ok(), "it is still connected");
}

#[tokio::test]
async fn a_drain_finishes_requests_and_then_stops_listening() {
    let (_site, api) = started("").await;
    let addr = api.addr();
    // The body of this request is still arriving. It is answered although the drain has begun.
    let mut asking = TcpStream::connect(addr).await.unwrap();
    let head = "POST /api/v1/plans HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n";
    asking.write_all(head.as_bytes()).await.unwrap();
    let mut idle = TcpStream::connect(addr).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut first = [0; 15];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    let draining = tokio::spawn(api.drain());
    assert!(rest(asking).await.starts_with("HTTP/1.1 405 "));
    rest(idle).await;
    assert_eq!(tokio::time::timeout(SOON, draining).await.unwrap().unwrap(), 0);
    assert!(TcpStream::connect(addr).await.is_err(), "the listener is closed");
}

#[tokio::test]
async fn connections_that_exceed_the_grace_period_are_cut() {
    let (_site, api) = started("[shutdown]\ngrace = \"50ms\"\n").await;
    let mut stream = TcpStream::connect(api.addr()).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost").await.unwrap();
    reported(&api, HEALTH).await;
    let cut = tokio::time::timeout(SOON, api.drain()).await.unwrap();
    assert_eq!(cut, 1);
    assert_eq!(rest(stream).await, "");
}

#[tokio::test]
async fn an_api_that_is_dropped_ends_with_its_connections() {
    let (_site, api) = started("").await;
    let stream = TcpStream::connect(api.addr()).await.unwrap();
    reported(&api, HEALTH).await;
    let addr = api.addr();
    drop(api);
    assert_eq!(rest(stream).await, "");
    let gone = async { while TcpStream::connect(addr).await.is_ok() {} };
    tokio::time::timeout(SOON, gone).await.unwrap();
}

// Shows (Management).
#[tokio::test]
async fn a_connection_beyond_the_limit_gets_a_503_with_retry_after() {
    let site = Site::new().await;
    let api = Api::within(&site.app, ANY, None, 1).unwrap();
    let mut first = TcpStream::connect(api.addr()).await.unwrap();
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    first.read_u8().await.unwrap();
    let answer = reported(&api, HEALTH).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("retry-after: 1"), "{head}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{answer}");
    assert_eq!(
        serde_json::from_str::<Value>(body).unwrap(),
        json!({"error": "service temporarily unavailable", "code": "unavailable"})
    );
    drop(first);
    let served = async { while !reported(&api, HEALTH).await.starts_with("HTTP/1.1 200 ") {} };
    tokio::time::timeout(SOON, served).await.unwrap();
}

#[tokio::test]
async fn silent_and_stalled_connections_are_closed() {
    let (_site, api) = started("").await;
    let mut streams = Vec::new();
    for begin in ["", "P", "PRI * HTTP/2.0\r\n", "GET /healthz HT", "GET /healthz HTTP/1.1\r\nhost: a\r\nx"] {
        let mut stream = TcpStream::connect(api.addr()).await.unwrap();
        stream.write_all(begin.as_bytes()).await.unwrap();
        streams.push((begin, stream));
    }
    // All of them have arrived, because later ones are answered.
    reported(&api, HEALTH).await;
    tokio::time::pause();
    for (begin, mut stream) in streams {
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(40), stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "{begin:?} is still connected");
    }
}

#[tokio::test]
async fn a_head_may_not_be_endless() {
    let (_site, api) = started("").await;
    let request = format!("GET /healthz HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "y".repeat(40 << 10));
    assert!(reported(&api, &request).await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test]
async fn new_settings_are_served_over_connections_that_are_open() {
    let (site, api) = started("").await;
    let stream = TokioIo::new(TcpStream::connect(api.addr()).await.unwrap());
    let (mut client, connection) = http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut server = async || {
        let request = Request::get("/openapi.json").header("host", "a").body(Empty::<Bytes>::new()).unwrap();
        let body =
            client.send_request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        let document: Value = serde_json::from_slice(&body).unwrap();
        document["servers"][0]["url"].as_str().unwrap().to_owned()
    };
    assert_eq!(server().await, "http://127.0.0.1:8081");
    let mut config = site.app.settings.config.clone();
    config.admin.api_url = rpcgate_config::Url::parse("https://api.example.com/", &["https"]).ok();
    api.serve(&Arc::new(site.app.reload(config).unwrap()));
    assert_eq!(server().await, "https://api.example.com");
}

/// Returns the answer to `text`, which may be left partly unread. Then the connection ends with an error after the
/// answer.
async fn answered(api: &Api, text: &str) -> String {
    let mut stream = TcpStream::connect(api.addr()).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap()
}

fn wrong_log_in() -> String {
    let form = json!({ "email": "nobody@example.com", "password": "a wrong one" }).to_string();
    format!(
        "POST /api/v1/auth/login HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{form}",
        form.len()
    )
}

// Shows (Commands and configuration).
#[tokio::test]
async fn the_client_of_a_trusted_balancer_is_the_one_that_it_names() {
    let settings = "[admin]\nauth_per_minute = 1\nproxy_protocol = [\"127.0.0.0/8\"]\n";
    let (_site, api) = started(settings).await;
    let log_in = async |header: &str| reported(&api, &format!("{header}{}", wrong_log_in())).await;
    for (header, status) in [
        ("PROXY TCP4 198.51.100.7 10.0.0.1 40000 443\r\n", "401"),
        ("PROXY TCP4 198.51.100.7 10.0.0.1 40001 443\r\n", "429"),
        ("PROXY TCP4 198.51.100.8 10.0.0.1 40002 443\r\n", "401"),
        // The balancer itself, in both versions.
        ("PROXY UNKNOWN\r\n", "401"),
        ("\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", "429"),
    ] {
        let answer = log_in(header).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{header:?}: {answer}");
    }
    assert_eq!(answered(&api, HEALTH).await, "", "it must name a client");
}

// Shows (Commands and configuration).
#[tokio::test]
async fn a_header_of_another_peer_is_a_bad_request() {
    let (_site, api) = started("[admin]\nproxy_protocol = [\"10.0.0.0/8\"]\n").await;
    assert!(reported(&api, HEALTH).await.starts_with("HTTP/1.1 200 "));
    for header in ["PROXY TCP4 198.51.100.7 10.0.0.1 40000 443\r\n", "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
        let answer = answered(&api, &format!("{header}{HEALTH}")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{header:?}: {answer}");
    }
}

#[tokio::test]
async fn a_connection_whose_header_is_missing_does_not_delay_a_drain() {
    let (_site, api) = started("[admin]\nproxy_protocol = [\"127.0.0.0/8\"]\n").await;
    let mut client = TcpStream::connect(api.addr()).await.unwrap();
    client.write_all(b"PROXY ").await.unwrap();
    while api.tasks.len() < 2 {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    let drained = tokio::time::timeout(Duration::from_secs(1), api.drain()).await;
    assert_eq!(drained, Ok(0), "it waits for no header");
}

type Pair = (CertificateDer<'static>, PrivateKeyDer<'static>);

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn signed(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.into()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }

    fn client(&self) -> Option<Pair> {
        let (certificate, key) = self.signed("client.example");
        Some((certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap()))
    }
}

/// The API over TLS, and the files that it uses.
struct Secured {
    api: Api,
    certificate: Arc<Certificate>,
    tls: AdminTls,
    servers: Authority,
    _dir: TempDir,
    _site: Site,
}

impl Secured {
    /// Serves clients whose certificates `authority` signed. A certificate is required or optional.
    async fn start(clients: Option<(&Authority, ClientAuth)>) -> Self {
        let site = Site::new().await;
        let dir = tempfile::tempdir().unwrap();
        let servers = Authority::new("servers");
        let (certificate, key) = servers.signed("localhost");
        let file = |name: &str, text: String| {
            let file = dir.path().join(name);
            std::fs::write(&file, text).unwrap();
            Some(file)
        };
        let mut tls = AdminTls::default();
        tls.cert = file("cert.pem", certificate.pem());
        tls.key = file("key.pem", key.serialize_pem());
        if let Some((authority, auth)) = clients {
            (tls.client_ca, tls.client_auth) = (file("clients.pem", authority.0.pem()), auth);
        }
        let paths = CertificatePaths::of_management(&tls, &AcmeSettings::default()).unwrap();
        let certificate = Arc::new(Certificate::load(&paths).unwrap());
        let api = Api::start(&site.app, ANY, Some(certificate.clone())).unwrap();
        Secured { api, certificate, tls, servers, _dir: dir, _site: site }
    }

    fn connector(&self, pair: Option<Pair>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.servers.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let config = match pair {
            Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
            None => config.with_no_client_auth(),
        };
        TlsConnector::from(Arc::new(config))
    }

    /// Returns the answer to a client, and whether its session was resumed.
    async fn asked(&self, client: &TlsConnector) -> io::Result<(String, bool)> {
        let stream = TcpStream::connect(self.api.addr()).await?;
        let name = ServerName::try_from("localhost");
        let connect = client.connect(name.unwrap(), stream);
        let asking = async {
            let mut stream = connect.await?;
            let is_resumed = stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
            stream.write_all(HEALTH.as_bytes()).await?;
            let mut answer = Vec::new();
            match stream.read_to_end(&mut answer).await {
                Err(error) if answer.is_empty() => Err(error),
                _ => Ok((String::from_utf8(answer).unwrap(), is_resumed)),
            }
        };
        tokio::time::timeout(SOON, asking).await.unwrap()
    }

    async fn serves(&self, pair: Option<Pair>) -> bool {
        let answer = self.asked(&self.connector(pair)).await;
        let is_served = answer.as_ref().is_ok_and(|(answer, _)| answer.starts_with("HTTP/1.1 200 "));
        assert!(is_served || answer.is_err(), "{answer:?}");
        is_served
    }
}

// Shows (Commands and configuration): The management side serves over TLS and may require client certificates: a client
// without one, or with one of another authority, gets no answer; changed files are used without a reload.
#[tokio::test]
async fn a_client_needs_a_certificate_of_the_authority_where_one_is_required() {
    let ours = Authority::new("ours");
    let foreign = Authority::new("foreign");
    let api = Secured::start(Some((&ours, ClientAuth::Required))).await;
    assert!(api.serves(ours.client()).await);
    assert!(!api.serves(None).await, "it has none");
    assert!(!api.serves(foreign.client()).await, "it is of another authority");
    // This certificate only claims to be signed by our authority.
    assert!(!api.serves(Authority::new("ours").client()).await);
    assert!(api.serves(ours.client()).await, "others are not disturbed");
}

// Shows (Commands and configuration).
#[tokio::test]
async fn a_client_may_have_no_certificate_where_it_is_optional_but_no_foreign_one() {
    let ours = Authority::new("ours");
    let foreign = Authority::new("foreign");
    let api = Secured::start(Some((&ours, ClientAuth::Optional))).await;
    assert!(api.serves(None).await && api.serves(ours.client()).await);
    assert!(!api.serves(foreign.client()).await);
}

// Shows (Commands and configuration).
#[tokio::test]
async fn each_connection_shows_its_own_certificate_where_one_is_required() {
    let ours = Authority::new("ours");
    for (clients, is_resumed) in [
        (Some((&ours, ClientAuth::Required)), false),
        (Some((&ours, ClientAuth::Optional)), false),
        (None, true),
    ] {
        let api = Secured::start(clients).await;
        let client = api.connector(ours.client());
        let first = api.asked(&client).await.unwrap();
        let second = api.asked(&client).await.unwrap();
        assert!(first.0.starts_with("HTTP/1.1 200 ") && second.0.starts_with("HTTP/1.1 200 "));
        assert_eq!((first.1, second.1), (false, is_resumed), "{:?}", clients.map(|(_, auth)| auth));
    }
}

// Shows (Commands and configuration).
#[tokio::test]
async fn without_an_authority_no_client_is_asked_for_a_certificate() {
    let api = Secured::start(None).await;
    assert!(api.serves(None).await && api.serves(Authority::new("any").client()).await);
    let mut plain = TcpStream::connect(api.api.addr()).await.unwrap();
    plain.write_all(HEALTH.as_bytes()).await.unwrap();
    let mut alert = Vec::new();
    let _ = tokio::time::timeout(SOON, plain.read_to_end(&mut alert)).await.unwrap();
    assert!(!alert.starts_with(b"HTTP/"), "nothing is served without TLS");
}

#[tokio::test]
async fn http_2_is_spoken_over_tls() {
    let api = Secured::start(None).await;
    let mut roots = RootCertStore::empty();
    roots.add(api.servers.0.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(api.api.addr()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut send, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("https://localhost/healthz").body(Empty::<Bytes>::new()).unwrap();
    let body = send.send_request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), json!({"status": "ok"}));
}

// Shows (Commands and configuration).
#[tokio::test]
async fn another_authority_of_clients_is_for_new_connections() {
    let first = Authority::new("first");
    let second = Authority::new("second");
    let api = Secured::start(Some((&first, ClientAuth::Required))).await;
    assert!(api.serves(first.client()).await && !api.serves(second.client()).await);
    std::fs::write(api.tls.client_ca.as_ref().unwrap(), second.0.pem()).unwrap();
    assert!(api.serves(first.client()).await, "the file is read when it is known to be whole");
    api.certificate.replace(
        CertificatePaths::of_management(&api.tls, &AcmeSettings::default()).unwrap().load().unwrap(),
    );
    assert!(api.serves(second.client()).await && !api.serves(first.client()).await);
}
