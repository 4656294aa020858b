//! The network to which a node belongs, as the node shows it.
//!
//! A node of another network gives answers that are well formed and wrong. So a node is asked for its network before it gets its
//! first call, again when it can be reached after it could not be, and from time to time. One that shows another network gets
//! no call until it shows the right one. A node that does not show its network, because it does not know the question or does not
//! answer it, is not wrong.

use parking_lot::Mutex;
use rpcgate_core::adapter::{Adapter, NetworkProbe};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

/// Characters that are kept of a network's name.
const NAME: usize = 100;

/// The network to which a node has to belong.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ExpectedNetwork {
    /// That of its chain.
    #[default]
    OfChain,
    /// Any: the node is not asked.
    Any,
    /// The one that nodes show by this name.
    Named(String),
}

impl ExpectedNetwork {
    /// How nodes of the adapter's chain show that they belong to it; `None` if they are not asked.
    pub(super) fn probe(&self, adapter: &dyn Adapter) -> Option<NetworkProbe> {
        let probe = adapter.network()?;
        match self {
            ExpectedNetwork::Any => None,
            ExpectedNetwork::OfChain => Some(probe),
            ExpectedNetwork::Named(name) => Some(probe.with_expected(name)),
        }
    }
}

/// It is not asked for its network.
const NOT_ASKED: u8 = 0;
/// It has to be asked before its next call.
const UNKNOWN: u8 = 1;
/// It belongs to the expected network, or does not show its network.
const USABLE: u8 = 2;
/// It belongs to another one.
const WRONG: u8 = 3;

/// What is known of the network of a node. Reading it takes no lock.
#[derive(Debug, Default)]
pub(crate) struct NodeNetwork {
    /// One of the constants above.
    state: AtomicU8,
    wrong: Mutex<Option<Arc<WrongNetwork>>>,
    /// Whether it was found to be wrong since this was last asked.
    has_become_wrong: AtomicBool,
    /// Those who want to know it take turns, so that it is asked once for all of them.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// The questions for which no connection could be made.
    pub(super) failures: AtomicU32,
}

/// A network to which a node belongs although another one is expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WrongNetwork {
    pub(super) shown: String,
    pub(super) expected: String,
}

impl WrongNetwork {
    /// What a node has shown, and what this probe expects.
    pub(super) fn new(shown: &str, probe: &NetworkProbe) -> Self {
        let shown = shown.chars().filter(|char| !char.is_control()).take(NAME).collect();
        WrongNetwork { shown, expected: probe.expected.clone() }
    }
}

impl fmt::Display for WrongNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it belongs to network {}, and {} is expected", self.shown, self.expected)
    }
}

impl NodeNetwork {
    /// Has the node asked before its next call.
    pub(super) fn expect(&self) {
        let _ = self.state.compare_exchange(NOT_ASKED, UNKNOWN, Relaxed, Relaxed);
    }

    /// Whether it has to be asked before the node gets a call.
    #[inline]
    pub(super) fn is_unknown(&self) -> bool {
        self.state.load(Relaxed) == UNKNOWN
    }

    /// Whether it is another one than that of the chain.
    #[inline]
    pub(crate) fn is_wrong(&self) -> bool {
        self.state.load(Relaxed) == WRONG
    }

    /// The other network to which the node belongs.
    pub(super) fn wrong(&self) -> Option<Arc<WrongNetwork>> {
        self.wrong.lock().clone()
    }

    /// The node could not be reached: what answers at its address later may be another one.
    pub(super) fn forget(&self) {
        let _ = self.state.compare_exchange(USABLE, UNKNOWN, Relaxed, Relaxed);
    }

