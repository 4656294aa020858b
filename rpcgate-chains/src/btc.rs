//! Bitcoin, `/btc`.

use crate::family::utxo::{self, AddressForms, Utxo};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::{Facts, Flags, Method};
use std::sync::Arc;

/// Bitcoin's own wallet calls this depth confirmed.
const FACTS: Facts = utxo::facts("btc", "Bitcoin", 6).with_aliases(&["bitcoin"]);

/// For the main network and test networks.
const ADDRESSES: AddressForms =
    AddressForms::base58(&[0x00, 0x05, 0x6f, 0xc4]).with_bech32(&["bc", "tb", "bcrt"]);

/// The first block that Bitcoin Cash does not have.
const BLOCK: (&str, &str) = ("[478559]", "00000000000000000019f112ec0a9982926f1258cdcc558dd7c3b7e5dc7fa148");

/// The Bitcoin adapter.
pub const BTC: Utxo = Utxo::new(FACTS)
    .with_addresses(ADDRESSES)
    .with_block(BLOCK.0, BLOCK.1)
    .weighing(&[
        ("getmempoolinfo", 5),
        ("gettxout", 5),
        ("getblock", 10),
        ("getrawtransaction", 10),
        ("sendrawtransaction", 20),
    ])
    .with_methods(&[Method::new("submitpackage", 1).marked(Flags::BROADCAST)]);

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(BTC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at, wrong};

    #[test]
    fn weights_keep_a_rows_class_and_marks() {
        let chain = at(BTC, 0);
        assert!(chain.look_up("getblock").rule.cache.is_cached());
        assert_eq!(wrong(&chain, &["sendrawtransaction", "submitpackage"], Flags::BROADCAST, true), [""; 0]);
    }

    #[test]
    fn a_height_is_final_under_six_blocks() {
        assert!(at(BTC, 106).finality().is_final(100) && !at(BTC, 105).finality().is_final(100));
    }
}
