//! The answer of a node.

use super::body::NodeBody;
use super::idle::RestingConnection;
use crate::nodes::node::NodeIndex;
use crate::nodes::transport_health::{Judged, Verdict};
use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use rpcgate_core::envelope::{Replies, ReplyMembers, ReplyNumber, replies, reply_number};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::json::DEEPEST;
use std::time::Duration;

/// The fault of an answer with this status whose body is not one.
pub(crate) fn unusable_body(status: StatusCode) -> Fault {
    let cause = if status.is_success() { Cause::Undecodable } else { Cause::Status(status.as_u16()) };
    Fault::sent(cause)
}

/// A node's answer. Which statuses are answers and which are faults is for the caller to say.
#[derive(Debug)]
#[non_exhaustive]
pub struct NodeAnswer {
    /// The node that gave it.
    pub node: NodeIndex,
    /// Its HTTP status; never an informational one.
    pub status: StatusCode,
    /// Its headers, without those of the connection, of the length, or of an encoding that was undone. The answer to a
    /// `HEAD` request keeps its `Content-Length`.
    pub headers: HeaderMap,
    /// Its body.
    pub body: AnswerBody,
    /// Whether the node declared how long the body is. If not, the body ends where the connection did, and only its
    /// content (a JSON text closed to its last bracket) can show that it was not cut.
    pub framed: bool,
    /// Whether an earlier answer on the same connection had the number of its call as its id. An answer without an id may
    /// then be that to an earlier call.
    pub(crate) has_numbers: bool,
    /// Whether its connection had a call before. What cannot be read may then be left over from that one.
    pub(crate) is_reused: bool,
    /// The connection of a whole answer, if it may take another call. It is closed unless the reader of the answer gives it
    /// back.
    pub(super) connection: Option<RestingConnection>,
}

/// The body of an answer, decoded.
#[derive(Debug)]
pub enum AnswerBody {
    /// All of it: at most [`NodeRequest::buffer`](super::NodeRequest::buffer) bytes, or at most
    /// [`NodeRequest::max`](super::NodeRequest::max) if the node had compressed it.
    Whole(Bytes),
    /// More than was to be buffered. Dropping it before its end closes the connection.
    Larger {
        /// Its beginning: at least 16 KiB, or [`NodeRequest::buffer`](super::NodeRequest::buffer) if that is less.
        prefix: Bytes,
        /// What follows.
        rest: Box<NodeBody>,
    },
}

impl NodeAnswer {
    /// An empty answer of no connection, to be filled with a part of another one.
    pub(super) fn unconnected() -> Self {
        NodeAnswer {
            node: NodeIndex(0),
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: AnswerBody::Whole(Bytes::new()),
            framed: true,
            has_numbers: false,
            is_reused: false,
            connection: None,
        }
    }

    /// Whether it may be the answer to the call with this number: not if it is a reply with another one.
    pub(crate) fn is_that_to(&self, number: Option<usize>) -> bool {
        let (Some(number), AnswerBody::Whole(body)) = (number, &self.body) else { return true };
        let Ok(Replies::Single(reply)) = replies(body, DEEPEST) else { return true };
        self.accepts(&reply, body, number)
    }

    /// Whether a reply in the answer's body is that to the call with this number. A reply without an id is, unless the
    /// connection has shown that its node writes ids: it may then be a late one to an earlier call. Errors without an id pass,
    /// since proxies answer with them.
    pub(crate) fn accepts(&self, reply: &ReplyMembers, body: &[u8], number: usize) -> bool {
        match reply_number(reply.id.map(|id| id.of(body)), number) {
            ReplyNumber::Same | ReplyNumber::Respelled => true,
            ReplyNumber::Absent => !self.has_numbers || reply.error.is_some(),
            ReplyNumber::Other => false,
        }
    }

    /// Takes the connection out, to be given back once the answer is known to be that to its call.
    pub(crate) fn take_connection(&mut self) -> Option<RestingConnection> {
        self.connection.take()
    }

    /// Whether its status means that the node serves no call of the gateway: the operator is responsible for its
    /// credentials and its limits.
    pub(crate) fn rejects_the_gateway(&self) -> bool {
        let status = self.status;
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS)
    }

    /// Whether its status means that the node has failed, and not that it lacks something.
    pub(crate) fn has_failed(&self) -> bool {
        self.status.is_server_error() && self.status != StatusCode::NOT_IMPLEMENTED
    }

    /// The pause that an overloaded node requests: RFC 9110 section 10.2.3, in seconds alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        if !matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            return None;
        }
        let secs = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
        Some(Duration::from_secs(secs))
    }
}

impl Judged for NodeAnswer {
    /// By its status alone: what it says is not known here.
    fn verdict(&self) -> Verdict {
        if self.status.is_success() { Verdict::Usable } else { Verdict::Neutral }
    }
}
