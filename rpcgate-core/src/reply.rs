//! The answer to a call, split into the parts that are cached, forwarded and counted.

use crate::fault::Fault;
use crate::json::Span;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
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
    /// Its origin.
    pub from: Source,
}

/// The origin of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The node that answered this call.
    Node,
    /// A node that gave one answer to the whole request, with none for this call.
    NodeForAll,
    /// A node whose error says that it cannot serve the call now, after all others failed too. The call is not charged.
    Unserved,
    /// The cache, where it was stored before the request arrived.
    Stored,
    /// Another identical call, which was in flight when this one arrived.
    Shared,
    /// An embedder's layer.
    Own {
        /// True if the quota was reserved for the call. Only then is it charged.
        reserved: bool,
    },
}

/// The content of an answer.
#[derive(Clone, Debug)]
pub enum Form {
    /// A node's own answer to a set of one, forwarded with the client's id and the headers in
    /// [`Tally::passing`](crate::tally::Tally::passing).
    Complete(CompleteReply),
    /// The raw `result`.
    Result(Bytes),
    /// A raw `result` that the adapter takes as a failure, and the answer's HTTP status if the call was sent alone.
    Failure(Bytes, StatusCode),
    /// The raw `error` object of a node, and the HTTP status of its answer if the call was sent alone.
    Error(Bytes, StatusCode),
    /// The answer to a REST call.
    Rest(Box<Rest>),
    /// A node's own answer to a set of one that is too large to buffer. It is forwarded as it arrives.
    Stream(Box<Streamed>),
    /// No content: the answer to a notification.
    Nothing,
}

/// The answer to a REST call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rest {
    /// Its HTTP status.
    pub status: StatusCode,
    /// The headers that are forwarded to the client, including `Content-Type`.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// True if the answer means that the call failed.
    pub is_error: bool,
}

impl Rest {
    /// Encodes status, headers and body as one byte string for a store.
    pub fn stored(&self) -> Bytes {
        let lengths: usize =
            self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 8).sum();
        let mut out = Vec::with_capacity(6 + lengths + self.body.len());
        out.extend_from_slice(&self.status.as_u16().to_be_bytes());
        out.extend_from_slice(&(self.headers.len() as u32).to_be_bytes());
        for (name, value) in &self.headers {
            for part in [name.as_str().as_bytes(), value.as_bytes()] {
                out.extend_from_slice(&(part.len() as u32).to_be_bytes());
                out.extend_from_slice(part);
            }
        }
        out.extend_from_slice(&self.body);
        out.into()
    }

    /// Decodes the bytes that [`stored`](Rest::stored) wrote. `None` for any other bytes.
    pub fn restored(mut stored: Bytes) -> Option<Self> {
        fn part(stored: &mut Bytes, len: usize) -> Option<Bytes> {
            (len <= stored.len()).then(|| stored.split_to(len))
        }
        fn number(stored: &mut Bytes) -> Option<usize> {
            let bytes = part(stored, 4)?;
            usize::try_from(u32::from_be_bytes(bytes.as_ref().try_into().ok()?)).ok()
        }
        let status = part(&mut stored, 2)?;
        let status = StatusCode::from_u16(u16::from_be_bytes(status.as_ref().try_into().ok()?)).ok()?;
        let count = number(&mut stored)?;
        let mut headers = HeaderMap::new();
        for _ in 0..count {
            let len = number(&mut stored)?;
            let name = HeaderName::from_bytes(&part(&mut stored, len)?).ok()?;
            let len = number(&mut stored)?;
            headers.append(name, HeaderValue::from_maybe_shared(part(&mut stored, len)?).ok()?);
        }
        Some(Rest { status, headers, body: stored, is_error: false })
    }
}

/// A body that is arriving from a node.
pub type Flow = Pin<Box<dyn Body<Data = Bytes, Error = Fault> + Send>>;

