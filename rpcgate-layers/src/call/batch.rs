//! Turns a request body into calls, and the settled calls into one response.
//!
//! This is the first layer after the head of the request. It reads the body, parses it once, and passes the calls down
//! the stack as one set. A single call is a set of one. The settled set is joined under the client's own ids. A body
//! without a call is answered here and uses no window: [`Refusal::ParseError`], [`Refusal::UnknownCoding`],
//! [`Refusal::InvalidRequest`], [`Refusal::BatchTooLarge`], [`Refusal::BatchNotSupported`] and the refusals of
//! [`body`](super::body). A batch item that is not a call is refused alone, and the other items continue.
//!
//! The inner service is polled ready after the body has been read, so it may have a concurrency limit: the request
//! waits here. An error of the inner service, such as a load shedder's, becomes a refusal of the request.
//!
//! ```
//! use bytes::Bytes;
//! use http_body_util::Full;
//! use rpcgate_core::refusal::Refusal;
//! use rpcgate_layers::call::batch::BatchLayer;
//! use rpcgate_layers::request::message::{Authenticated, Target};
//! use rpcgate_layers::testing::{Fixture, ScriptedService};
//! use tower::{Layer, ServiceExt};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! // The rest of the stack: it refuses every call.
//! let inner = ScriptedService::new(|_| Err(Refusal::Closed));
//! let request = http::Request::new(Full::new(Bytes::from_static(br#"[{"id":1,"method":"a"}, 5]"#)));
//! let known = Authenticated { request: Box::new(request), target: Target::JsonRpc, tally: Fixture::new().tally() };
//! let response = BatchLayer::new().layer(inner).oneshot(known).await.unwrap();
//! assert_eq!(response.body, concat!(
//!     r#"[{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not available"}},"#,
//!     r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}]"#,
//! ));
//! # });
//! ```

use super::body::{BodyLimits, COPIES, Reading};
use super::gzip::{Coding, Decoding};
use super::join::join;
use super::rest;
use crate::headers;
use crate::request::message::{Authenticated, PendingResponse, Target};
use crate::service_pool::{PooledService, ServicePool};
use bytes::{Bytes, BytesMut};
use http_body::Body;
use pin_project_lite::pin_project;
use rpcgate_core::call::{Call, Calls, Entry, Parsed as At, Payload, Settled};
use rpcgate_core::chain::Flags;
use rpcgate_core::envelope::{self, Item, Limits, ParseError, ParsedBody};
use rpcgate_core::json::{Span, close_up, has_space};
use rpcgate_core::memory::{MemoryBudget, MemoryPermit};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::rest::RestCall;
use rpcgate_core::tally::Tally;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower_layer::Layer;
use tower_service::Service;

/// Reads requests into calls and joins their responses.
#[derive(Clone, Debug)]
pub struct BatchLayer {
    body: BodyLimits,
    envelope: Limits,
    memory_budget: Option<Arc<MemoryBudget>>,
    most: usize,
}

impl BatchLayer {
    /// Creates a layer with the default limits: 64 MiB for the answer to a batch, and no limit on the memory of all
    /// bodies together.
    pub fn new() -> Self {
        BatchLayer {
            body: BodyLimits::default(),
            envelope: Limits::default(),
            memory_budget: None,
            most: 64 << 20,
        }
    }

    /// Sets the limits for bodies.
    #[must_use]
    pub fn with_body(mut self, limits: BodyLimits) -> Self {
        self.body = limits;
        self
    }

    /// Sets the limits for the content of a body.
    #[must_use]
    pub fn with_envelope(mut self, limits: Limits) -> Self {
        self.envelope = limits;
        self
    }

    /// Sets the maximum size of the answer to a batch in bytes. Each answer that does not fit is replaced by
    /// [`Refusal::ReplyTooLarge`].
    #[must_use]
    pub fn with_answer(mut self, bytes: usize) -> Self {
        self.most = bytes;
        self
    }

