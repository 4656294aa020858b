//! How do I serve a chain that is not in the catalog?
//!
//! **A chain of a known family** takes a few lines: its facts and its deviations. The examples are an EVM chain at
//! `/gno` and a descendant of Bitcoin at `/dgb`. Weights, cache classes, heavy and closed methods come from the family.
//!
//! **A chain of another kind** takes an [`Adapter`]: a table of methods, and the few decisions that a table cannot
//! express. The example is an invented ledger of a marina at `/marina`. Its table uses every kind of row:
//!
//! | method | units | notes |
//! |---|---|---|
//! | `marina_name` | 0 | never changes: cached without expiry |
//! | `marina_tide` | 1 | cached for 2 s |
//! | `marina_entry` | 10 | never changes once it is final; cached for 2 s until then |
//! | `marina_search` | 75 | heavy: counts in the heavy budget |
//! | `marina_file` | 20 | submits: never cached, never sent twice, never sent together with other calls |
//! | `watch_*` | 1 | heavy, and closed unless the operator opens it |
//! | `crane_*` | | closed: callers must not move the cranes |
//!
//! The stack serves all three alike: it calls their adapters and contains no code for a particular chain.
//! `json_rpc_chain.rs` and `rest_chain.rs` show short adapters of real chains.
//!
//! Run it with `cargo run -p rpcgate-examples --example custom_chain`.
#![expect(clippy::print_stdout, reason = "it prints what to try")]

use axum::{Json, Router};
use rpcgate_chains::family::{evm, utxo};
use rpcgate_core::prelude::*;
use rpcgate_examples::{BoxError, key, node};
use rpcgate_layers::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{net::SocketAddr, sync::Arc};

// A block is final for the cache once it has twenty confirmations. A key's scope may say `gnosis` for `gno`.
const GNO_FACTS: Facts = evm::facts("gno", "Gnosis Chain", 20).with_aliases(&["gnosis"]);

/// An EVM chain: its chain id, and a method that the family does not list.
const GNO: evm::Evm = evm::Evm::new(GNO_FACTS, 100).with_methods(&[Method::new("eth_getBlockReceipts", 10)]);

const DGB_FACTS: Facts = utxo::facts("dgb", "DigiByte", 40);

/// A descendant of Bitcoin in which `getblock` weighs more than in the family.
const DGB: utxo::Utxo = utxo::Utxo::new(DGB_FACTS).weighing(&[("getblock", 10)]);

#[derive(Debug)]
struct Marina;

static MARINA_FACTS: Facts = Facts::json_rpc("marina", "Marina").with_aliases(&["port"]).with_final_depth(3);

impl Adapter for Marina {
    fn facts(&self) -> &Facts {
        &MARINA_FACTS
    }

    fn methods(&self) -> Vec<Method> {
        vec![
            Method::new("marina_name", 0).cached(CacheRule::Static),
            Method::new("marina_tide", 1).cached(CacheRule::secs(2)),
            Method::new("marina_entry", 10).cached(CacheRule::immutable(2)),
            Method::new("marina_search", 75).marked(Flags::HEAVY),
            Method::new("marina_file", 20).marked(Flags::BROADCAST),
        ]
    }

    /// Classifies the methods that share a prefix. All others cost 1 Compute Unit and go to the node.
    fn unlisted(&self, method: &str) -> MethodRule {
        let flags = match method.split_once('_') {
            Some(("crane", _)) => Flags::CLOSED,
            Some(("watch", _)) => Flags::HEAVY.and(Flags::OPENABLE),
            _ => Flags::NONE,
        };
        MethodRule::UNLISTED.marked(flags)
    }

    /// Called before an answer is cached. All answers except entries follow their cache class. An entry is final once
    /// enough others follow it; an entry that is not written yet must not be cached.
    fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence {
        #[derive(Deserialize)]
        struct Entry {
            height: u64,
        }
        if call.method != b"marina_entry" {
            return Permanence::Yes;
        }
        match serde_json::from_slice(result) {
            Ok(Some(Entry { height })) if finality.is_final(height) => Permanence::Yes,
            Ok(Some(_)) => Permanence::NotYet,
            Ok(None) | Err(_) => Permanence::Unknown,
        }
    }

    /// The programs of the marina send their key in this header; `apikey` works everywhere.
    fn key_sources(&self) -> KeySources {
        KeySources::default().with_header("x-marina-pass")
    }

