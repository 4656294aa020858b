use std::convert::Infallible;

use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::framing::{Framing, Side, field};
use super::*;

const HOUR: Duration = Duration::from_secs(3_600);
const BODY: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":7,"result":"pong"}"#;

/// A healthy node: reads each request to its end, counts it, answers with `ANSWER`.
struct Node {
    addr: SocketAddr,
    served: Arc<AtomicU64>,
    task: AbortHandle,
}

impl Node {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let served = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&served);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let counter = Arc::clone(&counter);
                let answer = service_fn(move |request: Request<Incoming>| {
                    let counter = Arc::clone(&counter);
                    async move {
                        let _ = request.into_body().collect().await;
                        counter.fetch_add(1, Relaxed);
                        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(ANSWER.as_bytes()))))
                    }
                });
                connections.spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer),
                );
            }
        });
        Node { addr, served, task: task.abort_handle() }
    }

    fn served(&self) -> u64 {
        self.served.load(Relaxed)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn behind(mode: Mode) -> (Node, FaultProxy) {
    let node = Node::start().await;
    let proxy = FaultProxy::start(node.addr).await.unwrap();
    proxy.set(mode);
    (node, proxy)
}

async fn connect(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(proxy.addr()).await.unwrap()
}

fn request() -> String {
    format!("POST / HTTP/1.1\r\nhost: node\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len())
}

async fn ask(client: &mut TcpStream) {
    client.write_all(request().as_bytes()).await.unwrap();
}

/// Reads up to the end of the connection and returns whether that was a FIN (a reset is an error).
async fn rest(client: &mut TcpStream) -> (String, io::Result<()>) {
    let mut bytes = Vec::new();
    let end = client.read_to_end(&mut bytes).await.map(drop);
    (String::from_utf8_lossy(&bytes).into_owned(), end)
}

/// Reads one whole reply: head and decoded body.
async fn reply(client: &mut TcpStream) -> (String, Vec<u8>) {
    let mut framing = Framing::new(Side::Node);
    framing.expect(true, false);
    loop {
        let byte = client.read_u8().await.unwrap();
        if framing.feed(&[byte]).ends > 0 {
            let (head, body) = framing.take();
            return (String::from_utf8(head).unwrap(), body);
        }
    }
}

/// Waits until this number of bytes of its clients has arrived.
async fn has_read(proxy: &FaultProxy, bytes: usize) {
    while proxy.stats().from_client < bytes as u64 {
        tokio::task::yield_now().await;
    }
}

fn is_reset(end: &io::Result<()>) -> bool {
    end.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
}

#[tokio::test]
async fn by_default_everything_passes_and_is_counted() {
    let (node, proxy) = behind(Mode::Pass).await;
    let mut client = connect(&proxy).await;
    let mut replied = 0;
    for _ in 0..3 {
        ask(&mut client).await;
        let (head, body) = reply(&mut client).await;
        assert_eq!(body, ANSWER.as_bytes());
        replied += head.len() + body.len();
    }
    let stats = proxy.stats();
    assert_eq!((node.served(), stats.requests, stats.connections, stats.open), (3, 3, 1, 1));
    assert_eq!(stats.from_client, 3 * request().len() as u64);
    assert_eq!(stats.to_client, replied as u64);
    assert_eq!(proxy.url(), format!("http://{}", proxy.addr()));
}

#[tokio::test(start_paused = true)]
async fn a_delay_postpones_the_reply_and_loses_nothing() {
    let (node, proxy) = behind(Mode::Delay(HOUR)).await;
    let mut client = connect(&proxy).await;
    ask(&mut client).await;
    assert!(timeout(HOUR / 2, client.readable()).await.is_err());
    assert_eq!(reply(&mut client).await.1, ANSWER.as_bytes());
    assert_eq!(node.served(), 1);
}

#[tokio::test]
async fn a_cut_ends_the_reply_in_good_order_at_that_byte() {
    let (_node, proxy) = behind(Mode::CutAfter(40)).await;
    let mut client = connect(&proxy).await;
    ask(&mut client).await;
    let (text, end) = rest(&mut client).await;
    assert_eq!((text.len(), end.is_ok()), (40, true));
    assert!(text.starts_with("HTTP/1.1 200 OK"));
    assert_eq!(proxy.stats().to_client, 40);
}

#[tokio::test]
async fn a_cut_in_the_body_leaves_the_head_whole() {
    for limit in [0, 11] {
        let (_node, proxy) = behind(Mode::CutBodyAfter(limit)).await;
        let mut client = connect(&proxy).await;
        ask(&mut client).await;
        let (text, end) = rest(&mut client).await;
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(field(head.as_bytes(), "content-length").unwrap(), ANSWER.len().to_string());
        assert_eq!(body, &ANSWER[..limit as usize]);
        assert!(end.is_ok());
    }
}

#[tokio::test]
async fn a_reset_is_a_reset() {
    let (node, proxy) = behind(Mode::ResetAfter(20)).await;
    let mut client = connect(&proxy).await;
    ask(&mut client).await;
    let (text, end) = rest(&mut client).await;
    assert!(text.len() <= 20 && is_reset(&end), "{text:?} {end:?}");
    assert_eq!(node.served(), 1);
}

#[tokio::test]
async fn a_half_closed_connection_still_takes_a_request_without_an_answer() {
    let (node, proxy) = behind(Mode::HalfClose).await;
    let mut client = connect(&proxy).await;
    ask(&mut client).await;
    assert_eq!(reply(&mut client).await.1, ANSWER.as_bytes());
    for _ in 0..2 {
        ask(&mut client).await;
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }
    assert_eq!(node.served(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_black_hole_reads_and_never_answers() {
    let (node, proxy) = behind(Mode::BlackHole).await;
    let mut client = connect(&proxy).await;
    ask(&mut client).await;
    has_read(&proxy, request().len()).await;
    assert!(timeout(HOUR, client.readable()).await.is_err());
    assert_eq!(node.served(), 0);

    proxy.set(Mode::Pass);
    let mut another = connect(&proxy).await;
    ask(&mut another).await;
    assert_eq!(reply(&mut another).await.1, ANSWER.as_bytes());
    assert!(timeout(HOUR, client.readable()).await.is_err());
}

#[tokio::test]
async fn new_connections_are_refused_while_open_ones_continue() {
    let (_node, proxy) = behind(Mode::Pass).await;
    let mut old = connect(&proxy).await;
    ask(&mut old).await;
    reply(&mut old).await;
    for _ in 0..3 {
        proxy.set(Mode::RefuseNew);
        let refused = TcpStream::connect(proxy.addr()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        ask(&mut old).await;
        assert_eq!(reply(&mut old).await.1, ANSWER.as_bytes());

        proxy.set(Mode::Pass);
        let mut new = connect(&proxy).await;
        ask(&mut new).await;
        assert_eq!(reply(&mut new).await.1, ANSWER.as_bytes());
    }
}

#[tokio::test]
async fn new_connections_are_reset_after_they_were_accepted() {
    let (node, proxy) = behind(Mode::ResetNew).await;
    let mut client = connect(&proxy).await;
    assert!(is_reset(&rest(&mut client).await.1));
    assert_eq!((node.served(), proxy.stats().connections), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_slow_reply_comes_in_pieces_and_whole_in_the_end() {
    let (_node, proxy) = behind(Mode::Slow { bytes: 5, every: HOUR }).await;
    let mut client = connect(&proxy).await;
    ask(&mut client).await;
    let mut piece = [0; 64];
    for _ in 0..3 {
        // Yields instead of waiting: the paused clock advances only while all tasks are idle.
        let read = loop {
            tokio::task::yield_now().await;
            if let Ok(read) = client.try_read(&mut piece) {
                break read;
            }
        };
        assert_eq!(read, 5);
        tokio::time::advance(HOUR).await;
    }

    let mut client = connect(&proxy).await;
    ask(&mut client).await;
    assert_eq!(reply(&mut client).await.1, ANSWER.as_bytes());
}

#[tokio::test]
async fn garbage_is_not_http_and_does_not_reach_the_node() {
    let (node, proxy) = behind(Mode::Garbage).await;
    let stream = TokioIo::new(connect(&proxy).await);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let error = sender.send_request(Request::new(Full::new(Bytes::from(BODY)))).await.unwrap_err();
    assert!(error.is_parse(), "{error:?}");
    assert_eq!(node.served(), 0);
}

#[tokio::test]
async fn a_garbage_body_follows_a_valid_head() {
    let (node, proxy) = behind(Mode::GarbageBody).await;
    let mut client = connect(&proxy).await;
    for _ in 0..2 {
        ask(&mut client).await;
        let (head, body) = reply(&mut client).await;
        assert_eq!(field(head.as_bytes(), "content-type").unwrap(), "application/json");
        assert!(serde_json::from_slice::<Value>(&body).is_err());
    }
    assert_eq!(node.served(), 0);
}

#[tokio::test]
async fn an_oversized_reply_is_valid_and_as_long_as_asked() {
    let (_node, proxy) = behind(Mode::Oversize(300_000)).await;
    let mut client = connect(&proxy).await;
    for _ in 0..2 {
        ask(&mut client).await;
        let (_, body) = reply(&mut client).await;
        assert_eq!(body.len(), 300_000);
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["id"], 7);
    }
}

#[tokio::test]
async fn a_bad_length_is_longer_than_the_body() {
    let (_node, proxy) = behind(Mode::BadLength).await;
    let mut client = connect(&proxy).await;
    ask(&mut client).await;
    let (text, end) = rest(&mut client).await;
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, ANSWER);
    assert!(field(head.as_bytes(), "content-length").unwrap().parse::<usize>().unwrap() > body.len());
    assert!(end.is_ok());
}

#[tokio::test]
async fn excess_bytes_follow_a_whole_reply_in_the_same_piece() {
    let extra = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison";
    let (_node, proxy) = behind(Mode::ExcessBody(Bytes::from(extra))).await;
    let mut client = connect(&proxy).await;
    ask(&mut client).await;
    assert_eq!(reply(&mut client).await.1, ANSWER.as_bytes());
    assert_eq!(reply(&mut client).await.1, b"poison");
    assert_eq!(proxy.stats().requests, 1);
}

#[tokio::test]
async fn an_early_answer_does_not_wait_for_the_request_body() {
    let (node, proxy) = behind(Mode::EarlyAnswer(Bytes::from_static(b"[]"))).await;
    let mut client = connect(&proxy).await;
    let request = request();
    let (head, body) = request.split_at(request.len() - BODY.len());
    client.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(reply(&mut client).await.1, b"[]");

    proxy.set(Mode::Pass);
    client.write_all(body.as_bytes()).await.unwrap();
    ask(&mut client).await;
    assert_eq!(reply(&mut client).await.1, ANSWER.as_bytes());
    assert_eq!(node.served(), 1);
}

#[tokio::test]
async fn interim_replies_come_before_the_real_one() {
    let (_node, proxy) = behind(Mode::Informational).await;
    let mut client = connect(&proxy).await;
    for _ in 0..2 {
        ask(&mut client).await;
        let mut text = Vec::new();
        while !text.ends_with(ANSWER.as_bytes()) {
            text.push(client.read_u8().await.unwrap());
        }
        let text = String::from_utf8(text).unwrap();
        let codes: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)).collect();
        assert_eq!(codes, ["100", "102", "103", "200"]);
    }
}

#[tokio::test]
async fn a_stale_connection_is_detected_when_it_is_used_again() {
    let (node, proxy) = behind(Mode::StaleKeepAlive).await;
    for _ in 0..2 {
        let mut client = connect(&proxy).await;
        ask(&mut client).await;
        assert_eq!(reply(&mut client).await.1, ANSWER.as_bytes());
        ask(&mut client).await;
        let (text, end) = rest(&mut client).await;
        assert!(text.is_empty() && end.is_ok(), "{text:?} {end:?}");
    }
    assert_eq!(node.served(), 2);
}

#[tokio::test]
async fn a_request_keeps_the_mode_in_which_it_began() {
    let (node, proxy) = behind(Mode::Pass).await;
    let mut client = connect(&proxy).await;
    let request = request();
    let (front, back) = request.split_at(30);
    client.write_all(front.as_bytes()).await.unwrap();
    has_read(&proxy, front.len()).await;
    proxy.set(Mode::BlackHole);
    client.write_all(back.as_bytes()).await.unwrap();
    assert_eq!(reply(&mut client).await.1, ANSWER.as_bytes());
    assert_eq!(node.served(), 1);
}

#[tokio::test]
async fn bytes_that_are_not_http_pass_and_can_be_cut() {
    let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(echo.local_addr().unwrap()).await.unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = echo.accept().await.unwrap();
        let (mut read, mut write) = stream.split();
        let _ = tokio::io::copy(&mut read, &mut write).await;
    });
    let mut client = connect(&proxy).await;
    let mut back = [0; 6];
    for _ in 0..2 {
        client.write_all(b"PING\r\n").await.unwrap();
        client.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"PING\r\n");
    }
    proxy.set(Mode::CutAfter(2));
    client.write_all(b"PING\r\n").await.unwrap();
    let (text, end) = rest(&mut client).await;
    assert_eq!((text.as_str(), end.is_ok()), ("PI", true));
    server.await.unwrap();
}

#[tokio::test]
async fn every_open_connection_can_be_reset_at_once() {
    let (_node, proxy) = behind(Mode::Pass).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = connect(&proxy).await;
        ask(&mut client).await;
        reply(&mut client).await;
        clients.push(client);
    }
    proxy.reset_open();
    for client in &mut clients {
        assert!(is_reset(&rest(client).await.1));
    }
    let mut client = connect(&proxy).await;
    ask(&mut client).await;
    assert_eq!(reply(&mut client).await.1, ANSWER.as_bytes());
    assert_eq!(proxy.stats().open, 1);
}

#[tokio::test]
async fn a_dropped_proxy_leaves_nothing_behind() {
    let (_node, proxy) = behind(Mode::Pass).await;
    let mut client = connect(&proxy).await;
    ask(&mut client).await;
    reply(&mut client).await;
    let addr = proxy.addr();
    drop(proxy);
    assert!(rest(&mut client).await.0.is_empty());
    assert!(TcpStream::connect(addr).await.is_err());
}
