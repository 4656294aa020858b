//! The results of adapters from parameters and results: nothing causes a panic, and null is never cached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcgate_core::adapter::{Permanence, method_table};
use rpcgate_core::chain::Chain;
use std::sync::LazyLock;

static CHAINS: LazyLock<Vec<Chain>> = LazyLock::new(|| rpcgate_chains::catalog().map(Chain::deployed).collect());

fuzz_target!(|input: (u8, u8, &[u8], &[u8])| {
    let (chain, method, params, result) = input;
    let chain = &CHAINS[usize::from(chain) % CHAINS.len()];
    chain.head().set(21_000_000);
    let methods = method_table(chain.adapter());
    let row = methods[usize::from(method) % methods.len()];
    let mut call = rpcgate_core::call::CallView::new(chain.name(), row.name, row.rule);
    call.params = params;
    let _ = chain.adapter().narrow(call);
    let settled = chain.adapter().settled(call, result, chain.finality());
    if result == b"null" && row.rule.cache.is_cached() {
        assert_ne!(settled, Permanence::Yes, "{}", row.name);
    }
    let _ = chain.adapter().seen(result);
});
