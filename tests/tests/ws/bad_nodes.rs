//! Promise 74 for WebSocket: handshakes behind two nodes. One of them opens no streams, while its HTTP works.

use crate::node::{Content, StreamNode};
use crate::stream::target;
use rpcgate_tests::bad_nodes::{
    CROWDS, NodeTrial, RawConnection, RawNode, TrialClient, TrialResult, TrialTable, setup,
};
use rpcgate_tests::client::Connection;
use rpcgate_tests::node::Node;
use std::net::SocketAddr;
use std::time::Duration;

/// The time that a client waits for its stream. The gateway tries a second node when the first has not answered a
/// handshake for a while, so clients allow more time than for a call.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A handshake gets these bytes, and the connection ends (FIN).
    Answers(&'static str),
    /// A handshake gets these bytes, and nothing more.
    Stalls(&'static str),
    /// The connection is reset (RST) instead of an answer.
    Resets,
    ClosesConnections,
    Refuses,
}

const KINDS: &[(&str, Fault)] = &[
    ("WebSocket: accepts handshakes and never answers", Fault::Stalls("")),
    (
        "WebSocket: sends a part of the head",
        Fault::Stalls("HTTP/1.1 101 Switching Protocols\r\nupgrade: web"),
    ),
    (
        "WebSocket: 502 with a page",
        Fault::Answers(
            "HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
        ),
    ),
    ("WebSocket: 503", Fault::Answers("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")),
    ("WebSocket: 429", Fault::Answers("HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n")),
    ("WebSocket: 403", Fault::Answers("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")),
    ("WebSocket: 404", Fault::Answers("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")),
    ("WebSocket: 200", Fault::Answers("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")),
    (
        "WebSocket: 101 with a wrong key",
        Fault::Stalls(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: wrong\r\n\r\n",
        ),
    ),
    ("WebSocket: speaks TLS", Fault::Answers("\u{15}\u{3}\u{1}\u{0}\u{2}\u{2}\n")),
    ("WebSocket: closes the connection instead of an answer", Fault::Answers("")),
    ("WebSocket: resets the connection instead of an answer", Fault::Resets),
    ("WebSocket: closes connections at once", Fault::ClosesConnections),
    ("WebSocket: refuses connections", Fault::Refuses),
];

async fn node(fault: Fault) -> RawNode {
    match fault {
        Fault::Refuses => RawNode::refusing(),
        _ => RawNode::start(move |connection| serve(fault, connection)).await,
    }
}

async fn serve(fault: Fault, mut connection: RawConnection) {
    if matches!(fault, Fault::ClosesConnections) || connection.request().await.is_none() {
        return;
    }
    match fault {
        Fault::Answers(bytes) => connection.write(bytes.as_bytes()).await,
        Fault::Stalls(bytes) => {
            connection.write(bytes.as_bytes()).await;
            connection.hold().await;
        }
        Fault::Resets => connection.reset(),
        Fault::ClosesConnections | Fault::Refuses => {}
    }
}

/// A client that opens a stream and leaves.
struct Opening(SocketAddr);

impl TrialClient for Opening {
    async fn call(&mut self, _: usize) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("no answer: {error}");
        let mut connection = Connection::open(self.0).await.map_err(failed)?;
        let handshake = format!(
            "GET {} HTTP/1.1\r\nhost: gateway\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            target("default")
        );
        connection.write(handshake.as_bytes()).await.map_err(failed)?;
        // The bytes after the head do not matter.
        match connection.read(true).await.map_err(failed)?.status {
            101 => Ok(()),
            status => Err(format!("status {status}")),
        }
    }
}

/// Runs one trial. `http` are the addresses of the nodes for HTTP, which works.
async fn trial(http: [String; 2], (kind, fault): (&'static str, Fault), clients: usize) -> TrialResult {
    let bad = node(fault).await;
    let good = StreamNode::start(Content::Echo).await;
    let streams = [bad.url("ws"), good.url()];
    let nodes: Vec<_> =
        http.iter().zip(streams).map(|(url, ws)| format!("{{ url = \"{url}\", ws = \"{ws}\" }}")).collect();
    let setup = setup("eth")
        .set("plans.enterprise", "ws_connections = 1000")
        .set("chains.eth", &format!("nodes = [{}]", nodes.join(", ")));
    let gateway = setup.start().await;
    let all = (0..clients).map(|_| Opening(gateway.addr())).collect();
    NodeTrial { kind, clients, patience: PATIENCE }.run(all).await
}

// Shows (Nodes and cache).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_one_bad_node_of_two_streams_open_after_two_seconds() {
    let http = [Node::evm().await, Node::evm().await];
    let mut table = TrialTable::default();
    for clients in CROWDS {
        for kind in KINDS {
            table.add(trial(http.each_ref().map(Node::url), *kind, clients));
        }
    }
    table.check().await;
}
