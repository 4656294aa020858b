//! Stellar, `/xlm`: three status reads of a core node, and no other path.

#[cfg(feature = "events")]
mod blocks;

use crate::family::UnservedErrors;
use crate::family::params::{at, number};
use http::Method as Verb;
use rpcgate_core::adapter::{
    Adapter, NetworkProbe, NodeError, NodeStatus, Permanence, Probe, Surface, Unserved,
};
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Facts, Finality, Method};
use rpcgate_core::json::unescape;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::rest::Path;
use std::sync::Arc;
use std::time::Duration;

/// A closed ledger is final.
static FACTS: Facts = Facts::rest("xlm", "Stellar")
    .with_aliases(&["stellar"])
    .with_max_lag(6)
    .with_block_time(Duration::from_secs(5));

/// The Stellar adapter.
#[derive(Clone, Copy, Debug)]
pub struct Xlm;

impl Adapter for Xlm {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn methods(&self) -> Vec<Method> {
        vec![Method::new("info", 1), Method::new("metrics", 1), Method::new("quorum", 1)]
    }

    /// A core node's port also accepts commands that control it, so only listed paths are served.
    fn surface(&self, verb: &Verb, path: &Path) -> Result<Surface, Refusal> {
        match (verb, path.as_str()) {
            (&Verb::GET | &Verb::HEAD, "/info" | "/metrics" | "/quorum") => Ok(Surface::Rest),
            _ => Err(Refusal::NoRoute),
        }
    }

    fn settled(&self, call: CallView<'_>, _: &[u8], _: &Finality) -> Permanence {
        if matches!(call.rule.cache, CacheRule::Immutable { .. }) {
            Permanence::NotYet
        } else {
            Permanence::Yes
        }
    }

    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        UnservedErrors::COMMON.judge(error)
    }

    fn probe(&self) -> Probe {
        Probe::Rest { target: "/info", body: None }
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        let height = at(answer, &["info", "ledger", "num"]).and_then(number)?;
        let state = at(answer, &["info", "state"]).and_then(unescape)?;
        Some(NodeStatus::at(height).with_syncing(!state.starts_with("Synced")))
    }

    fn network(&self) -> Option<NetworkProbe> {
        let expected = "Public Global Stellar Network ; September 2015".into();
        let read = |answer: &[u8]| at(answer, &["info", "network"]).and_then(unescape).map(Into::into);
        Some(NetworkProbe { probe: self.probe(), expected, read })
    }

    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn rpcgate_core::event::BlockReader> {
        Some(self)
    }
}

/// Returns the adapter.
pub fn adapter() -> Arc<dyn Adapter> {
    Arc::new(Xlm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_paths_are_served_and_no_others() {
        let at = |verb, path| Xlm.surface(&verb, &Path::canonical(path).unwrap());
        for path in ["/info", "/metrics", "/quorum"] {
            assert!(matches!(at(Verb::GET, path), Ok(Surface::Rest)), "{path}");
            assert_eq!(at(Verb::POST, path).err(), Some(Refusal::NoRoute), "{path}");
        }
        for path in ["", "/", "/tx", "/Info", "/info/x", "/ll", "/setcursor", "/manualclose", "/accounts/G"] {
            assert_eq!(at(Verb::GET, path).err(), Some(Refusal::NoRoute), "{path}");
        }
    }

    #[test]
    fn a_node_reports_its_ledger_and_whether_it_is_synced() {
        let info =
            |state: &str| format!(r#"{{"info":{{"ledger":{{"age":3,"num":58000000}},"state":"{state}"}}}}"#);
        assert_eq!(Xlm.seen(info("Synced!").as_bytes()), Some(NodeStatus::at(58_000_000)));
        let catching_up = NodeStatus::at(58_000_000).with_syncing(true);
        assert_eq!(Xlm.seen(info("Catching up").as_bytes()), Some(catching_up));
        assert_eq!(Xlm.seen(br#"{"info":{}}"#), None);
    }
}
