//! XRP Ledger, `/xrp`: the ledger server's JSON-RPC, whose answers are a `result` alone and whose errors stand in it.

use crate::family::matches;
use crate::family::params::{at, may_have, member, number};
use rpcgate_core::adapter::{Adapter, Probe, Seen, Settled};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Chain, ChainName, Dialect, Facts, Flags, Method, Rule};
use rpcgate_core::json::unescape;
use std::sync::Arc;

/// A validated ledger is final; servers show newer ones only to who asks for `current` or `closed`.
static FACTS: Facts = Facts {
    name: ChainName::new("xrp"),
    title: "XRP Ledger",
    aliases: &["ripple"],
    dialect: Dialect::Xrp,
    https: true,
    rest: false,
    batch: false,
    ws: true,
    grpc: false,
    final_depth: 0,
    max_lag: 8,
};

const METHODS: &[Method] = &[
    Method::new("server_info", 0),
    Method::new("fee", 0),
    Method::new("server_state", 1),
    Method::new("ledger_current", 1).cached(CacheRule::secs(3)),
    Method::new("account_info", 5),
    Method::new("tx", 5),
    Method::new("ledger", 10),
    Method::new("submit", 20).marked(Flags::BROADCAST),
    Method::new("submit_multisigned", 20).marked(Flags::BROADCAST),
    Method::new("random", 1),
];

/// What rippled serves to administrators alone ("Admin API methods" of its documentation).
const ADMIN: &[&str] = &[
    "black_list",
    "blacklist",
    "can_delete",
    "connect",
    "consensus_info",
    "crawl_shards",
    "download_shard",
    "fetch_info",
    "get_counts",
    "ledger_accept",
    "ledger_cleaner",
    "ledger_request",
    "log_level",
    "log_rotate",
    "logrotate",
    "node_to_shard",
    "peer_reservations_*",
    "peers",
    "print",
    "stop",
    "tx_reduce_relay",
    "unl_list",
    "validation_*",
    "validator_*",
    "validators",
    "wallet_*",
];

/// The chain as deployed.
#[derive(Clone, Copy, Debug)]
pub struct Xrp;

impl Adapter for Xrp {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn methods(&self) -> Vec<Method> {
        METHODS.to_vec()
    }

    fn unlisted(&self, method: &str) -> Rule {
        let closed = ADMIN.iter().any(|pattern| matches(pattern, method));
        Rule { flags: if closed { Flags::CLOSED } else { Flags::NONE }, ..Rule::UNLISTED }
    }

    fn settled(&self, call: CallView<'_>, result: &[u8], _: &Chain) -> Settled {
        match call.rule.cache {
            CacheRule::Immutable { .. } if member(result, "validated") == Some(b"true") => Settled::Yes,
            CacheRule::Immutable { .. } => Settled::NotYet,
            _ => Settled::Yes,
        }
    }

    fn is_error(&self, answer: &[u8]) -> bool {
        may_have(answer, "\"error\"") && member(answer, "status") == Some(b"\"error\"")
    }

    fn probe(&self) -> Probe {
        Probe::Rpc { method: "server_info", params: "[{}]" }
    }

    /// A server that follows the network is `full`, or takes part in its consensus.
    fn seen(&self, answer: &[u8]) -> Option<Seen> {
        let state = at(answer, &["info", "server_state"]).and_then(unescape)?;
        let syncing = !matches!(&*state, "full" | "validating" | "proposing");
        let height = at(answer, &["info", "validated_ledger", "seq"]).and_then(number);
        Some(Seen { height: height.unwrap_or(0), syncing })
    }
}

/// Makes the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(Xrp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at as chain_at, judged, wrong};
    use rpcgate_core::cache_rule::Keep;
    use std::time::Duration;

    #[test]
    fn what_administrators_alone_may_do_is_closed() {
        let closed =
            ["stop", "peers", "wallet_propose", "validation_create", "peer_reservations_add", "log_level"];
        assert_eq!(wrong(&chain_at(Xrp, 0), &closed, Flags::CLOSED, true), [""; 0]);
        let open = ["account_tx", "book_offers", "sign", "ping", "server_definitions", "feature", "submit"];
        assert_eq!(wrong(&chain_at(Xrp, 0), &open, Flags::CLOSED, false), [""; 0]);
        assert_eq!(
            wrong(&chain_at(Xrp, 0), &["submit", "submit_multisigned"], Flags::BROADCAST, true),
            [""; 0]
        );
    }

    #[test]
    fn an_error_stands_in_the_result() {
        let error =
            br#"{"account":"r","error":"actNotFound","error_code":19,"status":"error","validated":true}"#;
        assert!(Xrp.is_error(error));
        assert!(!Xrp.is_error(br#"{"status":"success","error":null}"#));
        assert!(!Xrp.is_error(br#"{"ledger_current_index":7,"status":"success"}"#));
    }

    #[test]
    fn the_current_ledger_is_kept_3_seconds() {
        let (_, keep) = judged(&chain_at(Xrp, 0), "ledger_current", "[{}]", r#"{"ledger_current_index":7}"#);
        assert_eq!(keep, Keep::For(Duration::from_secs(3)));
    }

    #[test]
    fn a_server_tells_its_validated_ledger_and_whether_it_follows() {
        let info = |state: &str, ledger: &str| {
            format!(r#"{{"info":{{"server_state":"{state}"{ledger}}},"status":"success"}}"#)
        };
        let ledger = r#","validated_ledger":{"age":1,"hash":"A","seq":94000000}"#;
        assert_eq!(Xrp.seen(info("full", ledger).as_bytes()), Some(Seen::at(94_000_000)));
        assert_eq!(
            Xrp.seen(info("syncing", ledger).as_bytes()),
            Some(Seen { height: 94_000_000, syncing: true })
        );
        assert_eq!(Xrp.seen(info("connected", "").as_bytes()), Some(Seen { height: 0, syncing: true }));
        assert_eq!(Xrp.seen(b"{}"), None);
    }
}
