//! A request's path and query: a path leads to a chain only as `/<chain>`, or below it if the chain has its own paths,
//! and no key causes a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcgate_core::adapter::KeySources;
use rpcgate_core::chain::{Chain, Chains};
use rpcgate_core::secret::KeyForge;
use rpcgate_layers::request::authenticate::key_of;
use rpcgate_layers::request::route::{RouteMatch, route};
use std::sync::{Arc, LazyLock};

static CHAINS: LazyLock<Chains> =
    LazyLock::new(|| rpcgate_chains::catalog().map(|adapter| Arc::new(Chain::deployed(adapter))).collect());
static FORGE: LazyLock<KeyForge> = LazyLock::new(|| KeyForge::new(b"fuzz"));

fuzz_target!(|text: &str| {
    let Ok(request) = http::Request::post(text).body(()) else { return };
    let path = request.uri().path();
    if let RouteMatch::Chain(chain, _) = route(&CHAINS, request.method(), path) {
        let below =
            path.strip_prefix(&format!("/{}", chain.name())).expect("it begins with the chain's name");
        assert!(matches!(below, "" | "/") || chain.facts().rest && below.starts_with('/'), "{path}");
    }
    let sources = KeySources::default().with_header("x-api-key").with_query("api_key");
    if let Some(key) = key_of(&request, sources) {
        assert!(!FORGE.is_genuine(&key), "a checksum cannot be guessed");
    }
});
