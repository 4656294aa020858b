//! End-to-end streams: an independent client and node implementation, connected through this stack with real sockets.

use super::*;
use crate::nodes::{NodeConfig, NodeDrains, NodeSpending, NodeUrl, Pool, PoolLimits, Pools};
use crate::stack::{Parts, websocket_stack};
use crate::testing::Fixture;
use arc_swap::ArcSwap;
use futures_util::{FutureExt, SinkExt, StreamExt};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rpcgate_core::backend::directory::MemoryDirectory;
use rpcgate_core::backend::usage_sink::{Outcome, Phase};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::{ChainName, Chains, NodeAllowance, NodeMethods, NodeRate};
use rpcgate_core::node_try::{NodeChoice, TryEnd};
use rpcgate_core::secret::KeyHash;
use rpcgate_core::tally::Transport;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode as Code, Data, OpCode as Op};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_async, client_async};
use tower::ServiceExt;

const KEY: &str = "0123456789abcdef";

type Socket = WebSocketStream<TcpStream>;

/// A node that runs a function for each stream.
struct Node {
    url: String,
    _tasks: JoinSet<()>,
}

impl Node {
    async fn serve<F, R>(serve: F) -> Self
    where
        F: Fn(Socket) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut streams = JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                let serve = serve.clone();
                streams.spawn(async move {
                    if let Ok(socket) = accept_async(tcp).await {
                        serve(socket).await;
                    }
                });
            }
        });
        Node { url, _tasks: tasks }
    }

    /// Creates a node that echoes every message.
    async fn echo() -> Self {
        Node::serve(|mut socket| async move {
            while let Some(Ok(message)) = socket.next().await {
                if (message.is_text() || message.is_binary()) && socket.send(message).await.is_err() {
                    return;
                }
            }
        })
        .await
    }

    /// Creates a node that answers every message with these texts.
    async fn answering(texts: &'static [&'static str]) -> (Self, Arc<Mutex<Vec<String>>>) {
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let log = seen.clone();
        let node = Node::serve(move |mut socket| {
            let log = log.clone();
            async move {
                while let Some(Ok(message)) = socket.next().await {
                    if let Message::Text(text) = message {
                        log.lock().push(text.to_string());
                        for text in texts {
                            socket.send(Message::text(*text)).await.unwrap();
                        }
                    }
                }
            }
        })
        .await;
        (node, seen)
    }
}

/// The gateway's side of a client's connection. It counts the writes.
struct CountedSocket {
    tcp: TcpStream,
    writes: Arc<AtomicUsize>,
}

impl AsyncRead for CountedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for CountedSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Relaxed);
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Relaxed);
        Pin::new(&mut self.tcp).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

struct Gateway {
    address: SocketAddr,
    writes: Arc<AtomicUsize>,
    parts: Parts,
    fixture: Fixture,
    directory: Arc<MemoryDirectory>,
    _tasks: JoinSet<()>,
}

impl Gateway {
    async fn before(nodes: &[&str]) -> Self {
        Gateway::with(nodes, |_| (), |_| ()).await
    }

    async fn with(nodes: &[&str], change: impl FnOnce(&mut Caller), set: impl FnOnce(&mut Parts)) -> Self {
        let node = |url: &&str| NodeConfig::new(NodeUrl::parse(url, Transport::Ws).unwrap());
        Gateway::of(nodes.iter().map(node).collect(), change, set).await
    }

    async fn of(
        configs: Vec<NodeConfig>,
        change: impl FnOnce(&mut Caller),
        set: impl FnOnce(&mut Parts),
    ) -> Self {
        let fixture = Fixture::with_caller(change);
        let directory = Arc::new(MemoryDirectory::new([(KeyHash::of(KEY), fixture.caller.clone())]));
        let limits = PoolLimits::default().with_connect(Duration::from_secs(2));
        let pool = Pool::new(fixture.chain.facts(), configs, limits, fixture.clock.clone());
        let chains: Chains = [fixture.chain.clone()].into_iter().collect();
        let mut parts = Parts::new(
            Arc::new(ArcSwap::from_pointee(chains)),
            Arc::new(ArcSwap::from_pointee(Pools::from_iter([pool]))),
            directory.clone(),
            fixture.accounting(),
        );
        set(&mut parts);
        // Small kernel buffers for clients.
        let listening = TcpSocket::new_v4().unwrap();
        listening.set_send_buffer_size(64 << 10).unwrap();
        listening.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = listening.listen(1_024).unwrap();
        let address = listener.local_addr().unwrap();
        let stack = websocket_stack(&parts);
        let writes = Arc::<AtomicUsize>::default();
        let mut tasks = JoinSet::new();
        let counted = writes.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                let stack = stack.clone();
                let service = service_fn(move |request| stack.clone().oneshot(request));
                let socket = TokioIo::new(CountedSocket { tcp, writes: counted.clone() });
                connections.spawn(http1::Builder::new().serve_connection(socket, service).with_upgrades());
            }
        });
        Gateway { address, writes, parts, fixture, directory, _tasks: tasks }
    }

    async fn connect(&self) -> Result<Socket, Error> {
        let tcp = TcpStream::connect(self.address).await.unwrap();
        Ok(client_async(format!("ws://{}/ws/toy?apikey={KEY}", self.address), tcp).await?.0)
    }

    async fn open(&self) -> Socket {
        self.connect().await.unwrap()
    }

    /// Opens a stream with small kernel buffers on the client's side.
    async fn open_with_little_room(&self) -> Socket {
        let tcp = TcpSocket::new_v4().unwrap();
        tcp.set_recv_buffer_size(64 << 10).unwrap();
        let tcp = tcp.connect(self.address).await.unwrap();
        let url = format!("ws://{}/ws/toy?apikey={KEY}", self.address);
        client_async(url, tcp).await.unwrap().0
    }

    async fn all_closed(&self) {
        while self.parts.streams.count() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Returns method, calls, outcome and bytes of every record.
    fn lines(&self) -> Vec<(String, u32, Outcome, u32, u32)> {
        let records = self.fixture.sink.records();
        records
            .into_iter()
            .flat_map(|record| record.lines)
            .map(|line| (line.method, line.calls, line.outcome, line.bytes_in, line.bytes_out))
            .collect()
    }
}

async fn next(socket: &mut Socket) -> Message {
    tokio::time::timeout(Duration::from_secs(20), socket.next()).await.unwrap().unwrap().unwrap()
}

/// Returns the close code and reason of the stream.
async fn end(socket: &mut Socket) -> (u16, String) {
    loop {
        match next(socket).await {
            Message::Close(Some(frame)) => return (frame.code.into(), frame.reason.to_string()),
            Message::Close(None) => return (1005, String::new()),
            _ => {}
        }
    }
}

fn text(text: &str) -> Message {
    Message::text(text)
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"toy_read"}"#;

