//! How do I serve WebSocket streams in an axum application of my own?
//!
//! `websocket_stack` is one tower service from a handshake to its response. axum passes it the requests of a route. It
//! admits the caller, opens a stream to a node, and decides about each message. Everything else stays with axum.
//!
//! Read `app` first. Run it with `cargo run -p rpcgate-examples --example streams_in_axum -- ws://127.0.0.1:8546`, with
//! the address of your Ethereum node.
#![expect(clippy::print_stdout, reason = "it prints what to try")]

use arc_swap::ArcSwap;
use axum::{Router, routing::get};
use rpcgate_core::backend::{counters::MemoryCounters, usage_sink::MemoryUsageSink};
use rpcgate_core::{chain::Chains, prelude::*, tally::Accounting, tally::Transport};
use rpcgate_examples::{BoxError, key};
use rpcgate_layers::nodes::{NodeConfig, NodeUrl, Pool, PoolLimits, Pools};
use rpcgate_layers::stack::{Parts, websocket_stack};
use rpcgate_layers::{gateway::Housekeeping, websocket::StreamLimits};
use std::sync::Arc;

/// Builds the application: its own pages, and the streams of one chain.
fn app(node: &str, keys: Arc<dyn Directory>, sink: Arc<MemoryUsageSink>) -> Result<Router, BoxError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let eth = Arc::new(Chain::deployed(rpcgate_chains::eth::adapter()));
    let node = NodeConfig::new(NodeUrl::parse(node, Transport::Ws)?);
    let pool = Pool::new(eth.facts(), vec![node], PoolLimits::default(), clock.clone());

    let accounting = Accounting::new(clock, Arc::new(MemoryCounters::default()), sink);
    let chains = Chains::from_iter([eth]);
    let pools = Pools::from_iter([pool]);
    let mut parts = Parts::new(shared(chains), shared(pools), keys, Arc::new(accounting));
    parts.stream_limits = StreamLimits::default().with_calls_per_second(50);
    // Ends the streams of revoked keys, and sweeps counters.
    tokio::spawn(Housekeeping::of(&parts).run());

    let streams = parts.streams.clone();
    let count = move || async move { format!("{} streams are open\n", streams.count()) };
    Ok(Router::new().route_service("/ws/{chain}", websocket_stack(&parts)).route("/", get(count)))
}

/// Wraps a value that the stack reads, and that may be replaced while it runs.
fn shared<T>(value: T) -> Arc<ArcSwap<T>> {
    Arc::new(ArcSwap::from_pointee(value))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let node = std::env::args().nth(1).ok_or("name the WebSocket address of a node")?;
    let (key, keys) = key::fresh()?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    println!("Streams of your node, for one key. Subscribe to its blocks:\n");
    println!("    websocat 'ws://{addr}/ws/eth?apikey={key}'");
    println!(r#"    {{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}}"#);
    println!("\nand see at http://{addr}/ how many streams are open. End it with Ctrl-C.");
    let app = app(&node, keys, Arc::default())?;
    tokio::select! {
        served = axum::serve(listener, app) => served?,
        ended = tokio::signal::ctrl_c() => ended?,
    }
    Ok(())
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
        let app = app(&node().await, keys, sink.clone()).unwrap();
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
    }
}
