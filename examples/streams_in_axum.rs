//! How do I add WebSocket streams to an axum application of my own?
//!
//! `GatewayService` opens a stream for a handshake at `/ws/<chain>`, admits its caller, and decides about each message.
//! The application has its own routes next to it. Its handle knows the open streams, and closes them at a shutdown.
//!
//! Read `app` first. Run it with `cargo run -p rpcgate-examples --example streams_in_axum -- ws://127.0.0.1:8546`, with
//! the address of your Ethereum node.
#![expect(clippy::print_stdout, reason = "it prints what to try")]

use axum::{Router, routing::get};
use rpcgate_core::prelude::*;
use rpcgate_examples::{BoxError, key};
use rpcgate_layers::{gateway::GatewayHandle, prelude::*, websocket::StreamLimits};
use std::{sync::Arc, time::Duration};

/// Builds the application: its own page, and the streams of one chain.
fn app(
    node: &str,
    keys: Arc<dyn Directory>,
    sink: Arc<dyn UsageSink>,
) -> Result<(Router, GatewayHandle), BoxError> {
    let gateway = GatewayService::builder()
        .chain(rpcgate_chains::eth::adapter(), [node])
        .directory(keys)
        .usage_sink(sink)
        .stream_limits(StreamLimits::default().with_calls_per_second(50))
        .build()?;
    let handle = gateway.handle();
    let counted = gateway.handle();
    let count = move || async move { format!("{} streams are open\n", counted.open_streams()) };
    Ok((Router::new().route("/", get(count)).fallback_service(gateway), handle))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let node = std::env::args().nth(1).ok_or("name the WebSocket address of a node")?;
    let (key, keys) = key::fresh()?;
    let (app, handle) = app(&node, keys, Arc::<MemoryUsageSink>::default())?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!(
        "See at http://127.0.0.1:3000 how many streams are open, end it with Ctrl-C, and subscribe with:\n"
    );
    println!("    websocat 'ws://127.0.0.1:3000/ws/eth?apikey={key}'");
    println!(r#"    {{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}}"#);
    let end = async move {
        let _ = tokio::signal::ctrl_c().await;
        handle.drain(Duration::from_secs(5)).await;
    };
    Ok(axum::serve(listener, app).with_graceful_shutdown(end).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{SinkExt, StreamExt};
    use tokio::net::TcpListener;
    use tokio_tungstenite::tungstenite::{Error, Message};

    /// Starts a node that echoes every text message.
    async fn node() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut socket = tokio_tungstenite::accept_async(tcp).await.unwrap();
                    while let Some(Ok(message)) = socket.next().await {
                        if message.is_text() {
                            socket.send(message).await.unwrap();
                        }
                    }
                });
            }
        });
        url
    }

    #[tokio::test]
    async fn a_stream_runs_through_the_application_and_needs_a_key() {
        let (key, keys) = key::fresh().unwrap();
        let sink = Arc::<MemoryUsageSink>::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (app, handle) = app(&node().await, keys, sink.clone()).unwrap();
        tokio::spawn(axum::serve(listener, app).into_future());

        let url = format!("ws://{addr}/ws/eth");
        let Err(Error::Http(refused)) = tokio_tungstenite::connect_async(&url).await else {
            panic!("a stream without a key")
        };
        assert_eq!(refused.status(), 401);
        let (mut socket, _) = tokio_tungstenite::connect_async(format!("{url}?apikey={key}")).await.unwrap();
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#;
        socket.send(Message::text(call)).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(call));
        socket.send(Message::text(r#"{"jsonrpc":"2.0","id":2,"method":"debug_traceCall"}"#)).await.unwrap();
        let refused = socket.next().await.unwrap().unwrap();
        assert!(refused.to_text().unwrap().contains("debug methods not permitted"), "{refused}");
        socket.close(None).await.unwrap();
        while socket.next().await.is_some() {}
        while !sink.records().iter().any(|record| record.lines[0].method == "WS:disconnect") {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!(sink.records()[0].lines[0].method, "WS:connect");

        let (mut socket, _) = tokio_tungstenite::connect_async(format!("{url}?apikey={key}")).await.unwrap();
        assert_eq!(handle.open_streams(), 1);
        let ended = async {
            let first = socket.next().await;
            while socket.next().await.is_some() {}
            first
        };
        let (is_drained, end) = tokio::join!(handle.drain(Duration::from_secs(4)), ended);
        let Some(Ok(Message::Close(Some(frame)))) = end else { panic!("{end:?}") };
        assert_eq!((is_drained, u16::from(frame.code), handle.open_streams()), (true, 1001, 0));
    }
}