fn padded(length: usize) -> Vec<u8> {
    let call = |pad: &str| format!(r#"{{"jsonrpc":"2.0","id":7,"method":"toy_read","params":["{pad}"]}}"#);
    call(&"x".repeat(length - call("").len())).into_bytes()
}

#[tokio::test]
async fn messages_pass_unchanged_both_ways() {
    let node = Node::echo().await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    for message in [
        text(CALL),
        Message::binary(CALL.as_bytes().to_vec()),
        text(
            " { \"params\" : [ 1.50, \"\\u00e9\" ],\n\"method\":\"toy_r\\u0065ad\", \"x\":1, \"id\": null } ",
        ),
        Message::binary(padded(70_000)),
    ] {
        socket.send(message.clone()).await.unwrap();
        assert_eq!(next(&mut socket).await, message);
    }
}

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn a_handshake_is_remembered_and_the_messages_of_its_stream_are_not() {
    let node = Node::echo().await;
    let gateway = Gateway::before(&[&node.url]).await;
    let tcp = TcpStream::connect(gateway.address).await.unwrap();
    let url = format!("ws://{}/ws/toy?apikey={KEY}", gateway.address);
    let (mut socket, response) = client_async(url, tcp).await.unwrap();
    socket.send(text(CALL)).await.unwrap();
    assert_eq!(next(&mut socket).await, text(CALL));
    let id = response.headers()["x-request-id"].to_str().unwrap().parse().unwrap();
    let request = gateway.fixture.recent.find(id).unwrap();
    assert_eq!((request.facts.transport, request.facts.is_lasting), (Transport::Ws, true));
    assert_eq!((request.calls[0].method.as_str(), request.calls[0].facts.status), ("WS:connect", 101));
    let windows = request.facts.windows.unwrap();
    assert_eq!((request.facts.counted, windows.minute.limit - windows.minute.remaining), (1, 1));
    let [only] = &request.tries[..] else { panic!("{:?}", request.tries) };
    assert_eq!((only.choice, only.end), (NodeChoice::Only, TryEnd::Answered));
    drop(socket);
    gateway.all_closed().await;
    assert_eq!(gateway.fixture.recent.len(), 1);
}

#[tokio::test]
async fn a_handshake_that_no_node_takes_is_remembered_with_its_failure() {
    let gateway = Gateway::before(&["ws://127.0.0.1:1"]).await;
    let Err(Error::Http(response)) = gateway.connect().await else { panic!("it was opened") };
    let id = response.headers()["x-request-id"].to_str().unwrap().parse().unwrap();
    let request = gateway.fixture.recent.find(id).unwrap();
    assert_eq!((request.calls[0].facts.outcome, request.facts.is_lasting), (Outcome::Failed, false));
    assert!(!request.tries.is_empty());
    assert!(request.tries.iter().all(|one| matches!(one.end, TryEnd::Failed(_))), "{:?}", request.tries);
}

#[tokio::test]
async fn messages_that_arrive_together_are_written_together() {
    let node = Node::serve(|mut socket| async move {
        let _ = socket.next().await;
        // Eight texts of one letter, in one write.
        let frames: Vec<u8> = (b'a'..=b'h').flat_map(|letter| [0x81, 1, letter]).collect();
        socket.get_mut().write_all(&frames).await.unwrap();
        while socket.next().await.is_some() {}
    })
    .await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    let before = gateway.writes.load(Relaxed);
    socket.send(text(CALL)).await.unwrap();
    for letter in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        assert_eq!(next(&mut socket).await, text(letter));
    }
    assert_eq!(gateway.writes.load(Relaxed) - before, 1);
}

#[tokio::test]
async fn data_for_several_streams_in_one_turn_reaches_the_right_clients() {
    const STREAMS: u8 = 16;
    let all_are_there = Arc::new(Barrier::new(STREAMS.into()));
    let node = Node::serve(move |mut socket| {
        let all_are_there = all_are_there.clone();
        async move {
            while let Some(Ok(Message::Binary(call))) = socket.next().await {
                let id = rpcgate_core::envelope::reply_id(&call).unwrap().id;
                let number: u8 = std::str::from_utf8(id.of(&call)).unwrap().parse().unwrap();
                all_are_there.wait().await;
                // Three frames of one byte, in one write.
                let frames: Vec<u8> = (0..3).flat_map(|part| [0x82, 1, number + part]).collect();
                socket.get_mut().write_all(&frames).await.unwrap();
            }
        }
    })
    .await;
    let plan = |caller: &mut Caller| {
        caller.plan = caller.plan.with_ws_connections(99);
    };
    let gateway = Gateway::with(&[&node.url], plan, |_| ()).await;
    let mut sockets = Vec::new();
    for _ in 0..STREAMS {
        sockets.push(gateway.open().await);
        // Each handshake is a request of the plan.
        gateway.fixture.clock.advance(Duration::from_secs(60));
    }
    for round in 0..5 {
        let before = gateway.writes.load(Relaxed);
        for (number, socket) in (100..).step_by(3).zip(&mut sockets) {
            let call = format!(r#"{{"id":{number},"method":"toy_read"}}"#);
            socket.send(Message::binary(call.into_bytes())).await.unwrap();
        }
        for (number, socket) in (100..).step_by(3).zip(&mut sockets) {
            for part in 0..3 {
                assert_eq!(next(socket).await, Message::binary(vec![number + part]), "round {round}");
            }
        }
        assert_eq!(gateway.writes.load(Relaxed) - before, usize::from(STREAMS), "one write for each stream");
    }
}

#[tokio::test]
async fn pings_pongs_and_fragments_pass_in_their_order() {
    let node = Node::serve(|mut socket| async move {
        let mut seen = Vec::new();
        while seen.len() < 2 {
            match socket.next().await.unwrap().unwrap() {
                Message::Frame(_) => {}
                message => seen.push(message),
            }
        }
        assert_eq!(seen[0], Message::Ping("between".into()), "before the message is whole");
        assert_eq!(seen[1], text(CALL));
        let fragment =
            |bytes: &'static str, op, fin| Message::Frame(Frame::message(bytes, Op::Data(op), fin));
        socket.send(fragment("one ", Data::Text, false)).await.unwrap();
        socket.send(Message::Ping("node".into())).await.unwrap();
        socket.send(fragment("two", Data::Continue, true)).await.unwrap();
        while socket.next().await.is_some() {}
    })
    .await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    let (first, second) = CALL.split_at(10);
    let fragment = |bytes: &str, op, fin| Message::Frame(Frame::message(bytes.to_owned(), Op::Data(op), fin));
    socket.send(fragment(first, Data::Text, false)).await.unwrap();
    socket.send(Message::Ping("between".into())).await.unwrap();
    socket.send(fragment(second, Data::Continue, true)).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(next(&mut socket).await);
    }
    assert!(seen.contains(&Message::Pong("between".into())), "the node's answer: {seen:?}");
    assert!(seen.contains(&Message::Ping("node".into())));
    assert!(seen.contains(&text("one two")));
}

#[tokio::test]
async fn close_codes_and_reasons_pass_from_either_side() {
    let frame = |code, reason: &'static str| CloseFrame { code, reason: reason.into() };
    let node = Node::serve(move |mut socket| async move {
        match socket.next().await {
            Some(Ok(Message::Text(_))) => {
                socket.close(Some(frame(Code::Library(4_001), "node is done"))).await.unwrap();
                let reply = socket.next().await;
                assert!(
                    matches!(reply, None | Some(Ok(Message::Close(Some(_)))) | Some(Err(_))),
                    "{reply:?}"
                );
            }
            Some(Ok(Message::Close(Some(frame)))) => {
                assert_eq!((frame.code, &*frame.reason), (Code::Library(4_000), "bye"));
            }
            other => panic!("{other:?}"),
        }
        while socket.next().await.is_some_and(|message| message.is_ok()) {}
    })
    .await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut first = gateway.open().await;
    first.send(text(CALL)).await.unwrap();
    assert_eq!(end(&mut first).await, (4_001, "node is done".into()));
    let mut second = gateway.open().await;
    second.close(Some(frame(Code::Library(4_000), "bye"))).await.unwrap();
    assert_eq!(end(&mut second).await, (4_000, "bye".into()));
    assert!(matches!(second.next().await, None | Some(Err(_))));
    drop((first, second));
    gateway.all_closed().await;
    let ends: Vec<_> = gateway.parts.streams.closed().filter(|(_, count)| *count > 0).collect();
    assert_eq!(ends, [(CloseReason::Client, 1), (CloseReason::Node, 1)]);
    drop(node);
}

