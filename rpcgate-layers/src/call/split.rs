//! Splits JSON-RPC batches of plain `http::Request`s, without callers, chains or a tally.
//!
//! The layer reads the body of a request. A batch becomes one request per call, with the HTTP method, URI and headers
//! of the batch. At most [`with_parallel`](SplitBatchLayer::with_parallel) of them are sent at the same time, and their
//! responses are joined in the order of the calls. Any other body passes unchanged. A call that the inner service
//! fails, and an item that is not a call, are answered in their position with a JSON-RPC error.
//!
//! The layer refuses with [`Refusal::BatchTooLarge`], [`Refusal::InvalidRequest`] (an empty batch) and the refusals of
//! [`body`](super::body). It does not retry, and the calls of a batch are sent in no particular order.
//!
//! ```
//! use bytes::Bytes;
//! use http_body_util::{BodyExt, Full};
//! use rpcgate_layers::call::split::SplitBatchLayer;
//! use std::convert::Infallible;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! // A node that takes no batches: it answers each call with the length of its request.
//! let node = service_fn(async |request: http::Request<Bytes>| {
//!     let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}}}"#, request.body().len());
//!     Ok::<_, Infallible>(http::Response::new(Full::from(answer)))
//! });
//! let service = SplitBatchLayer::new().with_parallel(2).layer(node);
//! let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"a"}, 5, {"jsonrpc":"2.0","id":1,"method":"bb"}]"#;
//! let response = service.oneshot(http::Request::post("/").body(Full::from(batch)).unwrap()).await.unwrap();
//! let body = response.into_body().collect().await.unwrap().to_bytes();
//! assert_eq!(body, concat!(
//!     r#"[{"jsonrpc":"2.0","id":1,"result":37},"#,
//!     r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}},"#,
//!     r#"{"jsonrpc":"2.0","id":1,"result":38}]"#,
//! ));
//! # });
//! ```

use super::body::{BodyLimits, Reading};
use crate::foreign::refused_response;
use crate::reply_body::ReplyBody;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING};
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::chain::Dialect;
use rpcgate_core::envelope::{self, Envelope, Item, Limits, ParseError, ParsedBody};
use rpcgate_core::json::{Cursor, DEEPEST};
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::refusal::{BackendFailure, Refusal};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Splits JSON-RPC batches into requests of one call.
#[derive(Clone, Copy, Debug)]
pub struct SplitBatchLayer {
    body: BodyLimits,
    envelope: Limits,
    parallel: usize,
    most: usize,
}

impl SplitBatchLayer {
    /// Creates a layer that sends 8 calls of a batch at the same time, with the default limits for bodies and their
    /// content. The response to a call may have 64 MiB.
    pub fn new() -> Self {
        SplitBatchLayer {
            body: BodyLimits::default(),
            envelope: Limits::default(),
            parallel: 8,
            most: 64 << 20,
        }
    }

    /// Sets the number of calls of a batch that are sent at the same time; at least one.
    #[must_use]
    pub fn with_parallel(mut self, calls: usize) -> Self {
        self.parallel = calls.max(1);
        self
    }

    /// Sets the limits for bodies.
    #[must_use]
    pub fn with_body(mut self, limits: BodyLimits) -> Self {
        self.body = limits;
        self
    }

    /// Sets the limits for the content of a body, such as the number of calls.
    #[must_use]
    pub fn with_envelope(mut self, limits: Limits) -> Self {
        self.envelope = limits;
        self
    }

    /// Sets the maximum size in bytes of the response to one call, and of the joined response to a batch. A larger
    /// response to a call is a failed call. An answer that does not fit into the joined response is replaced by
    /// [`Refusal::ReplyTooLarge`].
    #[must_use]
    pub fn with_answer(mut self, bytes: usize) -> Self {
        self.most = bytes;
        self
    }
}

impl Default for SplitBatchLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for SplitBatchLayer {
    type Service = SplitBatch<S>;

    fn layer(&self, inner: S) -> SplitBatch<S> {
        SplitBatch { inner, layer: *self }
    }
}

/// A service that splits batches before `inner`.
#[derive(Clone, Debug)]
pub struct SplitBatch<S> {
    inner: S,
    layer: SplitBatchLayer,
}

impl<S, A, B> Service<Request<A>> for SplitBatch<S>
where
    A: Body<Data = Bytes> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S: Service<Request<Bytes>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response<ReplyBody>;
    type Error = S::Error;
    type Future = SplitFuture<S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let ready = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, ready);
        SplitFuture { answer: Box::pin(self.layer.answer(inner, request)) }
    }
}

/// The response to a request that may be a batch.
pub struct SplitFuture<E> {
    answer: BoxFuture<'static, Result<Response<ReplyBody>, E>>,
}

impl<E> Future for SplitFuture<E> {
    type Output = Result<Response<ReplyBody>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.as_mut().poll(cx)
    }
}

