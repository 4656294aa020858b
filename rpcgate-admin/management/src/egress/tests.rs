//! Tests of allowed and refused targets, and of all kinds of answers, on sockets.

use super::*;
use crate::testing::service::read_request;
use bytes::Bytes;
use http::HeaderMap;
use http::header::HeaderValue;
use rpcgate_config::{Url, Webhooks};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::ManualClock;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

mod secure;

const SOON: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(700);

/// A resolver with fixed answers. Each look-up of a name takes its next list of addresses.
#[derive(Debug, Default)]
struct Table {
    names: HashMap<&'static str, Vec<Vec<IpAddr>>>,
    looks: AtomicUsize,
    hangs: bool,
}

impl Resolver for Table {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            let look = self.looks.fetch_add(1, Ordering::Relaxed);
            let found = self.names.get(name).map(|lists| lists[look % lists.len()].clone());
            found.ok_or_else(|| io::Error::other("no such name"))
        })
    }
}

fn table(names: &[(&'static str, &[&[&str]])]) -> Table {
    let list = |list: &[&str]| list.iter().map(|address| address.parse().unwrap()).collect();
    let lists = |lists: &[&[&str]]| lists.iter().map(|one| list(one)).collect();
    let names = names.iter().map(|(name, found)| (*name, lists(found))).collect();
    Table { names, ..Table::default() }
}

fn client(settings: &Webhooks, table: Table) -> EgressClient {
    let clock = Arc::new(ManualClock::at(rpcgate_core::clock::Time::from_secs(1)));
    EgressClient::with(settings, clock, Arc::new(table)).unwrap()
}

fn guarded(table: Table) -> EgressClient {
    client(&Webhooks::default(), table)
}

fn open(table: Table) -> EgressClient {
    let mut settings = Webhooks::default();
    settings.allow_private_targets = true;
    client(&settings, table)
}

async fn post(client: &EgressClient, url: &str, limit: Duration) -> Result<EgressAnswer, EgressError> {
    let target = EgressTarget::parse(url)?;
    let mut headers = HeaderMap::new();
    headers.insert("x-one", HeaderValue::from_static("1"));
    client.post(&target, headers, Bytes::from_static(b"{\"a\":1}"), limit).await
}

/// Runs a receiver that counts its connections, reads requests, and answers each with the next of `answers`. After the
/// last one it stays silent. It reports each request unchanged.
async fn receiver(answers: Vec<Vec<u8>>) -> (u16, Arc<AtomicUsize>, UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let (report, requests) = unbounded_channel();
    let accepted = count.clone();
    let answers = Arc::new(answers);
    let next = Arc::new(AtomicUsize::new(0));
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::SeqCst);
            let report = report.clone();
            let answers = answers.clone();
            let next = next.clone();
            tokio::spawn(async move {
                while let Some(request) = read_request(&mut tcp).await {
                    drop(report.send(request));
                    let Some(answer) = answers.get(next.fetch_add(1, Ordering::SeqCst)) else {
                        return std::future::pending().await;
                    };
                    let written = tcp.write_all(answer).await;
                    if written.is_err() || answer.windows(17).any(|part| part == b"connection: close") {
                        return;
                    }
                }
            });
        }
    });
    (port, count, requests)
}

fn ok() -> Vec<u8> {
    b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()
}

/// The 44 cases of promise 31: URLs in any notation whose address is not public. `{port}` is that of a listener on this
/// machine.
const CASES: [&str; 44] = [
    "http://127.0.0.1:{port}/",
    "http://127.255.255.254:{port}/",
    "http://localhost:{port}/",
    "http://LOCALHOST.:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0x7f.1:{port}/",
    "http://017700000001:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://127.1:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://0.0.0.0:{port}/",
    "http://0:{port}/",
    "http://[::1]:{port}/",
    "http://[::]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[64:ff9b::127.0.0.1]:{port}/",
    "http://[64:ff9b:1::1]:{port}/",
    "http://[2002:7f00:1::1]:{port}/",
    "http://[2001:0:7f00:1::1]:{port}/",
    "http://10.0.0.1:{port}/",
    "http://172.16.0.1:{port}/",
    "http://172.31.255.255:{port}/",
    "http://192.168.1.1:{port}/",
    "http://100.64.0.1:{port}/",
    "http://169.254.169.254:{port}/latest/meta-data/",
    "http://0xa9fea9fe:{port}/",
    "http://[::ffff:169.254.169.254]:{port}/",
    "http://[fd00:ec2::254]:{port}/",
    "http://168.63.129.16:{port}/",
    "http://192.0.0.192:{port}/",
    "http://[fe80::1]:{port}/",
    "http://[fec0::1]:{port}/",
    "http://[fc00::1]:{port}/",
    "http://[ff02::1]:{port}/",
    "http://224.0.0.1:{port}/",
    "http://255.255.255.255:{port}/",
    "http://240.0.0.1:{port}/",
    "http://198.18.0.1:{port}/",
    "http://192.0.2.1:{port}/",
    "http://private.example:{port}/",
    "http://mixed.example:{port}/",
];

