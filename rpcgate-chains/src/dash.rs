//! Dash, `/dash`: masternode and governance calls use the same endpoint, with their commands in the params.

use crate::family::Closing;
use crate::family::params::{any_is, either, is_beyond};
use crate::family::utxo::{self, AddressForms, Utxo};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Facts, Flags, Method};
use rpcgate_core::json::unescape;
use std::sync::Arc;
use std::time::Duration;

/// As on Bitcoin, for the rare block that no quorum has locked.
const FACTS: Facts = utxo::facts("dash", "Dash", 6).with_block_time(Duration::from_secs(150));

/// For the main network and test networks.
const ADDRESSES: AddressForms = AddressForms::base58(&[0x4c, 0x10, 0x8c, 0x13]);

/// The Dash adapter.
pub const DASH: Utxo = Utxo::new(FACTS)
    .with_addresses(ADDRESSES)
    .with_block("[0]", "00000ffd590b1485b3caadc19b22e6379c733355108f107a430458cdf3407ab6")
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
        Method::new("mnsync", 1),
    ])
    // Reads, and the one submission that needs no key of the node. The others connect, sign, register or vote with the
    // content of the node's wallet or masternode.
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
        Closing::new(
            &[
                "coinjoin",
                "coinjoinsalt",
                "instantsendtoaddress",
                "keepass",
                "listaddressbalances",
                "privatesend",
                "upgradetohd",
            ],
            "It is the wallet of the node, or mixes its coins",
        ),
        Closing::new(&["masternodebroadcast", "mnauth"], "It speaks to peers with the keys of the node"),
        Closing::new(&["cleardiscouraged", "debug", "evodb", "sporkupdate"], "It controls the node"),
        Closing::new(
            &["mnsync"],
            "It reports the progress of the node, and also moves the node's view of what is synchronised",
        )
        .openable(),
        Closing::new(&["masternode"], "The node reads each of these blocks from its disk")
            .only("for `payments` or `winners` of more than 100 blocks", asks_for_many),
    ]);

/// The maximum number of blocks that a masternode call may look back.
const FURTHEST: u64 = 100;

/// Reports whether a `masternode` call requests more blocks than [`FURTHEST`].
fn asks_for_many(call: &CallView<'_>) -> bool {
    let is_many = |count: &[u8]| count != b"null" && is_beyond(count, FURTHEST);
    let command = either(call.params, 0, "command").and_then(unescape);
    match command.as_deref() {
        Some("payments") => any_is(call.params, 2, "count", is_many),
        Some("winners") => any_is(call.params, 1, "count", is_many),
        _ => false,
    }
}

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(DASH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at, judged, wrong};
    use rpcgate_core::adapter::Permanence;

    #[test]
    fn masternode_and_governance_calls_are_open() {
        let open =
            ["masternode", "masternodelist", "gobject", "protx", "quorum", "spork", "getgovernanceinfo"];
        assert_eq!(wrong(&at(DASH, 0), &open, Flags::CLOSED, false), [""; 0]);
    }

    // Shows (Limits, budget and quota).
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
            ("masternode", r#"["payments","",100000]"#),
            ("masternode", r#"["payments","","-101"]"#),
            ("masternode", r#"{"command":"payments","count":101}"#),
            ("masternode", r#"["winners","1000000"]"#),
        ] {
            assert!(closed(method, params), "{method} {params}");
        }
        for (method, params) in [
            ("masternode", r#"["count"]"#),
            ("masternode", r#"["payments"]"#),
            ("masternode", r#"["payments","",100]"#),
            ("masternode", r#"["winners","10","x"]"#),
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
    fn a_call_whose_params_may_submit_is_sent_once_and_never_cached() {
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
        assert_eq!(settled, Permanence::NotYet);
    }
}
