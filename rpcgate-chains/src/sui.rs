//! Sui, `/sui`: JSON-RPC 2.0 of a full node.

#[cfg(feature = "events")]
mod address;
#[cfg(feature = "events")]
mod blocks;
#[cfg(feature = "events")]
mod shapes;

use crate::family::UnservedErrors;
use crate::family::params::number;
use rpcgate_core::adapter::{Adapter, NetworkProbe, NodeError, NodeStatus, Permanence, Probe, Unserved};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Facts, Finality, Flags, Method};
use rpcgate_core::json::unescape;
use std::sync::Arc;
use std::time::Duration;

/// A certified checkpoint is final.
static FACTS: Facts =
    Facts::json_rpc("sui", "Sui").with_max_lag(120).with_block_time(Duration::from_millis(250));

const METHODS: &[Method] = &[
    Method::new("sui_getReferenceGasPrice", 0),
    Method::new("suix_getReferenceGasPrice", 0).metered_as("sui_getReferenceGasPrice"),
    Method::new("sui_getLatestCheckpointSequenceNumber", 1),
    Method::new("sui_getTotalTransactionBlocks", 1),
    Method::new("sui_getChainIdentifier", 1),
    Method::new("sui_getObject", 5),
    Method::new("sui_getTransactionBlock", 5),
    Method::new("sui_multiGetTransactionBlocks", 10),
    Method::new("sui_dryRunTransactionBlock", 15),
    Method::new("sui_devInspectTransactionBlock", 15),
    Method::new("sui_executeTransactionBlock", 20).marked(Flags::BROADCAST),
    Method::new("suix_getBalance", 1),
];

/// The Sui adapter.
#[derive(Clone, Copy, Debug)]
pub struct Sui;

/// The codes of Sui's JSON-RPC: a transient error, and an internal one, which a node that restores its database also
/// returns.
const UNSERVED: UnservedErrors = UnservedErrors {
    own: &["could not find", "not found", "invalid", "verification"],
    node: (&[-32050], &[]),
    method: (&[-32603], &[]),
    data: (&[], &[]),
};

impl Adapter for Sui {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn methods(&self) -> Vec<Method> {
        METHODS.to_vec()
    }

    /// The version of the node's API and its height.
    fn reply_headers(&self) -> &'static [&'static str] {
        &["x-sui-*"]
    }

    fn settled(&self, call: CallView<'_>, result: &[u8], _: &Finality) -> Permanence {
        match call.rule.cache {
            _ if result.trim_ascii() == b"null" => Permanence::Unknown,
            CacheRule::Immutable { .. } => Permanence::NotYet,
            _ => Permanence::Yes,
        }
    }

    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        UNSERVED.judge(error)
    }

    fn probe(&self) -> Probe {
        Probe::Rpc { method: "sui_getLatestCheckpointSequenceNumber", params: "[]" }
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        number(answer.trim_ascii()).map(NodeStatus::at)
    }

    fn network(&self) -> Option<NetworkProbe> {
        // The first bytes of the digest of the first checkpoint.
        let probe = Probe::Rpc { method: "sui_getChainIdentifier", params: "[]" };
        Some(NetworkProbe {
            probe,
            expected: "35834a8a".into(),
            read: |answer| {
                let is_digest =
                    |text: &String| text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                unescape(answer.trim_ascii()).map(String::from).filter(is_digest)
            },
        })
    }

    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn rpcgate_core::event::BlockReader> {
        Some(&blocks::SuiBlocks)
    }
}

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(Sui)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at as chain_at, wrong};
    use rpcgate_core::chain::{Chain, ChainOverrides};

    #[test]
    fn the_gas_price_is_metered_under_one_name() {
        let chain = chain_at(Sui, 0);
        for sent in ["suix_getReferenceGasPrice", "sui_getReferenceGasPrice"] {
            assert_eq!(chain.look_up(sent).metered, Some("sui_getReferenceGasPrice"), "{sent}");
        }
    }

    #[test]
    fn an_operators_weight_of_the_metered_name_applies_to_all_gas_price_spellings() {
        let cu = vec![("sui_getReferenceGasPrice".into(), 3)];
        let weighed = |cu| {
            let changes = ChainOverrides { cu, ..ChainOverrides::default() };
            Chain::new(adapter(), changes, true, Arc::default())
        };
        for sent in ["suix_getReferenceGasPrice", "sui_getReferenceGasPrice"] {
            assert_eq!(weighed(cu.clone()).look_up(sent).rule.cu, 3, "{sent}");
        }
        for both in [
            vec![("suix_getReferenceGasPrice".into(), 7), ("sui_getReferenceGasPrice".into(), 3)],
            vec![("sui_getReferenceGasPrice".into(), 3), ("suix_getReferenceGasPrice".into(), 7)],
        ] {
            let chain = weighed(both);
            assert_eq!(chain.look_up("suix_getReferenceGasPrice").rule.cu, 7);
            assert_eq!(chain.look_up("sui_getReferenceGasPrice").rule.cu, 3);
        }
    }

    #[test]
    fn executing_is_a_broadcast_and_a_dry_run_is_not() {
        let chain = chain_at(Sui, 0);
        assert_eq!(wrong(&chain, &["sui_executeTransactionBlock"], Flags::BROADCAST, true), [""; 0]);
        let tries = ["sui_dryRunTransactionBlock", "sui_devInspectTransactionBlock"];
        assert_eq!(wrong(&chain, &tries, Flags::BROADCAST, false), [""; 0]);
    }

    #[test]
    fn a_node_reports_its_latest_checkpoint() {
        assert_eq!(Sui.seen(b"\"210000000\""), Some(NodeStatus::at(210_000_000)));
        assert_eq!(Sui.seen(b"null"), None);
    }
}