#[tokio::test]
async fn a_refused_call_is_answered_here_and_does_not_reach_the_node() {
    let (node, seen) = Node::answering(&[r#"{"jsonrpc":"2.0","id":7,"result":1}"#]).await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    socket.send(text(r#"{"jsonrpc":"2.0","id":"x","method":"admin_stop"}"#)).await.unwrap();
    let refused = r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"method not available"}}"#;
    assert_eq!(next(&mut socket).await, text(refused));
    socket.send(text(CALL)).await.unwrap();
    assert_eq!(next(&mut socket).await, text(r#"{"jsonrpc":"2.0","id":7,"result":1}"#));
    assert_eq!(*seen.lock(), [CALL]);
}

#[tokio::test]
async fn an_array_is_decided_entry_by_entry_and_its_answers_are_joined() {
    let (node, seen) = Node::answering(&[
        r#"[{"jsonrpc":"2.0","id":1,"result":1}, {"jsonrpc":"2.0","id":3,"error":{"code":-1}}]"#,
    ])
    .await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    let item = |id: u32, method: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
    let read = item(1, "toy_read");
    let stop = item(2, "admin_stop");
    let id = item(3, "toy_id");
    socket.send(text(&format!("[{read},{stop}, {id}]"))).await.unwrap();
    let refused = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"method not available"}}"#;
    let joined = format!(
        r#"[{{"jsonrpc":"2.0","id":1,"result":1}}, {{"jsonrpc":"2.0","id":3,"error":{{"code":-1}}}},{refused}]"#
    );
    assert_eq!(next(&mut socket).await, text(&joined));
    assert_eq!(*seen.lock(), [format!("[{read},{id}]")]);
    socket.send(text(&format!("[{stop}]"))).await.unwrap();
    assert_eq!(next(&mut socket).await, text(&format!("[{refused}]")));
    drop(socket);
    gateway.all_closed().await;
    let lines = gateway.lines();
    let of = |method: &str| {
        lines.iter().filter(|line| line.0 == method).map(|line| (line.1, line.2)).collect::<Vec<_>>()
    };
    assert_eq!(of("toy_read"), [(1, Outcome::Answered)]);
    assert_eq!(of("toy_id"), [(1, Outcome::NodeError)]);
    assert_eq!(of("admin_stop"), [(2, Outcome::Refused)]);
    assert_eq!(of("WS:message"), [], "an answer is no push");
}

#[tokio::test]
async fn refused_calls_of_an_array_are_answered_with_the_nodes_first_single_answer() {
    const ONE: &str = r#"{"jsonrpc":"2.0","id":3,"result":"0x1"}"#;
    const TWO: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1}}"#;
    let (node, _) = Node::answering(&[ONE, TWO, r#"{"an":"event"}"#]).await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    socket.send(text(THREE)).await.unwrap();
    for expected in [ONE, &format!("[{CLOSED}]"), TWO, r#"{"an":"event"}"#] {
        assert_eq!(next(&mut socket).await, text(expected));
    }
    drop(socket);
    gateway.all_closed().await;
    let lines = gateway.lines();
    let of = |method: &str| {
        lines.iter().filter(|line| line.0 == method).map(|line| (line.1, line.2, line.4)).collect::<Vec<_>>()
    };
    assert_eq!(of("toy_read"), [(1, Outcome::NodeError, TWO.len() as u32)]);
    assert_eq!(of("toy_id"), [(1, Outcome::Answered, ONE.len() as u32)]);
    assert_eq!(of("admin_stop"), [(1, Outcome::Refused, CLOSED.len() as u32)]);
    assert_eq!(of("WS:message"), [(1, Outcome::Answered, 14)], "answers are no pushes");
}

#[tokio::test]
async fn every_part_of_a_stream_is_recorded_and_answers_are_distinguished_from_pushes() {
    let (node, _) = Node::answering(&[
        r#"{"jsonrpc":"2.0","id":7,"result":"0xsub"}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"an":"event"}}"#,
        r#"{"jsonrpc":"2.0","method":"toy_subscription","params":{}}"#,
    ])
    .await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    socket.send(text(CALL)).await.unwrap();
    let mut bytes = Vec::new();
    for _ in 0..3 {
        bytes.push(next(&mut socket).await.len() as u32);
    }
    socket.close(None).await.unwrap();
    assert_eq!(end(&mut socket).await.0, 1005);
    drop(socket);
    gateway.all_closed().await;
    let answered = Outcome::Answered;
    let length = CALL.len() as u32;
    assert_eq!(
        gateway.lines(),
        [
            ("WS:connect".into(), 1, answered, 0, 0),
            ("toy_read".into(), 1, answered, length, bytes[0]),
            ("WS:message".into(), 2, answered, 0, bytes[1] + bytes[2]),
            ("WS:disconnect".into(), 1, answered, length, bytes.iter().sum()),
        ]
    );
    let records = gateway.fixture.sink.records();
    assert!(records.iter().all(|record| record.transport == Transport::Ws));
    assert_eq!((records[0].phase, records[0].windowed), (Phase::Begin, 1));
}

#[tokio::test]
async fn a_handshake_that_no_node_takes_is_an_http_error_and_another_node_is_tried() {
    let node = Node::echo().await;
    let gateway = Gateway::before(&["ws://127.0.0.1:1"]).await;
    let Err(Error::Http(response)) = gateway.connect().await else { panic!("no stream") };
    assert_eq!(response.status(), 502);
    assert_eq!(response.headers()["x-ratelimit-remaining-minute"], "9");
    assert_eq!(response.body().as_deref(), Some(&br#"{"message":"backend request failed"}"#[..]));
    let two = Gateway::before(&["ws://127.0.0.1:1", &node.url]).await;
    for _ in 0..4 {
        two.open().await;
    }
    let record = &gateway.fixture.sink.records()[0];
    let line = &record.lines[0];
    assert_eq!((record.phase, line.status, line.outcome), (Phase::Begin, 502, Outcome::Failed));
}

#[tokio::test]
async fn the_answer_to_a_handshake_has_the_callers_windows_and_no_extension() {
    let node = Node::echo().await;
    let gateway = Gateway::before(&[&node.url]).await;
    let tcp = TcpStream::connect(gateway.address).await.unwrap();
    let request =
        tokio_tungstenite::tungstenite::http::Request::get(format!("ws://{}/ws/toy", gateway.address))
            .header("host", "h")
            .header("apikey", KEY)
            .header("connection", "keep-alive, Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .header("sec-websocket-extensions", "permessage-deflate; client_max_window_bits")
            .body(())
            .unwrap();
    let (_, response) = client_async(request, tcp).await.unwrap();
    assert_eq!(response.status(), 101);
    let headers = response.headers();
    assert_eq!(headers.keys().filter(|name| name.as_str().contains("ratelimit")).count(), 9);
    assert_eq!(headers["x-ratelimit-remaining-minute"], "9");
    assert!(headers.contains_key("x-request-id") && !headers.contains_key("sec-websocket-extensions"));
}

#[tokio::test]
async fn sub_protocols_are_offered_to_the_node_which_chooses() {
    use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let node = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        #[expect(clippy::result_large_err, reason = "the type is tungstenite's")]
        let choose = |request: &Request, mut response: Response| {
            assert_eq!(request.headers()["sec-websocket-protocol"], "one, two");
            assert!(!request.headers().contains_key("apikey") && request.uri().query().is_none());
            response.headers_mut().insert("sec-websocket-protocol", "two".parse().unwrap());
            Ok(response)
        };
        tokio_tungstenite::accept_hdr_async(tcp, choose).await.unwrap()
    });
    let gateway = Gateway::before(&[&url]).await;
    let tcp = TcpStream::connect(gateway.address).await.unwrap();
    let mut request = tokio_tungstenite::tungstenite::client::IntoClientRequest::into_client_request(
        format!("ws://{}/ws/toy?apikey={KEY}&x=1", gateway.address),
    )
    .unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "one, two".parse().unwrap());
    let (_, response) = client_async(request, tcp).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "two");
    node.await.unwrap();
}

