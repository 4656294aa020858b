//! XRP Ledger, `/xrp`: the ledger server's JSON-RPC, whose answers have only a `result`, with errors in it.

#[cfg(feature = "events")]
mod address;
#[cfg(feature = "events")]
mod blocks;
#[cfg(feature = "events")]
mod shapes;
#[cfg(feature = "events")]
mod transaction;

use crate::family::params::{any_member, at, may_have, member, mentions, number, positional};
use crate::family::{Closing, UnservedErrors, listed, mark, marks, narrow, says};
use rpcgate_core::adapter::{
    Adapter, ClosedMethods, NetworkProbe, NodeError, NodeStatus, Permanence, Probe, Unserved,
};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Dialect, Facts, Finality, Flags, Method, MethodRule};
use rpcgate_core::json::unescape;
use std::sync::Arc;
use std::time::Duration;

/// A validated ledger is final. Servers show newer ones only to callers that request `current` or `closed`.
static FACTS: Facts = Facts::json_rpc("xrp", "XRP Ledger")
    .with_dialect(Dialect::Xrp)
    .with_aliases(&["ripple"])
    .with_batch(false)
    .with_ws(true)
    .with_max_lag(8)
    .with_block_time(Duration::from_secs(4));

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

/// Methods that rippled serves only to administrators ("Admin API methods" of its documentation, and the roles in its
/// table of methods). A node treats every caller from a trusted address as an administrator, so the gateway decides.
const CLOSED: &[Closing] = &[
    Closing::new(
        &["batch"],
        "The node runs each of its elements as a call of its own, past lists, closed methods and metering",
    ),
    Closing::new(
        &["connect", "crawl_shards", "download_shard", "ledger_request", "peer_reservations_*", "peers"],
        "It is for administrators: it dials peers or hosts that its parameters name, fetches from them, or lists them",
    ),
    Closing::new(
        &["validation_*", "validator_*", "validators", "wallet_*", "unl_list"],
        "It is for administrators: it creates keys, or lists the validators that the node trusts",
    ),
    Closing::new(
        &[
            "black_list",
            "blacklist",
            "can_delete",
            "consensus_info",
            "fetch_info",
            "get_counts",
            "ledger_accept",
            "ledger_cleaner",
            "log_level",
            "log_rotate",
            "logrotate",
            "node_to_shard",
            "print",
            "shed",
            "stop",
            "tx_reduce_relay",
        ],
        "It is for administrators: it controls the node or shows its internals",
    ),
    Closing::new(&["subscribe", "unsubscribe"], "The node dials that URL with every event, for good")
        .only("with `url`", |call| mentions(call.params, "url")),
    Closing::new(&["feature"], "It sets the node's vote on an amendment")
        .only("with parameters of its own", has_parameters),
    Closing::new(&["ledger"], "It reads the whole state of the ledger")
        .only("with `full` or `accounts`", is_full),
];

/// Reports whether a call of `feature` has parameters except the API version. Streams put them next to the command.
fn has_parameters(call: &CallView<'_>) -> bool {
    let params = call.params.trim_ascii();
    if member(params, "command").is_some() {
        return any_member(params, |name, _| !matches!(name, "command" | "id" | "api_version"));
    }
    if matches!(params, b"" | b"null" | b"[]") {
        return false;
    }
    let Some(first) = positional(params, 0) else { return true };
    let is_one = positional(params, 1).is_none();
    let is_object = first.starts_with(b"{") || first == b"null";
    !is_one || !is_object || any_member(first, |name, _| name != "api_version")
}

/// Reports whether a call of `ledger` requests the full content.
fn is_full(call: &CallView<'_>) -> bool {
    let asks = |object: &[u8]| {
        any_member(object, |name, value| {
            matches!(name, "full" | "accounts") && !matches!(value, b"false" | b"null")
        })
    };
    positional(call.params, 0).is_some_and(asks) || asks(call.params)
}

