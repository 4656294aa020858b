use super::super::{NodeListener, NodeServer};
use futures_util::{SinkExt, StreamExt};
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_simulate::{Dial, StreamDial, StreamDisturbance};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Longer than any step takes: reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

fn node() -> NodeServer {
    let node = rpcgate_simulate::node("eth", 7).expect("simulated");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    NodeListener::bind().expect("a port").serve(node, Dial::new(1), clock)
}

async fn open(node: &NodeServer) -> Socket {
    connect_async(node.ws_url()).await.expect("a stream").0
}

async fn say(socket: &mut Socket, method: &str, params: Value) {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    socket.send(Message::text(call.to_string())).await.expect("sent");
}

async fn next(socket: &mut Socket) -> Option<Result<Message, Error>> {
    tokio::time::timeout(PATIENCE, socket.next()).await.expect("the node says something")
}

/// Returns the next message as JSON.
async fn read(socket: &mut Socket) -> Value {
    let message = next(socket).await.expect("open").expect("a message");
    serde_json::from_str(message.to_text().expect("text")).expect("JSON")
}

async fn subscribed(node: &NodeServer) -> Socket {
    let mut socket = open(node).await;
    say(&mut socket, "eth_subscribe", json!(["newHeads"])).await;
    assert!(read(&mut socket).await["result"].is_string());
    socket
}

async fn until_closed(node: &NodeServer) {
    while node.open_streams() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn calls_are_answered_and_blocks_are_pushed() {
    let node = node();
    let mut socket = subscribed(&node).await;
    let head = read(&mut socket).await;
    assert_eq!(head["method"], "eth_subscription");
    say(&mut socket, "eth_blockNumber", json!([])).await;
    assert_eq!(read(&mut socket).await["result"], head["params"]["result"]["number"]);
    assert_eq!(node.open_streams(), 1);
    socket.close(None).await.expect("closed");
    while let Some(Ok(_)) = next(&mut socket).await {}
    until_closed(&node).await;
}

#[tokio::test]
async fn pings_are_answered_and_a_close_is_echoed() {
    let node = node();
    let mut socket = open(&node).await;
    socket.send(Message::Ping("who".into())).await.expect("sent");
    assert_eq!(next(&mut socket).await.expect("open").expect("a frame"), Message::Pong("who".into()));
    let frame = CloseFrame { code: CloseCode::Library(4001), reason: "done".into() };
    socket.send(Message::Close(Some(frame.clone()))).await.expect("sent");
    assert_eq!(next(&mut socket).await.expect("open").expect("a frame"), Message::Close(Some(frame)));
    assert!(next(&mut socket).await.is_none());
}

#[tokio::test]
async fn an_invalid_handshake_is_refused_and_calls_over_http_still_work() {
    let node = node();
    let address = node.url().strip_prefix("http://").expect("http").to_owned();
    for (version, status) in [("8", "400"), ("13", "101")] {
        let mut stream = TcpStream::connect(&address).await.expect("connected");
        let request = format!(
            "GET / HTTP/1.1\r\nHost: n\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: {version}\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"));
    }
}

#[tokio::test]
async fn messages_are_fragmented_as_configured_and_joined_by_the_client() {
    let node = node();
    let mut dial = StreamDial::new(1);
    dial.fragment = Some(7);
    node.set_stream_dial(dial);
    let mut socket = open(&node).await;
    say(&mut socket, "eth_getBlockByNumber", json!(["latest", true])).await;
    assert!(read(&mut socket).await["result"]["hash"].is_string());
}

