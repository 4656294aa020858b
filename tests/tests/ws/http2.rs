//! Streams over HTTP/2 (RFC 8441), on the HTTPS port: messages with hyper and tungstenite, HTTP/2 frames with h2.

use crate::left::Left;
use crate::node::{Content, StreamNode};
use crate::setup;
use crate::stream::{FIN, PING, Stream, TEXT, call, frame, target};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use h2::client::SendRequest;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::ext::Protocol;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rpcgate_config::{Overlay, PlanChange};
use rpcgate_core::backend::directory::MemoryDirectory;
use rpcgate_core::backend::suite;
use rpcgate_core::plan::Tier;
use rpcgate_core::secret::KeyHash;
use rpcgate_tests::certificate::TestCertificate;
use rpcgate_tests::gateway::{Setup, TestGateway, key};
use rpcgate_tests::{TIMEOUT, until};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

const MIB: usize = 1 << 20;

struct Secured {
    gateway: TestGateway,
    certificate: TestCertificate,
}

type Client = hyper::client::conn::http2::SendRequest<Empty<Bytes>>;

impl Secured {
    async fn start(setup: Setup) -> Self {
        let certificate = TestCertificate::new();
        Secured { gateway: certificate.used_by(setup).start().await, certificate }
    }

    async fn tls(&self, addr: SocketAddr) -> TlsStream<TcpStream> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.certificate.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let socket = TcpStream::connect(addr).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap()
    }

    async fn client(&self) -> Client {
        let io = TokioIo::new(self.tls(self.gateway.addr()).await);
        let (send, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        send
    }

    /// Returns a client of frames, whose connection has a large window, and whose streams have windows of 64 KiB.
    async fn frames(&self, addr: SocketAddr) -> SendRequest<Bytes> {
        let mut builder = h2::client::Builder::new();
        builder.initial_connection_window_size(16 << 20);
        let (send, connection) = builder.handshake(self.tls(addr).await).await.unwrap();
        tokio::spawn(connection);
        send
    }
}

fn connect(target: &str, protocol: &'static str) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = format!("https://localhost{target}").parse().unwrap();
    request.headers_mut().insert("sec-websocket-version", "13".parse().unwrap());
    request.extensions_mut().insert(Protocol::from_static(protocol));
    request
}

async fn send(client: &mut Client, request: Request<()>) -> Response<hyper::body::Incoming> {
    let request = request.map(|()| Empty::new());
    timeout(TIMEOUT, client.send_request(request)).await.unwrap().unwrap()
}

async fn open(client: &mut Client) -> WebSocketStream<TokioIo<Upgraded>> {
    open_as(client, "default").await
}

async fn open_as(client: &mut Client, key: &str) -> WebSocketStream<TokioIo<Upgraded>> {
    let answer = send(client, connect(&target(key), "websocket")).await;
    assert_eq!(answer.status(), 200);
    assert!(!answer.headers().contains_key("sec-websocket-accept"));
    let io = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    WebSocketStream::from_raw_socket(io, Role::Client, None).await
}

async fn next(stream: &mut WebSocketStream<TokioIo<Upgraded>>) -> Message {
    timeout(TIMEOUT, stream.next()).await.unwrap().unwrap().unwrap()
}

