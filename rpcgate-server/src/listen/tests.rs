use super::*;
use futures_util::StreamExt;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use rpcgate_config::AcmeSettings;
use rpcgate_core::backend::usage_sink::UsageSink;
use rpcgate_core::backend::usage_sink::{MemoryUsageSink, Record};
use rpcgate_layers::websocket::StreamHold;
use rpcgate_process::accept::ConnectionPermit;
use rpcgate_process::tls::CertificatePaths;
use rustls::pki_types::ServerName;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

type Answer = Result<Response<Full<Bytes>>, Infallible>;

fn connections() -> Arc<Connections> {
    Connections::new(Arc::new(MemoryUsageSink::default()), None)
}

/// Serves `stack` on a connection. Returns the client's end.
fn served<S>(stack: S, connections: &Arc<Connections>, buffer: usize) -> DuplexStream
where
    S: Service<Request<RequestBody>, Response = Response<Full<Bytes>>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let (client, server) = duplex(buffer);
    let handle = connections.enter();
    let bounds = Bounds::new(&LimitSettings::default(), 8);
    connections.tasks().spawn(async move {
        end(http1(
            Counted::new(server, handle.state.clone(), ConnectionPermit::default()),
            stack,
            handle,
            &bounds,
        )
        .await);
    });
    client
}

async fn hello(_: Request<RequestBody>) -> Answer {
    Ok(Response::new(Full::from("hello")))
}

async fn slow(_: Request<RequestBody>) -> Answer {
    sleep(Duration::from_secs(300)).await;
    Ok(Response::new(Full::from("at last")))
}

async fn echo(request: Request<RequestBody>) -> Answer {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let body =
        body.map_or_else(|error| error.to_string(), |body| String::from_utf8_lossy(&body).into_owned());
    Ok(Response::new(Full::from(format!("{path}:{body}"))))
}

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n";

async fn rest(client: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut text = Vec::new();
    // A client that is cut off may see a reset; the bytes received before count.
    let _ = client.read_to_end(&mut text).await;
    String::from_utf8_lossy(&text).into_owned()
}

