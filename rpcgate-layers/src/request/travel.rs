//! What travels before the body is read, and what comes back.

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

/// A request with its id and the moment it came.
#[derive(Debug)]
pub struct Stamped<B> {
    /// The request; boxed, because it is handed from station to station.
    pub request: Box<Request<B>>,
    /// Its id.
    pub id: RequestId,
    /// When it came, on the wall clock.
    pub arrival: Time,
    /// When it came, on the clock that measures latency.
    pub started: Duration,
}

/// A request for a chain.
#[derive(Debug)]
pub struct Routed<B> {
    /// The request and when it came.
    pub stamped: Stamped<B>,
    /// The chain.
    pub chain: Arc<Chain>,
    /// How it came.
    pub transport: Transport,
    /// What it asks for.
    pub aim: Aim,
}

/// What a request for a chain asks for.
#[derive(Debug)]
pub enum Aim {
    /// The calls in its body.
    JsonRpc,
    /// The one call that this path below the chain's own is.
    Rest(Path),
    /// Nothing that a node has: what it is answered depends on its body.
    Nothing(fn(&[u8]) -> Refusal),
}

/// A request for a chain, from a caller who is known: from here on it has an account.
#[derive(Debug)]
pub struct Known<B> {
    /// The request.
    pub request: Box<Request<B>>,
    /// What it asks for.
    pub aim: Aim,
    /// Its account.
    pub tally: Box<Tally>,
}

impl<B> Known<B> {
    /// The answer that refuses it, its body unread. It is one usage call with method `-`.
    pub fn refuse(self, refusal: Refusal) -> Departure {
        Departure::refused_unread(self.tally, refusal)
    }
}

/// An answer on its way out: all but the headers that every answer carries.
pub struct Departure {
    /// The status.
    pub status: StatusCode,
    /// Headers of this answer alone.
    pub headers: HeaderMap,
    /// Whether the body is JSON of the gateway's making or of a JSON-RPC node's: then `headers` do not say its type, which
    /// stands in the table that the rest is written into.
    pub is_json: bool,
    /// The body, or its first piece.
    pub body: Bytes,
    /// What follows it, in pieces.
    pub rest: Vec<Bytes>,
    /// Instead of the body: one that is still coming from a node.
    pub flow: Option<Flow>,
    /// The account, where there is a caller. It is closed as the answer leaves.
    pub tally: Option<Box<Tally>>,
    /// Whether the rate headers are written: to an authenticated key they always are.
    pub rated: bool,
    /// Why, where it is a refusal of the request as a whole.
    pub refusal: Option<Refusal>,
}

impl fmt::Debug for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Departure");
        shown.field("status", &self.status).field("headers", &self.headers).field("body", &self.body);
        shown.field("flows", &self.flow.is_some()).field("refusal", &self.refusal).finish_non_exhaustive()
    }
}

impl Departure {
    /// A refusal of a request that nobody is charged for.
    pub fn refused(refusal: Refusal) -> Self {
        let mut body = Vec::new();
        refusal.write_alone(Dialect::JsonRpc2, None, &mut body);
        Departure {
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

    /// A refusal of a request whose body was not read, or is no call.
    pub fn refused_unread(mut tally: Box<Tally>, refusal: Refusal) -> Self {
        let dialect = tally.chain.facts().dialect;
        let mut body = Vec::new();
        refusal.write_alone(dialect, None, &mut body);
        let mut entry = Entry::refused(Call::unread(Payload::Unread), refusal);
        entry.bytes_out = body.len() as u32;
        tally.entries.push(entry);
        let mut departure = Departure::refused(refusal);
        departure.body = body.into();
        departure.tally = Some(tally);
        departure.rated = true;
        departure
    }
}