// Shows (Webhooks): No delivery connects to an address that is not public, for any spelling of the URL, decided on the
// address connected to; redirects and proxies of the environment are ignored (promise 31).
#[tokio::test]
async fn no_spelling_of_44_leads_to_an_address_that_is_not_public() {
    let (port, count, _requests) = receiver(Vec::new()).await;
    let on_ipv6 = TcpListener::bind(("::1", port)).await;
    let names = table(&[
        ("localhost", &[&["127.0.0.1", "::1"]]),
        ("private.example", &[&["10.1.2.3"]]),
        ("mixed.example", &[&["::ffff:10.0.0.1", "127.0.0.1", "fd00::1"]]),
    ]);
    let client = guarded(names);
    for case in CASES {
        let refused = post(&client, &case.replace("{port}", &port.to_string()), SOON).await.unwrap_err();
        assert!(matches!(refused, EgressError::Address(_) | EgressError::Name(_)), "{case}: {refused}");
        assert!(refused.to_string().starts_with("the target is refused: "), "{refused}");
        let shown = refused.to_string();
        assert!(!shown.contains("10.1.2.3") && !shown.contains("127.0.0.1"), "{shown}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 0, "nothing was connected to");
    if let Ok(on_ipv6) = on_ipv6 {
        let accepted = tokio::time::timeout(Duration::from_millis(1), on_ipv6.accept()).await;
        assert!(accepted.is_err());
    }
}

// Shows (Webhooks).
#[tokio::test]
async fn an_answer_of_the_dns_that_changes_after_the_check_has_no_effect() {
    let (port, count, _requests) = receiver(vec![ok()]).await;
    let target = EgressTarget::parse(&format!("http://rebinding.example:{port}/")).unwrap();
    let names = || table(&[("rebinding.example", &[&["9.9.9.9"], &["127.0.0.1"]])]);
    let client = guarded(names());
    let checked = client.addresses(&target).await.unwrap();
    assert_eq!(
        checked,
        [format!("9.9.9.9:{port}").parse().unwrap()],
        "the connection goes there and nowhere else"
    );
    assert!(matches!(client.addresses(&target).await, Err(EgressError::Name(_))));
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let names = Arc::new(table(&[("rebinding.example", &[&["127.0.0.1"], &["127.0.0.9"]])]));
    let mut settings = Webhooks::default();
    settings.allow_private_targets = true;
    let clock = Arc::new(ManualClock::at(rpcgate_core::clock::Time::from_secs(1)));
    let client = EgressClient::with(&settings, clock, names.clone()).unwrap();
    post(&client, &format!("http://rebinding.example:{port}/"), SOON).await.unwrap();
    assert_eq!(names.looks.load(Ordering::SeqCst), 1, "an attempt asks once");
}

// Shows (Webhooks).
#[tokio::test]
async fn only_public_addresses_of_a_host_are_connected_to() {
    let client = guarded(table(&[("half.example", &[&["127.0.0.1", "9.9.9.9", "::1", "10.0.0.1"]])]));
    let target = EgressTarget::parse("https://half.example/").unwrap();
    assert_eq!(client.addresses(&target).await.unwrap(), ["9.9.9.9:443".parse().unwrap()]);
    let many = ["9.9.9.1", "9.9.9.2", "9.9.9.3", "9.9.9.4", "9.9.9.5", "9.9.9.6"];
    let client = guarded(table(&[("many.example", &[&many])]));
    let target = EgressTarget::parse("https://many.example/").unwrap();
    assert_eq!(client.addresses(&target).await.unwrap().len(), 4);
}

// Shows (Webhook delivery).
#[tokio::test]
async fn every_2xx_is_an_answer_and_so_is_every_other_status() {
    for status in [200, 204, 299, 301, 307, 400, 404, 410, 429, 500, 503] {
        let answer = format!(
            "HTTP/1.1 {status} X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        let (port, count, _requests) = receiver(vec![answer.into_bytes()]).await;
        let answer = post(&open(Table::default()), &format!("http://127.0.0.1:{port}/"), SOON).await.unwrap();
        assert_eq!((answer.status.as_u16(), count.load(Ordering::SeqCst)), (status, 1));
    }
}

// Shows (Webhooks): A 2xx counts for any form of its header lines, and interim answers count toward the 64 KiB that are
// read.
#[tokio::test]
async fn a_status_counts_with_any_headers_after_it_and_interim_responses_are_skipped() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(100);
    for head in [
        "HTTP/1.1 200 OK\r\nX-Long: a\r\n b\r\n\tc\r\nContent-Length: 2\r\n\r\nOK",
        "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nOK",
        "HTTP/1.1 200 OK\r\nno field at all\r\nContent-Length: 2\r\n\r\nOK",
        &format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"),
    ] {
        let (port, count, _requests) = receiver(vec![head.as_bytes().to_vec(), ok()]).await;
        let client = open(Table::default());
        let url = format!("http://127.0.0.1:{port}/");
        let answer = post(&client, &url, SOON).await.unwrap();
        assert_eq!((answer.status.as_u16(), &answer.beginning[..]), (200, &b"OK"[..]), "{head:?}");
        let answer = post(&client, &url, SOON).await.unwrap();
        assert_eq!((answer.status.as_u16(), count.load(Ordering::SeqCst)), (204, 1), "{head:?}");
    }
}

// Shows (Webhook delivery).
// Shows (Webhooks).
#[tokio::test]
async fn an_invalid_response_is_an_error() {
    for answer in [
        &b"220 smtp ready\r\nconnection: close\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nx: y\r\nconnection: close",
        b"HTTP/9.9 200 OK\r\nconnection: close\r\n\r\n",
        b"\x00\x01connection: close",
    ] {
        let (port, _, _requests) = receiver(vec![answer.to_vec()]).await;
        let failed = post(&open(Table::default()), &format!("http://127.0.0.1:{port}/"), SOON).await;
        assert!(matches!(failed, Err(EgressError::Answer(_))), "{failed:?}");
    }
    let interim = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let endless = [&interim.repeat(3_000)[..], &ok(), b"connection: close"].concat();
    let (port, _, _requests) = receiver(vec![endless]).await;
    let failed = post(&open(Table::default()), &format!("http://127.0.0.1:{port}/"), SOON).await;
    assert!(matches!(failed, Err(EgressError::TooLong)), "interim answers count: {failed:?}");
    let endless =
        [&b"HTTP/1.1 200 OK\r\n"[..], &b"x: 123456789\r\n".repeat(10_000), b"connection: close"].concat();
    let (port, _, _requests) = receiver(vec![endless]).await;
    let failed = post(&open(Table::default()), &format!("http://127.0.0.1:{port}/"), SOON).await;
    assert!(matches!(failed, Err(EgressError::Answer(_))), "{failed:?}");
    // It does not listen, and no other socket gets its port.
    let mute = tokio::net::TcpSocket::new_v4().unwrap();
    mute.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = mute.local_addr().unwrap();
    let failed = post(&open(Table::default()), &format!("http://{nobody}/"), SOON).await;
    assert!(matches!(failed, Err(EgressError::Connect(_))), "{failed:?}");
    let failed = post(&open(Table::default()), "http://unknown.example/", SOON).await;
    assert!(matches!(failed, Err(EgressError::Resolve(_))), "{failed:?}");
}

// Shows (Webhook delivery).
#[tokio::test]
async fn one_deadline_covers_name_connection_tls_and_head() {
    let hanging = Table { hangs: true, ..Table::default() };
    let late = post(&open(hanging), "http://slow.example/", SHORT).await;
    assert!(matches!(late, Err(EgressError::Late(_))), "{late:?}");
    let (full, _kept) = full_listener().await;
    let late = post(&open(Table::default()), &format!("http://{full}/"), SHORT).await;
    assert!(matches!(late, Err(EgressError::Late(_))), "{late:?}");
    let (silent, _, _requests) = receiver(Vec::new()).await;
    for scheme in ["http", "https"] {
        let late = post(&open(Table::default()), &format!("{scheme}://127.0.0.1:{silent}/"), SHORT).await;
        assert!(matches!(late, Err(EgressError::Late(_))), "{scheme}: {late:?}");
    }
    let drip = drip("HTTP/1.1 200 OK\r\nx-long: ", true).await;
    let late = post(&open(Table::default()), &format!("http://127.0.0.1:{drip}/"), SHORT).await;
    assert!(matches!(late, Err(EgressError::Late(_))), "{late:?}");
}

/// Returns a listener that accepts no connection and whose queue is full, so that connecting to it never ends.
async fn full_listener() -> (std::net::SocketAddr, (TcpListener, Vec<TcpStream>)) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let addr = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(Ok(stream)) = tokio::time::timeout(SHORT, TcpStream::connect(addr)).await {
        queued.push(stream);
        assert!(queued.len() < 100, "the queue is bounded");
    }
    (addr, (listener, queued))
}

/// Runs a receiver that writes `start` and then letters: one at a time with pauses, or at full speed.
async fn drip(start: &'static str, slowly: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                read_request(&mut tcp).await.unwrap();
                tcp.write_all(start.as_bytes()).await.unwrap();
                let part = vec![b'x'; if slowly { 1 } else { 16 << 10 }];
                while tcp.write_all(&part).await.is_ok() {
                    if slowly {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            });
        }
    });
    port
}