async fn answer(client: &mut (impl AsyncReadExt + Unpin), body: &str) {
    let mut text = Vec::new();
    while !text.ends_with(body.as_bytes()) {
        let read = client.read_buf(&mut text).await.unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&text));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_closed_after_75_seconds() {
    let connections = connections();
    let start = Instant::now();
    let mut client = served(tower::service_fn(hello), &connections, 1024);
    assert_eq!(rest(&mut client).await, "");
    assert_eq!(start.elapsed().as_secs(), 75);
    assert_eq!(connections.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_kept_between_requests_and_closed_75_seconds_after_the_last() {
    let connections = connections();
    let mut client = served(tower::service_fn(hello), &connections, 1024);
    for _ in 0..3 {
        sleep(Duration::from_secs(70)).await;
        client.write_all(REQUEST).await.unwrap();
        answer(&mut client, "hello").await;
    }
    let start = Instant::now();
    assert_eq!(rest(&mut client).await, "");
    assert_eq!(start.elapsed().as_secs(), 75);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_dribbles_is_cut_after_10_seconds() {
    let connections = connections();
    let client = served(tower::service_fn(hello), &connections, 1024);
    let (mut read, mut write) = tokio::io::split(client);
    sleep(Duration::from_secs(30)).await;
    let start = Instant::now();
    let dribble = async {
        for byte in REQUEST.iter().cycle() {
            if write.write_all(&[*byte]).await.is_err() {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }
    };
    let got = tokio::select! { got = rest(&mut read) => got, () = dribble => String::new() };
    assert_eq!((got.as_str(), start.elapsed().as_secs()), ("", 10));
}

#[tokio::test(start_paused = true)]
async fn a_head_in_two_parts_within_its_time_is_served() {
    let connections = connections();
    let mut client = served(tower::service_fn(hello), &connections, 1024);
    for _ in 0..2 {
        client.write_all(&REQUEST[..9]).await.unwrap();
        sleep(Duration::from_secs(9)).await;
        client.write_all(&REQUEST[9..]).await.unwrap();
        answer(&mut client, "hello").await;
        sleep(Duration::from_secs(74)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_an_answer_is_not_cut() {
    let connections = connections();
    let mut client = served(tower::service_fn(slow), &connections, 1024);
    client.write_all(REQUEST).await.unwrap();
    answer(&mut client, "at last").await;
}

const LONG: usize = 1_000_000;

async fn long(_: Request<RequestBody>) -> Answer {
    Ok(Response::new(Full::from(vec![b'x'; LONG])))
}

// Shows (Hostile and odd traffic): A client that reads no byte of its answer for `write_timeout`, or on average less
// than `body_rate` after `body_grace`, is disconnected; over HTTP/2 its stream is reset, then the connection; its call
// is recorded with the sent bytes (promise 58).
#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_served_as_long_as_it_reads() {
    let connections = connections();
    let mut client = served(tower::service_fn(long), &connections, 10_000);
    client.write_all(REQUEST).await.unwrap();
    let mut got = 0;
    let mut piece = [0; 10_000];
    while got < 500_000 {
        sleep(Duration::from_secs(4)).await;
        got += client.read(&mut piece).await.unwrap();
    }
    assert_eq!(connections.open(), 1);
    sleep(Duration::from_secs(29)).await;
    assert_eq!(connections.open(), 1);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(connections.open(), 0, "it does not read any more");
}

// Shows (Hostile and odd traffic).
#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_a_byte_now_and_then_is_cut() {
    for (every, bytes) in [(20, 1), (5, 4_000)] {
        let connections = connections();
        let mut client = served(tower::service_fn(long), &connections, 1_000);
        client.write_all(REQUEST).await.unwrap();
        let start = Instant::now();
        let mut piece = vec![0; bytes];
        while connections.open() > 0 && start.elapsed() < Duration::from_secs(600) {
            sleep(Duration::from_secs(every)).await;
            let _ = client.read(&mut piece).await;
        }
        assert!(start.elapsed() < Duration::from_secs(31), "{bytes} bytes every {every} s");
    }
}

// Shows (Hostile and odd traffic).
#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_leaves_no_call_behind() {
    let ended = Arc::new(AtomicUsize::new(0));
    struct Slot(Arc<AtomicUsize>);
    impl Drop for Slot {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let connections = connections();
    let slots = ended.clone();
    let stack = tower::service_fn(move |_: Request<RequestBody>| {
        let slot = Slot(slots.clone());
        async move {
            let pieces = futures_util::stream::iter(0..1_000).map(move |_| {
                let _ = &slot;
                Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(vec![b'x'; 1_000])))
            });
            Ok::<_, Infallible>(Response::new(http_body_util::StreamBody::new(pieces)))
        }
    });
    let (mut client, server) = duplex(1_000);
    let handle = connections.enter();
    let bounds = Bounds::new(&LimitSettings::default(), 8);
    let connection = tokio::spawn(async move {
        http1(Counted::new(server, handle.state.clone(), ConnectionPermit::default()), stack, handle, &bounds)
            .await
    });
    client.write_all(REQUEST).await.unwrap();
    assert!(matches!(connection.await, Ok(End::SlowReader)));
    assert_eq!((ended.load(SeqCst), connections.open()), (1, 0));
}

/// Returns an HTTP/2 client with this stream window, and its connection.
async fn client_of_streams<S>(
    stack: S,
    connections: &Arc<Connections>,
    window: u32,
) -> hyper::client::conn::http2::SendRequest<Full<Bytes>>
where
    S: Service<Request<RequestBody>, Response = Response<Full<Bytes>>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let client = framed(stack, connections);
    let (send, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(window)
        .keep_alive_interval(Duration::from_secs(10))
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(client))
        .await
        .unwrap();
    tokio::spawn(connection);
    send
}

fn asking(path: &str) -> Request<Full<Bytes>> {
    Request::get(format!("http://localhost{path}")).body(Full::default()).unwrap()
}

// Shows (Hostile and odd traffic).
#[tokio::test(start_paused = true)]
async fn a_stream_whose_window_stays_closed_is_reset_and_the_other_streams_continue() {
    let connections = connections();
    let stack = tower::service_fn(async |request: Request<RequestBody>| match request.uri().path() {
        "/long" => long(request).await,
        _ => hello(request).await,
    });
    let mut send = client_of_streams(stack, &connections, 8_000).await;
    let stopped = send.send_request(asking("/long")).await.unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_secs(1)).await;
        let other = send.send_request(asking("/hello")).await.unwrap();
        assert_eq!(other.into_body().collect().await.unwrap().to_bytes(), "hello");
    }
    let error = stopped.into_body().collect().await.unwrap_err();
    assert!(error.to_string().contains("error reading a body"), "{error}");
    let mut read = send.send_request(asking("/long")).await.unwrap().into_body();
    let mut got = 0;
    while let Some(frame) = read.frame().await {
        got += frame.unwrap().into_data().map_or(0, |data| data.len());
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(got, LONG, "a slow one is served whole");
    let _stopped = send.send_request(asking("/long")).await.unwrap();
    sleep(Duration::from_secs(15)).await;
    assert_eq!(connections.open(), 1);
    sleep(Duration::from_secs(17)).await;
    assert_eq!(connections.open(), 0, "where that was all, the connection is closed");
}

// Shows (Hostile and odd traffic).
#[tokio::test(start_paused = true)]
async fn a_client_that_only_pings_is_idle() {
    let connections = connections();
    let mut send = client_of_streams(tower::service_fn(hello), &connections, 1_000).await;
    let answer = send.send_request(asking("/")).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
    sleep(Duration::from_secs(70)).await;
    assert_eq!(connections.open(), 1);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(connections.open(), 0);
}

fn connecting() -> Request<Full<Bytes>> {
    let mut request = asking("/ws");
    *request.method_mut() = http::Method::CONNECT;
    request.extensions_mut().insert(hyper::ext::Protocol::from_static("websocket"));
    request
}

// Shows (Streams).
#[tokio::test(start_paused = true)]
async fn a_websocket_stream_over_http2_keeps_its_connection_and_leaves_nothing_behind() {
    let connections = connections();
    let open = Arc::new(Mutex::new(Vec::new()));
    let opened = open.clone();
    let stack = tower::service_fn(move |mut request: Request<RequestBody>| {
        let upgrade = hyper::upgrade::on(&mut request);
        let hold = request.extensions_mut().remove::<StreamHold>().unwrap();
        let opened = opened.clone();
        async move {
            tokio::spawn(async move {
                let io = TokioIo::new(upgrade.await.unwrap());
                opened.lock().push((io, hold));
            });
            Ok::<_, Infallible>(Response::new(Full::default()))
        }
    });
    let mut send = client_of_streams(stack, &connections, 8_000).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let answer = send.send_request(connecting()).await.unwrap();
        assert_eq!(answer.status(), 200);
        streams.push(TokioIo::new(hyper::upgrade::on(answer).await.unwrap()));
    }
    sleep(Duration::from_secs(1_000)).await;
    assert_eq!(connections.open(), 1, "it is not idle");
    let mut first = streams.remove(0);
    let mut second = streams.remove(0);
    {
        let (mut io, hold) = open.lock().remove(0);
        io.write_all(b"the last words").await.unwrap();
        io.shutdown().await.unwrap();
        assert_eq!(rest(&mut first).await, "the last words");
        drop((io, hold));
    }
    drop(first);
    // This client takes no more than its window.
    let (mut io, hold) = open.lock().remove(0);
    let piece = vec![0; 8_000];
    while tokio::time::timeout(Duration::from_secs(1), io.write_all(&piece)).await.is_ok() {}
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    drop((io, hold));
    sleep(Duration::from_secs(1)).await;
    assert!(tasks() < before, "what cannot be written is dropped");
    let mut got = 0;
    while let Ok(more @ 1..) = second.read(&mut [0; 1_000]).await {
        got += more;
    }
    assert!((8_000..64_000).contains(&got), "{got}");
    drop(second);
    sleep(Duration::from_secs(70)).await;
    assert_eq!(connections.open(), 1);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(connections.open(), 0, "it is idle");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    let connections = connections();
    let mut client = served(tower::service_fn(echo), &connections, 64 << 10);
    let requests = "POST /1 HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\naGET /2 HTTP/1.1\r\nhost: x\r\n\r\n\
                    POST /3 HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\nconnection: close\r\n\r\nc";
    client.write_all(requests.as_bytes()).await.unwrap();
    let text = rest(&mut client).await;
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
    assert!(at("/1:a") < at("/2:") && at("/2:") < at("/3:c"), "{text}");
}

