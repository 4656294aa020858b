//! TON, `/ton`: TonCenter's HTTP API, JSON-RPC at `/ton/jsonRPC` (and `/ton`) and a path for each method.

#[cfg(feature = "events")]
mod address;
#[cfg(feature = "events")]
mod blocks;
#[cfg(feature = "events")]
mod body;
#[cfg(feature = "events")]
mod cells;
#[cfg(feature = "events")]
mod phases;
#[cfg(feature = "events")]
mod shapes;
#[cfg(feature = "events")]
mod transaction;

use crate::family::params::{at, may_have, member, number};
use crate::family::{UnservedErrors, says};
use http::Method as Verb;
use rpcgate_core::adapter::{
    Adapter, KeySources, NetworkProbe, NodeError, NodeStatus, Permanence, Probe, Surface, Unserved,
};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Dialect, Facts, Finality, Flags, Method, MethodRule};
use rpcgate_core::json::unescape;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::rest::Path;
use std::sync::Arc;
use std::time::Duration;

/// A masterchain block is final.
static FACTS: Facts = Facts::rest("ton", "TON")
    .with_dialect(Dialect::Ton)
    .with_max_lag(6)
    .with_block_time(Duration::from_secs(5));

const METHODS: &[Method] = &[
    Method::new("getConfigAll", 0),
    Method::new("getMasterchainInfo", 1).cached(CacheRule::secs(2)),
    Method::new("getTransactions", 5),
    Method::new("lookupBlock", 5),
    Method::new("getShardBlockProof", 5),
    Method::new("runGetMethod", 10),
    Method::new("sendBoc", 20).marked(Flags::BROADCAST),
    Method::new("sendBocReturnHash", 20).marked(Flags::BROADCAST),
];

/// Methods that TonCenter accepts by `POST`.
const POSTED: &[&str] = &[
    "estimateFee",
    "runGetMethod",
    "runGetMethodStd",
    "sendBoc",
    "sendBocReturnHash",
    "sendBocReturnHashNoError",
    "sendQuery",
    "sendQuerySimple",
];

/// The TON adapter.
#[derive(Clone, Copy, Debug)]
pub struct Ton;

/// The words of lite servers and of toncenter. Many errors of callers have the status 500.
const UNSERVED: UnservedErrors = UnservedErrors {
    own: &[],
    node: (&[502, 504, 542], &["LITE_SERVER_NETWORK", "no working liteservers", "liteserver timeout"]),
    method: (&[], &[]),
    data: (&[], &["LITE_SERVER_NOTREADY", "state already gc'd", "not in db"]),
};