    /// Limits the memory of bodies by `memory_budget`: request bodies, and answers of 16 KiB or more.
    #[must_use]
    pub fn with_memory_budget(mut self, memory_budget: Arc<MemoryBudget>) -> Self {
        self.memory_budget = Some(memory_budget);
        self
    }
}

impl Default for BatchLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Clone> Layer<S> for BatchLayer {
    type Service = Batch<S>;

    fn layer(&self, inner: S) -> Batch<S> {
        Batch { inner: ServicePool::new(inner), layer: self.clone() }
    }
}

/// A service that reads bodies and joins answers around `inner`.
#[derive(Clone, Debug)]
pub struct Batch<S: Clone> {
    inner: ServicePool<S>,
    layer: BatchLayer,
}

impl<S, B> Service<Authenticated<B>> for Batch<S>
where
    S: Service<Calls<At>, Response = Calls<Settled>> + Clone,
    S::Error: Into<Refusal>,
    B: Body<Data = Bytes>,
{
    type Response = PendingResponse;
    type Error = Infallible;
    type Future = BatchFuture<S, B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // The inner service is polled ready when the body is complete. Polled here, a client that sends its body slowly
        // would hold a permit of every limit of that service.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, known: Authenticated<B>) -> Self::Future {
        let Authenticated { request, target, mut tally } = known;
        if let Some(memory_budget) = &self.layer.memory_budget {
            tally.memory = MemoryPermit::of_project(memory_budget.clone(), tally.caller.project);
        }
        let consistency = headers::consistency(request.headers());
        tally.consistency = consistency.unwrap_or_default();
        let mut coding = Coding::of(request.headers());
        let mut accept = "gzip";
        let (want, body) = match target {
            Target::JsonRpc => (Want::Envelopes, request.into_body()),
            Target::Nothing(because) => (Want::Nothing(because), request.into_body()),
            Target::Grpc => (Want::Nothing(|_| Refusal::NoRoute), request.into_body()),
            Target::Rest(path) => {
                let (head, body) = request.into_parts();
                let call = rest::call(&tally.chain, &head, &path).map(Box::new);
                // A node gets the body unchanged but without its content-coding header, so the body must not be coded.
                accept = "identity";
                let has_body = call.as_ref().is_some_and(|call| call.has_body());
                coding =
                    if has_body && coding != Coding::Identity { Coding::Unknown } else { Coding::Identity };
                (call.map_or(Want::Nothing(|_| Refusal::UriTooLong), Want::Rest), body)
            }
        };
        let reading = match consistency {
            Ok(_) if coding == Coding::Unknown => Err(Refusal::UnknownCoding { accept }),
            Ok(_) => Reading::new(body, self.layer.body),
            Err(refusal) => Err(refusal),
        };
        let stage = match reading {
            Ok(reading) => Stage::Reading { reading },
            Err(refusal) => Stage::Refused { refusal },
        };
        let BatchLayer { body: BodyLimits { bytes, .. }, envelope: limits, most, .. } = self.layer;
        let packed = (coding == Coding::Gzip).then_some(bytes);
        let inner = Some(self.inner.get());
        BatchFuture { stage, packed, want, tally: Some(tally), inner, limits, most }
    }
}

pin_project! {
    #[project = StageNow]
    enum Stage<B, F> {
        Refused { refusal: Refusal },
        Reading { #[pin] reading: Reading<B> },
        Decoding { decoding: Box<Decoding>, bytes: usize },
        Waiting { calls: Option<Calls<At>> },
        Calling { #[pin] calling: F },
    }
}

pin_project! {
    /// The future of a request between its head and its answer.
    pub struct BatchFuture<S, B>
    where
        S: Service<Calls<At>>,
    {
        #[pin]
        stage: Stage<B, S::Future>,
        // The maximum size of the decoded body, if the body must be decoded.
        packed: Option<usize>,
        want: Want,
        tally: Option<Box<Tally>>,
        inner: Option<PooledService<S>>,
        limits: Limits,
        most: usize,
    }
}

impl<S: Service<Calls<At>>, B> std::fmt::Debug for BatchFuture<S, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchFuture").field("tally", &self.tally).finish_non_exhaustive()
    }
}

