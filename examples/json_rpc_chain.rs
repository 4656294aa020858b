//! How do I serve a JSON-RPC chain that is not in the catalog?
//!
//! With an [`Adapter`] in one file. The example is Starknet's, whose nodes report their height in one answer and their
//! syncing status in another. Path and title are parameters, so that they can come from your configuration.
//! `family_chain.rs` puts adapters into a gateway; `cargo run -p rpcgate-examples --example json_rpc_chain` prints the
//! table.

use rpcgate_chains::family::params::{member, number};
use rpcgate_core::prelude::*;

#[derive(Debug)]
struct Starknet(Facts);

fn starknet(path: &str, title: &str) -> Starknet {
    Starknet(Facts::json_rpc(intern(path), intern(title)).with_max_lag(5))
}

impl Adapter for Starknet {
    fn facts(&self) -> &Facts {
        &self.0
    }
    fn methods(&self) -> Vec<Method> {
        vec![
            Method::new("starknet_blockNumber", 1).cached(CacheRule::secs(2)),
            Method::new("starknet_getTransactionReceipt", 5).cached(CacheRule::immutable(5)),
            Method::new("starknet_getEvents", 75).marked(Flags::HEAVY),
            Method::new("starknet_addInvokeTransaction", 20).marked(Flags::BROADCAST),
        ]
    }
    fn settled(&self, call: CallView<'_>, result: &[u8], _: &Finality) -> Permanence {
        let is_final = member(result, "finality_status") == Some(br#""ACCEPTED_ON_L1""#.as_slice());
        let may_change = !is_final && matches!(call.rule.cache, CacheRule::Immutable { .. });
        if may_change { Permanence::NotYet } else { Permanence::Yes }
    }
    fn probe(&self) -> Probe {
        Probe::Rpc { method: "starknet_blockNumber", params: "[]" }
    }
    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        number(answer).map(NodeStatus::at)
    }
    fn second_probe(&self) -> Option<Probe> {
        Some(Probe::Rpc { method: "starknet_syncing", params: "[]" })
    }
    fn seen_second(&self, first: NodeStatus, answer: &[u8]) -> Option<NodeStatus> {
        Some(first.with_syncing(answer != b"false"))
    }
}

fn main() {
    rpcgate_examples::server::print_table(&starknet("starknet", "Starknet"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::cache_rule::CacheDecision;
    use std::sync::Arc;

    fn chain() -> Chain {
        Chain::deployed(Arc::new(starknet(&["stark", "net"].concat(), "Starknet")))
    }

    #[test]
    fn path_and_title_come_from_elsewhere() {
        let chain = chain();
        assert_eq!((chain.name().as_str(), chain.facts().title), ("starknet", "Starknet"));
        assert!(chain.facts().batch && !chain.facts().rest);
    }

    #[test]
    fn methods_have_weights_and_marks_and_any_other_costs_one_unit() {
        let chain = chain();
        let events = chain.look_up("starknet_getEvents").rule;
        assert_eq!((events.cu, events.flags), (75, Flags::HEAVY));
        assert!(chain.look_up("starknet_addInvokeTransaction").rule.flags.has(Flags::BROADCAST));
        assert_eq!(chain.look_up("starknet_getNonce").rule.cu, 1);
    }

    #[test]
    fn a_receipt_is_cached_forever_once_ethereum_has_it() {
        let chain = chain();
        let keep = |receipt: &str| {
            let rule = chain.look_up("starknet_getTransactionReceipt").rule;
            let call = CallView::new(chain.name(), "starknet_getTransactionReceipt", rule);
            let settled = chain.adapter().settled(call, receipt.as_bytes(), chain.finality());
            rule.cache.keep(settled == Permanence::Yes)
        };
        assert_eq!(keep(r#"{"finality_status":"ACCEPTED_ON_L1","block_number":7}"#), CacheDecision::Forever);
        assert!(matches!(
            keep(r#"{"finality_status":"ACCEPTED_ON_L2","block_number":7}"#),
            CacheDecision::For(_)
        ));
    }

    #[test]
    fn a_node_reports_its_status_in_two_answers() {
        let chain = starknet("starknet", "Starknet");
        let first = chain.seen(b"900000").expect("a height");
        assert_eq!(chain.seen_second(first, b"false"), Some(NodeStatus::at(900_000)));
        let syncing = chain.seen_second(first, br#"{"current_block_num":900000}"#);
        assert_eq!(syncing, Some(NodeStatus::at(900_000).with_syncing(true)));
        assert_eq!(chain.seen(b"null"), None);
    }
}
