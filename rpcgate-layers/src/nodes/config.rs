//! The configuration of one node: its addresses, credentials, limits and priority.

use super::dialer::Dialer;
use super::drain::NodeDrain;
use super::network::ExpectedNetwork;
use super::node_digits::NodeDigits;
use super::spending::NodeSpending;
use super::url::NodeUrl;
use http::{HeaderName, HeaderValue};
use rpcgate_core::chain::{NodeAllowance, NodeMethods};
use rpcgate_core::tally::Transport;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::fmt;
use std::sync::Arc;

/// The configuration of a node: one address for each protocol, with the same credentials for all of them.
///
/// ```
/// use rpcgate_core::tally::Transport;
/// use rpcgate_layers::nodes::{NodeConfig, NodeUrl};
///
/// let node = NodeConfig::new("http://10.0.0.1:8545".parse()?)
///     .with_address(NodeUrl::parse("ws://10.0.0.1:8546", Transport::Ws)?);
/// assert_eq!(node.address(Transport::Ws).map(ToString::to_string).as_deref(), Some("ws://10.0.0.1:8546"));
/// assert!(node.address(Transport::Grpc).is_none());
/// assert_eq!(node.name().to_string(), "http://10.0.0.1:8545");
/// # Ok::<(), rpcgate_layers::nodes::BadUrl>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct NodeConfig {
    /// Headers that every request to the node carries. They replace the gateway's own headers of the same name. Framing
    /// and hop-by-hop headers are left out.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The maximum number of calls in one array; `None` for the maximum of the chain.
    pub max_batch: Option<usize>,
    /// The priority: nodes with a lower number are used first. A node with a higher number is used if none of them is
    /// healthy.
    pub priority: u32,
    /// The methods that the node takes.
    pub methods: NodeMethods,
    /// True if the node keeps states and blocks that others have pruned. It comes after the other nodes, and answers
    /// reads for which another node [lacks the history](rpcgate_core::adapter::Adapter::lacks_history).
    pub is_archive: bool,
    /// The network to which the node has to belong.
    pub network: ExpectedNetwork,
    /// The drain state, which an operator sets.
    pub drain: NodeDrain,
    pub(crate) dialer: Option<Arc<dyn Dialer>>,
    /// The call limits and prices of the node. If any node of a pool has a limit or a price, only the first 64 nodes of
    /// the pool get calls.
    pub allowance: NodeAllowance,
    /// The number of calls that the node has got. They are counted if the node has an allowance.
    pub spending: NodeSpending,
    /// Certificate authorities that are trusted in addition to the public ones.
    pub(crate) roots: Vec<CertificateDer<'static>>,
    /// The address passed to `new`, which is also the node's name.
    pub(crate) first: NodeUrl,
    pub(crate) others: Vec<NodeUrl>,
    /// The node's name in the ids of state that only this node has, such as filters.
    pub(crate) digits: NodeDigits,
}

impl NodeConfig {
    /// Creates a node with the address `url` and without options. The URL is also its name.
    pub fn new(url: NodeUrl) -> Self {
        NodeConfig {
            digits: NodeDigits::of(&url.to_string(), 0),
            headers: Vec::new(),
            max_batch: None,
            priority: 0,
            methods: NodeMethods::default(),
            is_archive: false,
            network: ExpectedNetwork::default(),
            drain: NodeDrain::default(),
            dialer: None,
            allowance: NodeAllowance::default(),
            spending: NodeSpending::default(),
            roots: Vec::new(),
            first: url,
            others: Vec::new(),
        }
    }

    /// Adds an address, or replaces the address of the same protocol.
    #[must_use]
    pub fn with_address(mut self, url: NodeUrl) -> Self {
        let mut known = std::iter::once(&mut self.first).chain(&mut self.others);
        match known.find(|known| known.transport == url.transport) {
            Some(known) => *known = url,
            None => self.others.push(url),
        }
        self
    }

    /// Sets the methods that the node takes.
    #[must_use]
    pub fn with_methods(mut self, methods: NodeMethods) -> Self {
        self.methods = methods;
        self
    }

    /// Sets whether the node keeps the history that others have pruned.
    #[must_use]
    pub fn with_archive(mut self, is_archive: bool) -> Self {
        self.is_archive = is_archive;
        self
    }

    /// Sets the network to which the node has to belong.
    #[must_use]
    pub fn with_network(mut self, network: ExpectedNetwork) -> Self {
        self.network = network;
        self
    }

    /// Sets the drain state.
    #[must_use]
    pub fn with_drain(mut self, drain: NodeDrain) -> Self {
        self.drain = drain;
        self
    }