    /// Records the answer of the node to this probe; `None`: the node did not answer. A node that showed another network is
    /// excluded until it shows the right one.
    pub(super) fn record(&self, probe: &NetworkProbe, answer: Option<&[u8]>) -> NetworkFinding {
        let shown = match answer.map(|answer| probe.shown(answer)) {
            None | Some(Err(None)) => {
                let _ = self.state.compare_exchange(UNKNOWN, USABLE, Relaxed, Relaxed);
                return NetworkFinding::Same;
            }
            Some(Ok(())) => {
                *self.wrong.lock() = None;
                let before = self.state.swap(USABLE, Relaxed);
                return if before == WRONG { NetworkFinding::RightAgain } else { NetworkFinding::Same };
            }
            Some(Err(Some(shown))) => shown,
        };
        let wrong = Arc::new(WrongNetwork::new(&shown, probe));
        let before = self.wrong.lock().replace(wrong.clone());
        self.state.store(WRONG, Relaxed);
        if before.as_ref() == Some(&wrong) {
            return NetworkFinding::Same;
        }
        self.has_become_wrong.store(true, Relaxed);
        NetworkFinding::Wrong(wrong)
    }

    /// Whether it has become wrong since this was last called.
    pub(super) fn take_wrong(&self) -> bool {
        self.has_become_wrong.load(Relaxed) && self.has_become_wrong.swap(false, Relaxed)
    }
}

/// What an answer has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NetworkFinding {
    /// Nothing that is worth a line in the log.
    Same,
    /// The node belongs to another network.
    Wrong(Arc<WrongNetwork>),
    /// The node belonged to another network, and now to the expected one.
    RightAgain,
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::adapter::Probe;

    fn probe(expected: &ExpectedNetwork) -> NetworkProbe {
        let read = |answer: &[u8]| String::from_utf8(answer.to_vec()).ok().filter(|shown| !shown.is_empty());
        let call = Probe::Rpc { method: "toy_network", params: "[]" };
        let own = NetworkProbe { probe: call, expected: "56".into(), read };
        match expected {
            ExpectedNetwork::Named(name) => own.with_expected(name),
            _ => own,
        }
    }

    fn network() -> NodeNetwork {
        let network = NodeNetwork::default();
        network.expect();
        network
    }

    #[test]
    fn a_node_of_another_network_stays_wrong_until_it_shows_the_right_one() {
        let (network, probe) = (network(), probe(&ExpectedNetwork::OfChain));
        assert!(network.is_unknown() && !network.is_wrong());
        assert!(matches!(network.record(&probe, Some(b"1")), NetworkFinding::Wrong(_)));
        assert!(network.is_wrong() && network.take_wrong() && !network.take_wrong());
        for hidden in [None, Some(&b""[..])] {
            network.forget();
            assert_eq!((network.record(&probe, hidden), network.is_wrong()), (NetworkFinding::Same, true));
        }
        assert_eq!(network.record(&probe, Some(b"1")), NetworkFinding::Same, "it is reported once");
        assert!(matches!(network.record(&probe, Some(b"2")), NetworkFinding::Wrong(_)), "and if it differs");
        let shown = network.wrong().map(|wrong| wrong.to_string());
        assert_eq!(shown.as_deref(), Some("it belongs to network 2, and 56 is expected"));
        assert_eq!(network.record(&probe, Some(b"56")), NetworkFinding::RightAgain);
        assert!(!network.is_wrong() && !network.is_unknown() && network.wrong().is_none());
    }

    #[test]
    fn a_node_that_does_not_show_its_network_is_not_wrong_and_is_asked_again_after_it_was_gone() {
        for hidden in [None, Some(&b""[..])] {
            let network = network();
            network.record(&probe(&ExpectedNetwork::OfChain), hidden);
            assert!(!network.is_wrong() && !network.is_unknown());
            network.forget();
            assert!(network.is_unknown());
        }
    }

    #[test]
    fn an_operator_names_the_network_as_nodes_show_it_or_by_a_hexadecimal_number() {
        for name in ["97", "0x61"] {
            let (network, probe) = (network(), probe(&ExpectedNetwork::Named(name.into())));
            network.record(&probe, Some(b"97"));
            assert!(!network.is_wrong(), "{name}");
            network.record(&probe, Some(b"56"));
            assert!(network.is_wrong(), "{name}");
        }
    }
}
