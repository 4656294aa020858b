//! How do I serve a chain of a family that the catalog knows?
//!
//! With a few lines: its facts and its deviations. The examples are an EVM chain at `/gno` and a descendant of Bitcoin
//! at `/dgb`. Weights, cache classes, heavy and closed methods come from the family. `custom_chain.rs`,
//! `json_rpc_chain.rs` and `rest_chain.rs` are chains of no family; a gateway serves them alike.
//!
//! Run it with `cargo run -p rpcgate-examples --example family_chain`.

use rpcgate_chains::family::{evm, utxo};
use rpcgate_core::prelude::*;
use rpcgate_examples::{BoxError, key, node, server};
use rpcgate_layers::{nodes::BadUrl, prelude::*};
use std::{net::SocketAddr, sync::Arc};

// A block is final for the cache once it has twenty confirmations. A key's scope may say `gnosis` for `gno`.
const GNO_FACTS: Facts = evm::facts("gno", "Gnosis Chain", 20).with_aliases(&["gnosis"]);

/// An EVM chain: its chain id, and a method that the family does not list.
const GNO: evm::Evm = evm::Evm::new(GNO_FACTS, 100).with_methods(&[Method::new("eth_getBlockReceipts", 10)]);

/// A descendant of Bitcoin in which `getblock` weighs more than in the family.
const DGB: utxo::Utxo = utxo::Utxo::new(utxo::facts("dgb", "DigiByte", 40)).weighing(&[("getblock", 10)]);

async fn start(keys: Arc<dyn Directory>, clock: Arc<dyn Clock>) -> Result<SocketAddr, BoxError> {
    // There are no simulated nodes of Gnosis and DigiByte; nodes of the same family replace them. They belong to other
    // networks, so they would get no calls.
    let of_any_network = |url: String| -> Result<NodeConfig, BadUrl> {
        Ok(NodeConfig::new(url.parse()?).with_network(ExpectedNetwork::Any))
    };
    let polygon = of_any_network(node::simulated("polygon", clock.clone()).await?)?;
    let litecoin = of_any_network(node::simulated("ltc", clock.clone()).await?)?;
    let gateway = GatewayService::builder()
        .chain_with(Chain::deployed(Arc::new(GNO)), [polygon])
        .chain_with(Chain::deployed(Arc::new(DGB)), [litecoin])
        .directory(keys)
        .clock(clock)
        .build()?;
    Ok(server::serve(axum::Router::new().fallback_service(gateway)).await?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let (key, keys) = key::fresh()?;
    let addr = start(keys, Arc::new(SystemClock::new())).await?;
    let gno = ("/gno", r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#);
    let calls = [gno, ("/dgb", r#"{"id":1,"method":"getblockcount"}"#)];
    Ok(server::show("Gnosis and DigiByte", addr, &format!("apikey: {key}"), &calls).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_examples::client::post;
    use serde_json::{Value, json};

    #[tokio::test]
    async fn a_chain_of_a_family_has_the_familys_methods_and_its_own() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let (key, keys) = key::fresh().unwrap();
        let addr = start(keys, clock).await.unwrap();
        let ask = async |path: &str, method: &str, params: Value| {
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            post(addr, path, ("apikey", &key), &call).await.unwrap()
        };
        let cu = async |path: &str, method: &str, params: Value| {
            let answer = ask(path, method, params).await;
            (answer.status.as_u16(), answer.header("x-compute-units").to_owned())
        };
        assert_eq!(cu("/gno", "eth_blockNumber", json!([])).await, (200, "1".into()));
        assert_eq!(cu("/gno", "eth_getBlockReceipts", json!(["latest"])).await, (200, "10".into()));
        assert_eq!(cu("/dgb", "getblockcount", json!([])).await, (200, "1".into()));
        let hash = ask("/dgb", "getblockhash", json!([1])).await.json["result"].clone();
        assert_eq!(cu("/dgb", "getblock", json!([hash])).await, (200, "10".into()));
        let closed = ask("/dgb", "dumpprivkey", json!([])).await;
        assert_eq!(closed.json["error"]["message"], Refusal::Closed.message());
    }
}
