//! What came back for a call: cut into what is kept, what is passed on, and what is counted.

use crate::fault::Fault;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::Body;
use parking_lot::Mutex;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// The answer to one call.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its content.
    pub form: Form,
    /// Where it came from.
    pub from: Source,
}

/// Where an answer came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A node, asked for this call.
    Node,
    /// A node, with one answer to all calls it was asked together: no word about this one.
    NodeForAll,
    /// The cache: it was stored before the request came.
    Stored,
    /// Another call for the same thing, which was under way when this one came.
    Shared,
    /// A station of an embedder's own, neither a node nor the cache.
    Own {
        /// Whether the call had been reserved in the quota by then: only so it is charged.
        reserved: bool,
    },
}

/// The content of an answer.
#[derive(Clone, Debug)]
pub enum Form {
    /// A node's own answer to a set of one, under the client's own id: passed on as it is.
    Whole(Whole),
    /// The raw `result`.
    Result(Bytes),
    /// The raw `error` object of a node, and the HTTP status the node gave it when it was asked alone.
    Error(Bytes, StatusCode),
    /// A node's own answer to a set of one that is too large to be held: passed on as it comes.
    Stream(Streamed),
    /// Nothing: what a notification gets.
    Nothing,
}

/// A body on its way from a node.
pub type Flow = Pin<Box<dyn Body<Data = Bytes, Error = Fault> + Send>>;

/// A node's answer of which only the head was read.
#[derive(Clone)]
pub struct Streamed {
    /// The HTTP status it came with.
    pub status: StatusCode,
    /// The headers that pass to the client.
    pub headers: HeaderMap,
    /// Whether it is an error of the node's own.
    pub is_error: bool,
    body: Arc<Mutex<Option<Flow>>>,
}

impl Streamed {
    /// An answer with this body.
    pub fn new(status: StatusCode, headers: HeaderMap, is_error: bool, body: Flow) -> Self {
        Streamed { status, headers, is_error, body: Arc::new(Mutex::new(Some(body))) }
    }

    /// The body; there is one, once.
    pub fn take(&self) -> Option<Flow> {
        self.body.lock().take()
    }
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed")
            .field("status", &self.status)
            .field("is_error", &self.is_error)
            .finish_non_exhaustive()
    }
}

/// A node's answer as it came.
#[derive(Clone, Debug)]
pub struct Whole {
    /// The HTTP status it came with.
    pub status: StatusCode,
    /// The headers that pass to the client.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The raw `result` or `error` inside the body.
    pub inner: Result<Bytes, Bytes>,
}

impl Form {
    /// The raw result, when there is one.
    pub fn result(&self) -> Option<&Bytes> {
        match self {
            Form::Whole(Whole { inner: Ok(result), .. }) | Form::Result(result) => Some(result),
            _ => None,
        }
    }

    /// Whether the node answered with an error of its own.
    pub fn is_error(&self) -> bool {
        matches!(
            self,
            Form::Whole(Whole { inner: Err(_), .. })
                | Form::Error(..)
                | Form::Stream(Streamed { is_error: true, .. })
        )
    }

    /// The same content for another caller's id: whole answers are taken apart.
    #[must_use]
    pub fn shared(&self) -> Form {
        match self {
            Form::Whole(Whole { inner: Ok(result), .. }) => Form::Result(result.clone()),
            Form::Whole(Whole { inner: Err(error), status, .. }) => Form::Error(error.clone(), *status),
            other => other.clone(),
        }
    }
}