    /// The call by which the gateway reads the height of the ledger.
    fn probe(&self) -> Probe {
        Probe::Rpc { method: "marina_length", params: "[]" }
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        serde_json::from_slice(answer).ok().map(NodeStatus::at)
    }
}

/// The number of entries that the marina's node has written.
const LENGTH: u64 = 100;

/// The marina's node. It numbers its answers, so that a cached answer differs from a new one.
fn marina_node() -> Router {
    let asked = Arc::new(AtomicU64::new(0));
    Router::new().fallback(async move |Json(body): Json<Value>| {
        Json(match body {
            Value::Array(calls) => calls.iter().map(|call| answer(call, &asked)).collect(),
            call => answer(&call, &asked),
        })
    })
}

fn answer(call: &Value, asked: &AtomicU64) -> Value {
    let answer = asked.fetch_add(1, Relaxed);
    let result = match (call["method"].as_str().unwrap_or_default(), call["params"][0].as_u64()) {
        ("marina_length", _) => json!(LENGTH),
        ("marina_name", _) => json!("Port Example"),
        ("marina_tide", _) => json!({"centimetres": 212, "answer": answer}),
        ("marina_entry", Some(height)) if height <= LENGTH => {
            json!({"height": height, "cargo": "tea", "answer": answer})
        }
        ("marina_entry", Some(_)) => Value::Null,
        ("marina_search" | "watch_ships", _) => json!([4, 8, 15]),
        ("marina_file", _) => json!(LENGTH + 1),
        _ => {
            let error = json!({"code": 1, "message": "the marina does not do that"});
            return json!({"jsonrpc": "2.0", "id": call["id"], "error": error});
        }
    };
    json!({"jsonrpc": "2.0", "id": call["id"], "result": result})
}

struct Running {
    addr: SocketAddr,
    key: String,
    chains: Vec<Arc<Chain>>,
}