#[tokio::test]
async fn streams_of_a_project_are_limited_by_its_plan() {
    let node = Node::echo().await;
    let limit = |caller: &mut Caller| caller.plan = caller.plan.with_ws_connections(2);
    let gateway = Gateway::with(&[&node.url], limit, |_| ()).await;
    let first = gateway.open().await;
    let _second = gateway.open().await;
    let Err(Error::Http(response)) = gateway.connect().await else { panic!("no third stream") };
    assert_eq!(response.status(), 429);
    assert_eq!(response.body().as_deref(), Some(&br#"{"message":"stream limit reached for your plan"}"#[..]));
    drop(first);
    while gateway.parts.streams.count() > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    gateway.open().await;
}

#[tokio::test]
async fn a_lost_node_ends_its_streams_with_1012_and_a_broken_one_as_well() {
    let dropping = Node::serve(|mut socket| async move {
        let _ = socket.next().await;
    })
    .await;
    let garbage = Node::serve(|mut socket| async move {
        let _ = socket.next().await;
        let mut tcp = socket.into_inner();
        tokio::io::AsyncWriteExt::write_all(&mut tcp, &[0xff; 20]).await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    for node in [dropping, garbage] {
        let gateway = Gateway::before(&[&node.url]).await;
        let mut socket = gateway.open().await;
        socket.send(text(CALL)).await.unwrap();
        assert_eq!(end(&mut socket).await, (1012, "the connection to the node was lost, reconnect".into()));
        drop(socket);
        gateway.all_closed().await;
        assert_eq!(gateway.lines()[1].2, Outcome::Abandoned, "the call was not answered");
    }
}

#[tokio::test]
async fn a_message_beyond_the_limit_ends_the_stream_with_1009_fragments_added_up() {
    let node = Node::echo().await;
    let limits = |parts: &mut Parts| parts.stream_limits = StreamLimits::default().with_max_message(1_000);
    let gateway = Gateway::with(&[&node.url], |_| (), limits).await;
    let mut socket = gateway.open().await;
    socket.send(Message::binary(padded(1_000))).await.unwrap();
    assert_eq!(next(&mut socket).await.len(), 1_000);
    for fin in [false, true] {
        let frame =
            Frame::message(vec![0; 600], Op::Data(if fin { Data::Continue } else { Data::Binary }), fin);
        socket.send(Message::Frame(frame)).await.unwrap();
    }
    assert_eq!(end(&mut socket).await, (1009, "message too large".into()));
}

// Shows (Streams).
#[tokio::test]
async fn a_message_beyond_the_limit_is_drained_so_that_its_client_learns_the_reason() {
    let node = Node::echo().await;
    // A masked frame of 16 MiB, much more than all buffers between client and gateway hold.
    let head = [0x82, 0xff, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3, 4];
    for goes_on in [true, false] {
        let limits = |parts: &mut Parts| {
            let wait = if goes_on { Duration::from_secs(60) } else { Duration::from_millis(50) };
            parts.stream_limits = StreamLimits::default().with_max_message(1_000).with_close_wait(wait);
        };
        let gateway = Gateway::with(&[&node.url], |_| (), limits).await;
        let mut socket = gateway.open().await;
        socket.get_mut().write_all(&head).await.unwrap();
        if goes_on {
            socket.get_mut().write_all(&vec![0; 16 << 20]).await.unwrap();
        }
        assert_eq!(end(&mut socket).await, (1009, "message too large".into()));
        // A client that neither continues nor closes is waited for only `close_wait`.
        let open = (!goes_on).then_some(socket);
        gateway.all_closed().await;
        drop(open);
    }
}

#[tokio::test]
async fn a_side_that_does_not_answer_a_close_frame_is_waited_for_and_then_closed() {
    let node = Node::serve(|mut socket| async move {
        let _ = socket.next().await;
        // The close frame is read, and not answered.
        std::future::pending::<()>().await;
    })
    .await;
    let quick = |parts: &mut Parts| {
        parts.stream_limits = StreamLimits::default().with_close_wait(Duration::from_millis(50));
    };
    let gateway = Gateway::with(&[&node.url], |_| (), quick).await;
    let mut socket = gateway.open().await;
    socket.send(text(CALL)).await.unwrap();
    socket.close(None).await.unwrap();
    end(&mut socket).await;
    drop(socket);
    gateway.all_closed().await;
    let ends: Vec<_> = gateway.parts.streams.closed().filter(|(_, count)| *count > 0).collect();
    assert_eq!(ends, [(CloseReason::Client, 1)]);
}

#[tokio::test]
async fn a_revoked_key_ends_its_streams_with_1008() {
    let node = Node::echo().await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    gateway.directory.revoke(KeyHash::of(KEY));
    gateway.parts.streams.check().await;
    assert_eq!(end(&mut socket).await, (1008, "API key revoked".into()));
}

#[tokio::test]
async fn a_shutdown_ends_streams_with_1001() {
    let node = Node::echo().await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut sockets = Vec::new();
    for _ in 0..5 {
        sockets.push(gateway.open().await);
    }
    gateway.parts.streams.shut_down(Duration::from_millis(50));
    for socket in &mut sockets {
        assert_eq!(end(socket).await, (1001, "the gateway is restarting, reconnect".into()));
    }
    let Err(Error::Http(response)) = gateway.connect().await else { panic!("no stream") };
    assert_eq!(response.status(), 503);
}

/// Returns the configuration of the node for these methods.
fn taking(node: &Node, only: &[&str]) -> NodeConfig {
    let url = NodeUrl::parse(&node.url, Transport::Ws).unwrap();
    NodeConfig::new(url).with_methods(NodeMethods::new(only.iter().copied(), [""; 0]))
}

// Shows (Nodes and cache): A stream is opened at a node that takes every method; if none does, it refuses the other
// calls.
#[tokio::test]
async fn a_stream_is_opened_where_every_method_is_taken_and_elsewhere_others_are_refused() {
    let answer = r#"{"jsonrpc":"2.0","id":7,"result":1}"#;
    let (some, of_some) = Node::answering(&[r#"{"jsonrpc":"2.0","id":7,"result":1}"#]).await;
    let (all, of_all) = Node::answering(&[r#"{"jsonrpc":"2.0","id":7,"result":1}"#]).await;
    let configs = vec![taking(&some, &["toy_read"]), taking(&all, &[])];
    let gateway = Gateway::of(configs, |_| (), |_| ()).await;
    for _ in 0..4 {
        let mut socket = gateway.open().await;
        socket.send(text(CALL)).await.unwrap();
        assert_eq!(next(&mut socket).await, text(answer));
    }
    assert_eq!((of_some.lock().len(), of_all.lock().len()), (0, 4));
    let gateway = Gateway::of(vec![taking(&some, &["toy_read"])], |_| (), |_| ()).await;
    let mut socket = gateway.open().await;
    socket.send(text(r#"{"jsonrpc":"2.0","id":2,"method":"toy_id"}"#)).await.unwrap();
    assert_eq!(next(&mut socket).await, text(CLOSED));
    socket.send(text("{'method':'toy_id'}")).await.unwrap();
    let unread = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#;
    assert_eq!(next(&mut socket).await, text(unread), "it could be any method");
    socket.send(text(CALL)).await.unwrap();
    assert_eq!(next(&mut socket).await, text(answer));
    assert_eq!(*of_some.lock(), [CALL]);
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_handshake_that_a_node_does_not_answer_moves_on_to_another_node_within_its_time() {
    // The kernel accepts connections, and nothing answers on them.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", silent.local_addr().unwrap());
    let node = Node::echo().await;
    let gateway = Gateway::before(&[&url, &node.url]).await;
    // Nodes take turns, so one of two handshakes goes to the silent node first. A node has two seconds.
    for _ in 0..2 {
        let opening = tokio::time::timeout(Duration::from_secs(4), gateway.open());
        let mut socket = opening.await.unwrap();
        socket.send(text(CALL)).await.unwrap();
        assert_eq!(next(&mut socket).await, text(CALL), "the other node has the stream");
    }
    let asked = tokio::time::timeout(Duration::from_secs(1), silent.accept()).await;
    assert!(asked.is_ok(), "the silent node was asked");
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_drained_node_gets_no_new_stream_and_its_streams_end_with_1012() {
    let one = Node::echo().await;
    let two = Node::echo().await;
    let drains = NodeDrains::default();
    let node = |node: &Node| {
        let config = taking(node, &[]);
        let drain = drains.of(ChainName::new("toy"), &config.name().to_string());
        config.with_drain(drain)
    };
    let quick = |parts: &mut Parts| {
        parts.stream_limits =
            StreamLimits::default().with_pings(Duration::from_millis(100), Duration::from_secs(60));
    };
    let gateway = Gateway::of(vec![node(&one), node(&two)], |_| (), quick).await;
    let mut first = gateway.open().await;
    let mut second = gateway.open().await;
    drains.set([("toy".to_owned(), one.url.clone())].into());
    let ended = tokio::select! {
        ended = end(&mut first) => ended,
        ended = end(&mut second) => ended,
    };
    assert_eq!(ended, (1012, "the node is taken out of use, reconnect".into()));
    drop((first, second));
    gateway.all_closed().await;
    drains.set([("toy".to_owned(), two.url.clone()), ("toy".to_owned(), one.url.clone())].into());
    assert!(gateway.connect().await.is_err(), "no node is left");
    drains.set([].into());
    let mut again = gateway.open().await;
    again.send(text(CALL)).await.unwrap();
    while next(&mut again).await != text(CALL) {}
}

// Shows (Nodes and cache).
#[tokio::test]
async fn ids_of_what_the_node_of_a_stream_makes_name_the_node_as_over_http() {
    let node = Node::serve(|mut socket| async move {
        while let Some(Ok(Message::Text(message))) = socket.next().await {
            if !message.contains("toy_make") {
                socket.send(Message::Text(message)).await.unwrap();
                continue;
            }
            socket.send(text("{\"method\":\"push\",\"params\":{\"result\":\"0x1\"}}")).await.unwrap();
            let reply = match message.starts_with('[') {
                true => "[{\"id\":8,\"result\":\"0x1\"},{\"id\":9,\"result\":\"0xa1\"}]",
                false => "{\"id\":7,\"result\": \"0xa0\"}",
            };
            // In fragments.
            let (head, tail) = reply.split_at(20);
            let frame =
                |text: &str, data, fin| Message::Frame(Frame::message(text.to_owned(), Op::Data(data), fin));
            socket.send(frame(head, Data::Text, false)).await.unwrap();
            socket.send(frame(tail, Data::Continue, true)).await.unwrap();
        }
    })
    .await;
    let config = NodeConfig::new(NodeUrl::parse(&node.url, Transport::Ws).unwrap());
    let digits = std::str::from_utf8(config.digits.as_bytes()).unwrap().to_owned();
    let gateway = Gateway::of(vec![config], |_| (), |_| ()).await;
    let mut socket = gateway.open().await;
    let mut ask = async |message: String| {
        socket.send(text(&message)).await.unwrap();
        loop {
            let Message::Text(text) = next(&mut socket).await else { panic!("a text") };
            if !text.contains("push") {
                return text.to_string();
            }
            assert!(text.ends_with("\"0x1\"}}"), "a push is not changed: {text}");
        }
    };
    let call = |id: u8, method: &str, param: &str| {
        format!("{{\"id\":{id},\"method\":\"{method}\",\"params\":[\"{param}\"],\"more\":1}}")
    };
    assert_eq!(ask(call(7, "toy_make", "")).await, format!("{{\"id\":7,\"result\": \"0x{digits}a0\"}}"));
    let two = format!("[{},{}]", call(8, "toy_read", ""), call(9, "toy_make", ""));
    let named = format!("[{{\"id\":8,\"result\":\"0x1\"}},{{\"id\":9,\"result\":\"0x{digits}a1\"}}]");
    assert_eq!(ask(two).await, named);
    // The node, which echoes everything, sees its own id.
    let used = ask(call(10, "toy_use", &format!("0x{digits}a0"))).await;
    assert_eq!(used, call(10, "toy_use", "0xa0"));
    let refused = r#"{"jsonrpc":"2.0","id":11,"error":{"code":-32000,"message":"filter not found"}}"#;
    for other in ["0xa0", "0x12345678a0", ""] {
        assert_eq!(ask(call(11, "toy_use", other)).await, refused, "{other}");
    }
}

#[tokio::test]
async fn calls_beyond_the_rate_of_a_stream_are_refused() {
    let (node, seen) = Node::answering(&[r#"{"jsonrpc":"2.0","id":7,"result":1}"#]).await;
    let limits = |parts: &mut Parts| parts.stream_limits = StreamLimits::default().with_calls_per_second(2);
    let gateway = Gateway::with(&[&node.url], |_| (), limits).await;
    let mut socket = gateway.open().await;
    for _ in 0..3 {
        socket.send(text(CALL)).await.unwrap();
    }
    let mut refused = 0;
    for _ in 0..3 {
        let answer = next(&mut socket).await;
        let error =
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32005,"message":"stream call rate exceeded"}}"#;
        refused += usize::from(answer == text(error));
    }
    assert_eq!((refused, seen.lock().len()), (1, 2));
    gateway.fixture.clock.advance(Duration::from_secs(1));
    socket.send(text(CALL)).await.unwrap();
    assert_eq!(next(&mut socket).await, text(r#"{"jsonrpc":"2.0","id":7,"result":1}"#));
}

// Shows (Nodes and cache).
#[tokio::test]
async fn an_opening_and_each_call_count_at_the_node_and_are_refused_beyond_its_limit() {
    let (node, seen) = Node::answering(&[r#"{"jsonrpc":"2.0","id":7,"result":1}"#]).await;
    let rate = Some(NodeRate { per_second: 1, burst: 3 });
    let allowance = NodeAllowance { rate, ..NodeAllowance::default() };
    let config = taking(&node, &[]).with_allowance(allowance, NodeSpending::default());
    let gateway = Gateway::of(vec![config], |_| (), |_| ()).await;
    let mut socket = gateway.open().await;
    let answer = text(r#"{"jsonrpc":"2.0","id":7,"result":1}"#);
    for _ in 0..2 {
        socket.send(text(CALL)).await.unwrap();
        assert_eq!(next(&mut socket).await, answer);
    }
    socket.send(text(CALL)).await.unwrap();
    let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"all nodes are at their limits, retry later"}}"#;
    assert_eq!(next(&mut socket).await, text(error));
    let Err(Error::Http(response)) = gateway.connect().await else { panic!("no stream") };
    assert_eq!(response.status().as_u16(), 503);
    assert_eq!(response.headers()["retry-after"], "1");
    gateway.fixture.clock.advance(Duration::from_secs(1));
    socket.send(text(CALL)).await.unwrap();
    assert_eq!(next(&mut socket).await, answer);
    assert_eq!(seen.lock().len(), 3);
}

/// Returns messages that are not one well-formed call or array of calls, although a lenient node may find `toy_read` in
/// them.
fn unreadable() -> Vec<Vec<u8>> {
    let deep = |levels: usize| {
        let nested = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"toy_read","x":{nested}}}"#)
    };
    let mut messages: Vec<Vec<u8>> = [
        deep(128),
        deep(100_000),
        format!("\u{feff}{CALL}"),
        format!("{CALL}{CALL}"),
        format!("{CALL} x"),
        format!("{CALL}\0"),
        format!("[{CALL}],"),
        format!("[{CALL},]"),
        CALL.replace('7', "NaN"),
        CALL.replace('7', "07"),
        CALL.replace('"', "'"),
        CALL.replace("7,", "7,/**/"),
        CALL[..CALL.len() - 1].to_owned(),
        String::new(),
        "  ".to_owned(),
    ]
    .map(String::into_bytes)
    .into();
    messages.push([CALL.as_bytes(), b"\xff"].concat());
    messages.push(CALL.replace("\"2.0\"", "\"\u{1}\"").into_bytes());
    messages
}

/// Strict JSON that is not a call, or not certainly one call.
const UNCERTAIN: &[&str] = &[
    "null",
    "7",
    "\"toy_read\"",
    "[]",
    "{}",
    r#"{"jsonrpc":"2.0","id":7}"#,
    r#"{"id":7,"method":null}"#,
    r#"{"id":7,"method":["toy_read"]}"#,
    r#"{"id":7,"method":{"name":"toy_read"}}"#,
    r#"{"id":7,"method":""}"#,
    r#"{"id":7,"Method":"toy_read"}"#,
    r#"{"id":7,"method":"toy_id","METHOD":"toy_read"}"#,
    r#"{"id":7,"method":"toy_id","method":"toy_read"}"#,
    r#"{"id":7,"method":"toy_id","\u006dethod":"toy_read"}"#,
    r#"{"id":7,"method":"toy_id","method\u0000":"toy_read"}"#,
    r#"{"id":7,"method":"toy_read\u0000"}"#,
    r#"{"id":7,"method":"toy_id","params":[],"params":[1]}"#,
    r#"{"ID":7,"id":8,"method":"toy_read"}"#,
    r#"{"id":7,"methodname":"toy_read"}"#,
    r#"{"id":7,"command":"toy_read"}"#,
];

// Shows (Hostile and odd traffic): No client message reaches a node before it is parsed and admitted: invalid JSON gets
// -32700, and anything that is not certainly one call gets -32600 (promise 73).
#[tokio::test]
async fn a_message_that_cannot_be_read_is_answered_and_never_reaches_the_node() {
    let (node, seen) = Node::answering(&[r#"{"jsonrpc":"2.0","id":7,"result":1}"#]).await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    let error = |code: i32| format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code}"#);
    let answered = async |socket: &mut Socket, message: &[u8], code: i32| {
        let is_text = std::str::from_utf8(message);
        let mut sent = vec![Message::binary(message.to_vec())];
        sent.extend(is_text.map(Message::text));
        for message in sent {
            socket.send(message.clone()).await.unwrap();
            let answer = next(socket).await;
            let expected = error(code);
            assert!(answer.to_text().unwrap().starts_with(&expected), "{message:?}: {answer:?}");
        }
    };
    for message in unreadable() {
        answered(&mut socket, &message, -32700).await;
    }
    for message in UNCERTAIN {
        answered(&mut socket, message.as_bytes(), -32600).await;
    }
    socket.send(text(CALL)).await.unwrap();
    assert_eq!(next(&mut socket).await, text(r#"{"jsonrpc":"2.0","id":7,"result":1}"#));
    assert_eq!(*seen.lock(), [CALL]);
    let refused = 2 * (unreadable().len() + UNCERTAIN.len()) - 1;
    socket.close(None).await.unwrap();
    gateway.all_closed().await;
    let lines = gateway.lines();
    let unread = lines.iter().filter(|line| line.0 == "-" && line.2 == Outcome::Refused);
    assert_eq!(unread.map(|line| line.1 as usize).sum::<usize>(), refused, "{lines:?}");
}

// Shows (Hostile and odd traffic).
#[tokio::test]
async fn items_that_are_not_certainly_calls_are_taken_out_of_an_array() {
    let (node, seen) = Node::answering(&[r#"[{"jsonrpc":"2.0","id":7,"result":1}]"#]).await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    let items: Vec<_> = UNCERTAIN.iter().copied().chain([CALL]).collect();
    socket.send(text(&format!("[{}]", items.join(",")))).await.unwrap();
    let answer = next(&mut socket).await;
    assert_eq!(answer.to_text().unwrap().matches("-32600").count(), UNCERTAIN.len(), "{answer:?}");
    assert_eq!(*seen.lock(), [format!("[{CALL}]")]);
}

// Shows (Hostile and odd traffic).
#[tokio::test]
async fn a_node_receives_on_a_stream_exactly_the_admitted_calls() {
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::test_runner::TestRunner;

    let (node, seen) = Node::answering(&[]).await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    let mut runner = TestRunner::deterministic();
    let part = proptest::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\u{feff}",
        "\"id\"",
        "7",
        "null",
        "NaN",
        "1.0",
        "\"jsonrpc\"",
        "\"2.0\"",
        "\"method\"",
        "\"Method\"",
        "\"m\\u0065thod\"",
        "\"params\"",
        "\"toy_read\"",
        "\"admin_stop\"",
        "\"admin_st\\u006fp\"",
        r#"{"id":7,"method":"toy_read"}"#,
        r#"{"id":7,"method":"admin_stop"}"#,
        r#""method":"toy_id","#,
        r#"{"method":"#,
    ]);
    let whole = proptest::sample::select(vec![CALL, " ", "[", ",", "]", r#"{"id":1,"method":"admin_stop"}"#]);
    let messages =
        proptest::prop_oneof![proptest::collection::vec(part, 1..9), proptest::collection::vec(whole, 1..6),];
    for _ in 0..3_000 {
        let message = messages.new_tree(&mut runner).unwrap().current().concat();
        socket.send(text(&message)).await.unwrap();
    }
    socket.send(text(CALL)).await.unwrap();
    let last = || seen.lock().last().is_some_and(|last| last == CALL);
    while !last() {
        tokio::task::yield_now().await;
        // Refusals are read, so that the stream continues.
        let _ = socket.next().now_or_never();
    }
    let seen = seen.lock();
    for message in &*seen {
        // An independent parser finds only calls, and no closed ones.
        let value: serde_json::Value = serde_json::from_str(message).unwrap();
        let calls = value.as_array().map_or(std::slice::from_ref(&value), Vec::as_slice);
        for call in calls {
            let folded = |(name, _): &(&String, &serde_json::Value)| name.eq_ignore_ascii_case("method");
            let methods: Vec<_> = call.as_object().unwrap().iter().filter(folded).collect();
            assert!(
                matches!(methods[..], [(name, value)] if name == "method" && value != "admin_stop"),
                "{message}"
            );
        }
    }
    assert!(seen.len() > 50, "{}", seen.len());
}

#[tokio::test]
async fn a_client_that_reads_nothing_slows_its_node_and_is_closed() {
    let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = sent.clone();
    let node = Node::serve(move |mut socket| {
        let counter = counter.clone();
        async move {
            let _ = socket.next().await;
            while socket.send(Message::binary(vec![0; 100_000])).await.is_ok() {
                counter.fetch_add(100_000, std::sync::atomic::Ordering::Relaxed);
            }
        }
    })
    .await;
    let quick = |parts: &mut Parts| {
        parts.stream_limits = StreamLimits::default()
            .with_pings(Duration::from_secs(1), Duration::from_secs(4))
            .with_close_wait(Duration::from_millis(100));
    };
    let gateway = Gateway::with(&[&node.url], |_| (), quick).await;
    let mut socket = gateway.open().await;
    socket.send(text(CALL)).await.unwrap();
    gateway.all_closed().await;
    let held = sent.load(std::sync::atomic::Ordering::Relaxed);
    assert!(held < 64 << 20, "the sockets' buffers and the bound: {held}");
    let ends: Vec<_> = gateway.parts.streams.closed().filter(|(_, count)| *count > 0).collect();
    assert_eq!(ends, [(CloseReason::SlowReader, 1)]);
    assert_eq!(gateway.parts.memory_budget.held(), 0);
}

// Shows (Streams).
#[tokio::test]
async fn the_memory_of_a_slow_clients_backlog_is_returned_when_it_is_written() {
    const MESSAGES: usize = 150;
    let node = Node::serve(|mut socket| async move {
        let _ = socket.next().await;
        for _ in 0..MESSAGES {
            socket.send(Message::binary(vec![0; 20_000])).await.unwrap();
        }
        // Nothing follows.
        while socket.next().await.is_some() {}
    })
    .await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open_with_little_room().await;
    socket.send(text(CALL)).await.unwrap();
    let memory_budget = &gateway.parts.memory_budget;
    let waits = async |is_so: &dyn Fn() -> bool| {
        let waiting = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await
    };
    assert!(
        waits(&|| memory_budget.held() > 1 << 20).await.is_ok(),
        "the client's backlog is held: {}",
        memory_budget.held()
    );
    for _ in 0..MESSAGES {
        assert_eq!(next(&mut socket).await.len(), 20_000);
    }
    // The call waits for its answer.
    assert!(
        waits(&|| memory_budget.held() == CALL.len()).await.is_ok(),
        "still held: {}",
        memory_budget.held()
    );
    assert_eq!(gateway.parts.streams.count(), 1);
}

#[tokio::test]
async fn a_silent_peer_is_pinged_and_closed() {
    let node = Node::serve(|mut socket| async move {
        // Tungstenite answers pings only while it reads.
        let _ = socket.next().await;
        std::future::pending::<()>().await;
    })
    .await;
    let quick = |parts: &mut Parts| {
        parts.stream_limits =
            StreamLimits::default().with_pings(Duration::from_millis(250), Duration::from_millis(1_500));
    };
    let gateway = Gateway::with(&[&node.url], |_| (), quick).await;
    let mut socket = gateway.open().await;
    socket.send(text(CALL)).await.unwrap();
    assert_eq!(end(&mut socket).await, (1012, "the node stopped answering, reconnect".into()));
    let echo = Node::echo().await;
    let gateway = Gateway::with(&[&echo.url], |_| (), quick).await;
    let silent = gateway.open().await;
    gateway.all_closed().await;
    let ends: Vec<_> = gateway.parts.streams.closed().filter(|(_, count)| *count > 0).collect();
    assert_eq!(ends, [(CloseReason::ClientSilent, 1)]);
    drop(silent);
    let mut lively = gateway.open().await;
    for _ in 0..3 {
        assert!(matches!(next(&mut lively).await, Message::Ping(_)));
    }
    assert_eq!(gateway.parts.streams.count(), 1, "it answers");
    drop(node);
}

/// An array of a call that passes, a closed one, and one that passes; and the answer to the closed one.
const THREE: &str = concat!(
    r#"[{"jsonrpc":"2.0","id":1,"method":"toy_read"},{"jsonrpc":"2.0","id":2,"method":"admin_stop"},"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"toy_id"}]"#
);
const CLOSED: &str = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"method not available"}}"#;

// Shows (Streams): Refused calls of an array are answered for any answers of the node to the others.
#[tokio::test]
async fn an_array_that_the_node_rejects_is_answered_with_its_error_and_the_refused_calls() {
    const ERROR: &str = r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no arrays"},"id":null}"#;
    const ARRAY: &str = r#"[{"jsonrpc":"2.0","error":{"code":-32600,"message":"no arrays"}}]"#;
    const PUSH: &str = r#"{"jsonrpc":"2.0","method":"toy_subscription","params":{}}"#;
    for (texts, answer) in [(&[PUSH, ERROR], ERROR), (&[PUSH, ARRAY], ARRAY.trim_matches(['[', ']']))] {
        let (node, _) = Node::answering(texts).await;
        let gateway = Gateway::before(&[&node.url]).await;
        let mut socket = gateway.open().await;
        socket.send(text(THREE)).await.unwrap();
        assert_eq!(next(&mut socket).await, text(PUSH));
        assert_eq!(next(&mut socket).await, text(&format!("[{answer},{CLOSED}]")));
        socket.send(text(r#"[{"jsonrpc":"2.0","id":1,"method":"toy_read"}]"#)).await.unwrap();
        assert_eq!(next(&mut socket).await, text(PUSH));
        assert_eq!(next(&mut socket).await, text(texts[1]), "nothing was refused");
        socket.send(text(CALL)).await.unwrap();
        assert_eq!(next(&mut socket).await, text(PUSH));
        assert_eq!(next(&mut socket).await, text(texts[1]), "no array waits");
        drop(socket);
        gateway.all_closed().await;
        let lines = gateway.lines();
        let of = |method: &str| {
            lines.iter().filter(|line| line.0 == method).map(|line| (line.1, line.2)).collect::<Vec<_>>()
        };
        assert_eq!(of("toy_id"), [(1, Outcome::NodeError)]);
        assert_eq!(of("toy_read"), [(2, Outcome::NodeError), (1, Outcome::Abandoned)]);
        assert_eq!(of("WS:message").iter().map(|line| line.0).sum::<u32>(), 4, "pushes, and the last error");
    }
}

// Shows (Streams).
#[tokio::test]
async fn fragmented_answers_are_joined_with_refused_calls_and_otherwise_pass_at_once() {
    const WHOLE: &str =
        r#"[{"jsonrpc":"2.0","id":1,"result":1},{"jsonrpc":"2.0","id":3,"error":{"code":-1}} ]"#;
    // The id is not in the first fragment of the first message.
    const CUTS: [(usize, usize); 2] = [(1, 30), (40, 60)];
    let node = Node::serve(|mut socket| async move {
        for (first, second) in CUTS {
            // Pongs may arrive too.
            while !socket.next().await.unwrap().unwrap().is_text() {}
            let parts = [&WHOLE[..first], &WHOLE[first..second], &WHOLE[second..]];
            for (number, part) in parts.into_iter().enumerate() {
                let data = if number == 0 { Data::Text } else { Data::Continue };
                let frame = Frame::message(part, Op::Data(data), number == 2);
                socket.send(Message::Frame(frame)).await.unwrap();
                socket.send(Message::Ping("between".into())).await.unwrap();
            }
        }
        while socket.next().await.is_some() {}
    })
    .await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    let joined = format!("{},{CLOSED}]", WHOLE.trim_end_matches(']'));
    for (sent, answer) in [(THREE.to_owned(), &*joined), (THREE.replace("admin_stop", "toy_id"), WHOLE)] {
        socket.send(text(&sent)).await.unwrap();
        let mut seen = Vec::new();
        while seen.len() < 4 {
            seen.push(next(&mut socket).await);
        }
        let ping = Message::Ping("between".into());
        assert_eq!(seen, [ping.clone(), ping.clone(), text(answer), ping]);
    }
    drop(socket);
    gateway.all_closed().await;
    let lines = gateway.lines();
    let outcomes: Vec<_> = lines.iter().filter(|line| line.0 == "toy_id").map(|line| line.2).collect();
    assert_eq!(outcomes[0], Outcome::NodeError);
    assert!(!outcomes.contains(&Outcome::Abandoned), "{outcomes:?}");
    assert_eq!(gateway.parts.memory_budget.held(), 0);
}

// Shows (Streams).
#[tokio::test]
async fn refused_calls_of_an_abandoned_array_are_answered_alone() {
    let (node, seen) = Node::answering(&[]).await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    socket.send(text(THREE)).await.unwrap();
    let items: Vec<_> =
        (10..110).map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"toy_read"}}"#)).collect();
    let hundred = format!("[{}]", items.join(","));
    for _ in 0..11 {
        socket.send(text(&hundred)).await.unwrap();
    }
    assert_eq!(next(&mut socket).await, text(&format!("[{CLOSED}]")));
    socket.close(None).await.unwrap();
    end(&mut socket).await;
    assert_eq!(seen.lock().len(), 12);
}

// Shows (Streams): An open stream of a chain that is switched off forwards no message, JSON or not.
#[tokio::test]
async fn a_chain_that_is_switched_off_gets_no_message_of_any_kind() {
    let (node, seen) = Node::answering(&[]).await;
    let gateway = Gateway::before(&[&node.url]).await;
    let mut socket = gateway.open().await;
    gateway.parts.chains.store(Arc::new([Fixture::with_chain_off().chain].into_iter().collect()));
    let error = |id: &str, code: i32, message: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
    };
    let off = |id: &str| error(id, -32601, "chain not available at this location");
    for (message, answer) in [
        (CALL.to_owned(), off("7")),
        (format!("[{CALL}]"), format!("[{}]", off("7"))),
        ("no JSON at all".into(), error("null", -32700, "parse error")),
        ("{'method':'toy_read'}".into(), error("null", -32700, "parse error")),
        ("5".into(), error("null", -32600, "invalid request")),
    ] {
        socket.send(text(&message)).await.unwrap();
        assert_eq!(next(&mut socket).await, text(&answer));
        socket.send(Message::binary(message.into_bytes())).await.unwrap();
        assert_eq!(next(&mut socket).await, Message::binary(answer.into_bytes()));
    }
    assert!(seen.lock().is_empty(), "{seen:?}");
}

// Shows (Streams).
#[tokio::test]
async fn a_gateway_that_can_hold_no_more_streams_refuses_handshakes_with_503() {
    let node = Node::echo().await;
    let limits = |parts: &mut Parts| parts.stream_limits = StreamLimits::default().with_max_open(1);
    let gateway = Gateway::with(&[&node.url], |_| (), limits).await;
    let mut first = gateway.open().await;
    let Err(Error::Http(response)) = gateway.connect().await else { panic!("no second stream") };
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    first.close(None).await.unwrap();
    end(&mut first).await;
    drop(first);
    gateway.all_closed().await;
    gateway.open().await;
}

// Shows (Streams).
#[tokio::test]
async fn a_message_of_the_node_without_memory_for_it_ends_the_stream_with_1013() {
    let node = Node::serve(|mut socket| async move {
        let _ = socket.next().await;
        let _ = socket.send(Message::binary(vec![0; 1_000_000])).await;
        while socket.next().await.is_some() {}
    })
    .await;
    let little = |parts: &mut Parts| parts.memory_budget = rpcgate_core::memory::MemoryBudget::new(200_000);
    let gateway = Gateway::with(&[&node.url], |_| (), little).await;
    let mut socket = gateway.open().await;
    socket.send(text(CALL)).await.unwrap();
    assert_eq!(end(&mut socket).await, (1013, "overloaded, retry later".into()));
    drop(socket);
    gateway.all_closed().await;
    assert_eq!(gateway.parts.memory_budget.held(), 0);
}

/// Creates a node that sends messages of 20 kB as fast as they are read.
async fn flooding() -> Node {
    Node::serve(|mut socket| async move {
        let _ = socket.next().await;
        while socket.send(Message::binary(vec![0; 20_000])).await.is_ok() {}
    })
    .await
}

/// Returns a stream to a flooding node after all buffers of the gateway and the kernel for its client are full. The
/// stream is closed because its key is revoked.
async fn closed_when_full(close_wait: Duration) -> (Gateway, Node, Socket) {
    let node = flooding().await;
    let limits = |parts: &mut Parts| {
        parts.stream_limits = StreamLimits::default().with_max_backlog(1 << 20).with_close_wait(close_wait);
    };
    let gateway = Gateway::with(&[&node.url], |_| (), limits).await;
    let mut socket = gateway.open_with_little_room().await;
    socket.send(text(CALL)).await.unwrap();
    while gateway.parts.memory_budget.held() < 1 << 20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    gateway.directory.revoke(KeyHash::of(KEY));
    gateway.parts.streams.check().await;
    (gateway, node, socket)
}

// Shows (Streams): A client that keeps reading gets its close frame; a node's message for which there is no memory
// closes with 1013.
#[tokio::test]
async fn a_client_that_keeps_reading_gets_its_close_frame_after_any_backlog() {
    let (gateway, _node, mut socket) = closed_when_full(Duration::from_secs(3)).await;
    // This takes several times the time that a client may read nothing.
    let mut messages = 0;
    let closed = loop {
        match next(&mut socket).await {
            Message::Close(frame) => break frame.unwrap(),
            _ => messages += 1,
        }
        tokio::time::sleep(Duration::from_millis(120)).await;
    };
    assert_eq!((u16::from(closed.code), closed.reason.as_str()), (1008, "API key revoked"));
    assert!(messages * 20_000 > 1 << 20, "{messages}");
    drop(socket);
    gateway.all_closed().await;
    assert_eq!(gateway.parts.memory_budget.held(), 0);
}

// Shows (Streams).
#[tokio::test]
async fn a_client_that_reads_nothing_for_the_time_of_a_close_gets_no_close_frame() {
    let (gateway, _node, mut socket) = closed_when_full(Duration::from_millis(100)).await;
    gateway.all_closed().await;
    assert_eq!(gateway.parts.memory_budget.held(), 0);
    while let Some(Ok(message)) = socket.next().await {
        assert!(!message.is_close(), "it came too late for that");
    }
}
