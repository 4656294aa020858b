//! What a node is asked.

use super::node::NodeIndex;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use rpcgate_core::fault::Fault;
use std::fmt;

/// One request to one of a chain's nodes.
#[derive(Clone, Debug)]
pub struct NodeRequest {
    /// The HTTP method.
    pub method: Method,
    /// The target below the node's URL; `None` for the URL itself, which is where JSON-RPC is spoken.
    pub path: Option<PathAndQuery>,
    /// Headers beside those that the pool writes itself. Framing, hop-by-hop headers and credentials are left out, and
    /// what the operator set for the node wins. Without a `path` they are not looked at.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Whether it submits something: never sent again once a byte of it was written.
    pub broadcast: bool,
    /// Bytes of the answer to collect. A larger one is given out as [`AnswerBody::Larger`](super::AnswerBody::Larger).
    pub collect: usize,
    /// Bytes that an answer may have, encoded or decoded, which cannot be streamed because the node compressed it.
    /// Beyond, the call ends with [`Cause::Oversize`](rpcgate_core::fault::Cause::Oversize).
    pub largest: usize,
    /// A node that must not be asked, for instance because it refused the gateway's own credentials just now. If it is
    /// the only one, the call ends with [`Cause::NoNode`](rpcgate_core::fault::Cause::NoNode).
    pub avoid: Option<NodeIndex>,
}

impl NodeRequest {
    /// A JSON-RPC call, or an array of calls: posted to the node's URL, an answer of up to 256 KiB collected.
    pub fn json_rpc(body: Bytes) -> Self {
        NodeRequest {
            method: Method::POST,
            path: None,
            headers: HeaderMap::new(),
            body,
            broadcast: false,
            collect: 256 << 10,
            largest: 64 << 20,
            avoid: None,
        }
    }

    /// The same JSON, posted to a path below the node's URL; `None`: to the URL itself.
    pub(super) fn posted_to(mut self, path: Option<&'static str>) -> Self {
        if let Some(path) = path {
            self.path = Some(PathAndQuery::from_static(path));
            self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        self
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeRequestError {
    /// Something broke on the way.
    Fault(Fault),
    /// This gateway has too much to do: as many calls to the chain as may be are under way, or there is no room in
    /// memory for the answer. The caller refuses the call as overloaded.
    Busy,
}

impl From<Fault> for NodeRequestError {
    fn from(fault: Fault) -> Self {
        NodeRequestError::Fault(fault)
    }
}

impl fmt::Display for NodeRequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeRequestError::Fault(fault) => fault.fmt(f),
            NodeRequestError::Busy => f.write_str("too many calls under way"),
        }
    }
}

impl std::error::Error for NodeRequestError {}
