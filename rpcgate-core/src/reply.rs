//! What came back for a call: cut into what is kept, what is passed on, and what is counted.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

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
    /// The cache: it was stored before the request came.
    Stored,
    /// Another call for the same thing, which was under way when this one came.
    Shared,
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
    /// Nothing: what a notification gets.
    Nothing,
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
        matches!(self, Form::Whole(Whole { inner: Err(_), .. }) | Form::Error(..))
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
