//! Calls that the gateway makes to a node for itself.

use super::call_number::next_call_number;
use super::error::NodeRequestError;
use crate::transport::h1::{AnswerBody, NodeAnswer, NodeRequest};
use bytes::Bytes;
use http::Method;
use http::uri::PathAndQuery;
use rpcgate_core::adapter::{Adapter, Probe};
use rpcgate_core::envelope::{Replies, replies};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::json::DEEPEST;
use std::borrow::Cow;
use std::fmt;

/// The maximum number of characters shown of a node's error.
const SHOWN: usize = 200;

#[derive(Debug)]
pub(super) enum ProbeCall {
    /// A REST call, built once for all nodes and rounds.
    Rest(Box<NodeRequest>),
    /// A JSON-RPC call, which gets a new id each time.
    Rpc {
        /// The value of `jsonrpc`; `None` for a dialect without an envelope.
        version: Option<&'static str>,
        /// The method and the parameters as members of a JSON object.
        content: String,
        /// The path below the node's URL.
        path: Option<&'static str>,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ProbeFailure {
    NoAnswer(NodeRequestError),
    Status(u16),
    Error(String),
    /// The answer is not that of a node of the chain.
    Unreadable,
}

impl From<NodeRequestError> for ProbeFailure {
    fn from(error: NodeRequestError) -> Self {
        match error {
            NodeRequestError::Fault(Fault { cause: Cause::Status(status), .. }) => {
                ProbeFailure::Status(status)
            }
            error => ProbeFailure::NoAnswer(error),
        }
    }
}

impl ProbeFailure {
    /// Reports whether no connection could be made. That failure is recorded where it happens.
    pub(super) fn is_unconnected(&self) -> bool {
        *self == ProbeFailure::NoAnswer(Fault::unsent(Cause::Connect).into())
    }

    /// Reports whether nothing came from the node.
    pub(super) const fn is_silence(&self) -> bool {
        matches!(self, ProbeFailure::NoAnswer(_))
    }
}

impl fmt::Display for ProbeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeFailure::NoAnswer(error) => error.fmt(f),
            ProbeFailure::Status(status @ (401 | 403)) => {
                write!(f, "HTTP status {status}: the node rejects the gateway's credentials")
            }
            ProbeFailure::Status(status) => write!(f, "HTTP status {status}"),
            ProbeFailure::Error(error) => write!(f, "it answers its probe with an error: {error}"),
            ProbeFailure::Unreadable => f.write_str("its answer is not that of a node of this chain"),
        }
    }
}

impl ProbeCall {
    pub(super) fn new(adapter: &dyn Adapter, probe: Probe) -> Self {
        match probe {
            Probe::Rpc { method, params } => {
                let version = adapter.facts().dialect.version();
                let params = if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
                let content = format!(r#""method":"{method}"{params}"#);
                ProbeCall::Rpc { version, content, path: adapter.rpc_path() }
            }
            Probe::Rest { target, body: Some(body) } => {
                ProbeCall::Rest(Box::new(NodeRequest::json_rpc(body.into()).posted_to(Some(target))))
            }
            Probe::Rest { target, body: None } => {
                let path = Some(PathAndQuery::from_static(target));
                let request = NodeRequest::json_rpc(Bytes::new());
                ProbeCall::Rest(Box::new(NodeRequest { method: Method::GET, path, ..request }))
            }
        }
    }

    pub(super) fn request(&self) -> Cow<'_, NodeRequest> {
        match self {
            ProbeCall::Rest(request) => Cow::Borrowed(request),
            ProbeCall::Rpc { version: None, content, path } => {
                Cow::Owned(NodeRequest::json_rpc(format!("{{{content}}}").into()).posted_to(*path))
            }
            ProbeCall::Rpc { version: Some(version), content, path } => {
                let number = next_call_number();
                let call = format!(r#"{{"jsonrpc":{version},"id":{number},{content}}}"#);
                Cow::Owned(NodeRequest::json_rpc(call.into()).with_number(number).posted_to(*path))
            }
        }
    }

    /// Returns the raw `result` of an answer, or the body of a REST answer.
    ///
    /// # Errors
    /// [`ProbeFailure`] says why the answer has no result.
    pub(super) fn read(&self, answer: NodeAnswer) -> Result<Bytes, ProbeFailure> {
        let AnswerBody::Complete(body) = answer.body else { return Err(ProbeFailure::Unreadable) };
        let bad_status =
            (!answer.status.is_success()).then_some(ProbeFailure::Status(answer.status.as_u16()));
        if matches!(self, ProbeCall::Rest(_)) {
            return bad_status.map_or(Ok(body), Err);
        }
        let Ok(Replies::Single(reply)) = replies(&body, DEEPEST) else {
            return Err(bad_status.unwrap_or(ProbeFailure::Unreadable));
        };
        if let Some(error) = reply.error {
            let error = String::from_utf8_lossy(error.of(&body)).chars().take(SHOWN).collect();
            return Err(bad_status.unwrap_or(ProbeFailure::Error(error)));
        }
        let result = reply.result.ok_or(bad_status.unwrap_or(ProbeFailure::Unreadable))?;
        Ok(body.slice_ref(result.of(&body)))
    }
}
