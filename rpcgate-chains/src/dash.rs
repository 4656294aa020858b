//! Dash, `/dash`: masternode and governance calls ride the same endpoint, their commands in the params.

use crate::family::utxo::{self, Utxo};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::{Facts, Flags, Method};
use std::sync::Arc;

/// As on Bitcoin, for the rare block that no quorum has locked.
static FACTS: Facts = utxo::facts("dash", "Dash", 6);

/// The chain as deployed.
pub const DASH: Utxo = Utxo::new(&FACTS)
    .weighing(&[
        ("getblock", 10),
        ("getrawtransaction", 10),
        ("sendrawtransaction", 20),
    ])
    .with_methods(&[
        Method::new("masternode", 1),
        Method::new("masternodelist", 1),
        // Their params may say "submit" or "register", which only the node can tell.
        Method::new("gobject", 1).marked(Flags::BROADCAST),
        Method::new("protx", 1).marked(Flags::BROADCAST),
        Method::new("voteraw", 1).marked(Flags::BROADCAST),
        // Beside its status it can move the node's view of what is synchronised.
        Method::new("mnsync", 1).marked(Flags::OPENABLE),
    ])
    .closing(&[
        "cleardiscouraged",
        "coinjoin",
        "coinjoinsalt",
        "debug",
        "evodb",
        "instantsendtoaddress",
        "keepass",
        "listaddressbalances",
        "masternodebroadcast",
        "mnauth",
        "privatesend",
        "sporkupdate",
        "upgradetohd",
    ]);

/// Makes the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(DASH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at, judged, wrong};
    use rpcgate_core::adapter::Settled;

    #[test]
    fn masternode_and_governance_calls_are_open() {
        let open = [
            "masternode",
            "masternodelist",
            "gobject",
            "protx",
            "quorum",
            "spork",
            "getgovernanceinfo",
        ];
        assert_eq!(wrong(&at(DASH, 0), &open, Flags::CLOSED, false), [""; 0]);
    }

    #[test]
    fn what_its_params_may_submit_is_sent_once_and_never_kept() {
        let chain = at(DASH, 0);
        let submits = [
            "gobject",
            "protx",
            "voteraw",
            "submitchainlock",
            "sendrawtransaction",
        ];
        assert_eq!(wrong(&chain, &submits, Flags::BROADCAST, true), [""; 0]);
        assert!(
            submits
                .iter()
                .all(|method| !chain.look_up(method).rule.cache.is_cached())
        );
    }

    #[test]
    fn mixing_its_wallet_and_its_switches_are_closed() {
        let closed = [
            "coinjoin",
            "privatesend",
            "setcoinjoinrounds",
            "setprivatesendamount",
            "instantsendtoaddress",
            "dumphdinfo",
            "importelectrumwallet",
            "upgradetohd",
            "keepass",
            "sporkupdate",
            "debug",
            "mnsync",
        ];
        assert_eq!(wrong(&at(DASH, 0), &closed, Flags::CLOSED, true), [""; 0]);
    }

    #[test]
    fn a_decode_with_locks_is_not_fixed() {
        let decode = "{\"txid\":\"ab\",\"instantlock\":true,\"chainlock\":false,\"height\":1}";
        let (settled, _) = judged(&at(DASH, 100), "getrawtransaction", "[\"ab\",1]", decode);
        assert_eq!(settled, Settled::NotYet);
    }
}
