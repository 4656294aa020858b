//! The description of a chain's node API. Each chain implements [`Adapter`] in its own file.

use crate::call::CallView;
use crate::chain::{Dialect, Facts, Finality, Method, MethodRule};
use crate::grpc::GrpcPath;
use crate::json::Span;
use crate::refusal::Refusal;
use crate::rest::Path;
use crate::rest_method::RestMethod;
use std::fmt::Debug;

/// The parts of a chain's node API that the stack depends on.
///
/// Mostly tables: [`facts`](Adapter::facts), [`methods`](Adapter::methods) and [`rest_methods`](Adapter::rest_methods).
/// The other functions cover what a table cannot express.
pub trait Adapter: Send + Sync + Debug + 'static {
    /// Returns the constants of the chain. An adapter may own its facts, for example facts from a configuration.
    fn facts(&self) -> &Facts;

    /// Returns the kind of content in a request with this HTTP method and this path (without the chain's own segment).
    ///
    /// By default, JSON-RPC calls are posted to the chain's own path unless the dialect is [`Dialect::Rest`], and the
    /// paths below it are those of [`rest_methods`](Adapter::rest_methods).
    ///
    /// # Errors
    /// Returns a refusal if nodes cannot answer the request. The caller is not known yet, and no call is counted.
    fn surface(&self, verb: &http::Method, path: &Path) -> Result<Surface, Refusal> {
        match (self.rest_methods(), path.as_str()) {
            ([], _) => posted(verb, path),
            (_, "") if self.facts().dialect != Dialect::Rest => posted(verb, path),
            (rows, _) => listed(rows, verb, path),
        }
    }

    /// Returns the path below a node's URL that accepts JSON-RPC. The default is the URL itself.
    fn rpc_path(&self) -> Option<&'static str> {
        None
    }

    /// Returns the methods with their own weight, cache class or flags. By default the list is
    /// empty, as for a chain that has only REST paths.
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }

    /// Returns the named REST paths in matching order. A path that matches none is metered by its last segment.
    ///
    /// Every REST call scans the rows: the table is meant for tens of rows, not for thousands.
    fn rest_methods(&self) -> &[RestMethod] {
        &[]
    }

    /// Returns the rule of an unlisted method: by default 1 Compute Unit and no caching. Families (`debug_*`) get flags
    /// here.
    fn unlisted(&self, method: &str) -> MethodRule {
        let _ = method;
        MethodRule::UNLISTED
    }

    /// Narrows the rule of a call with the flag [`COMMANDS`](crate::chain::Flags::COMMANDS) by its parameters.
    /// [`Chain::narrow`](crate::chain::Chain::narrow) then applies the operator's changes.
    fn narrow(&self, call: CallView<'_>) -> MethodRule {
        call.rule
    }

    /// Returns the rule of a gRPC call in one of the chain's [packages](crate::chain::Facts::grpc); by default `rule`,
    /// which is that of its method. Called once per call. An adapter that needs the first message to decide sets
    /// [`COMMANDS`](crate::chain::Flags::COMMANDS): the gateway then waits for it before it sends anything.
    fn grpc(&self, path: GrpcPath<'_>, rule: MethodRule) -> MethodRule {
        let _ = path;
        rule
    }

    /// Returns the calls that are closed to all callers although nodes would answer them, with the reasons, for the
    /// documentation. What closes a call are the flags from [`methods`](Adapter::methods),
    /// [`unlisted`](Adapter::unlisted) and [`narrow`](Adapter::narrow).
    fn closed(&self) -> Vec<ClosedMethods> {
        Vec::new()
    }

    /// Returns how permanent the raw `result` of a cacheable call is. Called once, before an answer is stored.
    fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence;

    /// Reports whether an answer (a raw `result`, or a REST body) means a failure that neither an `error` member nor an
    /// HTTP status shows. Such an answer is never cached.
    fn is_error(&self, answer: &[u8]) -> bool {
        let _ = answer;
        false
    }

    /// Reports whether an error says that the node lacks the requested state or block, so that an archive node may
    /// answer. `answer` is the raw `error`, a raw `result` that [means](Adapter::is_error) a failure, or a REST body.
    ///
    /// A wrong guess is harmless: the call is tried one more time.
    fn lacks_history(&self, answer: &[u8]) -> bool {
        let _ = answer;
        false
    }

    /// Returns the reason if the node cannot serve the call now but another node may; `None` if the error is the
    /// caller's own (a reverted call, an unknown account, bad parameters). A read is then sent to another node. If no
    /// node can serve it, the caller gets the error and is not charged.
    ///
    /// By default, only the HTTP status decides ([`NodeError::by_status`]).
    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        error.by_status()
    }

    /// Returns the height of a block that the call names and the node lacks, as an empty or error `answer` (raw
    /// `result`, raw `error`, or REST body) shows. The gateway then asks a node that has reached that height.
    fn missing_block(&self, call: CallView<'_>, answer: &[u8]) -> Option<u64> {
        let _ = (call, answer);
        None
    }

    /// Returns the position of the id, a JSON value, in the [params](CallView::params) of a call that
    /// [uses](crate::chain::Flags::USES_STATE) state on one node; `None` if the call has no id.
    fn state_id(&self, call: CallView<'_>) -> Option<Span> {
        let _ = call;
        None
    }

    /// Reports whether the error to a broadcast says that the node already has the transaction. For `answer` see
    /// [`lacks_history`](Adapter::lacks_history).
    fn is_known_transaction(&self, answer: &[u8]) -> bool {
        let _ = answer;
        false
    }

    /// Returns the headers of a REST call that matter to a node, in lower case.
    fn headers(&self) -> &'static [&'static str] {
        &["accept", "content-type"]
    }

    /// Returns an ignored path prefix below the chain's own path, which clients of other providers have in their URLs.
    fn path_alias(&self) -> Option<&'static str> {
        None
    }

    /// Returns the headers of a node's answer that a client gets, in lower case: those that the chain's API defines,
    /// such as heights and cursors. `x-chain-*` means every name with that prefix. Other headers describe the node's
    /// host and are dropped, except the content type of a REST answer. Browsers may read the headers that pass.
    fn reply_headers(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns further places for a key. On every chain, a key may be in the headers `apikey` and `x-api-key`, the
    /// query parameter `apikey`, and Basic or Bearer credentials in `authorization`.
    fn key_sources(&self) -> KeySources {
        KeySources::default()
    }

    /// Returns the call that queries a node's status.
    fn probe(&self) -> Probe;

    /// Reads the status from the answer (raw `result`, or REST body) to the [`probe`](Adapter::probe). `None` if it
    /// cannot be read; the node is then unhealthy.
    fn seen(&self, answer: &[u8]) -> Option<NodeStatus>;

    /// Returns a second call after the first, for nodes that report height and sync state in separate answers.
    fn second_probe(&self) -> Option<Probe> {
        None
    }

    /// Completes the status `first` from [`seen`](Adapter::seen) with the answer to the
    /// [`second_probe`](Adapter::second_probe). `None` if it cannot be read; the node is then unhealthy.
    fn seen_second(&self, first: NodeStatus, answer: &[u8]) -> Option<NodeStatus> {
        let _ = answer;
        Some(first)
    }

    /// Returns the probe for a node's network, if nodes show it. A node is probed before its first call, after it was
    /// unreachable, and from time to time. A node of another network gets no calls.
    fn network(&self) -> Option<NetworkProbe> {
        None
    }

    /// Returns the reader of blocks and events for webhooks. Without one, webhooks report only the chain's health.
    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn crate::event::BlockReader> {
        None
    }
}