// Shows (Streams): Streams may use HTTP/2 (RFC 8441) and are admitted, refused, bounded and closed as over HTTP/1.1; a
// reset stream leaves nothing behind.
#[tokio::test]
async fn streams_and_calls_share_a_connection_of_http2() {
    let node = StreamNode::start(Content::Echo).await;
    let site = Secured::start(setup(&node.url(), &[])).await;
    let mut client = site.client().await;
    let mut one = open(&mut client).await;
    let mut two = open(&mut client).await;
    let large = "7".repeat(3 * MIB);
    two.send(Message::binary(call(&large).into_bytes())).await.unwrap();
    for text in ["first", "second"] {
        one.send(Message::text(call(text))).await.unwrap();
        assert_eq!(next(&mut one).await, Message::text(text));
    }
    one.send(Message::Ping(Bytes::from_static(b"ping"))).await.unwrap();
    assert_eq!(next(&mut one).await, Message::Pong(Bytes::from_static(b"ping")));
    assert_eq!(next(&mut two).await, Message::binary(large.into_bytes()));
    let health = Request::get("https://localhost/healthz").body(()).unwrap();
    assert_eq!(send(&mut client, health).await.status(), 200);
    assert_eq!((site.gateway.server.streams(), site.gateway.server.connections(), node.open()), (2, 1, 2));

    let farewell = CloseFrame { code: CloseCode::Library(4_000), reason: "enough".into() };
    one.close(Some(farewell.clone())).await.unwrap();
    assert_eq!(next(&mut one).await, Message::Close(Some(farewell)));
    until("the first has ended", || site.gateway.server.streams() == 1 && node.open() == 1).await;
    two.send(Message::text(call("still here"))).await.unwrap();
    assert_eq!(next(&mut two).await, Message::text("still here"));
    // The connection ends.
    drop((one, two, client));
    until("the second has ended", || site.gateway.server.streams() == 0 && node.open() == 0).await;
    until("the connection has ended", || site.gateway.server.connections() == 0).await;
}

// Shows (Streams).
#[tokio::test]
async fn streams_over_http2_are_closed_with_1008_for_their_key_and_with_1001_in_a_drain() {
    let node = StreamNode::start(Content::Echo).await;
    let hash = |name| KeyHash::of(&key(name));
    let caller = |number| Arc::new(suite::caller(number));
    let directory =
        Arc::new(MemoryDirectory::new([(hash("revoked"), caller(1)), (hash("lasting"), caller(2))]));
    let setup = setup(&node.url(), &[]).directory(directory.clone()).set("shutdown", "grace = \"4s\"");
    let site = Secured::start(setup).await;
    // Streams of both keys on the same connection.
    let mut client = site.client().await;
    let mut revoked = open_as(&mut client, "revoked").await;
    let mut lasting = open_as(&mut client, "lasting").await;
    let closed =
        |code, reason: &'static str| Message::Close(Some(CloseFrame { code, reason: reason.into() }));
    directory.revoke(hash("revoked"));
    assert_eq!(next(&mut revoked).await, closed(CloseCode::Policy, "API key revoked"));
    drop(revoked);
    until("the others have ended", || site.gateway.server.streams() == 1).await;
    lasting.send(Message::text(call("still here"))).await.unwrap();
    assert_eq!(next(&mut lasting).await, Message::text("still here"));
    let reading = async {
        let seen = next(&mut lasting).await;
        // The answer to the close frame.
        while lasting.next().await.is_some_and(|seen| seen.is_ok()) {}
        seen
    };
    let (drained, seen) = tokio::join!(site.gateway.server.drain(), reading);
    assert_eq!(seen, closed(CloseCode::Away, "the gateway is restarting, reconnect"));
    assert_eq!(drained.cut, 0);
}

// Shows (Streams).
#[tokio::test]
#[expect(clippy::result_large_err, reason = "tungstenite wants this type")]
async fn sub_protocols_pass_over_http2_and_the_node_chooses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let choosing = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut offered = None;
        let stream = tokio_tungstenite::accept_hdr_async(
            socket,
            |request: &Request<()>, mut response: Response<()>| {
                offered = request.headers().get("sec-websocket-protocol").cloned();
                response.headers_mut().insert("sec-websocket-protocol", "b".parse().unwrap());
                Ok(response)
            },
        )
        .await;
        (offered, stream.is_ok())
    });
    let site = Secured::start(setup(&url, &[])).await;
    let mut request = connect(&target("default"), "websocket");
    request.headers_mut().insert("sec-websocket-protocol", "a, b".parse().unwrap());
    let answer = send(&mut site.client().await, request).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["sec-websocket-protocol"]),
        (200, &"b".parse().unwrap())
    );
    assert_eq!(choosing.await.unwrap(), (Some("a, b".parse().unwrap()), true));
}

