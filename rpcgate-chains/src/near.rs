//! NEAR, `/near`: JSON-RPC 2.0 of a node that keeps about two and a half days of blocks.

#[cfg(feature = "events")]
mod blocks;
#[cfg(feature = "events")]
mod shapes;
#[cfg(feature = "events")]
mod standard;
#[cfg(feature = "events")]
mod transaction;

use crate::family::params::{at, may_have, member, number};
use crate::family::{Closing, UnservedErrors, listed, marks, says};
use rpcgate_core::adapter::{
    Adapter, ClosedMethods, NetworkProbe, NodeError, NodeStatus, Permanence, Probe, Unserved,
};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Dialect, Facts, Finality, Flags, Method, MethodRule};
use rpcgate_core::json::unescape;
use std::sync::Arc;
use std::time::Duration;

/// Doomslug with Nightshade's finality gadget: a block is final once two lie on it.
static FACTS: Facts = Facts::json_rpc("near", "NEAR")
    .with_dialect(Dialect::Near)
    .with_final_depth(2)
    .with_max_lag(30)
    .with_block_time(Duration::from_millis(600));

const METHODS: &[Method] = &[
    Method::new("status", 0),
    Method::new("network_info", 0),
    Method::new("gas_price", 1),
    Method::new("validators", 1),
    Method::new("block", 5),
    Method::new("chunk", 5),
    Method::new("tx", 5),
    Method::new("query", 10),
    Method::new("EXPERIMENTAL_tx_status", 10),
    Method::new("broadcast_tx_async", 20).marked(Flags::BROADCAST),
    Method::new("broadcast_tx_commit", 20).marked(Flags::BROADCAST),
    Method::new("send_tx", 1).marked(Flags::BROADCAST),
];

/// Calls that wait (`broadcast_tx_commit`, `send_tx`, `tx`) stay open: clients depend on them, a node ends them by
/// itself after 10 s, and they are charged.
const CLOSED: &[Closing] =
    &[Closing::new(&["adv_*", "sandbox_*"], "It changes the state or the peers of a node built for tests")];

/// The NEAR adapter.
#[derive(Clone, Copy, Debug)]
pub struct Near;

/// The causes that nearcore's JSON-RPC names.
const UNSERVED: UnservedErrors = UnservedErrors {
    own: &[],
    node: (&[], &["\"NOT_SYNCED_YET\"", "\"NO_SYNCED_BLOCKS\""]),
    method: (&[], &["\"INTERNAL_ERROR\"", "\"TIMEOUT_ERROR\""]),
    data: (&[], &["\"UNAVAILABLE_SHARD\"", "\"GARBAGE_COLLECTED_BLOCK\"", "\"UNKNOWN_BLOCK\""]),
};

impl Adapter for Near {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn methods(&self) -> Vec<Method> {
        METHODS.to_vec()
    }

    fn unlisted(&self, method: &str) -> MethodRule {
        let mut flags = marks(CLOSED, method);
        // `EXPERIMENTAL_broadcast_tx_sync` of older nodes.
        if method.contains("broadcast_tx") {
            flags = flags.and(Flags::BROADCAST);
        }
        MethodRule::UNLISTED.marked(flags)
    }

    fn closed(&self) -> Vec<ClosedMethods> {
        listed(CLOSED)
    }

    fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence {
        if result.trim_ascii() == b"null" {
            return Permanence::Unknown;
        }
        if !matches!(call.rule.cache, CacheRule::Immutable { .. }) {
            return Permanence::Yes;
        }
        match at(result, &["header", "height"]).and_then(number) {
            Some(height) if finality.is_final(height) => Permanence::Yes,
            _ => Permanence::NotYet,
        }
    }

    /// In older nodes the result contains a contract's failure in `query`; in newer ones it is an error.
    fn is_error(&self, answer: &[u8]) -> bool {
        may_have(answer, "\"error\"") && member(answer, "error").is_some_and(|error| error.starts_with(b"\""))
    }

    /// Only archival nodes keep blocks older than five epochs; other nodes call an old block unknown.
    fn lacks_history(&self, answer: &[u8]) -> bool {
        says(answer, &["\"GARBAGE_COLLECTED_BLOCK\"", "\"UNKNOWN_BLOCK\""])
    }

    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        UNSERVED.judge(error)
    }

    fn probe(&self) -> Probe {
        Probe::Rpc { method: "status", params: "[]" }
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        let height = at(answer, &["sync_info", "latest_block_height"]).and_then(number)?;
        let syncing = at(answer, &["sync_info", "syncing"]) == Some(b"true");
        Some(NodeStatus::at(height).with_syncing(syncing))
    }

    fn network(&self) -> Option<NetworkProbe> {
        let probe = self.probe();
        Some(NetworkProbe {
            probe,
            expected: "mainnet".into(),
            read: |answer| at(answer, &["chain_id"]).and_then(unescape).map(Into::into),
        })
    }

    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn rpcgate_core::event::BlockReader> {
        Some(&blocks::NearBlocks)
    }
}

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(Near)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at as chain_at, judged, wrong};
    use rpcgate_core::chain::{Chain, ChainOverrides};

    // Shows (Limits, budget and quota).
    #[test]
    fn every_method_that_sends_a_transaction_is_a_broadcast() {
        let chain = chain_at(Near, 0);
        let sends =
            ["broadcast_tx_async", "broadcast_tx_commit", "send_tx", "EXPERIMENTAL_broadcast_tx_sync"];
        assert_eq!(wrong(&chain, &sends, Flags::BROADCAST, true), [""; 0]);
        assert_eq!(
            wrong(&chain, &["tx", "query", "EXPERIMENTAL_tx_status"], Flags::BROADCAST, false),
            [""; 0]
        );
        assert_eq!(wrong(&chain, &["adv_set_weight", "sandbox_patch_state"], Flags::CLOSED, true), [""; 0]);
        assert_eq!(
            wrong(&chain, &["EXPERIMENTAL_changes", "light_client_proof"], Flags::CLOSED, false),
            [""; 0]
        );
    }

    #[test]
    fn a_node_reports_its_height_and_whether_it_syncs() {
        let status = |syncing: &str| {
            format!(
                r#"{{"chain_id":"mainnet","sync_info":{{"latest_block_height":160000000,"syncing":{syncing}}}}}"#
            )
        };
        assert_eq!(Near.seen(status("false").as_bytes()), Some(NodeStatus::at(160_000_000)));
        assert_eq!(
            Near.seen(status("true").as_bytes()),
            Some(NodeStatus::at(160_000_000).with_syncing(true))
        );
        assert_eq!(Near.seen(b"{}"), None);
    }

    #[test]
    fn a_contracts_failure_inside_a_result_is_an_error() {
        assert!(Near.is_error(br#"{"block_height":1,"error":"wasm execution failed","logs":[]}"#));
        assert!(!Near.is_error(br#"{"block_height":1,"result":[34],"logs":["\"error\""]}"#));
    }

    #[test]
    fn a_block_that_an_operator_makes_cacheable_is_cached_forever_once_it_is_final() {
        let changes = ChainOverrides::default().with_cache("block", CacheRule::immutable(1));
        let chain = Chain::new(adapter(), changes, true, Arc::default());
        chain.head().set(100);
        let block =
            |height: u64| judged(&chain, "block", "{}", &format!(r#"{{"header":{{"height":{height}}}}}"#)).0;
        assert_eq!((block(98), block(99)), (Permanence::Yes, Permanence::NotYet));
    }
}