/// Returns the surface of a chain whose calls are all posted to its own path.
///
/// # Errors
/// Returns a refusal for any other request.
pub fn posted(verb: &http::Method, path: &Path) -> Result<Surface, Refusal> {
    match (path.as_str(), verb) {
        ("", &http::Method::POST) => Ok(Surface::JsonRpc),
        ("", _) => Err(Refusal::MethodNotAllowed { allow: "POST, OPTIONS" }),
        _ => Err(Refusal::NoRoute),
    }
}

/// Returns the surface of a chain that has exactly the paths of `rows`.
///
/// # Errors
/// Returns a refusal for any other path, and for another HTTP method on one of these paths.
pub fn listed(rows: &[RestMethod], verb: &http::Method, path: &Path) -> Result<Surface, Refusal> {
    if rows.iter().any(|row| row.matches(verb, path)) {
        return Ok(Surface::Rest);
    }
    match rows.iter().find(|row| row.has_path(path)) {
        Some(row) => Err(Refusal::MethodNotAllowed { allow: row.allow() }),
        None => Err(Refusal::NoRoute),
    }
}

/// Returns every row of an adapter's tables, each name once. REST rows with the same name share the strictest rule, and
/// a row of [`methods`](Adapter::methods) replaces [`rest_methods`](Adapter::rest_methods) with its name.
pub fn method_table(adapter: &dyn Adapter) -> Vec<Method> {
    let mut rows = adapter.methods();
    let own = rows.len();
    for row in adapter.rest_methods().iter().map(RestMethod::row) {
        match rows.iter().position(|known| known.name == row.name) {
            None => rows.push(row),
            Some(at) if at >= own => rows[at].rule = strictest(rows[at].rule, row.rule),
            Some(_) => {}
        }
    }
    rows
}