/// The XRP Ledger adapter.
#[derive(Clone, Copy, Debug)]
pub struct Xrp;

/// The error tokens of rippled (`ErrorCodes.h`).
const UNSERVED: UnservedErrors = UnservedErrors {
    own: &[],
    node: (
        &[],
        &[
            "\"tooBusy\"",
            "\"slowDown\"",
            "\"noNetwork\"",
            "\"noCurrent\"",
            "\"noClosed\"",
            "\"notSynced\"",
            "\"notReady\"",
            "\"amendmentBlocked\"",
            "\"unlBlocked\"",
        ],
    ),
    method: (&[], &["\"internal\"", "\"notEnabled\"", "\"notSupported\"", "\"failedToForward\""]),
    data: (&[], &["\"lgrNotFound\""]),
};

impl Adapter for Xrp {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn methods(&self) -> Vec<Method> {
        let mut rows = METHODS.to_vec();
        mark(CLOSED, &mut rows);
        rows
    }

    fn unlisted(&self, method: &str) -> MethodRule {
        MethodRule::UNLISTED.marked(marks(CLOSED, method))
    }

    fn narrow(&self, call: CallView<'_>) -> MethodRule {
        narrow(CLOSED, call)
    }

    fn closed(&self) -> Vec<ClosedMethods> {
        listed(CLOSED)
    }

    fn settled(&self, call: CallView<'_>, result: &[u8], _: &Finality) -> Permanence {
        match call.rule.cache {
            CacheRule::Immutable { .. } if member(result, "validated") == Some(b"true") => Permanence::Yes,
            CacheRule::Immutable { .. } => Permanence::NotYet,
            _ => Permanence::Yes,
        }
    }

    fn is_error(&self, answer: &[u8]) -> bool {
        may_have(answer, "\"error\"") && member(answer, "status") == Some(b"\"error\"")
    }

