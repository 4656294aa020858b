//! Bitcoin Cash, `/bch`: it has no estimatesmartfee, and its estimatefee takes no arguments.

use crate::family::Closing;
use crate::family::utxo::{self, AddressForms, Utxo};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::{Facts, Method};
use std::sync::Arc;

/// Bitcoin Cash Node finalises a block by itself once ten lie on it.
const FACTS: Facts = utxo::facts("bch", "Bitcoin Cash", 10);

/// For the main network and test networks.
const ADDRESSES: AddressForms =
    AddressForms::base58(&[0x00, 0x05, 0x6f, 0xc4]).with_cash_addr(&["bitcoincash", "bchtest", "bchreg"]);

/// The first block that Bitcoin does not have.
const BLOCK: (&str, &str) = ("[478559]", "000000000000000000651ef99cb9fcbe0dadde1d424bd9f15ff20136191a5eec");

/// The Bitcoin Cash adapter.
pub const BCH: Utxo = Utxo::new(FACTS)
    .with_addresses(ADDRESSES)
    .with_block(BLOCK.0, BLOCK.1)
    .lacking(&["estimatesmartfee"])
    .with_methods(&[Method::new("estimatefee", 1)])
    .closing(&[
        Closing::new(
            &["evicttransaction", "finalizeblock", "parkblock", "rollbackchain", "unparkblock"],
            "It changes which blocks or transactions the node prefers",
        ),
        Closing::new(&["log"], "It controls the node"),
    ]);

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(BCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at, wrong};
    use rpcgate_core::chain::Flags;

    #[test]
    fn fees_are_queried_with_estimatefee() {
        let listed: Vec<_> = BCH.methods().iter().map(|row| row.name).collect();
        assert!(listed.contains(&"estimatefee") && !listed.contains(&"estimatesmartfee"));
        let open = ["estimatefee", "estimatesmartfee"];
        assert_eq!(wrong(&at(BCH, 0), &open, Flags::CLOSED, false), [""; 0]);
    }

    #[test]
    fn methods_that_change_the_nodes_view_of_the_chain_are_closed() {
        let controls =
            ["parkblock", "unparkblock", "finalizeblock", "setexcessiveblock", "signrawtransaction"];
        assert_eq!(wrong(&at(BCH, 0), &controls, Flags::CLOSED, true), [""; 0]);
        let reads = ["getfinalizedblockhash", "getexcessiveblock", "getdsproof", "validateblocktemplate"];
        assert_eq!(wrong(&at(BCH, 0), &reads, Flags::CLOSED, false), [""; 0]);
    }
}
