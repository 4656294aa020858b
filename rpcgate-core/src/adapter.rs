//! What a gateway must know of a chain's node API. One implementation a chain, in a file of its own.

use crate::call::CallView;
use crate::chain::{Chain, Facts, Method, MethodRule};
use crate::refusal::Refusal;
use crate::rest::Path;
use std::fmt::Debug;

/// A chain's node API, as far as the stack depends on it.
///
/// An adapter is a table first: [`facts`](Adapter::facts) and [`methods`](Adapter::methods). The functions below
/// answer what no table can.
pub trait Adapter: Send + Sync + Debug + 'static {
    /// What is fixed about the chain.
    fn facts(&self) -> &'static Facts;

    /// What a request with this HTTP method for this path below the chain's own asks for. By default calls are posted to
    /// the chain's own path, and there is nothing below it.
    ///
    /// # Errors
    /// The refusal that answers it before anybody is known.
    fn surface(&self, verb: &http::Method, path: &Path) -> Result<Surface, Refusal> {
        posted(verb, path)
    }

    /// Where below a node's URL JSON-RPC is spoken; by default at the URL itself.
    fn rpc_path(&self) -> Option<&'static str> {
        None
    }

    /// The methods with a weight, a class or a mark of their own.
    fn methods(&self) -> Vec<Method>;

    /// What holds for a method that is not among [`methods`](Adapter::methods): by default 1 Compute Unit, not cached.
    /// Families of methods (`debug_*`) get their marks here.
    fn unlisted(&self, method: &str) -> MethodRule {
        let _ = method;
        MethodRule::UNLISTED
    }

    /// What holds for a call whose method is marked [`Flags::COMMANDS`](crate::chain::Flags::COMMANDS), now that its
    /// parameters are known. Asked by [`Chain::narrow`], which lets the operator have the last word.
    fn narrow(&self, call: CallView<'_>) -> MethodRule {
        call.rule
    }

    /// The calls that nobody may make although nodes would answer them, and why. Only told: what closes them are the
    /// marks that [`methods`](Adapter::methods), [`unlisted`](Adapter::unlisted) and [`narrow`](Adapter::narrow) give.
    fn closed(&self) -> Vec<ClosedMethods> {
        Vec::new()
    }

    /// What the raw `result` of a call in a cache class says of its own permanence. Asked once, when an answer is
    /// about to be kept, and allowed to look into the result by a partial parse.
    fn settled(&self, call: CallView<'_>, result: &[u8], chain: &Chain) -> Settled;

    /// Whether what a node answered says that the call failed, where neither an `error` member nor an HTTP status tells:
    /// given is the raw `result`, or the body of a REST answer. Such an answer is never kept.
    fn is_error(&self, answer: &[u8]) -> bool {
        let _ = answer;
        false
    }

    /// Headers of a REST call that mean something to a node, in lower case.
    fn headers(&self) -> &'static [&'static str] {
        &["accept", "content-type"]
    }

    /// Where else than in the `apikey` header and query parameter a key may be sent.
    fn key_places(&self) -> KeyPlaces {
        KeyPlaces::default()
    }

    /// The call that asks a node how it fares.
    fn probe(&self) -> Probe;

    /// What the answer to the [`probe`](Adapter::probe) says: given is the raw `result`, or the body of a REST answer.
    /// `None` if it cannot be read; then the node is not well.
    fn seen(&self, answer: &[u8]) -> Option<NodeStatus>;
}

/// Calls are posted to the chain's own path; there is nothing below it.
///
/// # Errors
/// The refusal of anything else.
pub fn posted(verb: &http::Method, path: &Path) -> Result<Surface, Refusal> {
    match (path.as_str(), verb) {
        ("", &http::Method::POST) => Ok(Surface::JsonRpc),
        ("", _) => Err(Refusal::MethodNotAllowed { allow: "POST, OPTIONS" }),
        _ => Err(Refusal::NoRoute),
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub enum Surface {
    /// The calls in its body.
    JsonRpc,
    /// The one call that its path is.
    Rest,
    /// Nothing that a node has: the gateway answers it once its body is known, and so does it when `because` is asked.
    Nothing {
        /// Why, by the body.
        because: fn(&[u8]) -> Refusal,
    },
}

/// Calls that are closed, in the words of the document that lists them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClosedMethods {
    /// Names of methods, or beginnings of names written `dump*`.
    pub methods: Vec<String>,
    /// Which of their calls, as "with `url`"; empty: all of them.
    pub only: String,
    /// Why, as a sentence without its full stop.
    pub because: &'static str,
    /// Whether an operator may open them.
    pub openable: bool,
}

/// How a node fares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeStatus {
    /// Its newest height; 0: it knows nothing.
    pub height: u64,
    /// Whether it says itself that it has not caught up.
    pub syncing: bool,
}

impl NodeStatus {
    /// A node at this height that does not say that it is behind.
    pub const fn at(height: u64) -> Self {
        NodeStatus { height, syncing: false }
    }
}

/// How permanent a result is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// It will never change.
    Yes,
    /// A reorganisation, or time, may still change it.
    NotYet,
    /// It says that something is not known yet: never kept.
    Unknown,
}

/// More places for a key, on chains whose own clients have a habit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyPlaces {
    /// A header, in lower case.
    pub header: Option<&'static str>,
    /// A query parameter.
    pub query: Option<&'static str>,
}

/// A call that the gateway makes on its own behalf.
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
        /// What is posted; `None`: it is a `GET`.
        body: Option<&'static str>,
    },
}