impl<S, B> Future for BatchFuture<S, B>
where
    S: Service<Calls<At>, Response = Calls<Settled>>,
    S::Error: Into<Refusal>,
    B: Body<Data = Bytes>,
{
    type Output = Result<PendingResponse, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let read = match this.stage.as_mut().project() {
                StageNow::Refused { refusal } => Err(*refusal),
                StageNow::Calling { calling } => {
                    let response = match ready!(calling.poll(cx)) {
                        Ok(calls) => join(calls, *this.most),
                        // The inner service has dropped the calls and their tally.
                        Err(error) => PendingResponse::refused(error.into()),
                    };
                    return Poll::Ready(Ok(response));
                }
                StageNow::Waiting { calls } => {
                    let ready = match this.inner.as_mut() {
                        Some(inner) => ready!(inner.poll_ready(cx)),
                        None => return Poll::Pending,
                    };
                    let (Some(mut calls), Some(inner)) = (calls.take(), this.inner.take()) else {
                        return Poll::Pending;
                    };
                    if let Err(error) = ready {
                        calls.tally_mut().refuse(error.into());
                        return Poll::Ready(Ok(join(calls.at(), *this.most)));
                    }
                    let Some(calling) = inner.call(calls) else { return Poll::Pending };
                    this.stage.set(Stage::Calling { calling });
                    continue;
                }
                StageNow::Reading { reading } => {
                    let mut none = MemoryPermit::default();
                    let held = this.tally.as_mut().map_or(&mut none, |tally| &mut tally.memory);
                    let mut read = ready!(reading.poll(held, cx));
                    if let Some(bytes) = this.packed.take()
                        && let Ok(packed) = &mut read
                    {
                        let decoding = Box::new(Decoding::new(std::mem::take(packed)));
                        this.stage.set(Stage::Decoding { decoding, bytes });
                        continue;
                    }
                    read
                }
                StageNow::Decoding { decoding, bytes } => {
                    let mut none = MemoryPermit::default();
                    let held = this.tally.as_mut().map_or(&mut none, |tally| &mut tally.memory);
                    ready!(decoding.poll(*bytes, COPIES, held, cx))
                }
            };
            let refusal = match read.and_then(|body| this.want.fill(this.tally, body, this.limits)) {
                Err(refusal) => refusal,
                Ok(calls) => {
                    this.stage.set(Stage::Waiting { calls: Some(calls) });
                    continue;
                }
            };
            return Poll::Ready(Ok(match this.tally.take() {
                Some(tally) => PendingResponse::refused_unread(tally, refusal),
                None => PendingResponse::refused(refusal),
            }));
        }
    }
}

#[derive(Debug)]
pub(super) enum Want {
    /// The envelopes in the body are calls.
    Envelopes,
    /// The body belongs to this REST call.
    Rest(Box<RestCall>),
    /// There is no call, regardless of the body.
    Nothing(fn(&[u8]) -> Refusal),
}

impl Want {
    /// Turns the body into calls of the tally. On an error the tally stays in `slot`, so that it can be refused.
    fn fill(
        &mut self,
        slot: &mut Option<Box<Tally>>,
        body: Bytes,
        limits: &Limits,
    ) -> Result<Calls<At>, Refusal> {
        match std::mem::replace(self, Want::Envelopes) {
            Want::Envelopes => fill(slot, body, limits),
            Want::Rest(call) => {
                let Some(mut tally) = slot.take() else { return Err(Refusal::InvalidRequest) };
                let entry = rest::entry(&tally, *call, &body);
                tally.body = body;
                tally.entries.push(entry);
                Ok(Calls::new(tally))
            }
            Want::Nothing(because) => {
                let refusal = because(&body);
                if let Some(tally) = slot {
                    tally.body = body;
                }
                Err(refusal)
            }
        }
    }
}