async fn start(clock: Arc<dyn Clock>, changes: ChainOverrides) -> Result<Running, BoxError> {
    let chains = vec![
        Arc::new(Chain::deployed(Arc::new(GNO))),
        Arc::new(Chain::deployed(Arc::new(DGB))),
        // An operator may change the settings of an adapter: weights, classes, open and closed methods.
        Arc::new(Chain::new(Arc::new(Marina), changes, true, Arc::default())),
    ];
    // There are no simulated nodes of Gnosis and DigiByte; nodes of the same family replace them. They belong to other
    // networks, so they would get no calls.
    let nodes = [
        node::simulated("polygon", clock.clone()).await?,
        node::simulated("ltc", clock.clone()).await?,
        node::start(marina_node()).await?,
    ];
    let (key, directory) = key::fresh()?;
    let mut gateway = GatewayService::builder().directory(directory).clock(clock);
    for (chain, url) in chains.iter().zip(nodes) {
        let node = NodeConfig::new(url.parse()?).with_network(ExpectedNetwork::Any);
        gateway = gateway.chain_with(chain.clone(), [node]);
    }
    let service = gateway.build()?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    tokio::spawn(axum::serve(listener, Router::new().fallback_service(service)).into_future());
    Ok(Running { addr, key, chains })
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let Running { addr, key, chains } =
        start(Arc::new(SystemClock::new()), ChainOverrides::default()).await?;
    for chain in chains {
        println!("{} at /{}", chain.facts().title, chain.name());
    }
    let call =
        |path: &str, body: &str| println!("    curl -i http://{addr}/{path} -H 'apikey: {key}' -d '{body}'");
    println!("\nTry:\n");
    call("gno", r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#);
    call("dgb", r#"{"id":1,"method":"getblockcount"}"#);
    println!("\nand of the marina a final entry, one that is not yet final, and the cranes:\n");
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"marina_entry","params":[5]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"marina_entry","params":[99]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"crane_lift"}"#,
    ] {
        call("marina", body);
    }
    tokio::signal::ctrl_c().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_examples::client::{JsonResponse, post};
    use std::time::Duration;

    /// Starts a gateway with a stopped clock, and waits until it knows the height of the marina's ledger.
    async fn running(changes: ChainOverrides) -> (Running, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let gateway = start(clock.clone(), changes).await.unwrap();
        let heads_known = async {
            while gateway.chains.iter().any(|chain| chain.head().height().is_none()) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), heads_known).await.unwrap();
        (gateway, clock)
    }

    async fn ask(gateway: &Running, path: &str, method: &str, params: Value) -> JsonResponse {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        post(gateway.addr, path, ("apikey", &gateway.key), &call).await.unwrap()
    }

    #[tokio::test]
    async fn a_chain_of_a_family_has_the_familys_methods_and_its_own() {
        let (gateway, _) = running(ChainOverrides::default()).await;
        let cu = async |path: &str, method: &str, params: Value| {
            let answer = ask(&gateway, path, method, params).await;
            (answer.status.as_u16(), answer.header("x-compute-units").to_owned())
        };
        assert_eq!(cu("/gno", "eth_blockNumber", json!([])).await, (200, "1".into()));
        assert_eq!(cu("/gno", "eth_getBlockReceipts", json!(["latest"])).await, (200, "10".into()));
        assert_eq!(cu("/dgb", "getblockcount", json!([])).await, (200, "1".into()));
        let hash = ask(&gateway, "/dgb", "getblockhash", json!([1])).await.json["result"].clone();
        assert_eq!(cu("/dgb", "getblock", json!([hash])).await, (200, "10".into()));
        let closed = ask(&gateway, "/dgb", "dumpprivkey", json!([])).await;
        assert_eq!(closed.json["error"]["message"], Refusal::Closed.message());
    }

    #[tokio::test]
    async fn the_marinas_cache_classes() {
        let (gateway, clock) = running(ChainOverrides::default()).await;
        let mut caches = Vec::new();
        for wait in [0, 0, 2] {
            clock.advance(Duration::from_secs(wait));
            let mut row = Vec::new();
            for (method, params) in [
                ("marina_name", json!([])),
                ("marina_tide", json!([])),
                ("marina_entry", json!([LENGTH - 3])),
                ("marina_entry", json!([LENGTH - 2])),
                ("marina_entry", json!([LENGTH + 1])),
                ("marina_file", json!(["rum"])),
            ] {
                row.push(ask(&gateway, "/marina", method, params).await.header("x-cache").to_owned());
            }
            caches.push(row);
        }
        assert_eq!(caches[0], ["MISS"; 6]);
        assert_eq!(caches[1], ["HIT", "HIT", "HIT", "HIT", "MISS", "MISS"]);
        assert_eq!(caches[2], ["HIT", "MISS", "HIT", "MISS", "MISS", "MISS"], "two seconds later");
    }

    #[tokio::test]
    async fn the_marinas_marks_and_weights() {
        let (gateway, _) = running(ChainOverrides::default()).await;
        for method in ["crane_lift", "watch_ships"] {
            let closed = ask(&gateway, "/marina", method, json!([])).await;
            assert_eq!(closed.json["error"]["message"], Refusal::Closed.message(), "{method}");
        }
        let own = ask(&gateway, "/marina", "marina_sing", json!([])).await;
        assert_eq!(own.json["error"]["message"], "the marina does not do that");
        // The standard plan has 30 heavy calls a minute; one of them went to `watch_ships`.
        let search = json!({"jsonrpc": "2.0", "id": 1, "method": "marina_search"});
        let batch = Value::Array(vec![search; 30]);
        let answer = post(gateway.addr, "/marina", ("x-marina-pass", &gateway.key), &batch).await.unwrap();
        let answers = answer.json.as_array().unwrap();
        assert!(answers[..29].iter().all(|answer| answer["result"].is_array()), "{answers:?}");
        assert!(answers[29]["error"].is_object(), "{}", answers[29]);
        assert_eq!(answer.header("x-compute-units"), (29 * 75).to_string());
    }

    #[tokio::test]
    async fn an_operator_can_change_the_weights_of_an_adapter() {
        let changes = ChainOverrides::default()
            .with_cu("marina_tide", 3)
            .with_open("watch_*")
            .with_blocked("marina_file");
        let (gateway, _) = running(changes).await;
        let tide = ask(&gateway, "/marina", "marina_tide", json!([])).await;
        assert_eq!(tide.header("x-compute-units"), "3");
        assert_eq!(
            ask(&gateway, "/marina", "watch_ships", json!([])).await.json["result"],
            json!([4, 8, 15])
        );
        assert_eq!(ask(&gateway, "/marina", "marina_file", json!(["rum"])).await.status.as_u16(), 403);
    }
}