#[tokio::test]
async fn http_1_0_is_served_and_closed_unless_it_asks_to_stay() {
    let connections = connections();
    let mut client = served(tower::service_fn(echo), &connections, 64 << 10);
    client
        .write_all(b"POST /1 HTTP/1.0\r\ncontent-length: 1\r\nconnection: keep-alive\r\n\r\na")
        .await
        .unwrap();
    answer(&mut client, "/1:a").await;
    client.write_all(b"POST /2 HTTP/1.0\r\ncontent-length: 1\r\n\r\nb").await.unwrap();
    assert!(rest(&mut client).await.ends_with("/2:b"));
}

#[tokio::test]
async fn a_request_with_two_framings_is_the_last_one_read() {
    for framing in
        ["content-length: 4\r\ntransfer-encoding: chunked", "transfer-encoding: chunked\r\ncontent-length: 4"]
    {
        let connections = connections();
        let mut client = served(tower::service_fn(echo), &connections, 64 << 10);
        let text = format!(
            "POST /1 HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"
        );
        client.write_all(text.as_bytes()).await.unwrap();
        let text = rest(&mut client).await;
        assert!(!text.contains("/smuggled") && text.contains("connection: close"), "{framing}: {text}");
    }
}

#[tokio::test]
async fn bad_framing_is_refused() {
    for head in [
        "content-length: 1\r\ncontent-length: 2",
        "content-length: -1",
        "content-length: +1",
        "transfer-encoding: gzip",
        "transfer-encoding: chunked, gzip",
        "content-length : 1",
        "x\0y: z",
    ] {
        let connections = connections();
        let mut client = served(tower::service_fn(echo), &connections, 64 << 10);
        client.write_all(format!("POST /1 HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\na").as_bytes()).await.unwrap();
        let text = rest(&mut client).await;
        assert!(text.starts_with("HTTP/1.1 400 "), "{head}: {text}");
    }
}