impl<E> fmt::Debug for SplitFuture<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SplitFuture")
    }
}

impl SplitBatchLayer {
    /// Answers a request. `inner` has been polled ready.
    async fn answer<S, A, B>(self, mut inner: S, request: Request<A>) -> Result<Response<ReplyBody>, S::Error>
    where
        A: Body<Data = Bytes>,
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        S: Service<Request<Bytes>, Response = Response<B>> + Clone,
    {
        let refused = |refusal| Ok(refused_response(refusal, ReplyBody::complete));
        let (mut head, body) = request.into_parts();
        let read = match Reading::new(body, self.body) {
            Ok(reading) => {
                let mut reading = pin!(reading);
                let mut held = MemoryPermit::default();
                poll_fn(|cx| reading.as_mut().poll(&mut held, cx)).await
            }
            Err(refusal) => Err(refusal),
        };
        let body = match read {
            Ok(body) => body,
            Err(refusal) => return refused(refusal),
        };
        let items = match envelope::parse(&body, &self.envelope) {
            Ok(ParsedBody::Batch(items)) => items,
            Err(ParseError::BatchTooLarge) => return refused(Refusal::BatchTooLarge),
            Err(ParseError::EmptyBatch) => return refused(Refusal::InvalidRequest),
            Ok(ParsedBody::Single(_)) | Err(ParseError::Syntax(_)) => {
                let response = inner.call(Request::from_parts(head, body)).await?;
                let (head, body) = response.into_parts();
                let Some(body) = self.collect(body).await else {
                    return refused_as_failure();
                };
                return Ok(Response::from_parts(head, ReplyBody::complete(body)));
            }
        };
        // `inner` was polled ready for one call and may hold a permit. Each call of a batch is sent by a clone.
        let fresh = inner.clone();
        drop(inner);
        for name in [CONTENT_LENGTH, TRANSFER_ENCODING] {
            head.headers.remove(name);
        }
        let calls = items.into_iter().map(|item| self.answer_item(fresh.clone(), &head, &body, item));
        let calls: Vec<_> = calls.collect();
        let mut answers = stream::iter(calls).buffered(self.parallel);
        let mut joined = Vec::new();
        while let Some(answer) = answers.next().await {
            let Some((id, answer)) = answer else { continue };
            joined.push(if joined.is_empty() { b'[' } else { b',' });
            if joined.len() + answer.len() < self.most {
                joined.extend_from_slice(&answer);
            } else {
                Refusal::ReplyTooLarge.write_item(Dialect::JsonRpc2, id.as_deref(), &mut joined);
            }
        }
        if !joined.is_empty() {
            joined.push(b']');
        }
        let mut response = Response::new(ReplyBody::complete(joined.into()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }

    /// Returns the id and the answer of one item; `None` for a notification.
    async fn answer_item<S, B>(
        &self,
        inner: S,
        head: &http::request::Parts,
        body: &Bytes,
        item: Item,
    ) -> Option<(Option<Bytes>, Bytes)>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        S: Service<Request<Bytes>, Response = Response<B>>,
    {
        let mut own = Vec::new();
        let envelope = match item {
            Ok(envelope) => envelope,
            Err(bad) => {
                let id = bad.id.map(|id| body.slice(id.range()));
                Refusal::InvalidRequest.write_item(Dialect::JsonRpc2, id.as_deref(), &mut own);
                return Some((id, own.into()));
            }
        };
        let request = Request::from_parts(head.clone(), body.slice(envelope.span.range()));
        let answer = self.send(inner, request).await;
        if envelope.is_notification(body) {
            return None;
        }
        let id = envelope.id.map(|id| body.slice(id.range()));
        Some((id, answer.unwrap_or_else(|| failed(&envelope, body))))
    }

    /// Returns the body of the response if it answers a call. The inner service logs its own errors.
    async fn send<S, B>(&self, mut inner: S, request: Request<Bytes>) -> Option<Bytes>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        S: Service<Request<Bytes>, Response = Response<B>>,
    {
        poll_fn(|cx| inner.poll_ready(cx)).await.ok()?;
        let response = inner.call(request).await.ok()?;
        self.collect(response.into_body()).await.filter(|body| is_object(body))
    }

    async fn collect<B>(&self, body: B) -> Option<Bytes>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Some(Limited::new(body, self.most).collect().await.ok()?.to_bytes())
    }
}

fn refused_as_failure<E>() -> Result<Response<ReplyBody>, E> {
    let mut body = Vec::new();
    BackendFailure.write(Dialect::JsonRpc2, None, &mut body);
    let mut response = Response::new(ReplyBody::complete(body.into()));
    *response.status_mut() = BackendFailure.status(Dialect::Rest);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn failed(envelope: &Envelope, body: &[u8]) -> Bytes {
    let mut failed = Vec::new();
    BackendFailure.write(Dialect::JsonRpc2, envelope.id.map(|id| id.of(body)), &mut failed);
    failed.into()
}

/// Reports whether the text is exactly one JSON object, so that the array which contains it is valid JSON.
fn is_object(text: &[u8]) -> bool {
    let mut cursor = Cursor::new(text, DEEPEST);
    cursor.peek() == Some(b'{') && cursor.value().is_ok() && cursor.end().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;
    use tower::limit::ConcurrencyLimitLayer;
    use tower::{BoxError, ServiceExt, service_fn};
    use tower_test::mock::pair;

    fn request(body: &str) -> Request<Full<Bytes>> {
        Request::post("/").body(Full::from(body.to_owned())).unwrap()
    }

    async fn text<E: fmt::Debug>(response: Result<Response<ReplyBody>, E>) -> String {
        let body = response.unwrap().into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    fn batch(calls: usize) -> String {
        let call = |n| format!(r#"{{"jsonrpc":"2.0","id":{n},"method":"m"}}"#);
        format!("[{}]", (0..calls).map(call).collect::<Vec<_>>().join(","))
    }

    #[tokio::test]
    async fn an_answer_beyond_the_memory_of_the_joined_response_is_refused_in_position() {
        let long = service_fn(async |_: Request<Bytes>| {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":0,"result":"{}"}}"#, "x".repeat(200));
            Ok::<_, BoxError>(Response::new(Full::<Bytes>::from(answer)))
        });
        let joined =
            text(SplitBatchLayer::new().with_answer(500).layer(long).oneshot(request(&batch(3))).await).await;
        assert_eq!(joined.matches("xxx\"}").count(), 2, "{joined}");
        assert!(joined.contains(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32005,"#), "{joined}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_sends_at_most_the_configured_calls_at_once_and_keeps_their_order() {
        let now = Arc::new(AtomicUsize::new(0));
        let peak = Arc::new(AtomicUsize::new(0));
        let seen = peak.clone();
        let node = service_fn(move |request: Request<Bytes>| {
            let now = now.clone();
            let peak = peak.clone();
            async move {
                peak.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
                // A later call is answered sooner.
                let wait = 200 - request.body().len() as u64 - u64::from(request.body()[22]);
                tokio::time::sleep(Duration::from_millis(wait)).await;
                now.fetch_sub(1, Relaxed);
                Ok::<_, BoxError>(Response::new(Full::from(request.into_body())))
            }
        });
        for (parallel, expected) in [(0, 1), (3, 3), (100, 9)] {
            seen.store(0, Relaxed);
            let service = SplitBatchLayer::new().with_parallel(parallel).layer(node.clone());
            assert_eq!(text(service.oneshot(request(&batch(9))).await).await, batch(9));
            assert_eq!(seen.load(Relaxed), expected);
        }
    }

    #[tokio::test]
    async fn a_failed_call_is_an_error_in_position_and_a_notification_has_no_answer() {
        let node = service_fn(async |request: Request<Bytes>| {
            if request.body().windows(4).any(|part| part == b"fail") {
                return Err(BoxError::from("out of order"));
            }
            let page = request.body().windows(4).any(|part| part == b"page");
            let body = if page { Bytes::from_static(b"<html>") } else { request.into_body() };
            Ok(Response::new(Full::from(body)))
        });
        let service = SplitBatchLayer::new().layer(node);
        let error = |id| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"backend request failed"}}}}"#
            )
        };
        let good = r#"{"jsonrpc":"2.0","id":3,"method":"good"}"#;
        let body = format!(
            r#"[{{"id":1,"method":"fail"}},{{"id":2,"method":"page"}},{{"jsonrpc":"2.0","method":"silent"}},{good}]"#
        );
        let answer = text(service.clone().oneshot(request(&body)).await).await;
        assert_eq!(answer, format!("[{},{},{good}]", error(1), error(2)));
        assert_eq!(
            text(service.clone().oneshot(request(good)).await).await,
            good,
            "a single call passes whole"
        );
        let silent = r#"[{"jsonrpc":"2.0","method":"silent"}]"#;
        assert_eq!(text(service.clone().oneshot(request(silent)).await).await, "");
        for (body, status) in [("[]".to_owned(), 400), (batch(101), 413)] {
            assert_eq!(service.clone().oneshot(request(&body)).await.unwrap().status(), status);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_call_of_a_batch_polls_the_inner_service_ready() {
        let (mock, mut handle) = pair::<Request<Bytes>, Response<Full<Bytes>>>();
        let service = SplitBatchLayer::new().layer(ConcurrencyLimitLayer::new(1).layer(mock));
        let answer = tokio::spawn(service.oneshot(request(&batch(3))));
        for _ in 0..3 {
            let (request, sender) = handle.next_request().await.unwrap();
            sender.send_response(Response::new(Full::from(request.into_body())));
        }
        assert_eq!(text(answer.await.unwrap()).await, batch(3));
    }
}