fn strictest(one: MethodRule, other: MethodRule) -> MethodRule {
    MethodRule {
        cu: one.cu.max(other.cu),
        cache: if one.cache == other.cache { one.cache } else { MethodRule::UNLISTED.cache },
        flags: one.flags.and(other.flags),
    }
}

/// The content of a request.
#[derive(Clone, Copy, Debug)]
pub enum Surface {
    /// The JSON-RPC calls in its body.
    JsonRpc,
    /// The single call that its path names.
    Rest,
    /// Nothing that a node serves. The gateway refuses the request after it knows the body.
    Nothing {
        /// Returns the refusal for a body.
        because: fn(&[u8]) -> Refusal,
    },
}

/// Closed calls, for the documentation.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ClosedMethods {
    /// Names of methods, or prefixes written as `dump*`.
    pub methods: Vec<String>,
    /// The calls of these methods that are closed, such as "with `url`". Empty means all of them.
    pub only: String,
    /// The reason, a sentence without its full stop.
    pub because: &'static str,
    /// True if an operator may open them.
    pub openable: bool,
}

impl ClosedMethods {
    /// Creates an entry for all calls of these methods. No operator may open them.
    pub fn new(methods: Vec<String>, because: &'static str) -> Self {
        ClosedMethods { methods, only: String::new(), because, openable: false }
    }

    /// Restricts the entry to some of the calls.
    #[must_use]
    pub fn with_only(mut self, only: impl Into<String>) -> Self {
        self.only = only.into();
        self
    }

    /// Sets whether an operator may open them.
    #[must_use]
    pub fn with_openable(mut self, openable: bool) -> Self {
        self.openable = openable;
        self
    }
}

/// A node's status, as the node reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The newest height; 0 if the node knows none.
    pub height: u64,
    /// True while the node reports that it is syncing.
    pub syncing: bool,
}

impl NodeStatus {
    /// Returns the status of a synced node at this height.
    pub const fn at(height: u64) -> Self {
        NodeStatus { height, syncing: false }
    }

    /// Sets whether the node is syncing.
    #[must_use]
    pub const fn with_syncing(mut self, syncing: bool) -> Self {
        self.syncing = syncing;
        self
    }
}

/// A node's error, for [`Adapter::cannot_serve`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeError<'a> {
    /// The raw `error`, a raw `result` that [means](Adapter::is_error) a failure, or the body of a REST answer.
    pub answer: &'a [u8],
    /// The HTTP status of the node's answer.
    pub status: u16,
    /// True if the chain's own tables list the method. A node that does not know a listed method lacks it; an unlisted
    /// one may be the caller's invention.
    pub is_listed: bool,
}

impl NodeError<'_> {
    /// Returns the reason for a node that does not know the method.
    pub const fn unknown_method(&self) -> Unserved {
        if self.is_listed { Unserved::Method } else { Unserved::UnknownMethod }
    }

    /// Returns the reason by HTTP status: 429, 502, 503 and 504 mean that the node cannot serve now, and 501 that it
    /// lacks the method (RFC 9110, section 15.6; RFC 6585, section 4).
    pub const fn by_status(&self) -> Option<Unserved> {
        match self.status {
            429 | 502 | 503 | 504 => Some(Unserved::Node),
            501 => Some(self.unknown_method()),
            _ => None,
        }
    }
}

/// The reason why a node cannot serve a call now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unserved {
    /// The node serves no call now: it is rate limited, overloaded, syncing or broken.
    Node,
    /// The node lacks this method or fails at it.
    Method,
    /// The node does not know this unlisted method, which the caller may have invented. It counts against the node only
    /// after another node served the call.
    UnknownMethod,
    /// The node lacks the state or the block that the call needs. This says nothing about other calls.
    Data,
}

