//! What a gateway needs to know about a chain's node API. Each chain implements [`Adapter`] in a file of its own.

use crate::call::CallView;
use crate::chain::{Dialect, Facts, Finality, Method, MethodRule};
use crate::grpc::GrpcPath;
use crate::json::Span;
use crate::refusal::Refusal;
use crate::rest::Path;
use crate::rest_method::RestMethod;
use std::fmt::Debug;

/// A chain's node API, as far as the stack depends on it.
///
/// An adapter is mostly tables: [`facts`](Adapter::facts), [`methods`](Adapter::methods) and
/// [`rest_methods`](Adapter::rest_methods). The other functions answer what no table can.
pub trait Adapter: Send + Sync + Debug + 'static {
    /// The constants of the chain. An adapter may own its facts, such as those from a configuration.
    fn facts(&self) -> &Facts;

    /// The content of a request with this HTTP method and this path, which is without the chain's own segment.
    ///
    /// By default JSON-RPC calls are posted to the chain's own path, unless its dialect is [`Dialect::Rest`], and the
    /// paths below it are those of [`rest_methods`](Adapter::rest_methods).
    ///
    /// # Errors
    /// The refusal of a request for which nodes have no answer. The caller is not known yet, and no call is counted.
    fn surface(&self, verb: &http::Method, path: &Path) -> Result<Surface, Refusal> {
        match (self.rest_methods(), path.as_str()) {
            ([], _) => posted(verb, path),
            (_, "") if self.facts().dialect != Dialect::Rest => posted(verb, path),
            (rows, _) => listed(rows, verb, path),
        }
    }

    /// The path below a node's URL that accepts JSON-RPC; by default the URL itself.
    fn rpc_path(&self) -> Option<&'static str> {
        None
    }

    /// The methods with their own weight, cache class or marks.
    fn methods(&self) -> Vec<Method>;

    /// The REST paths with a name, in the order in which they are tried. A path that matches none is metered by its last
    /// segment; by default every path is.
    ///
    /// Called for every REST call, row by row: intended for tens of rows, not for thousands.
    fn rest_methods(&self) -> &[RestMethod] {
        &[]
    }

    /// The rule of a method that is in none of the tables: by default 1 Compute Unit, not cached. Families of
    /// methods (`debug_*`) get their marks here.
    fn unlisted(&self, method: &str) -> MethodRule {
        let _ = method;
        MethodRule::UNLISTED
    }

    /// The rule of a call whose method is marked [`COMMANDS`](crate::chain::Flags::COMMANDS), now that its parameters are known.
    /// Called by [`Chain::narrow`](crate::chain::Chain::narrow), which applies the operator's changes afterwards.
    fn narrow(&self, call: CallView<'_>) -> MethodRule {
        call.rule
    }

    /// The rule of a gRPC call in one of the chain's [packages](crate::chain::Facts::grpc), given the rule that its method has
    /// by name; by default that rule. Called once for each call. An adapter that needs the first message to decide marks
    /// it [`COMMANDS`](crate::chain::Flags::COMMANDS): then that message is awaited before anything is sent to a node.
    fn grpc(&self, path: GrpcPath<'_>, rule: MethodRule) -> MethodRule {
        let _ = path;
        rule
    }

    /// The calls that are closed to all callers although nodes would answer them, with the reasons. This is for documentation only:
    /// calls are closed by the marks that [`methods`](Adapter::methods), [`unlisted`](Adapter::unlisted) and
    /// [`narrow`](Adapter::narrow) return.
    fn closed(&self) -> Vec<ClosedMethods> {
        Vec::new()
    }

    /// How permanent the raw `result` of a call in a cache class is. Called once, before an answer is stored; it may parse the
    /// result in part.
    fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence;

    /// Whether a node's answer means that the call failed, although neither an `error` member nor an HTTP status shows it. `answer`
    /// is the raw `result`, or the body of a REST answer. Such an answer is never cached.
    fn is_error(&self, answer: &[u8]) -> bool {
        let _ = answer;
        false
    }

    /// Whether a node's error says that it no longer has, or never had, the state or the block that was asked for, so that a
    /// node that keeps everything may answer. `answer` is the raw `error`, or what else [means](Adapter::is_error) a failure
    /// in a raw `result`; of a REST call it is the body. By default no error says so.
    ///
    /// A wrong guess is harmless: the call is tried once more.
    fn lacks_history(&self, answer: &[u8]) -> bool {
        let _ = answer;
        false
    }

    /// Why a node's error says that the node cannot serve the call now, although another node may; `None` if the error is the
    /// caller's own (a reverted call, an unknown account, bad parameters). Such an answer is a failed try: a read is sent to
    /// another node, and if no node can serve it, its caller gets the error and is not charged.
    ///
    /// By default the HTTP status decides alone ([`NodeError::by_status`]).
    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        error.by_status()
    }

    /// The height of a block that the call names and that the node does not have, as its empty `answer` or its error shows;
    /// `None` for every other answer. A node that is known to have reached the height is asked instead. `answer` is the raw
    /// `result` or the raw `error`, or the body of a REST answer. By default no answer shows one.
    fn missing_block(&self, call: CallView<'_>, answer: &[u8]) -> Option<u64> {
        let _ = (call, answer);
        None
    }

    /// Where the id is in the [params](CallView::params) of a call that [uses](crate::chain::Flags::USES_STATE) something at one
    /// node, as a JSON value; `None` if the call has none. By default no call has one.
    fn state_id(&self, call: CallView<'_>) -> Option<Span> {
        let _ = call;
        None
    }

    /// Whether a node's error to a broadcast says that the node has the transaction already. `answer` has the same form as for
    /// [`lacks_history`](Adapter::lacks_history). By default no error says so.
    fn is_known_transaction(&self, answer: &[u8]) -> bool {
        let _ = answer;
        false
    }

    /// The headers of a REST call that have a meaning for a node, in lower case.
    fn headers(&self) -> &'static [&'static str] {
        &["accept", "content-type"]
    }

    /// A beginning of paths below the chain's own that means nothing: what follows it is the path. Clients of other providers
    /// have it in their URLs.
    fn path_alias(&self) -> Option<&'static str> {
        None
    }

    /// The headers of a node's answer that a client gets, in lower case: those that the chain's API defines, such as heights
    /// and cursors. `x-chain-*` means every name with that beginning. All other headers are dropped, because they are about
    /// the node's host and not about the chain. Browsers may read the ones that pass. By default none passes; the content type
    /// of a REST answer always does.
    fn reply_headers(&self) -> &'static [&'static str] {
        &[]
    }

    /// Places for a key in addition to those of every chain: the headers `apikey` and `x-api-key`, the query parameter
    /// `apikey`, and Basic or Bearer credentials in `authorization`.
    fn key_places(&self) -> KeyPlaces {
        KeyPlaces::default()
    }

    /// The call with which the gateway queries a node's status.
    fn probe(&self) -> Probe;

    /// The status in the answer to the [`probe`](Adapter::probe): `answer` is the raw `result`, or the body of a REST
    /// answer. `None` if it cannot be read; the node is then not healthy.
    fn seen(&self, answer: &[u8]) -> Option<NodeStatus>;

    /// A second call, for nodes that report their height in one answer and whether they are syncing in another. It
    /// follows the answer to the first; by default there is none.
    fn second_probe(&self) -> Option<Probe> {
        None
    }

    /// The status from both answers: `first` is the result of [`seen`](Adapter::seen) for the first, `answer` is the answer to
    /// the [`second_probe`](Adapter::second_probe) in the same form. `None` if it cannot be read; the node is then not
    /// healthy.
    fn seen_second(&self, first: NodeStatus, answer: &[u8]) -> Option<NodeStatus> {
        let _ = answer;
        Some(first)
    }

    /// How a node shows which network it belongs to; by default a node does not show it. Nodes are asked before they get a call,
    /// after they could not be reached, and from time to time. One that shows another network gets no call.
    fn network(&self) -> Option<NetworkProbe> {
        None
    }

    /// What reads the chain's blocks and their events, for webhooks; by default a chain has none, and only its health is
    /// told of.
    #[cfg(feature = "events")]
    fn block_reader(&self) -> Option<&dyn crate::event::BlockReader> {
        None
    }
}