// Shows (Streams).
#[tokio::test]
async fn handshakes_over_http2_are_refused_as_over_http1() {
    let node = StreamNode::start(Content::Echo).await;
    // It does not listen, and nothing else gets its port.
    let mute = tokio::net::TcpSocket::new_v4().unwrap();
    mute.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gone = mute.local_addr().unwrap();
    let setup = setup(&node.url(), &[])
        .set("chains.bsc", &format!("nodes = [\"ws://{gone}\"]"))
        .key("scoped", "chains = [\"bsc\"]");
    let plain = setup.start().await;
    let site = Secured::start(setup).await;
    let change = PlanChange { ws_connections_per_key: Some(0), ..Default::default() };
    let overlay = Overlay { plans: [(Tier::Enterprise, change)].into(), ..Default::default() };
    let mut client = site.client().await;
    let dead = target("default").replace("eth", "bsc");
    let rows: [(String, u16, bool); 7] = [
        ("/ws/eth".into(), 401, false),
        ("/ws/eth?apikey=wrong".into(), 401, false),
        (target("default").replace("eth", "nowhere"), 404, false),
        (target("default").replace("eth", "btc"), 404, false),
        (target("scoped"), 403, false),
        (dead, 502, false),
        (target("default"), 429, true),
    ];
    for (target, status, is_capped) in rows {
        if is_capped {
            assert!(plain.server.overlay(&overlay).is_ok() && site.gateway.server.overlay(&overlay).is_ok());
        }
        let old = Stream::handshake(plain.addr(), &target, "").await.err().unwrap();
        let new = send(&mut client, connect(&target, "websocket")).await;
        let of_http1 = old.status;
        let of_http2 = new.status().as_u16();
        let body = new.into_body().collect().await.unwrap().to_bytes();
        assert_eq!((of_http1, of_http2, &*body), (status, status, old.body.as_bytes()), "{target}");
    }
    for (request, status) in [
        (connect(&target("default"), "connect-udp"), 426),
        (connect("/eth", "websocket"), 405),
        (Request::get(format!("https://localhost{}", target("default"))).body(()).unwrap(), 426),
    ] {
        let shown = format!("{request:?}");
        assert_eq!(send(&mut client, request).await.status(), status, "{shown}");
    }
    let mut old = connect(&target("default"), "websocket");
    old.headers_mut().insert("sec-websocket-version", "8".parse().unwrap());
    let answer = send(&mut client, old).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["sec-websocket-version"]),
        (426, &"13".parse().unwrap())
    );
    assert_eq!((node.opened(), site.gateway.server.streams()), (0, 0));
}

// Shows (Streams).
#[tokio::test]
async fn only_the_address_of_https_takes_streams_over_http2() {
    let node = StreamNode::start(Content::Echo).await;
    let site = Secured::start(setup(&node.url(), &[])).await;
    for (addr, is_taken) in [(site.gateway.addr(), true), (site.gateway.server.grpc_addr().unwrap(), false)] {
        let mut client = site.frames(addr).await.ready().await.unwrap();
        let mut request = connect(&target("default"), "websocket");
        request.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
        let (answer, _body) = client.send_request(request, false).unwrap();
        let answer = timeout(TIMEOUT, answer).await.unwrap();
        assert_eq!(client.is_extended_connect_protocol_enabled(), is_taken);
        match answer {
            Ok(answer) => assert!(is_taken && answer.status() == 200),
            Err(error) => assert!(!is_taken && error.reason() == Some(h2::Reason::PROTOCOL_ERROR), "{error}"),
        }
    }
}

