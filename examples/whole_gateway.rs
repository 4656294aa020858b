//! How do I run a whole gateway, with my own customers and my own invoices?
//!
//! `GatewayService::builder()` builds one tower service from a request to a response. It answers HTTP requests, opens
//! WebSocket streams and serves gRPC calls. Every limit and every backend has a default and a setter. Two backends of
//! this example are its own: a `Directory`, which finds the caller of a key, and a `UsageSink`, which gets the record of
//! every request before its response leaves.
//!
//! Make a call twice within two seconds and compare `x-cache`; the eleventh call of a minute gets 429. At the end the
//! example prints its records.
//!
//! Read `start` first. Run it with `cargo run -p rpcgate-examples --example whole_gateway`.
#![expect(clippy::print_stdout, reason = "it prints what it would bill")]

use parking_lot::Mutex;
use rpcgate_core::prelude::*;
use rpcgate_examples::{BoxError, node, server};
use rpcgate_layers::prelude::*;
use std::{net::SocketAddr, sync::Arc};

const KEY: &str = "a secret of our first customer";

async fn start(clock: Arc<dyn Clock>, invoices: Arc<Invoices>) -> Result<SocketAddr, BoxError> {
    let gateway = GatewayService::builder()
        .chain(rpcgate_chains::eth::adapter(), [node::simulated("eth", clock.clone()).await?])
        .directory(Arc::new(Customers))
        .usage_sink(invoices)
        .clock(clock)
        .build()?;
    Ok(server::serve(axum::Router::new().fallback_service(gateway)).await?)
}

/// Our customers. A real directory stores key hashes, queries a database in `fetch` and caches results: `own_keys.rs`.
#[derive(Debug)]
struct Customers;

impl Directory for Customers {
    fn peek(&self, key: &str) -> KeyLookup {
        let customer = || Arc::new(Caller::of(1, Plan::of(Tier::Free)));
        if key == KEY { KeyLookup::Known(customer()) } else { KeyLookup::Unknown }
    }
}

/// Our invoices. A real sink appends to a file, or sends the record to a thread that writes to a database.
#[derive(Debug, Default)]
struct Invoices(Mutex<Vec<OwnedRecord>>);

impl UsageSink for Invoices {
    fn append(&self, record: &Record<'_>) {
        self.0.lock().push(record.into());
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let invoices = Arc::new(Invoices::default());
    let addr = start(Arc::new(SystemClock::new()), invoices.clone()).await?;
    server::show_calls(addr, KEY, "/eth", &[("eth_blockNumber", ""), ("eth_gasPrice", "")]).await?;
    println!("{:#?}", invoices.0.lock());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::usage_sink::Outcome;
    use rpcgate_examples::client::{JsonResponse, post};
    use serde_json::{Value, json};
    use std::time::Duration;

    struct Running {
        addr: SocketAddr,
        invoices: Arc<Invoices>,
    }

    /// Starts a gateway with a stopped clock, so that no minute ends while a test counts requests.
    async fn running() -> (Running, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let invoices = Arc::<Invoices>::default();
        let addr = start(clock.clone(), invoices.clone()).await.unwrap();
        (Running { addr, invoices }, clock)
    }

    async fn ask(gateway: &Running, body: &Value) -> JsonResponse {
        post(gateway.addr, "/eth", ("apikey", KEY), body).await.unwrap()
    }

    #[tokio::test]
    async fn a_call_goes_to_the_node_and_the_same_call_again_to_the_cache() {
        let (gateway, clock) = running().await;
        let call = json!({"jsonrpc": "2.0", "id": "mine", "method": "eth_blockNumber", "params": []});
        let first = ask(&gateway, &call).await;
        assert_eq!((first.status.as_u16(), first.header("x-cache")), (200, "MISS"));
        assert_eq!(first.json["id"], "mine");
        assert!(first.json["result"].as_str().unwrap().starts_with("0x"), "{:?}", first.json);
        assert_eq!((first.header("x-compute-units"), first.rate_headers()), ("1", 9));
        let second = ask(&gateway, &call).await;
        assert_eq!((second.header("x-cache"), &second.json), ("HIT", &first.json));
        clock.advance(Duration::from_secs(12));
        let third = ask(&gateway, &call).await;
        assert_eq!(third.header("x-cache"), "MISS");
        assert_ne!(third.json, first.json, "a block has come");
    }

    #[tokio::test]
    async fn a_batch_is_answered_call_by_call_and_recorded_line_by_line() {
        let (gateway, _) = running().await;
        let batch = json!([
            {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"},
            {"jsonrpc": "2.0", "id": 2, "method": "admin_addPeer", "params": ["enode://"]},
            {"jsonrpc": "2.0", "id": 3, "method": "eth_gasPrice"},
        ]);
        let answer = ask(&gateway, &batch).await;
        assert_eq!(answer.json[0]["result"], "0x1");
        assert!(answer.json[1]["error"]["code"].is_i64(), "a closed method is refused");
        assert!(answer.json[2]["result"].is_string());
        let records = gateway.invoices.0.lock();
        let lines: Vec<_> =
            records[0].lines.iter().map(|line| (&*line.method, line.cu, line.outcome)).collect();
        assert_eq!(
            lines,
            [
                ("eth_chainId", 0, Outcome::Answered),
                ("admin_addPeer", 0, Outcome::Refused),
                ("eth_gasPrice", 1, Outcome::Answered)
            ]
        );
    }

    #[tokio::test]
    async fn unknown_callers_are_refused_and_the_plan_is_kept() {
        let (gateway, clock) = running().await;
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"});
        let unknown = post(gateway.addr, "/eth", ("apikey", "guessed"), &call).await.unwrap();
        assert_eq!((unknown.status.as_u16(), unknown.rate_headers()), (401, 0));
        for left in (0..10).rev() {
            let answer = ask(&gateway, &call).await;
            assert_eq!(answer.header("x-ratelimit-remaining-minute"), left.to_string());
        }
        let refused = ask(&gateway, &call).await;
        assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, "60"));
        clock.advance(Duration::from_secs(60));
        assert_eq!(ask(&gateway, &call).await.status.as_u16(), 200);
    }
}