/// The surface of a chain whose calls are all posted to its own path.
///
/// # Errors
/// The refusal of any other request.
pub fn posted(verb: &http::Method, path: &Path) -> Result<Surface, Refusal> {
    match (path.as_str(), verb) {
        ("", &http::Method::POST) => Ok(Surface::JsonRpc),
        ("", _) => Err(Refusal::MethodNotAllowed { allow: "POST, OPTIONS" }),
        _ => Err(Refusal::NoRoute),
    }
}

/// The surface of a chain that has the paths of these rows and no others.
///
/// # Errors
/// The refusal of any other path, and of another HTTP method for one of these.
pub fn listed(rows: &[RestMethod], verb: &http::Method, path: &Path) -> Result<Surface, Refusal> {
    if rows.iter().any(|row| row.matches(verb, path)) {
        return Ok(Surface::Rest);
    }
    match rows.iter().find(|row| row.has_path(path)) {
        Some(row) => Err(Refusal::MethodNotAllowed { allow: row.allow() }),
        None => Err(Refusal::NoRoute),
    }
}

/// Every row of an adapter's tables, each name once: its [`methods`](Adapter::methods), then the rows of its
/// [`rest_methods`](Adapter::rest_methods). REST rows that share a name share the strictest rule; a row of
/// `methods` with the same name replaces them.
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
    /// The single call that its path is.
    Rest,
    /// Nothing that a node serves. The gateway refuses the request once its body is known.
    Nothing {
        /// Returns the refusal for a body.
        because: fn(&[u8]) -> Refusal,
    },
}