/// Parses the body into the tally, and normalises calls whose answers are cached. On an error the tally stays in
/// `slot`, so that it can be refused.
fn fill(slot: &mut Option<Box<Tally>>, body: Bytes, limits: &Limits) -> Result<Calls<At>, Refusal> {
    let Some(mut tally) = slot.take() else { return Err(Refusal::InvalidRequest) };
    match read_calls(&mut tally, body, limits) {
        Ok(()) => {
            if tally.entries.iter().any(|entry| spaced(entry, &tally.body).is_some()) {
                alike(&mut tally);
            }
            Ok(Calls::new(tally))
        }
        Err(refusal) => {
            *slot = Some(tally);
            Err(refusal)
        }
    }
}

/// Parses `body` into entries of the tally. An array item that is not a call is refused alone.
///
/// # Errors
/// Returns the refusal of the whole body.
pub(crate) fn read_calls(tally: &mut Tally, body: Bytes, limits: &Limits) -> Result<(), Refusal> {
    let parsed = envelope::parse(&body, limits);
    tally.body = body;
    match parsed {
        Ok(ParsedBody::Single(Ok(envelope))) => {
            let entry = entry(tally, Ok(envelope));
            tally.entries.push(entry);
            Ok(())
        }
        Ok(ParsedBody::Single(Err(_))) => Err(Refusal::InvalidRequest),
        Ok(ParsedBody::Batch(_)) if !tally.chain.facts().batch => Err(Refusal::BatchNotSupported),
        Ok(ParsedBody::Batch(items)) => {
            tally.batch = true;
            let mut entries = std::mem::take(&mut tally.entries);
            entries.reserve_exact(items.len());
            entries.extend(items.into_iter().map(|item| entry(tally, item)));
            tally.entries = entries;
            Ok(())
        }
        Err(ParseError::Syntax(_)) => Err(Refusal::ParseError),
        Err(ParseError::BatchTooLarge) => Err(Refusal::BatchTooLarge),
        Err(ParseError::EmptyBatch) => Err(Refusal::InvalidRequest),
    }
}

/// Returns the parameters of a call whose answer is cached or shared, if they contain white space.
fn spaced(entry: &Entry, body: &[u8]) -> Option<Span> {
    match &entry.call.payload {
        Payload::JsonRpc(envelope) if entry.call.rule.cache.is_cached() => {
            envelope.params.filter(|params| has_space(params.of(body)))
        }
        _ => None,
    }
}

/// Removes white space between tokens from the parameters of calls whose answers are cached or shared. Otherwise a
/// client could make a node answer the same call again and again. The body keeps its length.
fn alike(tally: &mut Tally) {
    let mut body = BytesMut::from(std::mem::take(&mut tally.body));
    for entry in &mut tally.entries {
        let Some(params) = spaced(entry, &body) else { continue };
        let length = body.get_mut(params.range()).map(close_up).unwrap_or_default();
        if let Payload::JsonRpc(envelope) = &mut entry.call.payload {
            envelope.params = Some(Span::new(params.start(), params.start() + length));
        }
    }
    tally.body = body.freeze();
}

