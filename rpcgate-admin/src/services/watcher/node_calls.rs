//! Calls to one node of a chain for readers of blocks.

use bytes::Bytes;
use http::Method;
use http::header::{DATE, HeaderValue};
use http::uri::PathAndQuery;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::envelope::{Replies, replies};
use rpcgate_core::event::{NodeCalls, ReadError};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::json::DEEPEST;
use rpcgate_layers::nodes::{NodeIndex, NodeRequestError, Pool, next_call_number};
use rpcgate_layers::transport::h1::{AnswerBody, NodeRequest};
use rpcgate_layers::transport::ws::NodeMessages;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Bytes. The chains' largest blocks have a quarter of that.
const LARGEST: usize = 64 << 20;

/// The maximum number of stored bytes of a node's error.
const MESSAGE: usize = 200;

/// The maximum number of messages, such as those of subscriptions, before the answer to a call on a stream.
const PASSED_OVER: usize = 10_000;

/// A session of calls to one node, so that a reader gets a consistent view over several steps.
pub(crate) struct NodeSession {
    pool: Arc<Pool>,
    node: NodeIndex,
    adapter: Arc<dyn Adapter>,
    limit: Duration,
    stream: Mutex<SessionStream>,
    /// The `Date` header of the last answer over HTTP.
    date: parking_lot::Mutex<Option<HeaderValue>>,
}

enum SessionStream {
    Unopened,
    /// It is open. The next call has this id.
    Open(Box<NodeMessages>, u64),
    /// It broke. The node has lost the state of earlier calls, so this session opens no other stream.
    Lost,
}

impl NodeSession {
    pub(crate) fn new(pool: Arc<Pool>, node: NodeIndex, adapter: Arc<dyn Adapter>, limit: Duration) -> Self {
        let stream = Mutex::new(SessionStream::Unopened);
        let date = parking_lot::Mutex::default();
        NodeSession { pool, node, adapter, limit, stream, date }
    }

    /// Returns the node's time in the `Date` header of the last answer over HTTP.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "commands alone compare clocks"))]
    pub(crate) fn date(&self) -> Option<HeaderValue> {
        self.date.lock().clone()
    }

    /// Reports whether the stream was lost, so that another session is needed.
    pub(super) fn is_lost(&self) -> bool {
        self.stream.try_lock().is_ok_and(|stream| matches!(*stream, SessionStream::Lost))
    }

