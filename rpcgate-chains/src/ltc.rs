//! Litecoin, `/ltc`.

use crate::family::utxo::{self, AddressForms, Utxo};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::Facts;
use std::sync::Arc;
use std::time::Duration;

/// Twelve blocks, half an hour of the work on the largest scrypt chain.
const FACTS: Facts =
    utxo::facts("ltc", "Litecoin", 12).with_aliases(&["litecoin"]).with_block_time(Duration::from_secs(150));

/// For the main network and test networks.
const ADDRESSES: AddressForms =
    AddressForms::base58(&[0x30, 0x32, 0x05, 0x6f, 0x3a, 0xc4]).with_bech32(&["ltc", "tltc", "rltc"]);

/// The Litecoin adapter.
pub const LTC: Utxo = Utxo::new(FACTS)
    .with_addresses(ADDRESSES)
    .with_block("[0]", "12a765e31ffd4059bada1e25190f6e98c99d9714d334efa41a195a7e7e04bfe2")
    .weighing(&[("getblock", 10), ("getrawtransaction", 10), ("sendrawtransaction", 20)]);

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(LTC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at, judged, wrong};
    use rpcgate_core::adapter::Permanence;
    use rpcgate_core::chain::Flags;

    #[test]
    fn the_listing_of_its_wallet_is_closed() {
        assert_eq!(wrong(&at(LTC, 0), &["listwallettransactions"], Flags::CLOSED, true), [""; 0]);
    }

    #[test]
    fn a_decode_with_mweb_fields_counts_confirmations_too() {
        let decode = "{\"txid\":\"ab\",\"vout\":[],\"mweb_extra\":1,\"confirmations\":3}";
        let (settled, _) = judged(&at(LTC, 100), "getrawtransaction", "[\"ab\",true]", decode);
        assert_eq!(settled, Permanence::NotYet);
    }
}
