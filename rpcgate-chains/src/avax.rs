//! Avalanche C-Chain, `/avax`: only its EVM API. AvalancheGo names the methods of its other APIs with a dot.

use crate::family::Closing;
use crate::family::evm::{self, Evm};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::Facts;
use std::sync::Arc;

/// Snowman consensus: a node shows only blocks that it has accepted, and those are final.
const FACTS: Facts = evm::facts("avax", "Avalanche C-Chain", 0).with_aliases(&["avalanche"]);

/// The Avalanche C-Chain adapter.
pub const AVAX: Evm = Evm::new(FACTS, 43114).closing(&[
    Closing::new(
        &[
            "admin.*",
            "auth.*",
            "avax.*",
            "avm.*",
            "health.*",
            "index.*",
            "info.*",
            "ipcs.*",
            "keystore.*",
            "metrics.*",
            "platform.*",
            "wallet.*",
        ],
        "It is not an API of the C-Chain: it controls the node, or queries other chains",
    ),
    Closing::new(
        &["warp_getMessageAggregateSignature", "warp_getBlockAggregateSignature"],
        "It requests signatures from the validators of the subnet that its parameters name, and waits for them",
    ),
]);

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(AVAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at, wrong};
    use rpcgate_core::chain::Flags;

    #[test]
    fn it_is_chain_43114_and_final_at_once() {
        assert_eq!((AVAX.chain_id(), FACTS.final_depth), (43114, 0));
    }

    #[test]
    fn debugging_is_closed_but_neither_forbidden_nor_are_logs_paced() {
        let chain = at(AVAX, 0);
        let guarded = Flags::HEAVY.and(Flags::CLOSED);
        assert_eq!(wrong(&chain, &["debug_traceCall", "trace_block"], guarded, true), [""; 0]);
        assert_eq!(wrong(&chain, &["debug_traceCall"], Flags::FORBIDDEN, false), [""; 0]);
        assert_eq!(wrong(&chain, &["eth_getLogs", "eth_getFilterLogs"], Flags::PACED, false), [""; 0]);
        assert_eq!(wrong(&chain, &["eth_sendTransaction"], Flags::BROADCAST, true), [""; 0]);
    }

    // Shows (Limits, budget and quota).
    #[test]
    fn apis_of_the_node_and_of_other_chains_are_closed() {
        let others = [
            "admin.setLoggerLevel",
            "avax.issueTx",
            "avm.getBalance",
            "platform.getHeight",
            "keystore.exportUser",
        ];
        assert_eq!(wrong(&at(AVAX, 0), &others, Flags::CLOSED, true), [""; 0]);
        let dials = ["warp_getMessageAggregateSignature", "warp_getBlockAggregateSignature"];
        assert_eq!(wrong(&at(AVAX, 0), &dials, Flags::CLOSED, true), [""; 0]);
        assert_eq!(wrong(&at(AVAX, 0), &["eth_baseFee", "warp_getMessage"], Flags::CLOSED, false), [""; 0]);
    }
}
