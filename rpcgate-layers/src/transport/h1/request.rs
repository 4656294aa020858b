//! A request to a node.

use crate::nodes::node::NodeIndex;
use crate::nodes::node_set::NodeSet;
use crate::nodes::reception::ReceptionReader;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use rpcgate_core::node_try::NodeChoice;

/// The numbers that the calls of one request can have. It has fewer calls.
pub(crate) const NUMBERS: usize = 128;

/// One request to one of a chain's nodes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeRequest {
    /// The HTTP method.
    pub method: Method,
    /// The target below the node's URL; `None` for the URL itself, which takes JSON-RPC.
    pub path: Option<PathAndQuery>,
    /// Headers besides those that the client writes itself. Framing, hop-by-hop headers and credentials are left out, and
    /// the operator's headers for the node win. Without a `path` they are ignored.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Whether it submits something: never sent again once a byte of it was written.
    pub broadcast: bool,
    /// Bytes of the answer to buffer. A larger one is given out as [`AnswerBody::Larger`](super::AnswerBody::Larger).
    pub buffer: usize,
    /// The largest answer in bytes, encoded or decoded, if it cannot be streamed because the node compressed it.
    /// Beyond, the call ends with [`Cause::Oversize`](rpcgate_core::fault::Cause::Oversize).
    pub max: usize,
    /// A node that must not get the request, for instance because it rejected the gateway's credentials just now. If it is the
    /// only one, the call ends with [`Cause::NoNode`](rpcgate_core::fault::Cause::NoNode).
    pub avoid: Option<NodeIndex>,
    /// The number that is the id of the call in the body; `None` if the body has none. The ids of an array are numbers from this
    /// one on, less than [`NUMBERS`] above it.
    /// The reader of the answer compares it.
    pub(crate) number: Option<usize>,
    /// The nodes that take the request.
    pub(crate) among: NodeSet,
    /// How many calls a node counts it as: those of an array.
    pub(crate) calls: u32,
    /// Why its first node is chosen, if there is a reason of its own.
    pub(crate) choice: Option<NodeChoice>,
    /// The node that gets it first, if that is decided.
    pub(crate) first: Option<NodeIndex>,
    /// The listed method of its call, if it has one call.
    pub(crate) method_name: Option<&'static str>,
    /// Whether it may be hedged, as a call of this listed method; empty: of another.
    pub(crate) hedge: Option<&'static str>,
    /// Whether it is the hedge of a call.
    pub(crate) is_hedge: bool,
    /// Reads what became of a broadcast that is sent to several nodes at once.
    pub(crate) reader: Option<ReceptionReader>,
    /// The same call as it travels in an array with others, if it may.
    pub(crate) batchable: Option<Box<BatchableCall>>,
}

/// A single read as it travels in an array with the calls of other clients.
#[derive(Clone, Debug)]
pub(crate) struct BatchableCall {
    /// The number that is its id.
    pub(crate) number: usize,
    /// The call, without anything of its client but method and parameters.
    pub(crate) body: Bytes,
    /// Where the array is posted, below the node's URL.
    pub(crate) path: Option<&'static str>,
}

impl NodeRequest {
    /// A JSON-RPC call, or an array of calls: posted to the node's URL, with an answer of up to 256 KiB buffered.
    pub fn json_rpc(body: Bytes) -> Self {
        NodeRequest {
            method: Method::POST,
            path: None,
            headers: HeaderMap::new(),
            body,
            broadcast: false,
            buffer: 256 << 10,
            max: 64 << 20,
            avoid: None,
            number: None,
            among: NodeSet::ALL,
            calls: 1,
            choice: None,
            first: None,
            method_name: None,
            hedge: None,
            is_hedge: false,
            reader: None,
            batchable: None,
        }
    }

    /// A request for a path below the node's URL, with a JSON body unless that is empty; an answer of up to 256 KiB is
    /// buffered.
    pub fn to_path(method: Method, path: PathAndQuery, body: Bytes) -> Self {
        let mut headers = HeaderMap::new();
        if !body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        NodeRequest { method, path: Some(path), headers, ..NodeRequest::json_rpc(body) }
    }

    /// The same with this number of bytes of the answer buffered.
    #[must_use]
    pub fn with_buffer(self, buffer: usize) -> Self {
        NodeRequest { buffer, ..self }
    }

    /// The same, with the number that is the id of the call in the body.
    #[must_use]
    pub const fn with_number(mut self, number: usize) -> Self {
        self.number = Some(number);
        self
    }

    /// The same JSON, posted to a path below the node's URL; `None`: to the URL itself.
    #[must_use]
    pub fn posted_to(mut self, path: Option<&'static str>) -> Self {
        if let Some(path) = path {
            self.path = Some(PathAndQuery::from_static(path));
            self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        self
    }
}
