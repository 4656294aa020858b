//! The request types before a body is read, and the response type.

use super::admission::{AdmissionResponse, Denied};
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ALLOW, HeaderMap, HeaderName, HeaderValue, VARY,
};
use http::{Request, StatusCode};
use rpcgate_core::caller::RequestId;
use rpcgate_core::chain::{Chain, Dialect};
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::Flow;
use rpcgate_core::rest::Path;
use rpcgate_core::tally::{Tally, Transport};
use rpcgate_core::window::Windows;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A request with its id and its time of arrival.
#[derive(Debug)]
pub struct Received<B> {
    /// The request, boxed because it moves from layer to layer.
    pub request: Box<Request<B>>,
    /// The request id.
    pub id: RequestId,
    /// The time of arrival by the wall clock.
    pub arrival: Time,
    /// The time of arrival by the monotonic clock, for measuring latency.
    pub started: Duration,
}

impl<B> Received<B> {
    /// Wraps a request that arrives now.
    pub fn now(request: Request<B>, clock: &dyn Clock) -> Self {
        let arrival = clock.now();
        let started = clock.elapsed();
        Received { request: Box::new(request), id: RequestId::new(arrival), arrival, started }
    }
}

/// A request for a chain.
#[derive(Debug)]
pub struct Routed<B> {
    /// The request and the time of its arrival.
    pub received: Received<B>,
    /// The chain.
    pub chain: Arc<Chain>,
    /// The transport.
    pub transport: Transport,
    /// The target on the chain.
    pub target: Target,
}

/// The target of a request for a chain.
#[derive(Debug)]
#[non_exhaustive]
pub enum Target {
    /// The JSON-RPC calls in the body.
    JsonRpc,
    /// One REST call of this path, relative to the chain's own path.
    Rest(Path),
    /// One gRPC call, given by the whole path.
    Grpc,
    /// No resource of a node. The refusal depends on the body.
    Nothing(fn(&[u8]) -> Refusal),
}

/// A request for a chain whose caller is known. From here on it has a tally.
#[derive(Debug)]
pub struct Authenticated<B> {
    /// The request.
    pub request: Box<Request<B>>,
    /// The target on the chain.
    pub target: Target,
    /// The tally.
    pub tally: Box<Tally>,
}

impl<B> Authenticated<B> {
    /// Refuses the request without reading its body. It counts as one usage call with method `-`.
    pub fn deny(self, refusal: Refusal) -> Denied {
        Denied::known(self.tally, refusal)
    }
}

/// A response without the headers that every response carries; the respond layer adds them.
#[non_exhaustive]
pub struct PendingResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers of this response only.
    pub headers: HeaderMap,
    /// True for JSON of the gateway or of a JSON-RPC node. Then `headers` have no content type: the respond layer
    /// writes it with the common headers.
    pub is_json: bool,
    /// The body, or its first piece.
    pub body: Bytes,
    /// The following pieces.
    pub rest: Vec<Bytes>,
    /// A body that is still arriving from a node; it replaces the other body fields.
    pub flow: Option<Flow>,
    /// The tally, if there is a caller. It is closed when the response leaves.
    pub tally: Option<Box<Tally>>,
    /// The state of the caller's windows if there is no tally, because the tally has become the account of a stream.
    pub windows: Option<Windows>,
    /// True if the rate headers are written, as always for an authenticated key.
    pub rated: bool,
    /// The refusal, if the whole request was refused.
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
    /// Refuses a request that has no tally.
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
            windows: None,
            rated: false,
            refusal: Some(refusal),
        }
    }

    /// Refuses a request whose body was not read, or is not a call.
    pub fn refused_unread(tally: Box<Tally>, refusal: Refusal) -> Self {
        PendingResponse::denied(Denied::known(tally, refusal))
    }
}

impl AdmissionResponse for PendingResponse {
    fn denied(denied: Denied) -> Self {
        let Denied { refusal, tally, rated } = denied;
        let mut pending = PendingResponse::refused(refusal);
        if let Some(mut tally) = tally {
            let mut body = Vec::new();
            refusal.write_alone(tally.chain.facts().dialect, None, &mut body);
            if let Some(entry) = tally.entries.last_mut() {
                entry.bytes_out = body.len() as u32;
            }
            pending.body = body.into();
            pending.tally = Some(tally);
            pending.rated = rated;
        }
        pending
    }

    fn preflight(requested: &HeaderMap) -> Self {
        let mut headers = HeaderMap::with_capacity(16);
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, OPTIONS"));
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(requested));
        headers.insert(VARY, HeaderValue::from_static("access-control-request-headers"));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
        headers.insert(ALLOW, HeaderValue::from_static("GET, POST, OPTIONS"));
        PendingResponse {
            status: StatusCode::NO_CONTENT,
            headers,
            is_json: false,
            body: Bytes::new(),
            rest: Vec::new(),
            flow: None,
            tally: None,
            windows: None,
            rated: false,
            refusal: None,
        }
    }
}

/// The headers that every preflight allows, because known clients send them.
const ALLOWED_HEADERS: &str = "apikey, x-api-key, authorization, content-type, x-ton-client-version, client-sdk-type, \
     client-sdk-version, client-target-api-version, client-request-method, x-aptos-client, \
     x-aptos-typescript-sdk-origin-method, x-cosmos-block-height, x-rpcgate-consistency, traceparent, tracestate";

/// The maximum number of additional headers that a preflight may request.
const MOST_REQUESTED: usize = 64;

/// Returns the value of `Access-Control-Allow-Headers`: [`ALLOWED_HEADERS`] and the headers that the preflight
/// requests. Allowing any header is safe, because the gateway ignores headers that it does not know.
fn allowed_headers(requested: &HeaderMap) -> HeaderValue {
    let is_known = |name: &str| ALLOWED_HEADERS.split(", ").any(|known| known.eq_ignore_ascii_case(name));
    let requested =
        requested.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().filter_map(|value| value.to_str().ok());
    let mut allowed = String::new();
    for name in requested
        .flat_map(|names| names.split(','))
        .map(str::trim)
        .filter(|name| HeaderName::from_bytes(name.as_bytes()).is_ok() && !is_known(name))
        .take(MOST_REQUESTED)
    {
        allowed.push_str(", ");
        allowed.push_str(name);
    }
    if allowed.is_empty() {
        return HeaderValue::from_static(ALLOWED_HEADERS);
    }
    allowed.insert_str(0, ALLOWED_HEADERS);
    HeaderValue::try_from(allowed).unwrap_or(HeaderValue::from_static(ALLOWED_HEADERS))
}