/// A node's answer after its head was read.
#[derive(Clone)]
pub struct Streamed {
    /// Its HTTP status.
    pub status: StatusCode,
    /// The headers that are forwarded to the client.
    pub headers: HeaderMap,
    /// True if it is an error from the node.
    pub is_error: bool,
    body: Arc<Mutex<Option<Flow>>>,
}

impl Streamed {
    /// Creates an answer with this body.
    pub fn new(status: StatusCode, headers: HeaderMap, is_error: bool, body: Flow) -> Self {
        Streamed { status, headers, is_error, body: Arc::new(Mutex::new(Some(body))) }
    }

    /// Takes the body out; `None` the second time.
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

/// A node's own answer, unchanged.
#[derive(Clone, Debug)]
pub struct CompleteReply {
    /// Its HTTP status.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
    /// The position of the id, which the client's id replaces; `None` if the body passes unchanged.
    pub id: Option<Span>,
    /// The parts of the body.
    pub inner: Inner,
}

/// The content of a node's reply, as raw JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Inner {
    /// Its `result`.
    Result(Bytes),
    /// Its `result`, which means a failure.
    Failure(Bytes),
    /// Its `error`.
    Error(Bytes),
}

impl Inner {
    /// Converts the content to a form without the reply around it. `status` is the reply's HTTP status.
    pub fn form(self, status: StatusCode) -> Form {
        match self {
            Inner::Result(result) => Form::Result(result),
            Inner::Failure(result) => Form::Failure(result, status),
            Inner::Error(error) => Form::Error(error, status),
        }
    }
}

impl Form {
    /// Returns the raw result, if there is one.
    pub fn result(&self) -> Option<&Bytes> {
        match self {
            Form::Complete(CompleteReply { inner: Inner::Result(result), .. }) | Form::Result(result) => {
                Some(result)
            }
            _ => None,
        }
    }

    /// Returns the bytes for a reply store: the raw result, or a whole REST answer that is not an error.
    pub fn stored(&self) -> Option<Bytes> {
        match self {
            Form::Rest(rest) if !rest.is_error => Some(rest.stored()),
            other => other.result().cloned(),
        }
    }

    /// Returns the bytes that show how permanent the answer is: the raw result, or the body of a REST answer.
    pub fn content(&self) -> Option<&Bytes> {
        match self {
            Form::Rest(rest) => Some(&rest.body),
            other => other.result(),
        }
    }

    /// Reports whether the node answered with an error.
    pub fn is_error(&self) -> bool {
        match self {
            Form::Complete(complete) => !matches!(complete.inner, Inner::Result(_)),
            Form::Failure(..) | Form::Error(..) => true,
            Form::Rest(rest) => rest.is_error,
            Form::Stream(streamed) => streamed.is_error,
            Form::Result(_) | Form::Nothing => false,
        }
    }

    /// Returns the same content for another caller's id: a whole answer is reduced to its parts.
    #[must_use]
    pub fn shared(&self) -> Form {
        match self {
            Form::Complete(CompleteReply { inner, status, .. }) => inner.clone().form(*status),
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_answer_is_the_same_after_it_was_stored() {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/x-bcs"));
        headers.append("x-a", HeaderValue::from_static(""));
        headers.append("x-a", HeaderValue::from_bytes(b"\xc3\xa9").unwrap());
        let rest = Rest {
            status: StatusCode::ACCEPTED,
            headers,
            body: Bytes::from_static(b"\x00\xff"),
            is_error: false,
        };
        let stored = rest.stored();
        assert_eq!(Rest::restored(stored.clone()), Some(rest));
        for cut in 0..stored.len() - 2 {
            assert_eq!(Rest::restored(stored.slice(..cut)), None, "{cut}");
        }
        let failed = Rest { is_error: true, ..Rest::restored(stored).unwrap() };
        let failed = Form::Rest(Box::new(failed));
        assert!(failed.stored().is_none() && failed.is_error());
    }
}
