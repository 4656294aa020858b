//! How do I serve a chain of another kind than those of the catalog?
//!
//! With an [`Adapter`]: a table of methods, and the few decisions that a table cannot express. The example is an
//! invented ledger of a marina at `/marina`. Its table uses every kind of row:
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
//! The stack calls the adapter and contains no code for a particular chain. `json_rpc_chain.rs` and `rest_chain.rs` show
//! adapters of real chains; the tests here run a gateway with this one. `cargo run -p rpcgate-examples --example
//! custom_chain` prints the table.

use rpcgate_chains::family::params::{member, number};
use rpcgate_core::prelude::*;

#[derive(Debug)]
struct Marina;

static FACTS: Facts = Facts::json_rpc("marina", "Marina").with_aliases(&["port"]).with_final_depth(3);

impl Adapter for Marina {
    fn facts(&self) -> &Facts {
        &FACTS
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
        let prefixes = [("crane_", Flags::CLOSED), ("watch_", Flags::HEAVY.and(Flags::OPENABLE))];
        let found = prefixes.into_iter().find(|(prefix, _)| method.starts_with(prefix));
        MethodRule::UNLISTED.marked(found.map_or(Flags::NONE, |(_, flags)| flags))
    }

    /// Called before an answer is cached. All answers except entries follow their cache class. An entry is final once
    /// enough others follow it; an entry that is not written yet must not be cached.
    fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence {
        let height = member(result, "height").and_then(number);
        if call.method == b"marina_entry" { Permanence::at(height, finality) } else { Permanence::Yes }
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
        number(answer).map(NodeStatus::at)
    }
}

fn main() {
    rpcgate_examples::server::print_table(&Marina);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_examples::client::{JsonResponse, post};
    use rpcgate_examples::node::MARINA_LENGTH as LENGTH;
    use rpcgate_examples::{key, node, server};
    use rpcgate_layers::prelude::*;
    use serde_json::{Value, json};
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::time::Duration;

    struct Running {
        addr: SocketAddr,
        key: String,
    }

    /// Starts a gateway with a stopped clock, and waits until it knows the height of the marina's ledger.
    async fn running(changes: ChainOverrides) -> (Running, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        // An operator may change the settings of an adapter: weights, classes, open and closed methods.
        let chain = Arc::new(Chain::new(Arc::new(Marina), changes, true, Arc::default()));
        let node = NodeConfig::new(node::start(node::marina()).await.unwrap().parse().unwrap());
        let (key, directory) = key::fresh().unwrap();
        let gateway = GatewayService::builder().chain_with(chain.clone(), [node]).directory(directory);
        let gateway = gateway.clock(clock.clone()).build().unwrap();
        let addr = server::serve(axum::Router::new().fallback_service(gateway)).await.unwrap();
        let head_known = async {
            while chain.head().height().is_none() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), head_known).await.unwrap();
        (Running { addr, key }, clock)
    }

    async fn ask(gateway: &Running, path: &str, method: &str, params: Value) -> JsonResponse {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        post(gateway.addr, path, ("apikey", &gateway.key), &call).await.unwrap()
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
