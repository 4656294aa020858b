use crate::nodes::node::NodeIndex;
use crate::nodes::node_set::NodeSet;
use crate::nodes::reception::ReceptionReader;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use rpcgate_core::node_try::NodeChoice;

/// The size of the number range of one request. An array has fewer calls.
pub(crate) const NUMBERS: usize = 128;

/// A request to one of a chain's nodes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeRequest {
    /// The HTTP method.
    pub method: Method,
    /// The target below the node's URL; `None` for the URL itself, which takes JSON-RPC.
    pub path: Option<PathAndQuery>,
    /// Headers in addition to those that the client writes itself. Framing, hop-by-hop headers and credentials are left
    /// out, and the operator's headers for the node take precedence. Without a `path` they are ignored.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// True if the request submits something. It is never sent again after a byte of it was written.
    pub broadcast: bool,
    /// The maximum size of a buffered answer in bytes. A larger one is returned as
    /// [`AnswerBody::Larger`](super::AnswerBody::Larger).
    pub buffer: usize,
    /// The maximum size in bytes, encoded or decoded, of an answer that cannot be streamed because the node compressed
    /// it. Beyond it the call ends with [`Cause::Oversize`](rpcgate_core::fault::Cause::Oversize).
    pub max: usize,
    /// A node that must not get the request, for example because it has just rejected the gateway's credentials. If it
    /// is the only node, the call ends with [`Cause::NoNode`](rpcgate_core::fault::Cause::NoNode).
    pub avoid: Option<NodeIndex>,
    /// The number that is the id of the call in the body; `None` if the body has none. The ids of an array are numbers
    /// from this one up, less than [`NUMBERS`] above it. The reader of the answer compares it.
    pub(crate) number: Option<usize>,
    pub(crate) among: NodeSet,
    /// The number of calls that a node counts for the request: those of an array.
    pub(crate) calls: u32,
    /// The reason for the choice of the first node, if it is a special one.
    pub(crate) choice: Option<NodeChoice>,
    /// The node that gets the request first, if that is already decided.
    pub(crate) first: Option<NodeIndex>,
    pub(crate) method_name: Option<&'static str>,
    /// The listed method as which the request may be hedged; empty for an unlisted method, `None` for no hedge.
    pub(crate) hedge: Option<&'static str>,
    pub(crate) is_hedge: bool,
    /// The reader of the result of a broadcast to several nodes.
    pub(crate) reader: Option<ReceptionReader>,
    /// The form of the call for an array with other calls, if it may be batched.
    pub(crate) batchable: Option<Box<BatchableCall>>,
}

/// A single read in the form for an array with the calls of other clients.
#[derive(Clone, Debug)]
pub(crate) struct BatchableCall {
    pub(crate) number: usize,
    /// The call with only the method and the parameters of the client.
    pub(crate) body: Bytes,
    /// The path below the node's URL to which the array is posted.
    pub(crate) path: Option<&'static str>,
}

impl NodeRequest {
    /// Creates a JSON-RPC call, or an array of calls: a `POST` to the node's URL that buffers an answer of up to 256
    /// KiB.
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

    /// Creates a request for a path below the node's URL, with a JSON body unless it is empty. An answer of up to 256
    /// KiB is buffered.
    pub fn to_path(method: Method, path: PathAndQuery, body: Bytes) -> Self {
        let mut headers = HeaderMap::new();
        if !body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        NodeRequest { method, path: Some(path), headers, ..NodeRequest::json_rpc(body) }
    }

    /// Sets the maximum size of a buffered answer in bytes.
    #[must_use]
    pub fn with_buffer(self, buffer: usize) -> Self {
        NodeRequest { buffer, ..self }
    }

    /// Sets the number that is the id of the call in the body.
    #[must_use]
    pub const fn with_number(mut self, number: usize) -> Self {
        self.number = Some(number);
        self
    }

    /// Sets the path below the node's URL to which the JSON is posted; `None` for the URL itself.
    #[must_use]
    pub fn posted_to(mut self, path: Option<&'static str>) -> Self {
        if let Some(path) = path {
            self.path = Some(PathAndQuery::from_static(path));
            self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        self
    }
}