    /// A server without the full history does not find old ledgers.
    fn lacks_history(&self, answer: &[u8]) -> bool {
        says(answer, &["\"lgrNotFound\""])
    }

    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        UNSERVED.judge(error)
    }

    fn probe(&self) -> Probe {
        Probe::Rpc { method: "server_info", params: "[{}]" }
    }

    /// A server that follows the network is `full`, or takes part in its consensus.
    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        let state = at(answer, &["info", "server_state"]).and_then(unescape)?;
        let syncing = !matches!(&*state, "full" | "validating" | "proposing");
        let height = at(answer, &["info", "validated_ledger", "seq"]).and_then(number);
        Some(NodeStatus::at(height.unwrap_or(0)).with_syncing(syncing))
    }

    fn network(&self) -> Option<NetworkProbe> {
        // A server without the setting of that name shows none.
        let read =
            |answer: &[u8]| at(answer, &["info", "network_id"]).and_then(number).map(|id| id.to_string());
        Some(NetworkProbe { probe: self.probe(), expected: "0".into(), read })
    }

    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn rpcgate_core::event::BlockReader> {
        Some(self)
    }
}

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(Xrp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at as chain_at, judged, wrong};
    use rpcgate_core::cache_rule::CacheDecision;
    use std::time::Duration;

    #[test]
    fn methods_for_administrators_are_closed() {
        let closed = [
            "stop",
            "peers",
            "wallet_propose",
            "validation_create",
            "peer_reservations_add",
            "log_level",
            "shed",
        ];
        assert_eq!(wrong(&chain_at(Xrp, 0), &closed, Flags::CLOSED, true), [""; 0]);
        let open = ["account_tx", "book_offers", "sign", "ping", "server_definitions", "feature", "submit"];
        assert_eq!(wrong(&chain_at(Xrp, 0), &open, Flags::CLOSED, false), [""; 0]);
        assert_eq!(
            wrong(&chain_at(Xrp, 0), &["submit", "submit_multisigned"], Flags::BROADCAST, true),
            [""; 0]
        );
    }

    // Shows (Limits, budget and quota).
    #[test]
    fn calls_whose_parameters_name_something_to_run_dial_or_set_are_closed() {
        let chain = chain_at(Xrp, 0);
        assert_eq!(wrong(&chain, &["batch"], Flags::CLOSED, true), [""; 0]);
        let is_closed = |method: &str, params: &str| {
            let rule = chain.look_up(method).rule;
            assert!(rule.flags.has(Flags::COMMANDS) && !rule.flags.has(Flags::CLOSED), "{method}");
            let call = CallView::new(FACTS.name, method, rule).with_params(params.as_bytes());
            Xrp.narrow(call).flags.has(Flags::CLOSED)
        };
        for (method, params) in [
            ("subscribe", r#"[{"url":"http://10.0.0.1/","streams":["ledger"]}]"#),
            ("subscribe", r#"[{"streams":[],"\u0075rl":"x"}]"#),
            ("unsubscribe", r#"[{"url":"http://10.0.0.1/"}]"#),
            ("feature", r#"[{"feature":"AB","vetoed":true}]"#),
            ("feature", r#"[{"feature":"AB"}]"#),
            ("feature", r#"[{},{}]"#),
            ("feature", r#"["AB"]"#),
            ("feature", r#"{"vetoed":true}"#),
            ("feature", r#"{"id":1,"command":"feature","feature":"AB","vetoed":true}"#),
            ("subscribe", r#"{"id":1,"command":"subscribe","url":"http://10.0.0.1/"}"#),
            ("subscribe", r#"{"id":1,"command":"subscribe","url\u0000":"http://10.0.0.1/"}"#),
            ("ledger", r#"[{"ledger_index":7,"full":true}]"#),
            ("ledger", r#"[{"accounts":1}]"#),
        ] {
            assert!(is_closed(method, params), "{method} {params}");
        }
        for (method, params) in [
            ("subscribe", r#"[{"streams":["ledger"]}]"#),
            ("feature", ""),
            ("feature", "null"),
            ("feature", "[]"),
            ("feature", "[{}]"),
            ("feature", r#"[ {"api_version":2} ]"#),
            ("feature", r#"{"id":1,"command":"feature","api_version":2}"#),
            ("ledger", r#"[{"ledger_index":"validated","full":false,"accounts":false,"expand":true}]"#),
            ("ledger", ""),
        ] {
            assert!(!is_closed(method, params), "{method} {params}");
        }
    }

    #[test]
    fn an_error_is_inside_the_result() {
        let error =
            br#"{"account":"r","error":"actNotFound","error_code":19,"status":"error","validated":true}"#;
        assert!(Xrp.is_error(error));
        assert!(!Xrp.is_error(br#"{"status":"success","error":null}"#));
        assert!(!Xrp.is_error(br#"{"ledger_current_index":7,"status":"success"}"#));
    }

    #[test]
    fn the_current_ledger_is_cached_3_seconds() {
        let (_, keep) = judged(&chain_at(Xrp, 0), "ledger_current", "[{}]", r#"{"ledger_current_index":7}"#);
        assert_eq!(keep, CacheDecision::For(Duration::from_secs(3)));
    }

    #[test]
    fn a_server_reports_its_validated_ledger_and_whether_it_is_synced() {
        let info = |state: &str, ledger: &str| {
            format!(r#"{{"info":{{"server_state":"{state}"{ledger}}},"status":"success"}}"#)
        };
        let ledger = r#","validated_ledger":{"age":1,"hash":"A","seq":94000000}"#;
        assert_eq!(Xrp.seen(info("full", ledger).as_bytes()), Some(NodeStatus::at(94_000_000)));
        assert_eq!(
            Xrp.seen(info("syncing", ledger).as_bytes()),
            Some(NodeStatus::at(94_000_000).with_syncing(true))
        );
        assert_eq!(Xrp.seen(info("connected", "").as_bytes()), Some(NodeStatus::at(0).with_syncing(true)));
        assert_eq!(Xrp.seen(b"{}"), None);
    }
}
