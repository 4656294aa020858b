//! Cosmos, `/cosmos`: the REST API of the SDK's modules, read by `GET`. Transactions are broadcast and simulated by
//! `POST` below `/cosmos/tx/`. Any other post, and CometBFT's own RPC, is answered like a path that a node does not
//! implement. The same modules are served over gRPC, and also the services of IBC and CometBFT.

#[cfg(feature = "events")]
mod blocks;
#[cfg(feature = "events")]
mod event;
mod grpc;
#[cfg(feature = "events")]
mod shapes;

use crate::family::params::{at, may_have_member, number};
use crate::family::{Closing, UnservedErrors, listed, marks, narrow, says};
use http::Method as Verb;
use rpcgate_core::adapter::{
    Adapter, ClosedMethods, NetworkProbe, NodeError, NodeStatus, Permanence, Probe, Surface, Unserved,
};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Facts, Finality, Flags, Method, MethodRule};
use rpcgate_core::grpc::GrpcPath;
use rpcgate_core::json::unescape;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::rest::{Path, RestLine};
use std::sync::Arc;
use std::time::Duration;

/// CometBFT never reverts a block.
static FACTS: Facts = Facts::rest("cosmos", "Cosmos Hub")
    .with_ws(true)
    .with_grpc(&["cosmos", "ibc", "cometbft", "tendermint"])
    .with_max_lag(5)
    .with_block_time(Duration::from_secs(6));

/// Posts that compute something and submit no transaction.
const COMPUTED: &[&[u8]] = &[b"simulate", b"encode", b"decode", b"amino"];

/// The first three are methods of CometBFT, on its stream.
const CLOSED: &[Closing] = &[
    Closing::new(&["unsafe_*"], "It controls the node"),
    Closing::new(&["dial_*"], "It makes the node dial the peers that its parameters name"),
    Closing::new(&["broadcast_tx_commit"], "It waits until the transaction is in a block"),
    Closing::new(&["txs"], "The node waits until the transaction is in a block")
        .only("with the mode `BROADCAST_MODE_BLOCK`", waits_for_a_block),
];

/// Reports whether a transaction is broadcast in the mode that waits for a block, by name or by number. One such value
/// is enough if the mode is repeated. A body that cannot be read here counts too: the node's decoder accepts more than
/// strict JSON.
fn waits_for_a_block(call: &CallView<'_>) -> bool {
    let is_block = |mode: &[u8]| {
        let text = unescape(mode);
        matches!(text.as_deref(), Some("BROADCAST_MODE_BLOCK" | "1"))
            || std::str::from_utf8(mode).is_ok_and(|number| number.parse() == Ok(1.0))
    };
    RestLine::has_verb(call.params, "POST")
        && !call.body.trim_ascii().is_empty()
        && may_have_member(call.body, |name, value| name == "mode" && is_block(value))
}

/// The Cosmos Hub adapter.
#[derive(Clone, Copy, Debug)]
pub struct Cosmos;

/// The refusal of a path without a module. A JSON array would be a batch, which no node of the chain answers.
fn not_implemented(body: &[u8]) -> Refusal {
    match body.trim_ascii_start().first() {
        Some(b'[') => Refusal::UnexpectedFormat,
        _ => Refusal::NotImplemented,
    }
}

/// The gRPC codes that a node's gateway writes (RESOURCE_EXHAUSTED, UNAVAILABLE, INTERNAL), and the words of the SDK.
const UNSERVED: UnservedErrors = UnservedErrors {
    own: &["not found"],
    node: (&[8, 14], &["mempool is full"]),
    method: (&[13], &[]),
    data: (&[], &["is not available, lowest height is", "version does not exist"]),
};

