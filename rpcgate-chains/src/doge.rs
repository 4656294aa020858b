//! Dogecoin, `/doge`: fees in whole coins, blocks about a minute apart, headers with an auxpow.

use crate::family::Closing;
use crate::family::utxo::{self, AddressForms, Utxo};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::{Facts, Method};
use std::sync::Arc;
use std::time::Duration;

/// An hour of blocks: the work comes from miners of other chains, and may leave with them.
const FACTS: Facts = utxo::facts("doge", "Dogecoin", 60).with_block_time(Duration::from_secs(60));

/// For the main network and test networks.
const ADDRESSES: AddressForms = AddressForms::base58(&[0x1e, 0x16, 0x71, 0xc4, 0x6f]);

/// The Dogecoin adapter.
pub const DOGE: Utxo = Utxo::new(FACTS)
    .with_addresses(ADDRESSES)
    .with_block("[0]", "1a91e3dace36e2be3bf030a65679fe821aa1d6ef92e7c9902eb318182c355691")
    .with_methods(&[Method::new("estimatefee", 1)])
    .closing(&[Closing::new(
        &["getauxblock"],
        "It pays the block to an address of the node's wallet; `createauxblock` takes one from the caller",
    )]);

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(DOGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at, judged, wrong};
    use rpcgate_core::adapter::Permanence;
    use rpcgate_core::chain::Flags;

    #[test]
    fn the_wallet_with_accounts_is_closed() {
        let wallet =
            ["sendfrom", "move", "getaccountaddress", "setaccount", "listaccounts", "rescan", "getauxblock"];
        assert_eq!(wrong(&at(DOGE, 0), &wallet, Flags::CLOSED, true), [""; 0]);
        assert_eq!(wrong(&at(DOGE, 0), &["setmaxconnections"], Flags::CLOSED, true), [""; 0]);
    }

    #[test]
    fn merged_mining_submits_once() {
        assert_eq!(wrong(&at(DOGE, 0), &["submitauxblock"], Flags::BROADCAST, true), [""; 0]);
        assert_eq!(wrong(&at(DOGE, 0), &["submitauxblock", "createauxblock"], Flags::CLOSED, false), [""; 0]);
    }

    #[test]
    fn a_verbose_header_with_its_auxpow_counts_confirmations() {
        let header = "{\"hash\":\"ab\",\"auxpow\":{\"tx\":{}},\"confirmations\":9}";
        let (settled, _) = judged(&at(DOGE, 100), "getblockheader", "[\"ab\"]", header);
        assert_eq!(settled, Permanence::NotYet);
    }
}
