//! The network to which a node belongs, according to the node.
//!
//! A node on another network gives answers that are well formed and wrong. So a node is asked for its network before
//! its first call, again when it can be reached after a failure to connect, and from time to time. A node that shows
//! another network gets no call until it shows the right one. A node is not wrong if it does not know the question or
//! does not answer it.

use parking_lot::Mutex;
use rpcgate_core::adapter::{Adapter, NetworkProbe};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

/// The maximum length of a network name, in characters.
const NAME: usize = 100;

/// The network to which a node has to belong.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ExpectedNetwork {
    /// The network of its chain.
    #[default]
    OfChain,
    /// Any network: the node is not asked.
    Any,
    /// The network with this name, as nodes show it.
    Named(String),
}

impl ExpectedNetwork {
    /// Returns the probe for the network of a node; `None` if nodes are not asked.
    pub(super) fn probe(&self, adapter: &dyn Adapter) -> Option<NetworkProbe> {
        let probe = adapter.network()?;
        match self {
            ExpectedNetwork::Any => None,
            ExpectedNetwork::OfChain => Some(probe),
            ExpectedNetwork::Named(name) => Some(probe.with_expected(name)),
        }
    }
}

const NOT_QUERIED: u8 = 0;
const UNKNOWN: u8 = 1;
/// The node belongs to the expected network, or does not show its network.
const USABLE: u8 = 2;
const WRONG: u8 = 3;

/// The known network of a node. Reading it takes no lock.
#[derive(Debug, Default)]
pub(crate) struct NodeNetwork {
    state: AtomicU8,
    wrong: Mutex<Option<Arc<WrongNetwork>>>,
    /// True if a wrong network was found since the last call of `take_wrong`.
    has_become_wrong: AtomicBool,
    /// A lock for those that ask, so that the node is asked once for all of them.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// The number of failed connections for this question.
    pub(super) failures: AtomicU32,
}

/// The network that a node shows, and the expected one that it differs from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WrongNetwork {
    pub(super) shown: String,
    pub(super) expected: String,
}

impl WrongNetwork {
    /// Creates it from the shown name, without control characters and cut to `NAME`, and from the probe.
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
    /// Requires that the node is asked before its next call.
    pub(super) fn expect(&self) {
        let _ = self.state.compare_exchange(NOT_QUERIED, UNKNOWN, Relaxed, Relaxed);
    }

    #[inline]
    pub(super) fn is_unknown(&self) -> bool {
        self.state.load(Relaxed) == UNKNOWN
    }

    #[inline]
    pub(crate) fn is_wrong(&self) -> bool {
        self.state.load(Relaxed) == WRONG
    }

    pub(super) fn wrong(&self) -> Option<Arc<WrongNetwork>> {
        self.wrong.lock().clone()
    }

    /// Forgets a right answer, because the node could not be reached: another node may answer at its address later.
    pub(super) fn forget(&self) {
        let _ = self.state.compare_exchange(USABLE, UNKNOWN, Relaxed, Relaxed);
    }

    /// Records the answer of the node to this probe; `None` if the node did not answer. A node that showed another
    /// network is excluded until it shows the right one.
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

    /// Reports whether a wrong network was found since the last call of this function.
    pub(super) fn take_wrong(&self) -> bool {
        self.has_become_wrong.load(Relaxed) && self.has_become_wrong.swap(false, Relaxed)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NetworkFinding {
    /// No change that is worth a line in the log.
    Same,
    /// The node belongs to another network.
    Wrong(Arc<WrongNetwork>),
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

    // Shows (Nodes and cache).
    #[test]
    fn a_node_of_another_network_stays_wrong_until_it_shows_the_right_one() {
        let network = network();
        let probe = probe(&ExpectedNetwork::OfChain);
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

    // Shows (Nodes and cache).
    #[test]
    fn a_node_that_hides_its_network_is_not_wrong_and_is_asked_again_after_an_outage() {
        for hidden in [None, Some(&b""[..])] {
            let network = network();
            network.record(&probe(&ExpectedNetwork::OfChain), hidden);
            assert!(!network.is_wrong() && !network.is_unknown());
            network.forget();
            assert!(network.is_unknown());
        }
    }

    // Shows (Nodes and cache).
    #[test]
    fn an_operator_names_the_network_as_nodes_show_it_or_by_a_hexadecimal_number() {
        for name in ["97", "0x61"] {
            let network = network();
            let probe = probe(&ExpectedNetwork::Named(name.into()));
            network.record(&probe, Some(b"97"));
            assert!(!network.is_wrong(), "{name}");
            network.record(&probe, Some(b"56"));
            assert!(network.is_wrong(), "{name}");
        }
    }
}