#[tokio::test]
async fn a_head_beyond_all_limits_gets_a_status() {
    let connections = connections();
    let mut client = served(tower::service_fn(hello), &connections, 256 << 10);
    let head = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(128 << 10));
    client.write_all(head.as_bytes()).await.unwrap();
    assert!(rest(&mut client).await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test]
async fn a_panic_costs_one_request_and_its_connection() {
    for late in [false, true] {
        let stack = tower::service_fn(move |request: Request<RequestBody>| {
            let panics = request.uri().path() == "/panic";
            assert!(late || !panics, "at once");
            async move {
                assert!(!panics, "later");
                hello(request).await
            }
        });
        let connections = connections();
        let mut client = served(stack, &connections, 64 << 10);
        client.write_all(b"GET /panic HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let text = rest(&mut client).await;
        assert!(text.starts_with("HTTP/1.1 500 "), "{text}");
        assert!(text.ends_with(r#"{"message":"internal error"}"#), "{text}");
        let mut client = served(stack, &connections, 64 << 10);
        client.write_all(REQUEST).await.unwrap();
        answer(&mut client, "hello").await;
    }
}

#[tokio::test]
async fn answers_are_compressed_on_request_if_it_is_worthwhile() {
    let stack = tower::service_fn(async |request: Request<RequestBody>| -> Answer {
        let length = request.uri().path()[1..].parse().unwrap_or(0);
        Ok(Response::new(Full::from(vec![b'x'; length])))
    });
    for (length, accept, compressed) in [
        (1024, "gzip, deflate", true),
        (1024, "identity", false),
        (1024, "gzip;q=0", false),
        (1024, "", false),
        (1023, "gzip", false),
    ] {
        let connections = connections();
        let client = served(stack, &connections, 64 << 10);
        let (mut send, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(client)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::get(format!("/{length}")).header("host", "x");
        if !accept.is_empty() {
            request = request.header(ACCEPT_ENCODING, accept);
        }
        let answer = send.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        assert_eq!(answer.headers().get(CONTENT_ENCODING).is_some(), compressed, "{length} {accept}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        if compressed {
            assert!(body.starts_with(&[0x1f, 0x8b]) && body.len() < length);
        } else {
            assert_eq!(body.len(), length);
        }
    }
}

async fn get(connections: &Arc<Connections>, line: &str) -> String {
    let mut client = served(tower::service_fn(hello), connections, 64 << 10);
    client
        .write_all(format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
        .await
        .unwrap();
    rest(&mut client).await
}

#[derive(Debug, Default)]
struct FullSink(AtomicBool);

impl UsageSink for FullSink {
    fn append(&self, _: &Record<'_>) {}

    fn is_ready(&self) -> bool {
        !self.0.load(SeqCst)
    }
}

#[tokio::test]
async fn health_and_readiness_need_no_stack() {
    let sink = Arc::new(FullSink::default());
    let connections = Connections::new(sink.clone(), None);
    for path in ["/healthz", "/readyz", "/readyz?x=1"] {
        let text = get(&connections, &format!("GET {path}")).await;
        assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with(r#"{"status":"ok"}"#), "{text}");
    }
    assert!(get(&connections, "HEAD /healthz").await.starts_with("HTTP/1.1 200 "));
    let text = get(&connections, "POST /healthz").await;
    assert!(text.starts_with("HTTP/1.1 405 ") && text.contains("allow: GET, HEAD"), "{text}");
    assert!(get(&connections, "GET /healthz/").await.ends_with("hello"), "another path is the stack's");
    sink.0.store(true, SeqCst);
    assert!(get(&connections, "GET /healthz").await.starts_with("HTTP/1.1 200 "));
    let text = get(&connections, "GET /readyz").await;
    assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
    assert!(text.ends_with(r#"{"status":"unready","reason":"usage cannot be recorded"}"#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn closing_lets_calls_finish_and_closes_idle_connections() {
    let connections = connections();
    let mut busy = served(tower::service_fn(slow), &connections, 1024);
    let mut idle = served(tower::service_fn(slow), &connections, 1024);
    busy.write_all(REQUEST).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    connections.close();
    assert_eq!(connections.unready(), Some("draining"));
    assert_eq!(rest(&mut idle).await, "");
    assert_eq!(connections.open(), 1);
    assert_eq!(connections.wait(Duration::from_secs(400)).await, 0);
    let text = rest(&mut busy).await;
    assert!(text.ends_with("at last") && text.contains("connection: close"), "{text}");
}

// Shows (Hostile and odd traffic): During a drain a request on an open connection is answered, with `Connection:
// close`.
#[tokio::test(start_paused = true)]
async fn a_request_on_an_open_connection_is_answered_while_the_gateway_leaves() {
    let connections = connections();
    let mut kept: Vec<_> = (0..8).map(|_| served(tower::service_fn(hello), &connections, 1 << 16)).collect();
    for client in &mut kept[1..] {
        client.write_all(REQUEST).await.unwrap();
        answer(client, "hello").await;
    }
    connections.close();
    for (number, mut client) in kept.into_iter().enumerate() {
        client.write_all(REQUEST).await.unwrap();
        let text = rest(&mut client).await;
        assert!(text.ends_with("hello") && text.contains("connection: close"), "{number}: {text}");
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(connections.wait(Duration::from_secs(30)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn connections_that_miss_a_deadline_are_cut() {
    let connections = connections();
    let mut busy = served(tower::service_fn(slow), &connections, 1024);
    busy.write_all(REQUEST).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    connections.close();
    assert_eq!(connections.wait(Duration::from_secs(5)).await, 1);
    assert_eq!((rest(&mut busy).await.as_str(), connections.open()), ("", 0));
}

async fn listening<S>(
    stack: S,
    most: usize,
    certificate: Option<Certificate>,
) -> (SocketAddr, Arc<Connections>)
where
    S: Service<Request<RequestBody>, Response = Response<Full<Bytes>>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let addr = listener.addr();
    let connections = connections();
    let bounds = Bounds::new(&LimitSettings::default(), most);
    let certificate = certificate.map(Arc::new);
    let entry = Entry { certificate, h2c: true, websocket: false, proxies: ProxyPeers::new(&[]) };
    tokio::spawn(listener.serve(stack, bounds, entry, connections.clone()));
    (addr, connections)
}

#[tokio::test]
async fn a_connection_beyond_the_limit_gets_a_503_with_retry_after() {
    let (addr, _connections) = listening(tower::service_fn(hello), 2, None).await;
    let mut inside = Vec::new();
    for _ in 0..2 {
        let mut client = TcpStream::connect(addr).await.unwrap();
        client.write_all(REQUEST).await.unwrap();
        answer(&mut client, "hello").await;
        inside.push(client);
    }
    let mut outside = TcpStream::connect(addr).await.unwrap();
    let _ = outside.write_all(REQUEST).await;
    let text = rest(&mut outside).await;
    assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("retry-after: 1"), "{text}");
    assert!(text.ends_with(r#""message":"overloaded, retry later"}}"#), "{text}");
    inside[0].write_all(REQUEST).await.unwrap();
    answer(&mut inside[0], "hello").await;
}

// Shows (Hostile and odd traffic).
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_reader_that_stops_has_little_of_the_kernels_memory() {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let reader = tokio::net::TcpSocket::new_v4().unwrap();
    reader.set_recv_buffer_size(4096).unwrap();
    let (reader, accepted) = tokio::join!(reader.connect(listener.addr()), listener.0.next());
    let (_reader, (mut writer, _)) = (reader.unwrap(), accepted);
    let piece = vec![0; 64 << 10];
    let mut taken = 0;
    while let Ok(written) = tokio::time::timeout(Duration::from_millis(500), writer.write(&piece)).await {
        taken += written.unwrap();
    }
    assert!(taken < 1 << 20, "{taken} bytes");
}

fn certificate(dir: &std::path::Path) -> (Certificate, rustls::RootCertStore) {
    let key = rcgen::KeyPair::generate().unwrap();
    let cert = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
    let cert_file = dir.join("cert.pem");
    let key_file = dir.join("key.pem");
    std::fs::write(&cert_file, cert.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let mut tls = rpcgate_config::Tls::default();
    (tls.cert, tls.key) = (Some(cert_file), Some(key_file));
    (
        Certificate::load(&CertificatePaths::of_gateway(&tls, &AcmeSettings::default()).unwrap()).unwrap(),
        roots,
    )
}

async fn secure(
    addr: SocketAddr,
    roots: rustls::RootCertStore,
    alpn: &[&[u8]],
) -> tokio_rustls::client::TlsStream<TcpStream> {
    secure_over(TcpStream::connect(addr).await.unwrap(), roots, alpn).await
}

async fn secure_over<T: AsyncRead + AsyncWrite + Unpin>(
    stream: T,
    roots: rustls::RootCertStore,
    alpn: &[&[u8]],
) -> tokio_rustls::client::TlsStream<T> {
    let mut config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

// Shows (Hostile and odd traffic).
#[tokio::test(start_paused = true)]
async fn bytes_buffered_by_tls_do_not_count_as_read() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, roots) = certificate(dir.path());
    let (client, server) = duplex(4 << 10);
    let handle = connections().enter();
    let bounds = Bounds::new(&LimitSettings::default(), 8);
    let stack = tower::service_fn(async |_: Request<RequestBody>| {
        Answer::Ok(Response::new(vec![b'x'; 1 << 20].into()))
    });
    let server = Counted::new(server, handle.state.clone(), ConnectionPermit::default());
    let connection =
        tokio::spawn(async move { secured(server, &certificate, stack, handle, &bounds, false).await });
    let mut client = secure_over(client, roots, &[]).await;
    client.write_all(REQUEST).await.unwrap();
    let start = Instant::now();
    connection.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 10, "4 KiB are what it may take in the grace, 64 KiB TLS holds");
}

#[tokio::test]
async fn over_tls_both_versions_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, roots) = certificate(dir.path());
    let (addr, connections) = listening(tower::service_fn(echo), 8, Some(certificate)).await;

    let mut client = secure(addr, roots.clone(), &[]).await;
    client.write_all(b"POST /1 HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\na").await.unwrap();
    answer(&mut client, "/1:a").await;

    let client = secure(addr, roots, &[b"h2", b"http/1.1"]).await;
    assert_eq!(client.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (send, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
    let connection = tokio::spawn(connection);
    let many = (0..20).map(|n| {
        let mut send = send.clone();
        async move {
            let request = Request::post(format!("https://localhost/{n}"))
                .body(Full::new(Bytes::from_static(b"b")))
                .unwrap();
            let answer = send.send_request(request).await.unwrap();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, format!("/{n}:b"));
        }
    });
    futures_util::future::join_all(many).await;
    drop(send);
    connections.close();
    assert_eq!(connections.wait(Duration::from_secs(30)).await, 0);
    connection.await.unwrap().unwrap();
}

// Shows (Commands and configuration).
#[tokio::test]
async fn a_changed_certificate_applies_to_new_connections_and_ends_no_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let (first, roots) = certificate(dir.path());
    let first = Arc::new(first);
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let addr = listener.addr();
    let certificate_in_use = Some(first.clone());
    let proxies = ProxyPeers::new(&[]);
    let entry = Entry { certificate: certificate_in_use, h2c: true, websocket: false, proxies };
    let bounds = Bounds::new(&LimitSettings::default(), 8);
    tokio::spawn(listener.serve(tower::service_fn(hello), bounds, entry, connections()));
    let mut before = secure(addr, roots, &[b"http/1.1"]).await;
    before.write_all(REQUEST).await.unwrap();
    answer(&mut before, "hello").await;

    let (second, new_roots) = certificate(dir.path());
    first.replace(second.loaded().as_ref().clone());
    let mut after = secure(addr, new_roots, &[b"http/1.1"]).await;
    after.write_all(REQUEST).await.unwrap();
    answer(&mut after, "hello").await;
    before.write_all(REQUEST).await.unwrap();
    answer(&mut before, "hello").await;
}

#[tokio::test]
async fn a_client_without_tls_does_not_disturb_others() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, roots) = certificate(dir.path());
    let (addr, _connections) = listening(tower::service_fn(hello), 8, Some(certificate)).await;
    let mut plain = TcpStream::connect(addr).await.unwrap();
    plain.write_all(REQUEST).await.unwrap();
    assert!(!rest(&mut plain).await.contains("hello"));
    let mut client = secure(addr, roots, &[b"http/1.1"]).await;
    client.write_all(REQUEST).await.unwrap();
    answer(&mut client, "hello").await;
}

#[tokio::test]
async fn a_call_is_dropped_with_its_client() {
    let ended = Arc::new(AtomicUsize::new(0));
    struct Ended(Arc<AtomicUsize>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let seen = ended.clone();
    let stack = tower::service_fn(move |_: Request<RequestBody>| {
        let ended = Ended(seen.clone());
        async move {
            let _ended = ended;
            std::future::pending::<Answer>().await
        }
    });
    let connections = connections();
    let mut client = served(stack, &connections, 1024);
    client.write_all(REQUEST).await.unwrap();
    tokio::task::yield_now().await;
    drop(client);
    connections.close();
    assert_eq!(connections.wait(Duration::from_secs(30)).await, 0);
    assert_eq!(ended.load(SeqCst), 1);
}

#[tokio::test]
async fn a_client_that_is_refused_while_it_sends_gets_its_answer() {
    let stack =
        tower::service_fn(async |_: Request<RequestBody>| -> Answer { Ok(Response::new(Full::from("no"))) });
    let (addr, connections) = listening(stack, 8, None).await;
    let mut client = TcpStream::connect(addr).await.unwrap();
    let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", 64 << 20);
    client.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        client.write_all(&piece).await.unwrap();
    }
    assert!(rest(&mut client).await.ends_with("no"));
    drop(client);
    connections.close();
    assert_eq!(connections.wait(Duration::from_secs(30)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn no_connection_lingers_forever() {
    let stack =
        tower::service_fn(async |_: Request<RequestBody>| -> Answer { Ok(Response::new(Full::from("no"))) });
    let connections = connections();
    let mut client = served(stack, &connections, 1024);
    client.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\r\n").await.unwrap();
    assert!(rest(&mut client).await.ends_with("no"));
    assert_eq!(connections.open(), 1);
    sleep(Duration::from_secs(11)).await;
    assert_eq!(connections.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_was_read_leaves_nothing_to_linger_for() {
    for body in ["transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", "content-length: 1\r\n\r\na"] {
        let connections = connections();
        let mut client = served(tower::service_fn(echo), &connections, 1024);
        let request = format!("POST /1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{body}");
        client.write_all(request.as_bytes()).await.unwrap();
        assert!(rest(&mut client).await.contains("/1:a"));
        sleep(Duration::from_millis(1)).await;
        assert_eq!(connections.open(), 0, "{body}");
    }
}

/// Serves `stack` on an HTTP/2 connection. Returns the client's end, for raw frames.
fn framed<S>(stack: S, connections: &Arc<Connections>) -> DuplexStream
where
    S: Service<Request<RequestBody>, Response = Response<Full<Bytes>>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let (client, server) = duplex(64 << 10);
    let handle = connections.enter();
    let bounds = Bounds::new(&LimitSettings::default(), 8);
    connections.tasks().spawn(async move {
        let stream = Counted::new(server, handle.state.clone(), ConnectionPermit::default());
        end(http2(stream, stack, handle, &bounds, true).await);
    });
    client
}

fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// Writes the preface and then the results of `next` until the connection ends. Returns the number of writes, and the
/// error in the GOAWAY frame that the client got.
async fn flooded(connections: &Arc<Connections>, mut next: impl FnMut(u32) -> Vec<u8>) -> (u32, Option<u32>) {
    let (mut read, mut write) = tokio::io::split(framed(tower::service_fn(slow), connections));
    let flooding = async {
        write.write_all(PREFACE).await.unwrap();
        write.write_all(&frame(4, 0, 0, &[])).await.unwrap();
        let mut round = 0;
        while round < 100_000 && write.write_all(&next(round)).await.is_ok() {
            round += 1;
        }
        round
    };
    let reading = async {
        let mut all = Vec::new();
        let _ = read.read_to_end(&mut all).await;
        let mut rest = &all[..];
        let mut error = None;
        while let [high, middle, low, kind, _, _, _, _, _, after @ ..] = rest {
            let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            let Some(content) = after.get(..length) else { break };
            if *kind == 7 {
                error = Some(u32::from_be_bytes(content[4..8].try_into().unwrap()));
            }
            rest = &after[length..];
        }
        error
    };
    let both = async { tokio::join!(flooding, reading) };
    tokio::time::timeout(Duration::from_secs(30), both).await.expect("the connection never ended")
}

// Shows (Hostile and odd traffic): Floods of HTTP/2 end in GOAWAY (promise 49).
#[tokio::test]
async fn floods_of_http2_end_in_goaway() {
    const NO_ERROR: u32 = 0;
    const ENHANCE_YOUR_CALM: u32 = 11;
    // `:method: POST`, `:scheme: http`, `:path: /`, from the static table.
    const HEADERS: &[u8] = &[0x83, 0x86, 0x84];
    let connections = connections();
    let ping = |_| frame(6, 0, 0, &[7; 8]);
    let (rounds, error) = flooded(&connections, ping).await;
    assert!(error == Some(NO_ERROR) && rounds < 10_000, "pings: {rounds} {error:?}");
    let settings = |_| frame(4, 0, 0, &[0, 3, 0, 0, 0, 9]);
    let (rounds, error) = flooded(&connections, settings).await;
    assert!(error == Some(NO_ERROR) && rounds < 10_000, "settings: {rounds} {error:?}");
    for (what, unanswered) in [
        ("updates of a window", frame(8, 0, 0, &[0, 0, 0, 1])),
        ("acknowledged pings", frame(6, 1, 0, &[7; 8])),
        ("frames that HTTP/2 does not know", frame(0xfa, 0, 0, b"grease")),
    ] {
        let (rounds, error) = flooded(&connections, |_| unanswered.clone()).await;
        assert!(error == Some(NO_ERROR) && rounds < 60_000, "{what}: {rounds} {error:?}");
    }
    let reset = |round: u32| {
        let stream = 2 * round + 1;
        [frame(1, 4, stream, HEADERS), frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
    };
    let (rounds, error) = flooded(&connections, reset).await;
    assert!(error == Some(ENHANCE_YOUR_CALM) && rounds < 10_000, "resets: {rounds} {error:?}");
    let continuation = |round| match round {
        0 => frame(1, 0, 1, HEADERS),
        _ => frame(9, 0, 1, &[0, 1, b'a', 1, b'b']),
    };
    let (rounds, error) = flooded(&connections, continuation).await;
    assert!(error == Some(ENHANCE_YOUR_CALM) && rounds < 10_000, "continuations: {rounds} {error:?}");
    connections.close();
    connections.wait(Duration::from_secs(1)).await;
    assert_eq!(connections.open(), 0);
}

/// Returns the kind, flags and stream of the next frame.
async fn next_frame(client: &mut DuplexStream) -> (u8, u8, u32) {
    let mut head = [0; 9];
    client.read_exact(&mut head).await.unwrap();
    let [high, middle, low, kind, flags, stream @ ..] = head;
    client.read_exact(&mut vec![0; u32::from_be_bytes([0, high, middle, low]) as usize]).await.unwrap();
    (kind, flags, u32::from_be_bytes(stream))
}

// Shows (Hostile and odd traffic): A short request that is refused before it has arrived over HTTP/2 is read to its
// end, and its stream is not reset.
#[tokio::test(start_paused = true)]
async fn a_short_request_that_is_answered_before_its_end_is_read_and_its_stream_not_reset() {
    const RST_STREAM: u8 = 3;
    let connections = connections();
    let mut client = framed(tower::service_fn(hello), &connections);
    client.write_all(PREFACE).await.unwrap();
    client.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    // The second request is left without its end, and the third announces a long body.
    let long = [&[0x83, 0x86, 0x84, 0x0f, 0x0d, 7][..], b"1000000"].concat();
    let short = [0x83, 0x86, 0x84];
    for (stream, head) in [(1, &short[..]), (3, &short[..]), (5, &long[..])] {
        client.write_all(&frame(1, 4, stream, head)).await.unwrap();
        while next_frame(&mut client).await != (0, 1, stream) {}
        let start = Instant::now();
        if stream == 1 {
            client.write_all(&frame(0, 1, stream, b"late")).await.unwrap();
        }
        let mut resets = Vec::new();
        for _ in 0..5 {
            sleep(Duration::from_millis(300)).await;
            client.write_all(&frame(6, 0, 0, &[7; 8])).await.unwrap();
            loop {
                match next_frame(&mut client).await {
                    (RST_STREAM, _, of) => resets.push((of, start.elapsed() >= Duration::from_secs(1))),
                    (6, 1, _) => break,
                    _ => {}
                }
            }
        }
        let expected: &[(u32, bool)] = match stream {
            1 => &[],
            3 => &[(3, true)],
            _ => &[(5, false)],
        };
        assert_eq!(resets, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_with_a_live_client_is_kept_and_one_with_a_dead_client_is_not() {
    let connections = connections();
    let mut gone = framed(tower::service_fn(slow), &connections);
    gone.write_all(PREFACE).await.unwrap();
    gone.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    gone.write_all(&frame(1, 5, 1, &[0x83, 0x86, 0x84])).await.unwrap();
    let start = Instant::now();
    // It takes all bytes that it is sent, and answers no ping.
    rest(&mut gone).await;
    assert_eq!(start.elapsed().as_secs(), 50);
    let mut there = client_of_streams(tower::service_fn(slow), &connections, 64 << 10).await;
    let answer = there.send_request(asking("/a")).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "at last", "after 300 s");
}

#[tokio::test]
async fn http2_without_tls_is_spoken_where_it_is_configured() {
    let (addr, _connections) = listening(tower::service_fn(hello), 8, None).await;
    let stream = TcpStream::connect(addr).await.unwrap();
    let (mut send, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let answer = send.send_request(asking("/a")).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
    let mut plain = TcpStream::connect(addr).await.unwrap();
    plain.write_all(b"P").await.unwrap();
    sleep(Duration::from_millis(20)).await;
    plain.write_all(b"OST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    self::answer(&mut plain, "hello").await;
}

// Shows (Routes and bodies): An answer to HEAD has no body over HTTP/2 either.
#[tokio::test]
async fn an_answer_to_head_over_http2_has_the_length_of_its_body_and_no_body() {
    let connections = connections();
    let mut send = client_of_streams(tower::service_fn(hello), &connections, 64 << 10).await;
    // The last one is the gateway's own answer, and the connection still works after each.
    for (path, length) in [("/a", "5"), ("/b", "5"), ("/healthz", "15")] {
        let mut request = asking(path);
        *request.method_mut() = http::Method::HEAD;
        let answer = send.send_request(request).await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["content-length"]),
            (200, &length.parse().unwrap())
        );
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "", "{path}");
    }
    let answer = send.send_request(asking("/a")).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
}
