//! Solana, `/solana`: a stream, and no calls over HTTPS yet.

#[cfg(feature = "events")]
mod blocks;
#[cfg(feature = "events")]
mod program;
#[cfg(feature = "events")]
mod shapes;
#[cfg(feature = "events")]
mod transaction;

use crate::family::params::number;
use crate::family::{UnservedErrors, says};
use rpcgate_core::adapter::{Adapter, NetworkProbe, NodeError, NodeStatus, Permanence, Probe, Unserved};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Facts, Finality, Method};
use rpcgate_core::json::unescape;
use std::sync::Arc;
use std::time::Duration;

/// A slot is rooted, and so final, once 31 more have been voted on.
static FACTS: Facts = Facts::json_rpc("solana", "Solana")
    .with_https(false)
    .with_batch(false)
    .with_ws(true)
    .with_final_depth(31)
    .with_max_lag(75)
    .with_block_time(Duration::from_millis(400));

/// The Solana adapter.
#[derive(Clone, Copy, Debug)]
pub struct Solana;

/// The codes of Agave's `custom_error.rs`: an unhealthy node, a missing block or history, a missing index, a slot that
/// it has not reached.
const UNSERVED: UnservedErrors = UnservedErrors {
    own: &[],
    node: (&[-32005], &[]),
    method: (&[-32603, -32010], &[]),
    data: (&[-32001, -32004, -32009, -32011, -32014, -32016], &[]),
};

impl Adapter for Solana {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }

    fn settled(&self, call: CallView<'_>, _: &[u8], _: &Finality) -> Permanence {
        if matches!(call.rule.cache, CacheRule::Immutable { .. }) {
            Permanence::NotYet
        } else {
            Permanence::Yes
        }
    }

    /// The words of errors -32001 (cleaned up), -32007 (missing after a snapshot) and -32011 (no history).
    fn lacks_history(&self, answer: &[u8]) -> bool {
        says(
            answer,
            &["cleaned up, does not exist on node", "missing due to ledger jump", "history is not available"],
        )
    }

    /// A transaction that is in a block.
    fn is_known_transaction(&self, answer: &[u8]) -> bool {
        says(answer, &["already been processed"])
    }

    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        UNSERVED.judge(error)
    }

    fn probe(&self) -> Probe {
        Probe::Rpc { method: "getSlot", params: "[]" }
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        number(answer.trim_ascii()).map(NodeStatus::at)
    }

    fn network(&self) -> Option<NetworkProbe> {
        // The hash of the first block.
        let expected = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d".into();
        let probe = Probe::Rpc { method: "getGenesisHash", params: "[]" };
        let read = |answer: &[u8]| {
            let is_hash = |text: &String| {
                (32..=44).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
            };
            unescape(answer.trim_ascii()).map(String::from).filter(is_hash)
        };
        Some(NetworkProbe { probe, expected, read })
    }

    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn rpcgate_core::event::BlockReader> {
        Some(self)
    }
}

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(Solana)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_stream_alone() {
        assert!(FACTS.ws && !FACTS.https);
    }

    #[test]
    fn a_node_reports_its_slot() {
        assert_eq!(Solana.seen(b"360000000"), Some(NodeStatus::at(360_000_000)));
        assert_eq!(Solana.seen(b"null"), None);
    }
}
