//! Ethereum, `/eth`: `debug_*` is forbidden and log queries are paced per key.

use crate::family::evm::{self, Evm};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::{Facts, Flags, Method};
use std::sync::Arc;
use std::time::Duration;

/// Two epochs of 32 slots: the beacon chain finalises a block after them when enough validators vote.
const FACTS: Facts = evm::facts("eth", "Ethereum", 64)
    .with_aliases(&["ethereum"])
    .with_max_lag(3)
    .with_block_time(Duration::from_secs(12));

/// The Ethereum adapter.
pub const ETH: Evm = Evm::new(FACTS, 1).forbidding_debug().with_methods(&[
    Method::new("eth_sendTransaction", 20).marked(Flags::BROADCAST),
    Method::new("eth_getLogs", 75).marked(Flags::HEAVY.and(Flags::PACED)),
    Method::new("eth_getFilterLogs", 1).marked(Flags::PACED),
]);

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(ETH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at, wrong};
    use rpcgate_core::chain::{Chain, ChainOverrides};

    #[test]
    fn it_is_chain_1_and_final_after_two_epochs() {
        assert_eq!((ETH.chain_id(), FACTS.final_depth), (1, 64));
    }

    #[test]
    fn log_queries_are_paced() {
        let chain = at(ETH, 0);
        assert_eq!(wrong(&chain, &["eth_getLogs", "eth_getFilterLogs"], Flags::PACED, true), [""; 0]);
        assert_eq!(
            wrong(&chain, &["eth_call", "trace_block", "eth_getFilterChanges"], Flags::PACED, false),
            [""; 0]
        );
        assert!(chain.look_up("eth_getLogs").rule.flags.has(Flags::HEAVY));
        assert!(!chain.look_up("eth_getFilterLogs").rule.flags.has(Flags::HEAVY));
    }

    #[test]
    fn debug_is_forbidden_without_a_budget_and_cannot_be_opened() {
        let changes = ChainOverrides::default().with_open("debug_*");
        let opened = Chain::new(adapter(), changes, true, Arc::default());
        for chain in [at(ETH, 0), opened] {
            for method in ["debug_traceTransaction", "debug_setHead", "debug_"] {
                assert_eq!(chain.look_up(method).rule.flags, Flags::FORBIDDEN, "{method}");
            }
        }
    }

    #[test]
    fn trace_is_heavy_and_closed() {
        let flags = at(ETH, 0).look_up("trace_block").rule.flags;
        assert!(flags.has(Flags::HEAVY.and(Flags::CLOSED)) && !flags.has(Flags::FORBIDDEN));
    }
}
