//! Dash, `/dash`: masternode and governance calls ride the same endpoint, their commands in the params.

use crate::family::utxo::{self, Utxo};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::{Facts, Flags, Method};
use std::sync::Arc;

/// As on Bitcoin, for the rare block that no quorum has locked.
static FACTS: Facts = utxo::facts("dash", "Dash", 6);

/// The chain as deployed.
pub const DASH: Utxo = Utxo::new(&FACTS)
    .weighing(&[("getblock", 10), ("getrawtransaction", 10), ("sendrawtransaction", 20)])
    .with_methods(&[
        Method::new("masternode", 1).marked(Flags::COMMANDS),
        Method::new("masternodelist", 1),
        Method::new("quorum", 1).marked(Flags::COMMANDS),
        Method::new("spork", 1).marked(Flags::COMMANDS),
        Method::new("protx", 1).marked(Flags::COMMANDS),
        // It may submit.
        Method::new("gobject", 1).marked(Flags::BROADCAST.and(Flags::COMMANDS)),
        Method::new("voteraw", 1).marked(Flags::BROADCAST),
        // Beside its status it can move the node's view of what is synchronised.
        Method::new("mnsync", 1).marked(Flags::OPENABLE),
    ])
    // Reads, and the one submission that needs no key of the node. The others connect, sign, register or vote with
    // what the node's wallet or masternode holds.
    .limiting(&[
        ("masternode", &["count", "current", "list", "payments", "status", "winner", "winners"]),
        (
            "quorum",
            &[
                "list",
                "listextended",
                "info",
                "dkginfo",
                "dkgstatus",
                "memberof",
                "getrecsig",
                "hasrecsig",
                "isconflicting",
                "verify",
                "selectquorum",
                "rotationinfo",
            ],
        ),
        ("spork", &["show", "active"]),
        ("protx", &["list", "info", "diff", "listdiff"]),
        ("gobject", &["check", "count", "deserialize", "diff", "get", "getcurrentvotes", "list", "submit"]),
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
    use rpcgate_core::call::CallView;

    #[test]
    fn masternode_and_governance_calls_are_open() {
        let open =
            ["masternode", "masternodelist", "gobject", "protx", "quorum", "spork", "getgovernanceinfo"];
        assert_eq!(wrong(&at(DASH, 0), &open, Flags::CLOSED, false), [""; 0]);
    }

    #[test]
    fn commands_that_use_the_nodes_keys_or_peers_are_closed() {
        let closed = |method: &str, params: &str| {
            let rule = at(DASH, 0).look_up(method).rule;
            assert!(rule.flags.has(Flags::COMMANDS), "{method}");
            let mut call = CallView::new(FACTS.name, method, rule);
            call.params = params.as_bytes();
            DASH.narrow(call).flags.has(Flags::CLOSED)
        };
        for (method, params) in [
            ("masternode", r#"["connect","1.2.3.4:9999"]"#),
            ("masternode", r#"["conn\u0065ct","1.2.3.4:9999"]"#),
            ("masternode", r#"{"command":"connect"}"#),
            ("masternode", r#"{"args":["connect"]}"#),
            ("masternode", "[5]"),
            ("masternode", r#"["Connect"]"#),
            ("quorum", r#"["sign",1]"#),
            ("protx", r#"["register"]"#),
            ("gobject", r#"["vote-many"]"#),
            ("spork", r#"["SPORK_2_INSTANTSEND_ENABLED",0]"#),
        ] {
            assert!(closed(method, params), "{method} {params}");
        }
        for (method, params) in [
            ("masternode", r#"["count"]"#),
            ("masternode", r#" [ "c\u006funt" ]"#),
            ("masternode", ""),
            ("masternode", "[]"),
            ("protx", r#"["info","ab"]"#),
            ("gobject", r#"["list"]"#),
            ("spork", r#"{"command":"show"}"#),
        ] {
            assert!(!closed(method, params), "{method} {params}");
        }
    }

    #[test]
    fn what_its_params_may_submit_is_sent_once_and_never_kept() {
        let chain = at(DASH, 0);
        let submits = ["gobject", "voteraw", "submitchainlock", "sendrawtransaction"];
        assert_eq!(wrong(&chain, &submits, Flags::BROADCAST, true), [""; 0]);
        assert!(submits.iter().all(|method| !chain.look_up(method).rule.cache.is_cached()));
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