// Shows (Webhook delivery).
#[tokio::test]
async fn a_body_that_drips_or_never_ends_is_cut_and_the_head_counts() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n";
    let slow = drip(head, true).await;
    let answer = post(&open(Table::default()), &format!("http://127.0.0.1:{slow}/"), SHORT).await.unwrap();
    assert!(answer.status.is_success() && answer.beginning.len() < 1_024, "{}", answer.beginning.len());
    assert!(answer.beginning.iter().all(|byte| *byte == b'x'));
    let endless = drip(head, false).await;
    let answer = post(&open(Table::default()), &format!("http://127.0.0.1:{endless}/"), SOON).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.beginning.len()), (200, 1_024), "read no further than 64 KiB");
}

#[tokio::test]
async fn a_connection_is_used_again_if_its_answer_was_read_to_the_end() {
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec();
    let (port, count, _requests) = receiver(vec![ok(), ok(), cut, ok()]).await;
    let client = open(Table::default());
    let url = format!("http://127.0.0.1:{port}/");
    for _ in 0..2 {
        assert!(post(&client, &url, SOON).await.unwrap().status.is_success());
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let answer = post(&client, &url, SHORT).await.unwrap();
    assert_eq!((answer.status.as_u16(), &answer.beginning[..]), (200, &b"half"[..]));
    assert!(post(&client, &url, SOON).await.unwrap().status.is_success());
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_connection_that_the_receiver_has_closed_is_replaced() {
    let closing = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_vec();
    let (port, count, mut requests) = receiver(vec![closing.clone(), closing, ok()]).await;
    let client = open(Table::default());
    for _ in 0..3 {
        assert!(post(&client, &format!("http://127.0.0.1:{port}/"), SOON).await.unwrap().status.is_success());
    }
    assert_eq!(count.load(Ordering::SeqCst), 3);
    for _ in 0..3 {
        assert!(requests.recv().await.is_some());
    }
    assert!(requests.try_recv().is_err(), "each request came once");
}

// Shows (Webhooks): No part of an endpoint's URL begins a header line (promise 53).
#[tokio::test]
async fn no_part_of_a_url_begins_a_header_line() {
    for path in ["/a%0d%0aX-Injected:%201", "/?q=%0D%0AX-Injected:1", "/a;b=%00", "/%e2%80%a8X-Injected"] {
        let (port, _, mut requests) = receiver(vec![ok()]).await;
        post(&open(Table::default()), &format!("http://127.0.0.1:{port}{path}"), SOON).await.unwrap();
        let request = requests.recv().await.unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let names: Vec<_> = head.lines().skip(1).map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(names.len(), 3, "{head}");
        for name in ["X-One", "Host", "Content-Length"] {
            assert!(names.contains(&name), "{head}");
        }
        assert!(
            request.starts_with(&format!("POST {path} HTTP/1.1\r\n")) && body == "{\"a\":1}",
            "{request}"
        );
    }
    for url in [
        "http://127.0.0.1/\r\nX-Injected: 1",
        "http://a.example\r\n/",
        "http://a.example/\nb",
        "http://a.example/ b",
    ] {
        assert!(
            matches!(post(&open(Table::default()), url, SOON).await, Err(EgressError::Url(_))),
            "{url:?}"
        );
    }
}

/// Runs an HTTP proxy that answers `CONNECT` with `answer`, reports its requests, and then speaks for the target.
async fn proxy(answer: &'static str) -> (Webhooks, UnboundedReceiver<String>) {
    let (port, _, requests) = receiver(vec![answer.as_bytes().to_vec()]).await;
    let mut settings = Webhooks::default();
    settings.egress_proxy =
        Some(Url::parse(&format!("http://me:secret@127.0.0.1:{port}"), &["http"]).unwrap());
    (settings, requests)
}

// Shows (Webhooks).
#[tokio::test]
async fn a_proxy_gets_whole_urls_and_tunnels_and_the_guard_checks_literals_before() {
    let (settings, mut requests) = proxy("HTTP/1.1 204 No Content\r\n\r\n").await;
    let answer = post(&client(&settings, Table::default()), "http://a.example/in?x=1", SOON).await.unwrap();
    assert_eq!(answer.status.as_u16(), 204);
    let request = requests.recv().await.unwrap();
    assert!(request.starts_with("POST http://a.example:80/in?x=1 HTTP/1.1\r\n"), "{request}");
    for line in ["Host: a.example\r\n", "Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"] {
        assert!(request.contains(line), "{line} in {request}");
    }
    let (settings, mut requests) = proxy("HTTP/1.1 403 Forbidden\r\n\r\n").await;
    let refused = post(&client(&settings, Table::default()), "https://a.example/", SOON).await.unwrap_err();
    assert_eq!(refused.to_string(), "the proxy did not connect: it answers 403");
    let request = requests.recv().await.unwrap();
    assert!(request.starts_with("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n"), "{request}");
    assert!(request.contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"), "{request}");
    let (settings, mut requests) = proxy("HTTP/1.1 200 Connected\r\n\r\n").await;
    let started = post(&client(&settings, Table::default()), "https://a.example/secret", SHORT).await;
    assert!(started.is_err(), "no TLS follows");
    assert!(requests.recv().await.unwrap().starts_with("CONNECT a.example:443"));
    assert!(requests.try_recv().is_err(), "and nothing is sent unencrypted");
    for url in ["http://10.0.0.1/", "https://[::1]/", "https://0x7f.1/"] {
        let (settings, mut requests) = proxy("HTTP/1.1 204 No Content\r\n\r\n").await;
        let refused = post(&client(&settings, Table::default()), url, SOON).await;
        assert!(matches!(refused, Err(EgressError::Address(_))), "{refused:?}");
        assert!(requests.try_recv().is_err());
    }
}

// Shows (Webhooks).
#[tokio::test]
async fn a_receiver_without_a_trusted_certificate_gets_nothing() {
    let (port, _, mut requests) = receiver(vec![ok()]).await;
    let failed = post(&open(Table::default()), &format!("https://127.0.0.1:{port}/"), SHORT).await;
    assert!(failed.is_err(), "{failed:?}");
    assert!(requests.try_recv().is_err());
}

#[tokio::test]
async fn the_systems_resolver_finds_this_machine() {
    let clock = Arc::new(ManualClock::at(rpcgate_core::clock::Time::from_secs(1)));
    let resolver = SystemResolver::new(clock);
    let found = resolver.resolve("localhost").await.unwrap();
    assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
    assert!(resolver.resolve("nobody.invalid").await.is_err());
}