/// Opens a stream whose HTTP/2 frames the test controls.
async fn raw(client: &SendRequest<Bytes>) -> (h2::SendStream<Bytes>, h2::RecvStream) {
    let mut request = connect(&target("default"), "websocket");
    request.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
    let (answer, writes) = client.clone().ready().await.unwrap().send_request(request, false).unwrap();
    let answer = timeout(TIMEOUT, answer).await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
    (writes, answer.into_body())
}

// Shows (Streams).
#[tokio::test]
async fn a_stream_that_is_reset_or_ended_leaves_nothing_at_its_node_and_frees_its_slot() {
    let node = StreamNode::start(Content::Echo).await;
    let site = Secured::start(setup(&node.url(), &[])).await;
    let change = PlanChange { ws_connections_per_key: Some(1), ..Default::default() };
    let overlay = Overlay { plans: [(Tier::Enterprise, change)].into(), ..Default::default() };
    assert!(site.gateway.server.overlay(&overlay).is_ok());
    let client = site.frames(site.gateway.addr()).await;
    let ports = [site.gateway.addr().port(), node.addr.port()];
    let mut left = None;
    for round in 0..6 {
        let (mut writes, mut reads) = raw(&client).await;
        assert_eq!((site.gateway.server.streams(), node.open()), (1, 1));
        writes.send_data(frame(FIN | TEXT, call("hello").as_bytes()).into(), false).unwrap();
        let echo = timeout(TIMEOUT, reads.data()).await.unwrap().unwrap().unwrap();
        assert_eq!(&echo[..], b"\x81\x05hello");
        match round % 3 {
            0 => writes.send_reset(h2::Reason::CANCEL),
            // A reset by a client in the middle of a frame.
            1 => {
                writes.send_data(frame(FIN | TEXT, b"unfinished")[..9].to_vec().into(), false).unwrap();
                writes.send_reset(h2::Reason::INTERNAL_ERROR);
            }
            _ => writes.send_data(Bytes::new(), true).unwrap(),
        }
        until("the stream has ended", || site.gateway.server.streams() == 0 && node.open() == 0).await;
        drop((writes, reads));
        match &left {
            None => left = Some(Left::settled(&ports).await),
            Some(left) => left.is_reached_again(&ports).await,
        }
    }
}

// Shows (Streams).
#[tokio::test]
async fn a_client_that_reads_nothing_slows_its_node_and_only_its_stream_is_closed() {
    let node = StreamNode::start(Content::Flood(64 << 10)).await;
    let quick = ["ping_interval = \"1s\"", "dead_after = \"2s\"", "max_backlog = \"1MiB\""];
    let site = Secured::start(setup(&node.url(), &quick)).await;
    let client = site.frames(site.gateway.addr()).await;
    let (mut writes, mut reads) = raw(&client).await;
    writes.send_data(frame(FIN | TEXT, call("begin").as_bytes()).into(), false).unwrap();
    until("the node cannot send any more", || node.is_blocked()).await;
    let sockets = crate::limits::sockets();
    assert!(node.sent() <= sockets + 2 * MIB, "{} bytes are on the way", node.sent());
    let (mut other, mut answers) = raw(&client).await;
    other.send_data(frame(FIN | PING, b"undisturbed").into(), false).unwrap();
    let pong = timeout(TIMEOUT, answers.data()).await.unwrap().unwrap().unwrap();
    assert_eq!(&pong[..], b"\x8a\x0bundisturbed");
    drop((other, answers));
    until("the slow stream has ended", || site.gateway.server.streams() == 0 && node.open() == 0).await;
    // It had 64 KiB of its window, and the rest was dropped.
    let mut got = 0;
    while let Some(Ok(data)) = timeout(TIMEOUT, reads.data()).await.unwrap() {
        got += data.len();
        assert!(got <= MIB, "{got}");
        reads.flow_control().release_capacity(data.len()).unwrap();
    }
    drop(raw(&client).await);
}
