//! Polygon PoS, `/polygon`: `bor_*` is reachable where the node exposes it.

use crate::family::Closing;
use crate::family::evm::{self, Evm};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::Facts;
use std::sync::Arc;

/// More than the deepest reorganisation on record, 157 blocks in February 2023; milestones usually finalise sooner.
const FACTS: Facts = evm::facts("polygon", "Polygon", 256);

/// The Polygon PoS adapter.
pub const POLYGON: Evm = Evm::new(FACTS, 137).closing(&[Closing::new(
    &["bor_getVoteOnHash"],
    "It locks the node on the milestone that its parameters name: it is the validators' vote, not a read",
)]);

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(POLYGON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at, wrong};
    use rpcgate_core::chain::Flags;

    #[test]
    fn it_is_chain_137_and_final_after_256_blocks() {
        assert_eq!((POLYGON.chain_id(), FACTS.final_depth), (137, 256));
    }

    #[test]
    fn debugging_is_closed_but_neither_forbidden_nor_are_logs_paced() {
        let chain = at(POLYGON, 0);
        let guarded = Flags::HEAVY.and(Flags::CLOSED);
        assert_eq!(wrong(&chain, &["debug_traceCall", "trace_block"], guarded, true), [""; 0]);
        assert_eq!(wrong(&chain, &["debug_traceCall"], Flags::FORBIDDEN, false), [""; 0]);
        assert_eq!(wrong(&chain, &["eth_getLogs", "eth_getFilterLogs"], Flags::PACED, false), [""; 0]);
        assert_eq!(wrong(&chain, &["eth_sendTransaction"], Flags::BROADCAST, true), [""; 0]);
    }

    // Shows (Limits, budget and quota).
    #[test]
    fn bor_is_open_and_costs_one_unit() {
        let chain = at(POLYGON, 0);
        let bor = ["bor_getAuthor", "bor_getSnapshot", "bor_getRootHash", "bor_getCurrentValidators"];
        assert_eq!(wrong(&chain, &bor, Flags::CLOSED, false), [""; 0]);
        assert_eq!(wrong(&chain, &["bor_getVoteOnHash"], Flags::CLOSED, true), [""; 0]);
        assert!(bor.iter().all(|method| chain.look_up(method).rule.cu == 1));
    }
}