    /// Sets the dialer that opens connections to the node.
    #[must_use]
    pub fn with_dialer(mut self, dialer: Arc<dyn Dialer>) -> Self {
        self.dialer = Some(dialer);
        self
    }

    /// Sets the call limits and prices of the node. Its calls are counted in `spending`.
    #[must_use]
    pub fn with_allowance(mut self, allowance: NodeAllowance, spending: NodeSpending) -> Self {
        (self.allowance, self.spending) = (allowance, spending);
        self
    }

    /// Returns the node's address for this protocol, if it has one.
    pub fn address(&self, transport: Transport) -> Option<&NodeUrl> {
        std::iter::once(&self.first).chain(&self.others).find(|url| url.transport == transport)
    }

    pub(super) fn has_one_address(&self) -> bool {
        self.others.is_empty()
    }

    /// Returns the node's name in logs and views: its first address, with secrets masked.
    pub fn name(&self) -> &NodeUrl {
        &self.first
    }

    /// Trusts the certificate authorities in `pem` in addition to the public ones.
    ///
    /// # Errors
    /// [`BadRoots`] if `pem` has no certificate, or a certificate that cannot be used as an authority.
    pub fn trusting(mut self, pem: &[u8]) -> Result<Self, BadRoots> {
        let before = self.roots.len();
        let mut store = rustls::RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(pem) {
            let root = root.map_err(|_| BadRoots)?;
            store.add(root.clone()).map_err(|_| BadRoots)?;
            self.roots.push(root);
        }
        if self.roots.len() == before { Err(BadRoots) } else { Ok(self) }
    }
}

impl fmt::Debug for NodeConfig {
    /// Shows header names without their values, which are often credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeConfig")
            .field("first", &self.first)
            .field("others", &self.others)
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("max_batch", &self.max_batch)
            .field("priority", &self.priority)
            .field("methods", &self.methods)
            .field("is_archive", &self.is_archive)
            .field("network", &self.network)
            .field("drain", &self.drain)
            .field("dialer", &self.dialer)
            .field("allowance", &self.allowance)
            .field("roots", &self.roots.len())
            .finish()
    }
}

/// Gives each node digits that no other node of the pool has. Nodes with the same name, which differ only in their
/// keys, differ by their order.
pub(crate) fn make_distinct(nodes: &mut [NodeConfig]) {
    for at in 0..nodes.len() {
        let (before, rest) = nodes.split_at_mut(at);
        let Some(node) = rest.first_mut() else { return };
        let name = node.name().to_string();
        let is_free = |digits: &NodeDigits| before.iter().all(|other| other.digits != *digits);
        // More salts than nodes exist, so a free one is found unless the hashes collide against all odds.
        let free = (0..=u32::MAX).map(|salt| NodeDigits::of(&name, salt)).find(is_free);
        node.digits = free.unwrap_or(node.digits);
    }
}

/// An error for a PEM text without a usable CA certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadRoots;

impl fmt::Display for BadRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no usable certificate of an authority in the PEM text")
    }
}

impl std::error::Error for BadRoots {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_address_for_each_protocol_and_keeps_its_name() {
        let url = |text, transport| NodeUrl::parse(text, transport).unwrap();
        let config = NodeConfig::new(url("http://a", Transport::Http))
            .with_address(url("ws://b", Transport::Ws))
            .with_address(url("grpcs://c", Transport::Grpc))
            .with_address(url("wss://d", Transport::Ws));
        let at = |transport| config.address(transport).map(ToString::to_string);
        assert_eq!(at(Transport::Http).as_deref(), Some("http://a"));
        assert_eq!(at(Transport::Ws).as_deref(), Some("wss://d"), "the later one counts");
        assert_eq!(at(Transport::Grpc).as_deref(), Some("grpcs://c"));
        assert_eq!(config.name().to_string(), "http://a");
        assert!(NodeConfig::new(url("ws://b", Transport::Ws)).address(Transport::Http).is_none());
    }

    #[test]
    fn the_debug_form_of_a_node_has_no_header_value() {
        let mut config = NodeConfig::new("http://u:hunter2@h/".parse().unwrap());
        config.headers.push((HeaderName::from_static("x-key"), HeaderValue::from_static("sesame")));
        let shown = format!("{config:?}");
        assert!(
            shown.contains("x-key") && !shown.contains("sesame") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn a_pem_text_without_a_certificate_is_refused() {
        let config = NodeConfig::new("https://h/".parse().unwrap());
        assert_eq!(config.clone().trusting(b"").err(), Some(BadRoots));
        let junk = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(config.trusting(junk).err(), Some(BadRoots));
    }
}