/// The permanence of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permanence {
    /// The result never changes.
    Yes,
    /// A reorganisation, or time, may still change the result.
    NotYet,
    /// The result says that something is not known yet. It is never cached.
    Unknown,
}

impl Permanence {
    /// Returns the permanence of a result about the block at `height`. A result without a height is unknown.
    ///
    /// ```
    /// use rpcgate_core::{adapter::Permanence, chain::Finality};
    /// use std::sync::Arc;
    ///
    /// let finality = Finality::new(Arc::default(), 6);
    /// finality.head().set(106);
    /// let at = |height| Permanence::at(height, &finality);
    /// assert_eq!(at(Some(100)), Permanence::Yes);
    /// assert_eq!((at(Some(101)), at(None)), (Permanence::NotYet, Permanence::Unknown));
    /// ```
    pub fn at(height: Option<u64>, finality: &Finality) -> Self {
        match height {
            Some(height) if finality.is_final(height) => Permanence::Yes,
            Some(_) => Permanence::NotYet,
            None => Permanence::Unknown,
        }
    }
}

/// Additional places for a key, for chains whose own clients send it elsewhere. Empty by default.
///
/// ```
/// use rpcgate_core::adapter::KeySources;
///
/// let sources = KeySources::default().with_header("x-chain-token");
/// assert_eq!((sources.header, sources.query), (Some("x-chain-token"), None));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct KeySources {
    /// A header, in lower case.
    pub header: Option<&'static str>,
    /// A query parameter.
    pub query: Option<&'static str>,
}

impl KeySources {
    /// Adds a header, in lower case.
    #[must_use]
    pub const fn with_header(mut self, header: &'static str) -> Self {
        self.header = Some(header);
        self
    }

    /// Adds a query parameter.
    #[must_use]
    pub const fn with_query(mut self, query: &'static str) -> Self {
        self.query = Some(query);
        self
    }
}

/// A call that the gateway makes itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// A JSON-RPC call.
    Rpc {
        /// Its method.
        method: &'static str,
        /// Its parameters as JSON; empty to omit them.
        params: &'static str,
    },
    /// A REST call.
    Rest {
        /// Path and query below the node's URL.
        target: &'static str,
        /// The body of a `POST`; `None` for a `GET`.
        body: Option<&'static str>,
    },
}

/// A probe that shows the network of a node.
///
/// ```
/// use rpcgate_core::adapter::{NetworkProbe, Probe};
///
/// let read = |answer: &[u8]| String::from_utf8(answer.to_vec()).ok();
/// let probe = Probe::Rest { target: "/network", body: None };
/// let network = NetworkProbe { probe, expected: "main".into(), read };
/// assert_eq!((network.shown(b"main"), network.shown(b"test")), (Ok(()), Err(Some("test".into()))));
/// ```
#[derive(Clone, Debug)]
pub struct NetworkProbe {
    /// The call to make.
    pub probe: Probe,
    /// The network name that the chain's nodes show.
    pub expected: String,
    /// Reads the network name from an answer (the raw `result`, or the body of a REST answer). `None` if it shows none.
    pub read: fn(&[u8]) -> Option<String>,
}

impl NetworkProbe {
    /// Sets the network, written as its nodes show it. A decimal number may also be hexadecimal: `0x38` for 56.
    #[must_use]
    pub fn with_expected(mut self, network: &str) -> Self {
        let number = network.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let is_decimal = self.expected.bytes().all(|byte| byte.is_ascii_digit());
        self.expected = match number.filter(|_| is_decimal) {
            Some(number) => number.to_string(),
            None => network.to_owned(),
        };
        self
    }

