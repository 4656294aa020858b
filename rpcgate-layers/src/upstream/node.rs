//! One node: how it is reached, and how it fares.

use super::connect::Dial;
use super::health_state::{Health, NodeHealth};
use super::idle::Idle;
use super::node_request::NodeRequest;
use super::url::NodeUrl;
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, HOST, PROXY_AUTHORIZATION,
    TRANSFER_ENCODING, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use http_body_util::Full;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// How a node is reached.
#[derive(Clone)]
pub struct NodeConfig {
    /// Where it is.
    pub url: NodeUrl,
    /// Headers that every request to it carries, in place of the pool's own of the same name. Framing and hop-by-hop
    /// headers are left out.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Calls it takes in one array; `None` for as many as the chain allows.
    pub max_batch: Option<usize>,
    /// Nodes of a lower number are asked first; those of a higher one when none of them is well.
    pub priority: u32,
    pub(super) roots: Vec<CertificateDer<'static>>,
}

impl NodeConfig {
    /// The node at `url`, without anything special.
    pub fn new(url: NodeUrl) -> Self {
        NodeConfig { url, headers: Vec::new(), max_batch: None, priority: 0, roots: Vec::new() }
    }

    /// Trusts the certificate authorities in `pem` as well as the public ones.
    ///
    /// # Errors
    /// [`BadRoots`] if there is no certificate in it, or one that is no authority's.
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
    /// Shows header names without their values: those are credentials more often than not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeConfig")
            .field("url", &self.url)
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("max_batch", &self.max_batch)
            .field("priority", &self.priority)
            .field("roots", &self.roots.len())
            .finish()
    }
}

/// A PEM text without a usable certificate of an authority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadRoots;

impl fmt::Display for BadRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no usable certificate of an authority in the PEM text")
    }
}

impl std::error::Error for BadRoots {}

/// A node's place in its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct NodeIndex(pub(super) usize);

impl NodeIndex {
    /// The place, counted from 0 in the order of the configuration.
    pub const fn get(self) -> usize {
        self.0
    }
}

/// How a node fares.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// Its place.
    pub index: NodeIndex,
    /// Its URL, secrets masked.
    pub name: &'a NodeUrl,
    /// Calls it takes in one array.
    pub max_batch: Option<usize>,
    /// Calls under way to it.
    pub in_flight: usize,
    /// Connections that wait for a call.
    pub idle: usize,
    /// Its tier: a higher number is asked when none of a lower one is well.
    pub priority: u32,
    /// Whether it is asked, and if not, why.
    pub standing: NodeHealth,
    /// The newest height it has shown.
    pub height: Option<u64>,
    /// How long it takes to answer, newer answers counting more; zero: it has not answered yet.
    pub latency: Duration,
}

pub(super) struct Node {
    pub(super) index: NodeIndex,
    pub(super) config: NodeConfig,
    pub(super) dial: Dial,
    pub(super) idle: Idle,
    pub(super) health: Health,
    pub(super) in_flight: Arc<AtomicUsize>,
    headers: HeaderMap,
    /// Those of a request whose body, if it has one, is the caller's: of what type it is, the caller says.
    untyped: HeaderMap,
    target: Uri,
}

impl Node {
    pub(super) fn new(index: usize, config: NodeConfig, idle: Idle) -> Self {
        Node {
            index: NodeIndex(index),
            dial: Dial::new(&config),
            untyped: untyped(&config),
            headers: headers(&config),
            target: config.url.target(),
            config,
            idle,
            health: Health::default(),
            in_flight: Arc::default(),
        }
    }

    /// The request that `ask` makes of this node; `None` if its target is too long for a URI.
    pub(super) fn request(&self, ask: &NodeRequest) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::new(Full::new(ask.body.clone()));
        *request.method_mut() = ask.method.clone();
        match &ask.path {
            None => {
                *request.uri_mut() = self.target.clone();
                *request.headers_mut() = self.headers.clone();
            }
            Some(path) => {
                *request.uri_mut() = self.config.url.below(path)?;
                *request.headers_mut() = self.merged(&ask.headers);
            }
        }
        Some(request)
    }

    fn merged(&self, asked: &HeaderMap) -> HeaderMap {
        let mut headers = self.untyped.clone();
        for (name, value) in asked {
            if !is_own(name) && !is_hop_by_hop(name) && !self.headers_set(name) {
                headers.append(name, value.clone());
            }
        }
        headers
    }

    fn headers_set(&self, name: &HeaderName) -> bool {
        name != CONTENT_TYPE && self.headers.contains_key(name)
            || self.config.headers.iter().any(|(own, _)| own == name)
    }

    pub(super) fn view(&self, now: Duration) -> NodeView<'_> {
        NodeView {
            index: self.index,
            name: &self.config.url,
            max_batch: self.config.max_batch,
            in_flight: self.in_flight.load(Relaxed),
            idle: self.idle.len(),
            priority: self.config.priority,
            standing: self.health.standing(now),
            height: self.health.height(),
            latency: self.health.latency(),
        }
    }
}

