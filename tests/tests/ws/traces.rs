//! The trace of a handshake (`telemetry.otlp`).

use crate::setup;
use rpcgate_tests::client::TestClient;
use rpcgate_tests::collector::TraceCollector;
use rpcgate_tests::gateway::key;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

// Shows (Traces, logs and metrics).
#[tokio::test]
async fn the_node_of_a_stream_receives_the_span_of_its_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let collector = TraceCollector::start();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let told = tokio::spawn(async move {
        let (read, mut write) = listener.accept().await.unwrap().0.into_split();
        let mut lines = BufReader::new(read).lines();
        let mut told = None;
        while let Some(line) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
            if let Some(value) = line.to_lowercase().strip_prefix("traceparent: ") {
                told = Some(value.to_owned());
            }
        }
        write.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        told
    });
    let gateway = setup(&url, &[])
        .set("telemetry.otlp", &format!("url = \"{}\"", collector.url()))
        .set("telemetry.otlp", "interval = \"1ms\"")
        .start()
        .await;
    let headers = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let client = TestClient::new(gateway.addr(), Some(&key("default")));
    assert_eq!(client.send("GET", "/ws/eth", &headers, b"").await.status, 502);
    let told = told.await.unwrap();
    let spans = collector.got(2).await;
    let server = spans.iter().find(|span| span.is_server).unwrap();
    assert_eq!((server.attribute("rpcgate.transport"), server.error.is_some()), ("ws", true), "{spans:?}");
    let first = spans.iter().find(|span| span.parent == server.id).unwrap();
    assert_eq!((told.as_deref(), first.error.is_some()), (Some(first.traceparent("03").as_str()), true));
}