    fn envelope(&self, id: u64, method: &str, params: &str) -> String {
        let version = self.adapter.facts().dialect.version();
        let version = version.map(|version| format!(r#""jsonrpc":{version},"id":{id},"#)).unwrap_or_default();
        let params = if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
        format!(r#"{{{version}"method":{}{params}}}"#, Value::from(method))
    }

    async fn ask(&self, request: NodeRequest) -> Result<(u16, Bytes), NodeRequestError> {
        let mut answer = self.pool.ask_node(self.node, &request.with_buffer(LARGEST), self.limit).await?;
        *self.date.lock() = answer.headers.remove(DATE);
        match answer.body {
            AnswerBody::Complete(body) => Ok((answer.status.as_u16(), body)),
            AnswerBody::Larger { .. } => Err(Fault::sent(Cause::Oversize).into()),
        }
    }

    async fn call_by_http(&self, method: &str, params: &str) -> Result<Bytes, ReadError> {
        let number = next_call_number();
        let body = self.envelope(number as u64, method, params);
        let request =
            NodeRequest::json_rpc(body.into()).with_number(number).posted_to(self.adapter.rpc_path());
        match self.ask(request).await {
            Ok((status, body)) => self.result(status, &body),
            // The node only has a WebSocket.
            Err(NodeRequestError::Fault(Fault { cause: Cause::NoNode, .. })) => {
                self.call_by_stream(method, params).await
            }
            Err(error) => Err(unreachable(error)),
        }
    }

    async fn call_by_stream(&self, method: &str, params: &str) -> Result<Bytes, ReadError> {
        let mut stream = self.stream.lock().await;
        // A call that is dropped halfway leaves a stream that cannot be read on.
        let taken = std::mem::replace(&mut *stream, SessionStream::Lost);
        let called = tokio::time::timeout(self.limit, async {
            let (mut messages, id) = match taken {
                SessionStream::Open(messages, id) => (messages, id),
                SessionStream::Unopened => {
                    let opened = self.pool.open_messages(self.node, LARGEST).await.map_err(unreachable)?;
                    (Box::new(opened), 1)
                }
                SessionStream::Lost => return Err(ReadError::Unreachable("the stream was lost".into())),
            };
            let answer = self.exchange(&mut messages, id, method, params).await?;
            Ok((messages, id, answer))
        });
        let (messages, id, answer) =
            called.await.map_err(|_| ReadError::Unreachable("no answer in time".into()))??;
        *stream = SessionStream::Open(messages, id + 1);
        self.result(200, &answer)
    }

    /// Sends a call, and reads up to its answer.
    async fn exchange(
        &self,
        messages: &mut NodeMessages,
        id: u64,
        method: &str,
        params: &str,
    ) -> Result<Bytes, ReadError> {
        messages.send(self.envelope(id, method, params)).await.map_err(unreachable)?;
        let expected = id.to_string();
        for _ in 0..PASSED_OVER {
            let message = messages.next().await.map_err(unreachable)?;
            let is_answer = match replies(&message, DEEPEST) {
                Ok(Replies::Single(reply)) => {
                    let is_its = reply.id.map(|id| id.of(&message)) == Some(expected.as_bytes());
                    is_its && (reply.result.is_some() || reply.error.is_some())
                }
                Ok(Replies::Many(_)) => false,
                Err(_) => DeepReply::read(&message).is_some_and(|reply| reply.id.get() == expected),
            };
            if is_answer {
                return Ok(message);
            }
        }
        Err(ReadError::Unreadable("no answer among the messages of a stream"))
    }

    /// Returns the `result` in the body of an answer.
    fn result(&self, status: u16, body: &Bytes) -> Result<Bytes, ReadError> {
        let Ok(Replies::Single(reply)) = replies(body, DEEPEST) else {
            if let Some(DeepReply { result, .. }) = DeepReply::read(body) {
                return Ok(body.slice_ref(result.get().as_bytes()));
            }
            return Err(match status {
                200..300 => ReadError::Unreadable("the body is no JSON-RPC answer"),
                _ => refused(status.into(), &String::from_utf8_lossy(body)),
            });
        };
        if let Some(error) = reply.error {
            return Err(node_error(error.of(body), status));
        }
        let Some(result) = reply.result else {
            return Err(ReadError::Unreadable("the answer has no result"));
        };
        let bytes = result.of(body);
        if self.adapter.is_error(bytes) {
            return Err(node_error(bytes, status));
        }
        Ok(body.slice_ref(bytes))
    }
}

/// An answer that is nested too deep for [`replies`]. On Cardano, the metadata of a transaction of a few cents can make
/// a block so deep. Readers skip such metadata.
#[derive(Deserialize)]
struct DeepReply<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    result: &'a RawValue,
}

impl<'a> DeepReply<'a> {
    fn read(message: &'a [u8]) -> Option<Self> {
        // A list of two would be parsed as the two members.
        let is_object = message.trim_ascii_start().starts_with(b"{");
        is_object.then(|| serde_json::from_slice(message).ok()).flatten()
    }
}

/// Reads a node's error: an object with a code and a message, the result of an XRP server, which has its own member
/// names, or a text.
fn node_error(error: &[u8], status: u16) -> ReadError {
    let Ok(error) = serde_json::from_slice::<Value>(error) else {
        return ReadError::Unreadable("the error is not JSON");
    };
    let code = ["code", "error_code"].iter().find_map(|name| error.get(name)?.as_i64());
    let texts = ["error", "message", "error_message"].iter().filter_map(|name| error.get(name)?.as_str());
    let texts: Vec<_> = error.as_str().into_iter().chain(texts).collect();
    refused(code.unwrap_or_else(|| status.into()), &texts.join(": "))
}

fn refused(code: i64, message: &str) -> ReadError {
    // Servers' pages end with a line break, which is not part of the message.
    let message = message.trim();
    let end = (0..=MESSAGE.min(message.len())).rev().find(|end| message.is_char_boundary(*end));
    ReadError::Refused { code, message: message[..end.unwrap_or_default()].to_owned() }
}

fn unreachable(error: impl fmt::Display) -> ReadError {
    ReadError::Unreachable(error.to_string())
}

impl NodeCalls for NodeSession {
    fn call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async move { self.call_by_http(method, &params).await })
    }

    fn request<'a>(
        &'a self,
        verb: Method,
        path: String,
        body: String,
    ) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async move {
            let path: PathAndQuery =
                path.parse().map_err(|_| ReadError::Unreadable("the path cannot be requested"))?;
            let request = NodeRequest::to_path(verb, path, body.into());
            match self.ask(request).await.map_err(unreachable)? {
                (200..300, body) => Ok(body),
                (status, body) => Err(refused(status.into(), &String::from_utf8_lossy(&body))),
            }
        })
    }

    fn stream_call<'a>(&'a self, method: &'a str, params: String) -> BoxFuture<'a, Result<Bytes, ReadError>> {
        Box::pin(async move { self.call_by_stream(method, &params).await })
    }
}

impl fmt::Debug for NodeSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeSession")
            .field("chain", &self.pool.chain())
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