impl Adapter for Ton {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn surface(&self, verb: &Verb, path: &Path) -> Result<Surface, Refusal> {
        let method = match path.as_str() {
            "" | "/jsonRPC" if *verb == Verb::POST => return Ok(Surface::JsonRpc),
            "" | "/jsonRPC" => return Err(Refusal::MethodNotAllowed { allow: "POST, OPTIONS" }),
            path => path.strip_prefix('/').unwrap_or_default(),
        };
        if !method.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(Refusal::NoRoute);
        }
        match *verb {
            Verb::GET | Verb::HEAD => Ok(Surface::Rest),
            Verb::POST if POSTED.contains(&method) => Ok(Surface::Rest),
            _ if POSTED.contains(&method) => Err(Refusal::MethodNotAllowed { allow: "GET, POST, OPTIONS" }),
            _ => Err(Refusal::MethodNotAllowed { allow: "GET, OPTIONS" }),
        }
    }

    /// TonCenter's own URLs have it.
    fn path_alias(&self) -> Option<&'static str> {
        Some("/api/v2")
    }

    fn rpc_path(&self) -> Option<&'static str> {
        Some("/jsonRPC")
    }

    fn methods(&self) -> Vec<Method> {
        METHODS.to_vec()
    }

    fn unlisted(&self, method: &str) -> MethodRule {
        let flags = if method.starts_with("send") { Flags::BROADCAST } else { Flags::NONE };
        MethodRule::UNLISTED.marked(flags)
    }

    fn settled(&self, call: CallView<'_>, answer: &[u8], _: &Finality) -> Permanence {
        match call.rule.cache {
            _ if answer.trim_ascii() == b"null" => Permanence::Unknown,
            CacheRule::Immutable { .. } => Permanence::NotYet,
            _ => Permanence::Yes,
        }
    }

    fn is_error(&self, answer: &[u8]) -> bool {
        may_have(answer, "\"ok\"") && member(answer, "ok") == Some(b"false")
    }

    fn key_sources(&self) -> KeySources {
        KeySources::default().with_query("api_key")
    }

    /// The words of lite servers.
    fn lacks_history(&self, answer: &[u8]) -> bool {
        says(answer, &["state already gc'd", "not in db"])
    }

    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        UNSERVED.judge(error)
    }

    fn probe(&self) -> Probe {
        Probe::Rest { target: "/getMasterchainInfo", body: None }
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        at(answer, &["result", "last", "seqno"]).and_then(number).map(NodeStatus::at)
    }

    fn network(&self) -> Option<NetworkProbe> {
        // The hash of the state before the first block.
        let expected = "F6OpKZKqvqeFp6CQmFomXNMfMj2EnaUSOXN+Mh+wVWk=".into();
        let read =
            |answer: &[u8]| at(answer, &["result", "init", "root_hash"]).and_then(unescape).map(Into::into);
        Some(NetworkProbe { probe: self.probe(), expected, read })
    }

    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn rpcgate_core::event::BlockReader> {
        Some(self)
    }
}

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(Ton)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at as chain_at, judged, wrong};
    use rpcgate_core::cache_rule::CacheDecision;
    use std::time::Duration;

    #[test]
    fn both_interfaces_are_served_and_no_deeper_path() {
        let at = |verb, path| Ton.surface(&verb, &Path::canonical(path).unwrap());
        for path in ["", "/", "/jsonRPC", "/jsonRPC/"] {
            assert!(matches!(at(Verb::POST, path), Ok(Surface::JsonRpc)), "{path}");
            assert!(matches!(at(Verb::GET, path), Err(Refusal::MethodNotAllowed { .. })), "{path}");
        }
        for path in ["/getMasterchainInfo", "/runGetMethod", "/sendBoc", "/getTransactions"] {
            assert!(matches!(at(Verb::GET, path), Ok(Surface::Rest)), "{path}");
        }
        assert!(matches!(at(Verb::POST, "/runGetMethod"), Ok(Surface::Rest)));
        assert!(matches!(at(Verb::POST, "/getMasterchainInfo"), Err(Refusal::MethodNotAllowed { .. })));
        for path in ["/api/v2/getMasterchainInfo", "/openapi.json", "/a-b"] {
            assert_eq!(at(Verb::GET, path).err(), Some(Refusal::NoRoute), "{path}");
        }
    }

    #[test]
    fn every_method_that_sends_is_a_broadcast() {
        let chain = chain_at(Ton, 0);
        let sends = ["sendBoc", "sendBocReturnHash", "sendQuery"];
        assert_eq!(wrong(&chain, &sends, Flags::BROADCAST, true), [""; 0]);
        assert_eq!(wrong(&chain, &["runGetMethod", "getConfigAll"], Flags::BROADCAST, false), [""; 0]);
    }

    #[test]
    fn masterchain_info_is_cached_2_seconds_and_errors_are_recognised() {
        let line = "GET /getMasterchainInfo";
        let (_, keep) = judged(&chain_at(Ton, 0), "getMasterchainInfo", line, r#"{"ok":true,"result":{}}"#);
        assert_eq!(keep, CacheDecision::For(Duration::from_secs(2)));
        assert!(Ton.is_error(br#"{"ok":false,"error":"Incorrect address","code":416}"#));
        assert!(!Ton.is_error(br#"{"ok":true,"result":{"ok":false}}"#));
        assert!(!Ton.is_error(br#"{"last":{"seqno":1}}"#));
    }

    #[test]
    fn a_node_reports_the_masterchains_last_block() {
        let info = br#"{"ok":true,"result":{"@type":"blocks.masterchainInfo","last":{"seqno":48000000}}}"#;
        assert_eq!(Ton.seen(info), Some(NodeStatus::at(48_000_000)));
        assert_eq!(Ton.seen(br#"{"ok":false,"error":"x","code":500}"#), None);
    }
}
