//! Cardano, `/cardano`: Ogmios' JSON-RPC 2.0, which repeats the method's name in every answer.

#[cfg(feature = "events")]
mod address;
#[cfg(feature = "events")]
mod blocks;
#[cfg(feature = "events")]
mod shapes;
#[cfg(feature = "events")]
mod transaction;

use crate::family::params::number;
use crate::family::{Closing, UnservedErrors, listed, marks};
use http::Method as Verb;
use rpcgate_core::adapter::{
    Adapter, ClosedMethods, NetworkProbe, NodeError, NodeStatus, Permanence, Probe, Surface, Unserved, posted,
};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Dialect, Facts, Finality, Flags, Method, MethodRule};
use rpcgate_core::json::unescape;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::rest::Path;
use std::sync::Arc;
use std::time::Duration;

/// Ouroboros Praos never rolls back more than its security parameter, 2,160 blocks.
static FACTS: Facts = Facts::json_rpc("cardano", "Cardano")
    .with_dialect(Dialect::Ogmios)
    .with_ws(true)
    .with_final_depth(2_160)
    .with_block_time(Duration::from_secs(20));

const METHODS: &[Method] = &[
    Method::new("queryNetwork/tip", 1),
    Method::new("queryNetwork/blockHeight", 1),
    Method::new("queryNetwork/startTime", 1),
    Method::new("queryLedgerState/epoch", 1),
    Method::new("queryLedgerState/protocolParameters", 1).cached(CacheRule::secs(30)),
    Method::new("queryLedgerState/utxo", 1),
    Method::new("queryLedgerState/stakePools", 1),
    Method::new("queryLedgerState/rewardsProvenance", 1),
    Method::new("submitTransaction", 1).marked(Flags::BROADCAST),
    Method::new("evaluateTransaction", 1),
];

/// Calls that wait or hold state (`nextBlock`, `acquireLedgerState`, `acquireMempool`) stay open. The stream exists for
/// them, and over HTTPS Ogmios opens a session for each call and answers it at once.
const CLOSED: &[Closing] = &[Closing::new(
    &["queryLedgerState/dump"],
    "It writes the whole ledger state into the file on the node's machine that its parameters name",
)];

/// The Cardano adapter.
#[derive(Clone, Copy, Debug)]
pub struct Cardano;

/// The codes of Ogmios: internal errors, and points that a node cannot acquire.
const UNSERVED: UnservedErrors =
    UnservedErrors { own: &[], node: (&[], &[]), method: (&[-32603], &[]), data: (&[2000], &[]) };

impl Adapter for Cardano {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    /// Ogmios' official client reads `/health` before it opens a stream.
    fn surface(&self, verb: &Verb, path: &Path) -> Result<Surface, Refusal> {
        match (path.as_str(), verb) {
            ("/health", &(Verb::GET | Verb::HEAD)) => Ok(Surface::Rest),
            ("/health", _) => Err(Refusal::MethodNotAllowed { allow: "GET, OPTIONS" }),
            _ => posted(verb, path),
        }
    }

    fn methods(&self) -> Vec<Method> {
        METHODS.to_vec()
    }

    fn unlisted(&self, method: &str) -> MethodRule {
        MethodRule::UNLISTED.marked(marks(CLOSED, method))
    }

    fn closed(&self) -> Vec<ClosedMethods> {
        listed(CLOSED)
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
        Probe::Rpc { method: "queryNetwork/blockHeight", params: "" }
    }

    /// A node without blocks is at `"origin"`.
    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        match answer.trim_ascii() {
            b"\"origin\"" => Some(NodeStatus::at(0)),
            height => number(height).map(NodeStatus::at),
        }
    }

    fn network(&self) -> Option<NetworkProbe> {
        // The test networks began at other times.
        let probe = Probe::Rpc { method: "queryNetwork/startTime", params: "" };
        Some(NetworkProbe {
            probe,
            expected: "2017-09-23T21:44:51Z".into(),
            read: |answer| {
                let is_time = |text: &String| {
                    text.contains('T') && text.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
                };
                unescape(answer.trim_ascii()).map(String::from).filter(is_time)
            },
        })
    }

    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn rpcgate_core::event::BlockReader> {
        Some(self)
    }
}

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(Cardano)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::{at as chain_at, judged, wrong};
    use rpcgate_core::cache_rule::CacheDecision;
    use std::time::Duration;

    #[test]
    fn submitting_is_a_broadcast_and_evaluating_is_not() {
        let chain = chain_at(Cardano, 0);
        assert_eq!(wrong(&chain, &["submitTransaction"], Flags::BROADCAST, true), [""; 0]);
        assert_eq!(wrong(&chain, &["evaluateTransaction"], Flags::BROADCAST, false), [""; 0]);
    }

    // Shows (Limits, budget and quota).
    #[test]
    fn methods_that_write_files_at_the_node_are_closed_and_those_for_streams_are_open() {
        let chain = chain_at(Cardano, 0);
        assert_eq!(wrong(&chain, &["queryLedgerState/dump"], Flags::CLOSED, true), [""; 0]);
        let open =
            ["nextBlock", "findIntersection", "acquireLedgerState", "acquireMempool", "queryLedgerState/tip"];
        assert_eq!(wrong(&chain, &open, Flags::CLOSED, false), [""; 0]);
    }

    #[test]
    fn protocol_parameters_are_cached_half_a_minute() {
        let (_, keep) = judged(&chain_at(Cardano, 0), "queryLedgerState/protocolParameters", "", "{}");
        assert_eq!(keep, CacheDecision::For(Duration::from_secs(30)));
    }

    #[test]
    fn a_node_reports_its_height_or_that_it_is_at_the_origin() {
        assert_eq!(Cardano.seen(b"12300000"), Some(NodeStatus::at(12_300_000)));
        assert_eq!(Cardano.seen(b"\"origin\""), Some(NodeStatus::at(0)));
        assert_eq!(Cardano.seen(b"{}"), None);
    }
}