    /// Checks that a node with this answer belongs to the network.
    ///
    /// # Errors
    /// Returns the network that the node belongs to; `None` if the answer does not show any.
    pub fn shown(&self, answer: &[u8]) -> Result<(), Option<String>> {
        match (self.read)(answer) {
            Some(shown) if shown == self.expected => Ok(()),
            other => Err(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_rule::CacheRule;
    use crate::chain::{Chain, ChainName, Flags};
    use http::Method as Verb;

    #[derive(Debug)]
    struct Paths {
        facts: Facts,
        rows: Vec<RestMethod>,
    }

    impl Paths {
        fn new(dialect: Dialect, rows: &[RestMethod]) -> Self {
            Paths { facts: Facts::rest("paths", "Paths").with_dialect(dialect), rows: rows.to_vec() }
        }
    }

    impl Adapter for Paths {
        fn facts(&self) -> &Facts {
            &self.facts
        }

        fn methods(&self) -> Vec<Method> {
            vec![Method::new("/own/{x}", 9)]
        }

        fn rest_methods(&self) -> &[RestMethod] {
            &self.rows
        }

        fn settled(&self, _: CallView<'_>, _: &[u8], _: &Finality) -> Permanence {
            Permanence::Yes
        }

        fn probe(&self) -> Probe {
            Probe::Rest { target: "/head", body: None }
        }

        fn seen(&self, _: &[u8]) -> Option<NodeStatus> {
            None
        }
    }

    fn path(text: &str) -> Path {
        Path::canonical(text).expect("a path")
    }

    #[test]
    fn a_chain_with_named_paths_has_these_and_no_others() {
        let rows = [RestMethod::get("/a/{b}", 1), RestMethod::submit("/tx", 20)];
        let rest = Paths::new(Dialect::Rest, &rows);
        assert!(matches!(rest.surface(&Verb::HEAD, &path("/a/1")), Ok(Surface::Rest)));
        assert!(matches!(rest.surface(&Verb::POST, &path("/tx")), Ok(Surface::Rest)));
        for (verb, text, refusal) in [
            (Verb::POST, "/a/1", Refusal::MethodNotAllowed { allow: "GET, OPTIONS" }),
            (Verb::GET, "/tx", Refusal::MethodNotAllowed { allow: "POST, OPTIONS" }),
            (Verb::GET, "/a", Refusal::NoRoute),
            (Verb::POST, "", Refusal::NoRoute),
        ] {
            assert_eq!(rest.surface(&verb, &path(text)).err(), Some(refusal), "{verb} {text}");
        }
        let both = Paths::new(Dialect::JsonRpc2, &rows);
        assert!(matches!(both.surface(&Verb::POST, &path("")), Ok(Surface::JsonRpc)));
        assert!(matches!(both.surface(&Verb::GET, &path("/a/1")), Ok(Surface::Rest)));
        let none = Paths::new(Dialect::Rest, &[]);
        assert_eq!(none.surface(&Verb::GET, &path("/a/1")).err(), Some(Refusal::NoRoute));
    }

    #[test]
    fn rows_of_one_name_share_the_strictest_rule_and_a_methods_row_replaces_them() {
        let kept = CacheRule::secs(3);
        let adapter = Paths::new(
            Dialect::Rest,
            &[
                RestMethod::get("/tx", 5).cached(kept),
                RestMethod::submit("/tx", 2),
                RestMethod::get("/one", 1).named("both").cached(kept),
                RestMethod::get("/two", 1).named("both").cached(kept),
                RestMethod::submit("/own/{x}", 1),
            ],
        );
        let row = |name| {
            let rows = method_table(&adapter);
            assert_eq!(rows.iter().filter(|row| row.name == name).count(), 1, "{name}");
            rows.into_iter().find(|row| row.name == name).expect(name).rule
        };
        let tx = row("/tx");
        let both = row("both");
        assert_eq!((tx.cu, tx.cache, tx.flags), (5, CacheRule::Never, Flags::BROADCAST));
        assert_eq!((both.cu, both.cache), (1, kept));
        assert_eq!((row("/own/{x}").cu, row("/own/{x}").flags), (9, Flags::NONE));
    }

    #[test]
    fn a_chain_meters_named_paths_by_name_and_others_by_the_last_segment() {
        let rows = [RestMethod::get("/a/{b}", 7).cached(CacheRule::secs(3))];
        let chain = Chain::deployed(std::sync::Arc::new(Paths::new(Dialect::Rest, &rows)));
        assert_eq!(chain.name(), ChainName::new("paths"));
        assert_eq!(chain.rest_name(&Verb::GET, &path("/a/1")), Some("/a/{b}"));
        assert_eq!(chain.rest_name(&Verb::POST, &path("/a/1")), None);
        let found = chain.listed(b"/a/{b}").expect("a row");
        assert_eq!((found.rule.cu, found.rule.cache), (7, CacheRule::secs(3)));
        assert_eq!(found.metered, Some("/a/{b}"));
    }
}
