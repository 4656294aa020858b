//! BNB Smart Chain, `/bsc`.

use crate::family::evm::{self, Evm};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::Facts;
use std::sync::Arc;
use std::time::Duration;

/// Without fast finality, 15 of 21 validators must have built on a block, each for a turn of 16 blocks.
const FACTS: Facts =
    evm::facts("bsc", "BNB Smart Chain", 240).with_max_lag(40).with_block_time(Duration::from_millis(750));

/// The BNB Smart Chain adapter.
pub const BSC: Evm = Evm::new(FACTS, 56);

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(BSC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at, wrong};
    use rpcgate_core::chain::Flags;

    #[test]
    fn it_is_chain_56_and_final_after_240_blocks() {
        assert_eq!((BSC.chain_id(), FACTS.final_depth), (56, 240));
    }

    #[test]
    fn debugging_is_closed_but_neither_forbidden_nor_are_logs_paced() {
        let chain = at(BSC, 0);
        let guarded = Flags::HEAVY.and(Flags::CLOSED);
        assert_eq!(wrong(&chain, &["debug_traceCall", "trace_block"], guarded, true), [""; 0]);
        assert_eq!(wrong(&chain, &["debug_traceCall"], Flags::FORBIDDEN, false), [""; 0]);
        assert_eq!(wrong(&chain, &["eth_getLogs", "eth_getFilterLogs"], Flags::PACED, false), [""; 0]);
        assert_eq!(wrong(&chain, &["eth_sendTransaction"], Flags::BROADCAST, true), [""; 0]);
    }

    #[test]
    fn consensus_reads_reach_the_node() {
        assert_eq!(
            wrong(&at(BSC, 0), &["parlia_getSnapshot", "eth_getFinalizedHeader"], Flags::CLOSED, false),
            [""; 0]
        );
    }
}
