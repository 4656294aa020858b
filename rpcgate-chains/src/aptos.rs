//! Aptos, `/aptos`: the REST API of a full node, below `/v1`.

#[cfg(feature = "events")]
mod blocks;
#[cfg(feature = "events")]
mod shapes;
#[cfg(feature = "events")]
mod transaction;

use crate::family::params::{member, number};
use crate::family::{UnservedErrors, says};
use http::Method as Verb;
use rpcgate_core::adapter::{
    Adapter, NetworkProbe, NodeError, NodeStatus, Permanence, Probe, Surface, Unserved,
};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Facts, Finality, Flags, Method, MethodRule};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::rest::{Path, RestLine};
use std::sync::Arc;
use std::time::Duration;

/// A committed version is final.
static FACTS: Facts =
    Facts::rest("aptos", "Aptos").with_max_lag(120).with_block_time(Duration::from_millis(250));

/// The paths that submit transactions. A post to any other path only computes something.
const SUBMITTED: &[&str] = &["/v1/transactions", "/v1/transactions/batch"];

/// The Aptos adapter.
#[derive(Clone, Copy, Debug)]
pub struct Aptos;

/// The error codes of the REST API; 503 means that a node is too far behind.
const UNSERVED: UnservedErrors = UnservedErrors {
    own: &[],
    node: (&[], &[]),
    method: (&[], &["\"internal_error\""]),
    data: (&[], &["\"version_pruned\"", "\"block_pruned\""]),
};

impl Adapter for Aptos {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn surface(&self, verb: &Verb, path: &Path) -> Result<Surface, Refusal> {
        if path.segments().next() != Some("v1") {
            return Err(Refusal::NoRoute);
        }
        match *verb {
            Verb::GET | Verb::HEAD | Verb::POST => Ok(Surface::Rest),
            _ => Err(Refusal::MethodNotAllowed { allow: "GET, POST, OPTIONS" }),
        }
    }

    fn methods(&self) -> Vec<Method> {
        // These names read by GET and submit by POST.
        let both = |name| Method::new(name, 1).marked(Flags::COMMANDS);
        vec![
            both("transactions"),
            both("batch"),
            Method::new("view", 1),
            Method::new("estimate_gas_price", 1),
        ]
    }

    fn narrow(&self, call: CallView<'_>) -> MethodRule {
        let mut rule = call.rule;
        let line = RestLine::read(call.params);
        if line.verb == "POST" && SUBMITTED.contains(&line.path) {
            rule.flags = rule.flags.and(Flags::BROADCAST);
        }
        rule
    }

    /// Versions, heights and the cursor of the next page.
    fn reply_headers(&self) -> &'static [&'static str] {
        &["x-aptos-*"]
    }

    fn settled(&self, call: CallView<'_>, _: &[u8], _: &Finality) -> Permanence {
        if matches!(call.rule.cache, CacheRule::Immutable { .. }) {
            Permanence::NotYet
        } else {
            Permanence::Yes
        }
    }

    /// The error codes at status 410.
    fn lacks_history(&self, answer: &[u8]) -> bool {
        says(answer, &["version_pruned", "block_pruned"])
    }

    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        UNSERVED.judge(error)
    }

    fn probe(&self) -> Probe {
        Probe::Rest { target: "/v1", body: None }
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        member(answer, "block_height").and_then(number).map(NodeStatus::at)
    }

    fn network(&self) -> Option<NetworkProbe> {
        let probe = self.probe();
        Some(NetworkProbe {
            probe,
            expected: "1".into(),
            read: |answer| member(answer, "chain_id").and_then(number).map(|id| id.to_string()),
        })
    }

    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn rpcgate_core::event::BlockReader> {
        Some(self)
    }
}

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(Aptos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::at as chain_at;

    #[test]
    fn only_paths_below_v1_are_served() {
        let at = |verb, path| Aptos.surface(&verb, &Path::canonical(path).unwrap());
        for path in ["/v1", "/v1/", "/v1/accounts/0x1", "/v1/blocks/by_height/7", "/v1/view", "/v1/-/healthy"]
        {
            assert!(matches!(at(Verb::GET, path), Ok(Surface::Rest)), "{path}");
            assert!(matches!(at(Verb::POST, path), Ok(Surface::Rest)), "{path}");
        }
        for path in ["", "/v2", "/v1x", "/graphql", "/accounts/0x1"] {
            assert_eq!(at(Verb::GET, path).err(), Some(Refusal::NoRoute), "{path}");
        }
        assert!(matches!(at(Verb::DELETE, "/v1"), Err(Refusal::MethodNotAllowed { .. })));
    }

    #[test]
    fn a_posted_submission_is_a_broadcast() {
        let chain = chain_at(Aptos, 0);
        let is_broadcast = |name: &'static str, line: &str| {
            let call =
                CallView::new(chain.name(), name, chain.look_up(name).rule).with_params(line.as_bytes());
            chain.adapter().narrow(call).flags.has(Flags::BROADCAST)
        };
        assert!(is_broadcast("transactions", "POST /v1/transactions"));
        assert!(is_broadcast("batch", "POST /v1/transactions/batch"));
        assert!(!is_broadcast("transactions", "GET /v1/transactions?limit=1"));
        assert!(!is_broadcast("transactions", "GET /v1/accounts/0x1/transactions"));
        assert!(!is_broadcast("simulate", "POST /v1/transactions/simulate"));
    }

    #[test]
    fn a_node_reports_its_block_height() {
        let ledger = br#"{"chain_id":1,"ledger_version":"2900000000","block_height":"350000000"}"#;
        assert_eq!(Aptos.seen(ledger), Some(NodeStatus::at(350_000_000)));
        assert_eq!(Aptos.seen(b"{}"), None);
    }
}