fn untyped(config: &NodeConfig) -> HeaderMap {
    let mut headers = headers(config);
    if !config.headers.iter().any(|(name, _)| name == CONTENT_TYPE) {
        headers.remove(CONTENT_TYPE);
    }
    headers
}

/// What every request to a node carries. Values are static or shared, so that a copy of the table copies no text.
fn headers(config: &NodeConfig) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(5 + config.headers.len());
    headers.insert(HOST, config.url.authority.clone());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Decoding costs more than it saves between machines that stand side by side.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("rpcgate/", env!("CARGO_PKG_VERSION"))));
    if let Some(login) = &config.url.login {
        headers.insert(AUTHORIZATION, login.clone());
    }
    for (name, value) in &config.headers {
        if !is_framing(name) && !is_hop_by_hop(name) {
            headers.insert(name.clone(), value.clone());
        }
    }
    headers
}

fn is_framing(name: &HeaderName) -> bool {
    *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING || *name == EXPECT
}

/// Headers of a request that are the gateway's own affair.
fn is_own(name: &HeaderName) -> bool {
    is_framing(name)
        || [HOST, AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE].contains(name)
        || matches!(name.as_str(), "apikey" | "x-api-key")
}

/// Headers that speak of one connection: RFC 9110 section 7.6.1, and two of older practice.
pub(super) fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use http::uri::PathAndQuery;

    fn node(config: NodeConfig) -> Node {
        Node::new(0, config, Idle::new(1, Duration::from_secs(1)))
    }

    fn text(request: &Request<Full<Bytes>>, name: &str) -> Vec<String> {
        request.headers().get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn an_operators_header_takes_the_place_of_ours_but_never_frames() {
        let mut config = NodeConfig::new("http://u:p@h/".parse().unwrap());
        for (name, value) in [
            ("authorization", "Bearer t"),
            ("user-agent", "me"),
            ("x-key", "k"),
            ("content-length", "1"),
            ("connection", "close"),
        ] {
            config.headers.push((HeaderName::from_static(name), HeaderValue::from_static(value)));
        }
        let request = node(config).request(&NodeRequest::json_rpc(Bytes::from_static(b"{}"))).unwrap();
        assert_eq!(text(&request, "authorization"), ["Bearer t"]);
        assert_eq!(text(&request, "user-agent"), ["me"]);
        assert_eq!(text(&request, "x-key"), ["k"]);
        assert_eq!(text(&request, "content-type"), ["application/json"]);
        assert!(text(&request, "content-length").is_empty() && text(&request, "connection").is_empty());
    }

    #[test]
    fn of_a_callers_headers_no_credential_and_no_framing_passes() {
        let mut config = NodeConfig::new("http://u:p@h/".parse().unwrap());
        config.headers.push((HeaderName::from_static("x-own"), HeaderValue::from_static("operator")));
        let mut ask = NodeRequest::json_rpc(Bytes::new());
        (ask.method, ask.path) = (Method::GET, Some(PathAndQuery::from_static("/x")));
        for name in [
            "authorization",
            "apikey",
            "x-api-key",
            "cookie",
            "proxy-authorization",
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "te",
            "upgrade",
            "expect",
            "x-own",
            "accept",
            "content-type",
        ] {
            ask.headers.insert(HeaderName::from_static(name), HeaderValue::from_static("client"));
        }
        let request = node(config).request(&ask).unwrap();
        let mut passed: Vec<_> = request
            .headers()
            .iter()
            .filter(|(_, value)| *value == "client")
            .map(|(name, _)| name.as_str())
            .collect();
        passed.sort_unstable();
        assert_eq!(passed, ["accept", "content-type"]);
        assert_eq!(text(&request, "authorization"), ["Basic dTpw"]);
        assert_eq!(text(&request, "x-own"), ["operator"]);
    }

    #[test]
    fn what_is_shown_of_a_node_holds_no_header_value() {
        let mut config = NodeConfig::new("http://u:hunter2@h/".parse().unwrap());
        config.headers.push((HeaderName::from_static("x-key"), HeaderValue::from_static("sesame")));
        let shown = format!("{config:?}");
        assert!(
            shown.contains("x-key") && !shown.contains("sesame") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn roots_that_are_none_are_refused() {
        let config = NodeConfig::new("https://h/".parse().unwrap());
        assert_eq!(config.clone().trusting(b"").err(), Some(BadRoots));
        let junk = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(config.trusting(junk).err(), Some(BadRoots));
    }
}