/// Closed calls, as the documentation lists them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ClosedMethods {
    /// Names of methods, or prefixes of names written `dump*`.
    pub methods: Vec<String>,
    /// The calls of these methods that are closed, such as "with `url`"; empty: all of them.
    pub only: String,
    /// The reason, as a sentence without its full stop.
    pub because: &'static str,
    /// Whether an operator may open them.
    pub openable: bool,
}

impl ClosedMethods {
    /// All calls of these methods, for this reason. No operator may open them.
    pub fn new(methods: Vec<String>, because: &'static str) -> Self {
        ClosedMethods { methods, only: String::new(), because, openable: false }
    }

    /// The same for some of the calls alone.
    #[must_use]
    pub fn with_only(mut self, only: impl Into<String>) -> Self {
        self.only = only.into();
        self
    }

    /// The same; `openable` says whether an operator may open them.
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
    /// Its newest height; 0 if it knows none.
    pub height: u64,
    /// Whether it reports that it is still syncing.
    pub syncing: bool,
}

impl NodeStatus {
    /// The status of a node at this height that does not report that it is syncing.
    pub const fn at(height: u64) -> Self {
        NodeStatus { height, syncing: false }
    }

    /// The same; `syncing` says whether it has not caught up.
    #[must_use]
    pub const fn with_syncing(mut self, syncing: bool) -> Self {
        self.syncing = syncing;
        self
    }
}

/// A node's error, for [`Adapter::cannot_serve`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeError<'a> {
    /// The raw `error`, or a raw `result` that [means](Adapter::is_error) a failure; of a REST call the body.
    pub answer: &'a [u8],
    /// The HTTP status of the node's answer.
    pub status: u16,
    /// Whether the method is in the chain's own tables. A node that does not know such a method lacks it; a method that is in
    /// no table may be the caller's invention.
    pub is_listed: bool,
}

impl NodeError<'_> {
    /// The reason of a node that does not know the method.
    pub const fn unknown_method(&self) -> Unserved {
        if self.is_listed { Unserved::Method } else { Unserved::UnknownMethod }
    }

    /// What the HTTP status says alone: 429, 502, 503 and 504 are those of a node that cannot serve now, and 501 is that of
    /// a node without the method (RFC 9110, section 15.6; RFC 6585, section 4).
    pub const fn by_status(&self) -> Option<Unserved> {
        match self.status {
            429 | 502 | 503 | 504 => Some(Unserved::Node),
            501 => Some(self.unknown_method()),
            _ => None,
        }
    }
}

/// Why a node cannot serve a call now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unserved {
    /// The node serves no call at the moment: it is rate limited, overloaded, syncing or broken.
    Node,
    /// The node does not serve this method: it lacks it, or fails at it.
    Method,
    /// The node does not know this method, which is in no table of the chain: another node may know it, or the caller has
    /// invented it. So it says nothing about the node until another one has served the call.
    UnknownMethod,
    /// The node lacks the state or the block that the call needs, which says nothing about other calls.
    Data,
}

/// How permanent a result is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permanence {
    /// It will never change.
    Yes,
    /// A reorganisation, or time, may still change it.
    NotYet,
    /// It says that something is not known yet: never cached.
    Unknown,
}

/// Additional places for a key, for chains whose own clients send it elsewhere. By default there are none.
///
/// ```
/// use rpcgate_core::adapter::KeyPlaces;
///
/// let places = KeyPlaces::default().with_header("x-chain-token");
/// assert_eq!((places.header, places.query), (Some("x-chain-token"), None));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct KeyPlaces {
    /// A header, in lower case.
    pub header: Option<&'static str>,
    /// A query parameter.
    pub query: Option<&'static str>,
}

impl KeyPlaces {
    /// These places and a header, in lower case.
    #[must_use]
    pub const fn with_header(mut self, header: &'static str) -> Self {
        self.header = Some(header);
        self
    }

    /// These places and a query parameter.
    #[must_use]
    pub const fn with_query(mut self, query: &'static str) -> Self {
        self.query = Some(query);
        self
    }
}

/// A call that the gateway makes for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// A JSON-RPC call.
    Rpc {
        /// Its method.
        method: &'static str,
        /// Its parameters, as JSON; empty to leave them out.
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

/// How a node shows which network it belongs to.
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
    /// The call that shows it.
    pub probe: Probe,
    /// What a node of the chain's network shows.
    pub expected: String,
    /// What a node shows by this answer: the raw `result`, or the body of a REST answer. `None` if it shows none.
    pub read: fn(&[u8]) -> Option<String>,
}

impl NetworkProbe {
    /// The same for nodes of another network, which an operator names as such a node shows it. Where nodes show a decimal number,
    /// the name may also be hexadecimal: `0x38` for 56.
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

    /// Whether a node with this answer belongs to the network.
    ///
    /// # Errors
    /// The network that it belongs to; `None` if its answer does not show any.
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

    /// A REST chain with named paths.
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
        let (tx, both) = (row("/tx"), row("both"));
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