fn entry(tally: &Tally, item: Item) -> Entry {
    match item {
        Ok(envelope) => {
            let found = match tally.chain.listed(envelope.method.bytes(&tally.body)) {
                Some(found) => found,
                None => tally.chain.look_up(envelope.method.text(&tally.body)),
            };
            let mut call = Call::json_rpc(envelope, found);
            if call.rule.flags.has(Flags::COMMANDS) {
                call.rule = tally.chain.narrow(call.view(&tally.body, tally.chain.name()));
            }
            Entry::open(call)
        }
        Err(bad) => Entry::refused(Call::unread(Payload::Bad(bad)), Refusal::InvalidRequest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, ScriptedService};
    use http_body_util::Full;
    use rpcgate_core::backend::usage_sink::Outcome;

    async fn send(fixture: &Fixture, body: impl Into<Bytes>) -> (u16, String) {
        let known = Authenticated {
            request: Box::new(http::Request::new(Full::new(body.into()))),
            target: Target::JsonRpc,
            tally: fixture.tally(),
        };
        let Ok(pending) = BatchLayer::new().layer(ScriptedService::default()).call(known).await;
        (pending.status.as_u16(), String::from_utf8(pending.body.to_vec()).unwrap())
    }

    async fn send_coded(coding: &'static str, body: Vec<u8>, target: Target) -> PendingResponse {
        let mut request = http::Request::post("/").body(Full::new(Bytes::from(body))).unwrap();
        request.headers_mut().insert("content-encoding", coding.parse().unwrap());
        let known = Authenticated { request: Box::new(request), target, tally: Fixture::new().tally() };
        let layer = BatchLayer::new().with_body(BodyLimits::default().with_bytes(1_000));
        let Ok(pending) = layer.layer(ScriptedService::default()).call(known).await;
        pending
    }

    #[tokio::test]
    async fn a_compressed_call_is_decoded_and_an_unknown_coding_is_refused_with_the_known_one() {
        let pack = |plain: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut encoder, plain).unwrap();
            encoder.finish().unwrap()
        };
        let call = br#"{"jsonrpc":"2.0","id":7,"method":"a"}"#;
        let (_, expected) = send(&Fixture::new(), &call[..]).await;
        let answered = send_coded("gzip", pack(call), Target::JsonRpc).await;
        assert_eq!((answered.refusal, &answered.body[..]), (None, expected.as_bytes()));
        let coded = async |coding, body| send_coded(coding, body, Target::JsonRpc).await.refusal;
        assert_eq!(coded("gzip", call.to_vec()).await, Some(Refusal::ParseError));
        assert_eq!(coded("gzip", pack(&[b' '; 1_001])).await, Some(Refusal::BodyTooLarge));
        for coding in ["br", "gzip, gzip", "deflate"] {
            let refusal = coded(coding, pack(call)).await;
            assert_eq!(refusal, Some(Refusal::UnknownCoding { accept: "gzip" }), "{coding}");
        }
        let rest = Target::Rest(rpcgate_core::rest::Path::canonical("/a").unwrap());
        let refusal = send_coded("gzip", pack(call), rest).await.refusal;
        assert_eq!(refusal, Some(Refusal::UnknownCoding { accept: "identity" }));
    }

    #[tokio::test]
    async fn a_single_call_is_a_set_of_one() {
        let (status, body) = send(&Fixture::new(), r#"{"jsonrpc":"2.0","id":5,"method":"toy_id"}"#).await;
        assert_eq!((status, body.as_str()), (200, r#"{"jsonrpc":"2.0","id":5,"result":"toy_id"}"#));
    }

    #[tokio::test]
    async fn a_batch_of_one_is_answered_with_an_array_of_one() {
        let (_, body) = send(&Fixture::new(), r#"[{"jsonrpc":"2.0","id":5,"method":"toy_id"}]"#).await;
        assert_eq!(body, r#"[{"jsonrpc":"2.0","id":5,"result":"toy_id"}]"#);
    }

    #[tokio::test]
    async fn an_item_that_is_not_a_call_is_one_usage_call_with_method_dash() {
        let many = format!("[{}]", vec![r#"{"id":1,"method":"a"}"#; 101].join(","));
        let rows = [
            ("", 400, -32700),
            ("{", 400, -32700),
            ("[]", 400, -32600),
            ("5", 400, -32600),
            (r#"{"id":1}"#, 400, -32600),
            (r#"{"id":1,"method":"a","method":"b"}"#, 400, -32600),
            (many.as_str(), 413, -32600),
        ];
        for (body, status, code) in rows {
            let fixture = Fixture::new();
            let (got, answer) = send(&fixture, body.to_owned()).await;
            assert_eq!(got, status, "{body}");
            assert!(answer.contains(&format!(r#""id":null,"error":{{"code":{code}"#)), "{answer}");
            let records = fixture.sink.records();
            let lines: Vec<_> =
                records[0].lines.iter().map(|l| (l.method.as_str(), l.outcome, l.cu)).collect();
            assert_eq!(lines, [("-", Outcome::Refused, 0)], "{body}");
        }
    }

    #[tokio::test]
    async fn a_bad_item_is_refused_in_position() {
        let fixture = Fixture::new();
        let (status, body) = send(&fixture, r#"[{"id":1,"method":"toy_id"},7,{"id":2,"Method":"x"}]"#).await;
        assert_eq!(status, 200);
        assert_eq!(
            body,
            concat!(
                r#"[{"jsonrpc":"2.0","id":1,"result":"toy_id"},"#,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}},"#,
                r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"invalid request"}}]"#,
            )
        );
        let methods: Vec<_> = fixture.sink.records()[0].lines.iter().map(|l| l.method.clone()).collect();
        assert_eq!(methods, ["toy_id", "-", "-"]);
    }

    #[tokio::test]
    async fn the_height_a_client_has_seen_is_recorded_and_an_invalid_one_is_refused() {
        for (given, least) in [(None, Some(None)), (Some("7"), Some(Some(7))), (Some("latest"), None)] {
            let mut request =
                http::Request::new(Full::new(Bytes::from_static(b"{\"id\":1,\"method\":\"a\"}")));
            if let Some(given) = given {
                request.headers_mut().insert(headers::CONSISTENCY, http::HeaderValue::from_static(given));
            }
            let request = Box::new(request);
            let target = Target::JsonRpc;
            let tally = Fixture::new().tally();
            let Ok(pending) = BatchLayer::new()
                .layer(ScriptedService::default())
                .call(Authenticated { request, target, tally })
                .await;
            let refused = if least.is_none() { (400, Some(Refusal::InvalidRequest)) } else { (200, None) };
            assert_eq!((pending.status.as_u16(), pending.refusal), refused);
            let seen = pending.tally.unwrap().consistency.map(|consistency| consistency.least);
            assert_eq!(seen, least.flatten());
        }
    }

    #[tokio::test]
    async fn a_body_with_a_too_large_stated_length_is_refused_unread() {
        let fixture = Fixture::new();
        let limits = BodyLimits { bytes: 10, ..BodyLimits::default() };
        let request = http::Request::new(Full::new(Bytes::from_static(b"{\"id\":1,\"method\":\"a\"}")));
        let mut batch = BatchLayer::new().with_body(limits).layer(ScriptedService::default());
        let Ok(pending) = batch
            .call(Authenticated {
                request: Box::new(request),
                target: Target::JsonRpc,
                tally: fixture.tally(),
            })
            .await;
        assert_eq!((pending.status.as_u16(), pending.refusal), (413, Some(Refusal::BodyTooLarge)));
    }

    #[tokio::test]
    async fn a_client_that_leaves_while_it_sends_leaves_no_record() {
        let fixture = Fixture::new();
        let body = http_body_util::StreamBody::new(futures_util::stream::pending::<
            Result<http_body::Frame<Bytes>, Infallible>,
        >());
        let mut batch = BatchLayer::new().layer(ScriptedService::default());
        let future = batch.call(Authenticated {
            request: Box::new(http::Request::new(body)),
            target: Target::JsonRpc,
            tally: fixture.tally(),
        });
        assert!(futures_util::FutureExt::now_or_never(future).is_none());
        assert!(fixture.sink.records().is_empty());
    }
}