impl Adapter for Cosmos {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    /// A module's path has at least two segments; CometBFT's methods have one.
    fn surface(&self, verb: &Verb, path: &Path) -> Result<Surface, Refusal> {
        let is_module = path.as_str().bytes().filter(|byte| *byte == b'/').nth(1).is_some();
        match *verb {
            Verb::GET | Verb::HEAD if is_module => Ok(Surface::Rest),
            Verb::POST if path.as_str().starts_with("/cosmos/tx/") => Ok(Surface::Rest),
            Verb::GET | Verb::HEAD | Verb::POST => Ok(Surface::Nothing { because: not_implemented }),
            _ => Err(Refusal::MethodNotAllowed { allow: "GET, POST, OPTIONS" }),
        }
    }

    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }

    fn unlisted(&self, method: &str) -> MethodRule {
        MethodRule::UNLISTED.marked(marks(CLOSED, method).and(Flags::COMMANDS))
    }

    fn grpc(&self, path: GrpcPath<'_>, rule: MethodRule) -> MethodRule {
        grpc::rule(path, rule)
    }

    fn narrow(&self, call: CallView<'_>) -> MethodRule {
        if call.is_grpc {
            return grpc::narrow(call);
        }
        let mut rule = narrow(CLOSED, call);
        if RestLine::has_verb(call.params, "POST") && !COMPUTED.contains(&call.sent) {
            rule.flags = rule.flags.and(Flags::BROADCAST);
        }
        rule
    }

    fn closed(&self) -> Vec<ClosedMethods> {
        listed(CLOSED).into_iter().chain(grpc::closed()).collect()
    }

    fn settled(&self, call: CallView<'_>, _: &[u8], _: &Finality) -> Permanence {
        if matches!(call.rule.cache, CacheRule::Immutable { .. }) {
            Permanence::NotYet
        } else {
            Permanence::Yes
        }
    }

    /// The SDK reads the height of the requested state from its own header.
    fn headers(&self) -> &'static [&'static str] {
        &["accept", "content-type", "x-cosmos-block-height"]
    }

    fn reply_headers(&self) -> &'static [&'static str] {
        &["x-cosmos-block-height", "grpc-metadata-*"]
    }

    /// The words of CometBFT for blocks, and of the SDK for state.
    fn lacks_history(&self, answer: &[u8]) -> bool {
        says(answer, &["is not available, lowest height is", "version does not exist"])
    }

    /// The words of CometBFT's mempool.
    fn is_known_transaction(&self, answer: &[u8]) -> bool {
        says(answer, &["tx already exists in cache"])
    }

    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        UNSERVED.judge(error)
    }

    fn probe(&self) -> Probe {
        Probe::Rest { target: "/cosmos/base/tendermint/v1beta1/blocks/latest", body: None }
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        at(answer, &["block", "header", "height"]).and_then(number).map(NodeStatus::at)
    }

    fn network(&self) -> Option<NetworkProbe> {
        let probe = Probe::Rest { target: "/cosmos/base/tendermint/v1beta1/node_info", body: None };
        let read =
            |answer: &[u8]| at(answer, &["default_node_info", "network"]).and_then(unescape).map(Into::into);
        Some(NetworkProbe { probe, expected: "cosmoshub-4".into(), read })
    }

    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn rpcgate_core::event::BlockReader> {
        Some(&blocks::CosmosBlocks)
    }
}

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(Cosmos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at as chain_at, wrong};
    use rpcgate_core::chain::Chain;

    fn surface(verb: &Verb, path: &str) -> Result<Surface, Refusal> {
        Cosmos.surface(verb, &Path::canonical(path).unwrap())
    }

    #[track_caller]
    fn refused(verb: &Verb, path: &str, body: &[u8]) -> Refusal {
        match surface(verb, path) {
            Ok(Surface::Nothing { because }) => because(body),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn every_module_is_read_and_transactions_are_posted() {
        for path in
            ["/cosmos/bank/v1beta1/supply/by_denom", "/ibc/core/client/v1/params", "/cosmwasm/wasm/v1/code"]
        {
            assert!(matches!(surface(&Verb::GET, path), Ok(Surface::Rest)), "{path}");
        }
        for path in ["/cosmos/tx/v1beta1/txs", "/cosmos/tx/v1beta1/simulate"] {
            assert!(matches!(surface(&Verb::POST, path), Ok(Surface::Rest)), "{path}");
        }
        assert!(matches!(
            surface(&Verb::PUT, "/cosmos/tx/v1beta1/txs"),
            Err(Refusal::MethodNotAllowed { .. })
        ));
    }

    #[test]
    fn other_paths_are_not_implemented() {
        let call = br#"{"jsonrpc":"2.0","id":1,"method":"status"}"#;
        for (verb, path) in [
            (Verb::POST, ""),
            (Verb::POST, "/"),
            (Verb::POST, "/cosmos/bank/v1beta1/supply"),
            (Verb::GET, "/status"),
            (Verb::GET, "/abci_query"),
            (Verb::GET, ""),
        ] {
            assert_eq!(refused(&verb, path, call), Refusal::NotImplemented, "{path}");
        }
        assert_eq!(refused(&Verb::POST, "", b" [ ]"), Refusal::UnexpectedFormat);
    }

    #[test]
    fn a_post_is_a_broadcast_unless_it_computes() {
        let chain: Chain = chain_at(Cosmos, 0);
        let rule = |name: &'static str, line: &str| {
            let call =
                CallView::new(chain.name(), name, chain.look_up(name).rule).with_params(line.as_bytes());
            chain.adapter().narrow(call).flags.has(Flags::BROADCAST)
        };
        assert!(rule("txs", "POST /cosmos/tx/v1beta1/txs"));
        assert!(!rule("txs", "GET /cosmos/tx/v1beta1/txs?query=x"));
        assert!(!rule("simulate", "POST /cosmos/tx/v1beta1/simulate"));
        assert_eq!(wrong(&chain, &["unsafe_flush_mempool", "dial_seeds"], Flags::CLOSED, true), [""; 0]);
    }

    // Shows (Limits, budget and quota).
    #[test]
    fn a_broadcast_that_waits_for_a_block_is_closed() {
        let chain: Chain = chain_at(Cosmos, 0);
        let is_closed = |body: &str| {
            let call = CallView::new(chain.name(), "txs", chain.look_up("txs").rule)
                .with_rest(b"POST /cosmos/tx/v1beta1/txs", body.as_bytes());
            chain.adapter().narrow(call).flags.has(Flags::CLOSED)
        };
        for body in [
            r#"{"tx_bytes":"AA==","mode":"BROADCAST_MODE_BLOCK"}"#,
            r#"{"mode":"BROADCAST_MODE_SYNC","m\u006fde":"BROADCAST_MODE_\u0042LOCK"}"#,
            r#"{"mode":1}"#,
            r#"{"mode":"1"}"#,
            r#"{"mode": 1.0 }"#,
            r#"{"mode":"BROADCAST_MODE_BLOCK"} x"#,
            // Bodies that only a lenient decoder reads.
            "{'mode':'BROADCAST_MODE_BLOCK'}",
            "\u{feff}{\"mode\":1}",
            "{\"x\":\"\u{1}\",\"mode\":1}",
            &format!("{{\"x\":{}{},\"mode\":1}}", "[".repeat(200), "]".repeat(200)),
        ] {
            assert!(is_closed(body), "{body}");
        }
        for body in ["", "{}", r#"{"tx_bytes":"AA==","mode":"BROADCAST_MODE_SYNC"}"#, r#"{"mode":2}"#] {
            assert!(!is_closed(body), "{body}");
        }
        assert_eq!(wrong(&chain, &["broadcast_tx_commit"], Flags::CLOSED, true), [""; 0]);
        assert_eq!(wrong(&chain, &["broadcast_tx_sync", "txs"], Flags::CLOSED, false), [""; 0]);
    }

    #[test]
    fn a_node_reports_its_latest_block() {
        let latest = br#"{"block_id":{},"block":{"header":{"chain_id":"cosmoshub-4","height":"28000000"}}}"#;
        assert_eq!(Cosmos.seen(latest), Some(NodeStatus::at(28_000_000)));
        assert_eq!(Cosmos.seen(br#"{"code":12,"message":"Not Implemented"}"#), None);
    }
}
