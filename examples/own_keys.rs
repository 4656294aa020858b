//! How do I take keys from my own database?
//!
//! Keys come from a [`Directory`]. `peek` returns the keys that it has in memory at once. For all others `fetch` queries
//! the database, which may wait and may fail. Here [`Keys`] remembers the keys that were used; a real one also forgets a
//! key when it is revoked.
//!
//! Run it with `cargo run -p rpcgate-examples --example own_keys`.

use parking_lot::Mutex;
use rpcgate_core::prelude::*;
use rpcgate_examples::{BoxError, key::KeyDatabase, node, server};
use rpcgate_layers::prelude::*;
use std::{collections::HashMap, net::SocketAddr, sync::Arc};

/// The directory in front of a database.
#[derive(Debug)]
struct Keys {
    database: Arc<KeyDatabase>,
    used: Mutex<HashMap<KeyHash, Arc<Caller>>>,
}

impl Directory for Keys {
    fn peek(&self, key: &str) -> KeyLookup {
        let caller = self.used.lock().get(&KeyHash::of(key)).cloned();
        caller.map_or(KeyLookup::Miss, KeyLookup::Known)
    }

    fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<KeyLookup, Unavailable>> {
        Box::pin(async move {
            let hash = KeyHash::of(key);
            let Some(caller) = self.database.find(hash).await? else { return Ok(KeyLookup::Unknown) };
            self.used.lock().insert(hash, caller.clone());
            Ok(KeyLookup::Known(caller))
        })
    }
}

async fn start(database: Arc<KeyDatabase>, clock: Arc<dyn Clock>) -> Result<SocketAddr, BoxError> {
    let node = node::simulated("eth", clock.clone()).await?;
    let keys = Arc::new(Keys { database, used: Mutex::default() });
    let gateway = GatewayService::builder().chain(rpcgate_chains::eth::adapter(), [node]).directory(keys);
    Ok(server::serve(axum::Router::new().fallback_service(gateway.clock(clock).build()?)).await?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let addr = start(Arc::new(KeyDatabase::of("a secret")), Arc::new(SystemClock::new())).await?;
    Ok(server::show_calls(addr, "a secret", "/eth", &[("eth_chainId", "")]).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_examples::client::post;
    use serde_json::json;
    use std::sync::atomic::Ordering;

    #[tokio::test]
    async fn a_key_is_asked_for_once_and_goes_on_working_while_its_database_is_down() {
        const KEY: &str = "a secret of our first customer";
        let database = Arc::new(KeyDatabase::of(KEY));
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let addr = start(database.clone(), clock).await.unwrap();
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"});
        let status = async |key| post(addr, "/eth", ("apikey", key), &call).await.unwrap().status.as_u16();
        assert_eq!((status(KEY).await, status(KEY).await, status("guessed").await), (200, 200, 401));
        assert_eq!(database.queries.load(Ordering::Relaxed), 2);
        database.is_down.store(true, Ordering::Relaxed);
        assert_eq!(
            (status(KEY).await, status("guessed").await),
            (200, 503),
            "an unknown key may be a good one"
        );
    }
}
