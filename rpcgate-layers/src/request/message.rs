//! The request types before a body is read, and the response type that comes back.

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Request, StatusCode};
use rpcgate_core::call::{Call, Entry, Payload};
use rpcgate_core::caller::RequestId;
use rpcgate_core::chain::{Chain, Dialect};
use rpcgate_core::clock::Time;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::Flow;
use rpcgate_core::rest::Path;
use rpcgate_core::tally::{Tally, Transport};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A request with its id and its time of arrival.
#[derive(Debug)]
pub struct Received<B> {
    /// The request, boxed because it moves from layer to layer.
    pub request: Box<Request<B>>,
    /// Its id.
    pub id: RequestId,
    /// Time of arrival by the wall clock.
    pub arrival: Time,
    /// Time of arrival by the monotonic clock, from which latency is measured.
    pub started: Duration,
}

/// A request for a chain.
#[derive(Debug)]
pub struct Routed<B> {
    /// The request and the time of its arrival.
    pub received: Received<B>,
    /// The chain.
    pub chain: Arc<Chain>,
    /// Its transport.
    pub transport: Transport,
    /// Its target on the chain.
    pub target: Target,
}

/// The target of a request for a chain.
#[derive(Debug)]
#[non_exhaustive]
pub enum Target {
    /// The calls in its body.
    JsonRpc,
    /// The one REST call of this path below the chain's own.
    Rest(Path),
    /// Nothing that a node has: the refusal depends on the body.
    Nothing(fn(&[u8]) -> Refusal),
}

/// A request for a chain whose caller is known. From here on it has a tally.
#[derive(Debug)]
pub struct Authenticated<B> {
    /// The request.
    pub request: Box<Request<B>>,
    /// Its target on the chain.
    pub target: Target,
    /// Its tally.
    pub tally: Box<Tally>,
}

impl<B> Authenticated<B> {
    /// The response that refuses it without reading its body. It is one usage call with method `-`.
    pub fn refuse(self, refusal: Refusal) -> PendingResponse {
        PendingResponse::refused_unread(self.tally, refusal)
    }
}

/// A response without the headers that every response carries; the respond layer adds them.
pub struct PendingResponse {
    /// The status.
    pub status: StatusCode,
    /// Headers of this response only.
    pub headers: HeaderMap,
    /// Whether the body is JSON of the gateway or of a JSON-RPC node: then `headers` have no content type, which is in the
    /// table that all other headers are written into.
    pub is_json: bool,
    /// The body, or its first piece.
    pub body: Bytes,
    /// The pieces that follow it.
    pub rest: Vec<Bytes>,
    /// Instead of the body: one that is still arriving from a node.
    pub flow: Option<Flow>,
    /// The tally, if there is a caller. It is closed when the response leaves.
    pub tally: Option<Box<Tally>>,
    /// Whether the rate headers are written: always to an authenticated key.
    pub rated: bool,
    /// The refusal, where the request was refused as a whole.
    pub refusal: Option<Refusal>,
}

impl fmt::Debug for PendingResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("PendingResponse");
        shown.field("status", &self.status).field("headers", &self.headers).field("body", &self.body);
        shown.field("flows", &self.flow.is_some()).field("refusal", &self.refusal).finish_non_exhaustive()
    }
}

impl PendingResponse {
    /// A refusal of a request that has no tally.
    pub fn refused(refusal: Refusal) -> Self {
        let mut body = Vec::new();
        refusal.write_alone(Dialect::JsonRpc2, None, &mut body);
        PendingResponse {
            status: refusal.status(),
            headers: HeaderMap::new(),
            is_json: true,
            body: body.into(),
            rest: Vec::new(),
            flow: None,
            tally: None,
            rated: false,
            refusal: Some(refusal),
        }
    }

    /// A refusal of a request whose body was not read, or is not a call.
    pub fn refused_unread(mut tally: Box<Tally>, refusal: Refusal) -> Self {
        let dialect = tally.chain.facts().dialect;
        let mut body = Vec::new();
        refusal.write_alone(dialect, None, &mut body);
        let mut entry = Entry::refused(Call::unread(Payload::Unread), refusal);
        entry.bytes_out = body.len() as u32;
        tally.entries.push(entry);
        let mut pending = PendingResponse::refused(refusal);
        pending.body = body.into();
        pending.tally = Some(tally);
        pending.rated = true;
        pending
    }
}
