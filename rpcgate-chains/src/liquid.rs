//! Liquid Network, `/liquid`: a sidechain of Bitcoin that its federation signs.

use crate::family::Closing;
use crate::family::utxo::{self, AddressForms, Utxo};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::Facts;
use std::sync::Arc;
use std::time::Duration;

/// The federation never replaces a block that has another on it; Liquid's documentation calls two final.
const FACTS: Facts = utxo::facts("liquid", "Liquid Network", 2).with_block_time(Duration::from_secs(60));

/// For the main network and test networks. Events have no confidential addresses.
const ADDRESSES: AddressForms =
    AddressForms::base58(&[0x39, 0x27, 0x24, 0x13, 0xeb, 0x4b]).with_bech32(&["ex", "tex", "ert"]);

/// The Liquid Network adapter.
pub const LIQUID: Utxo = Utxo::new(FACTS)
    .with_addresses(ADDRESSES)
    .with_block("[0]", "1466275836220db2944ca059a3a10ef6fd2ea684b0688d2c379296888a206003")
    .closing(&[
        Closing::new(
            &[
                "blindrawtransaction",
                "claimpegin",
                "createrawpegin",
                "destroyamount",
                "getpeginaddress",
                "getpegoutkeys",
                "getwalletpakinfo",
                "initpegoutwallet",
                "issueasset",
                "listissuances",
                "reissueasset",
                "unblindrawtransaction",
            ],
            "It uses the keys of the node's wallet: it blinds, issues, pegs in or pegs out",
        ),
        Closing::new(
            &[
                "combineblocksigs",
                "consumecompactsketch",
                "consumegetblocktxn",
                "finalizecompactblock",
                "getcompactsketch",
                "getnewblockhex",
                "signblock",
                "testproposedblock",
            ],
            "It builds and signs blocks for the federation",
        ),
    ]);

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(LIQUID)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at, wrong};
    use rpcgate_core::chain::Flags;

    #[test]
    fn the_wallet_pegs_and_block_signing_are_closed() {
        let closed = [
            "sendtomainchain",
            "claimpegin",
            "getpeginaddress",
            "issueasset",
            "dumpblindingkey",
            "importmasterblindingkey",
            "generatepegoutproof",
            "signblock",
            "getnewblockhex",
            "combineblocksigs",
        ];
        assert_eq!(wrong(&at(LIQUID, 0), &closed, Flags::CLOSED, true), [""; 0]);
    }

    #[test]
    fn reads_and_tools_of_the_sidechain_are_open() {
        let open = [
            "getsidechaininfo",
            "getpakinfo",
            "createblindedaddress",
            "rawblindrawtransaction",
            "rawissueasset",
        ];
        assert_eq!(wrong(&at(LIQUID, 0), &open, Flags::CLOSED, false), [""; 0]);
    }
}