#[tokio::test]
async fn frames_that_break_the_protocol_close_the_stream_with_the_reason() {
    for (bytes, code) in [
        // A continuation of nothing, reserved bits, text that is not UTF-8, a frame beyond every limit.
        (&[0x80, 0x80, 0, 0, 0, 0][..], 1002u16),
        (&[0xf1, 0x80, 0, 0, 0, 0], 1002),
        (&[0x81, 0x81, 0, 0, 0, 0, 0xff], 1007),
        (&[0x81, 0xff, 0, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0], 1009),
    ] {
        let node = node();
        let mut socket = open(&node).await;
        let MaybeTlsStream::Plain(stream) = socket.get_mut() else { panic!("no TLS") };
        stream.write_all(bytes).await.expect("written");
        match next(&mut socket).await {
            Some(Ok(Message::Close(Some(frame)))) => assert_eq!(u16::from(frame.code), code, "{bytes:?}"),
            other => panic!("{bytes:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn each_fault_happens_after_the_set_number_of_messages() {
    use StreamDisturbance::{BadClose, Close, Cut, Garbage, HalfClose};
    for fault in [Cut, HalfClose, Garbage, BadClose, Close(1012)] {
        let node = node();
        node.set_stream_dial(StreamDial::always(fault, 2));
        let mut socket = subscribed(&node).await;
        assert_eq!(read(&mut socket).await["method"], "eth_subscription");
        let end = next(&mut socket).await;
        match (fault, end) {
            (Cut | HalfClose, Some(Err(Error::Protocol(_) | Error::Io(_))) | None) => {}
            (Garbage, Some(Err(Error::Protocol(_)))) => {}
            // The library reports the forbidden code as it was written.
            (BadClose, Some(Ok(Message::Close(Some(frame))))) => assert_ne!(u16::from(frame.code), 1000),
            (BadClose, Some(Err(Error::Protocol(_)))) => {}
            (Close(code), Some(Ok(Message::Close(Some(frame))))) => assert_eq!(u16::from(frame.code), code),
            (fault, end) => panic!("{fault:?}: {end:?}"),
        }
        drop(socket);
        until_closed(&node).await;
    }
}

#[tokio::test]
async fn a_strike_stalls_the_streams_that_are_open_and_no_later_one() {
    let node = node();
    let mut before = subscribed(&node).await;
    node.strike_streams(StreamDisturbance::Stall);
    let mut after = subscribed(&node).await;
    // Both would be notified of the same block.
    let head = read(&mut after).await;
    assert_eq!(head["method"], "eth_subscription");
    say(&mut before, "eth_chainId", json!([])).await;
    say(&mut after, "eth_chainId", json!([])).await;
    assert_eq!(read(&mut after).await["result"], "0x1");
    let silence = tokio::time::timeout(Duration::from_millis(50), before.next()).await;
    assert!(silence.is_err(), "{silence:?}");
    assert_eq!(node.open_streams(), 2, "its connection is still there");
}

#[tokio::test]
async fn a_flood_repeats_the_newest_block_and_waits_for_a_slow_reader() {
    let node = node();
    let mut socket = subscribed(&node).await;
    node.strike_streams(StreamDisturbance::Flood);
    for _ in 0..100 {
        assert_eq!(read(&mut socket).await["method"], "eth_subscription");
    }
    // It is still answered in the midst of them.
    say(&mut socket, "eth_chainId", json!([])).await;
    while read(&mut socket).await["result"] != "0x1" {}
}

#[tokio::test]
async fn a_slow_stream_writes_few_bytes_at_a_time() {
    let node = node();
    let pause = Duration::from_millis(1);
    node.set_stream_dial(StreamDial::always(StreamDisturbance::Slow { bytes: 5, pause }, 0));
    let address = node.url().strip_prefix("http://").expect("http").to_owned();
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = "GET / HTTP/1.1\r\nHost: n\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut bytes = vec![0; 1024];
    let mut head = String::new();
    while !head.contains("\r\n\r\n") {
        let count = stream.read(&mut bytes).await.expect("a head");
        head.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    // A ping with an empty mask: its pong has 2 + 20 bytes.
    stream.write_all(&[&[0x89, 0x94, 0, 0, 0, 0][..], &[b'x'; 20]].concat()).await.expect("written");
    let mut read = 0;
    let mut pieces = 0;
    while read < 22 {
        read += stream.read(&mut bytes).await.expect("a piece");
        pieces += 1;
    }
    assert!(pieces > 1, "{pieces}");
}

#[tokio::test]
async fn a_dropped_node_cuts_its_streams() {
    let node = node();
    let mut socket = subscribed(&node).await;
    drop(node);
    while let Some(Ok(_)) = next(&mut socket).await {}
}

#[tokio::test]
async fn faults_of_the_dial_strike_handshakes_too() {
    let node = node();
    let mut dial = Dial::new(1);
    dial.error_rate = 1.0;
    node.set_dial(dial);
    for _ in 0..10 {
        match connect_async(node.ws_url()).await {
            Err(Error::Http(response)) => assert!(response.status().is_server_error()),
            Err(Error::Io(_) | Error::Protocol(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}
