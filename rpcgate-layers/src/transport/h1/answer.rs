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

pub(crate) fn unusable_body(status: StatusCode) -> Fault {
    let cause = if status.is_success() { Cause::Undecodable } else { Cause::Status(status.as_u16()) };
    Fault::sent(cause)
}

/// The answer of a node. The caller decides which statuses are faults.
#[derive(Debug)]
#[non_exhaustive]
pub struct NodeAnswer {
    /// The node that answered.
    pub node: NodeIndex,
    /// The HTTP status; never an informational one.
    pub status: StatusCode,
    /// The headers, without those of the connection, of the length, or of a removed content coding. The answer to a
    /// `HEAD` request keeps its `Content-Length`.
    pub headers: HeaderMap,
    /// The body.
    pub body: AnswerBody,
    /// True if the node declared the length of the body. Otherwise the body ends with the connection, and only its
    /// content (a complete JSON text) can show that it was not truncated.
    pub framed: bool,
    /// True if an earlier answer on the same connection had its call's number as its id. Then an answer without an id
    /// may belong to an earlier call.
    pub(crate) has_numbers: bool,
    /// True if the connection had a call before. Then unreadable bytes may be left over from that call.
    pub(crate) is_reused: bool,
    /// The connection of a complete answer, if it may take another call. It is closed unless the reader of the answer
    /// gives it back.
    pub(super) connection: Option<RestingConnection>,
}

/// The decoded body of an answer.
#[derive(Debug)]
pub enum AnswerBody {
    /// The whole body: at most [`NodeRequest::buffer`](super::NodeRequest::buffer) bytes, or at most
    /// [`NodeRequest::max`](super::NodeRequest::max) if the node had compressed it.
    Complete(Bytes),
    /// A body that is larger than the buffer limit. Dropping it before its end closes the connection.
    Larger {
        /// The start: at least 16 KiB, or [`NodeRequest::buffer`](super::NodeRequest::buffer) if that is less.
        prefix: Bytes,
        /// The rest.
        rest: Box<NodeBody>,
    },
}

impl NodeAnswer {
    /// Creates an empty answer without a connection, to be filled with one reply of an array.
    pub(super) fn unconnected() -> Self {
        NodeAnswer {
            node: NodeIndex(0),
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: AnswerBody::Complete(Bytes::new()),
            framed: true,
            has_numbers: false,
            is_reused: false,
            connection: None,
        }
    }

    /// Reports whether this may be the answer to the call with this number. A reply with another number is not.
    pub(crate) fn is_that_to(&self, number: Option<usize>) -> bool {
        let (Some(number), AnswerBody::Complete(body)) = (number, &self.body) else { return true };
        let Ok(Replies::Single(reply)) = replies(body, DEEPEST) else { return true };
        self.accepts(&reply, body, number)
    }

    /// Reports whether a reply in the body may answer the call with this number. A reply without an id is accepted
    /// unless the node is known to write ids on this connection: then it may be a late reply to an earlier call. Errors
    /// without an id are accepted, because proxies send them.
    pub(crate) fn accepts(&self, reply: &ReplyMembers, body: &[u8], number: usize) -> bool {
        match reply_number(reply.id.map(|id| id.of(body)), number) {
            ReplyNumber::Same | ReplyNumber::Respelled => true,
            ReplyNumber::Absent => !self.has_numbers || reply.error.is_some(),
            ReplyNumber::Other => false,
        }
    }

    /// Takes the connection. The caller gives it back after the answer has proved to be that to its call.
    pub(crate) fn take_connection(&mut self) -> Option<RestingConnection> {
        self.connection.take()
    }

    /// Reports whether the status means that the node serves no call of the gateway. The operator is responsible for
    /// the gateway's credentials and limits.
    pub(crate) fn rejects_the_gateway(&self) -> bool {
        let status = self.status;
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS)
    }

    /// Reports whether the status means that the node has failed, and not that it lacks a feature.
    pub(crate) fn has_failed(&self) -> bool {
        self.status.is_server_error() && self.status != StatusCode::NOT_IMPLEMENTED
    }

    /// Returns the pause that an overloaded node requests: RFC 9110 section 10.2.3, only in its form with seconds.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        if !matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            return None;
        }
        let secs = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
        Some(Duration::from_secs(secs))
    }
}

impl Judged for NodeAnswer {
    /// Judges by the status alone, because the content is not known here.
    fn verdict(&self) -> Verdict {
        if self.status.is_success() { Verdict::Usable } else { Verdict::Neutral }
    }
}
