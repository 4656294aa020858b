//! The outermost layer. It stamps each request with an id and its arrival time, and writes the headers that every
//! response carries: `x-request-id`, CORS, the nine rate headers, `X-Cache`, `x-compute-units`, and those of a refusal
//! (`Retry-After`, `Allow`, `WWW-Authenticate`). It closes the tally before the response leaves. A response with a
//! tally waits for one to three yields to the runtime. The records of all responses ready at that time are written
//! together, and the responses in a row, which wakes a client that waits for many of them once.
//!
//! The layer refuses nothing itself and does not change a body. An error of the inner service becomes a refusal. Tower
//! requires that a service which fails to become ready is discarded, but HTTP servers expect a service without errors,
//! so this layer cannot pass the error on. Instead it refuses every request with `Connection: close`, and the next
//! connection gets a new clone of the stack.
//!
//! ```
//! use rpcgate_core::clock::{ManualClock, Time};
//! use rpcgate_core::refusal::Refusal;
//! use rpcgate_layers::request::message::{PendingResponse, Received};
//! use rpcgate_layers::respond::RespondLayer;
//! use std::{convert::Infallible, sync::Arc};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let inner = service_fn(async |_: Received<()>| Ok::<_, Infallible>(PendingResponse::refused(Refusal::NoKey)));
//! let layer = RespondLayer::new(Arc::new(ManualClock::at(Time::from_secs(1_700_000_000))));
//! let response = layer.clone().layer(inner).oneshot(http::Request::new(())).await.unwrap();
//! assert_eq!(response.status(), 401);
//! assert_eq!(response.headers()["x-request-id"].len(), 36);
//! assert_eq!(response.headers()["access-control-allow-origin"], "*");
//! let response = layer.without_cors().layer(inner).oneshot(http::Request::new(())).await.unwrap();
//! assert!(!response.headers().contains_key("access-control-allow-origin"));
//! # });
//! ```

use crate::coalesce::Coalesce;
use crate::headers::{self, Metered};
use crate::reply_body::ReplyBody;
use crate::request::message::{PendingResponse, Received};
use http::header::{
    ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, CONNECTION, HeaderName, HeaderValue,
    RETRY_AFTER, SEC_WEBSOCKET_VERSION, UPGRADE, WWW_AUTHENTICATE,
};
use http::{Request, Response};
use pin_project_lite::pin_project;
use rpcgate_core::backend::usage_sink::Receipt;
use rpcgate_core::caller::RequestId;
use rpcgate_core::clock::Clock;
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Tally;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower_layer::Layer;
use tower_service::Service;

/// Stamps requests and finishes responses.
#[derive(Clone, Debug)]
pub struct RespondLayer {
    clock: Arc<dyn Clock>,
    writes: Writes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Writes {
    cors: bool,
    rates: bool,
}

impl RespondLayer {
    /// Creates a layer that stamps by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        RespondLayer { clock, writes: Writes { cors: true, rates: true } }
    }

    /// Omits the CORS headers, and removes those of the answer to a preflight, if another layer writes them or browsers
    /// of other origins are not allowed.
    #[must_use]
    pub fn without_cors(mut self) -> Self {
        self.writes.cors = false;
        self
    }

    /// Omits the rate limit headers.
    #[must_use]
    pub fn without_rates(mut self) -> Self {
        self.writes.rates = false;
        self
    }
}

impl<S> Layer<S> for RespondLayer {
    type Service = Respond<S>;

    fn layer(&self, inner: S) -> Respond<S> {
        Respond { inner, clock: self.clock.clone(), writes: self.writes, failed: None }
    }
}

/// The outermost service around `inner`.
#[derive(Debug)]
pub struct Respond<S> {
    inner: S,
    clock: Arc<dyn Clock>,
    writes: Writes,
    /// The refusal of all requests after the inner service failed to become ready.
    failed: Option<Refusal>,
}

impl<S: Clone> Clone for Respond<S> {
    /// Clones with a new inner service, which has not failed.
    fn clone(&self) -> Self {
        Respond { inner: self.inner.clone(), clock: self.clock.clone(), writes: self.writes, failed: None }
    }
}

impl<S, B> Service<Request<B>> for Respond<S>
where
    S: Service<Received<B>, Response = PendingResponse>,
    S::Error: Into<Refusal>,
{
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = RespondFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // A service that failed to become ready may be neither polled nor called again, so requests are refused.
        if self.failed.is_none()
            && let Err(error) = ready!(self.inner.poll_ready(cx))
        {
            self.failed = Some(error.into());
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let received = Received::now(request, &*self.clock);
        let id = received.id;
        if let Some(refusal) = self.failed {
            return RespondFuture { state: CallState::Failed { refusal, id }, writes: self.writes };
        }
        let inner = self.inner.call(received);
        RespondFuture { state: CallState::Inside { inner, id }, writes: self.writes }
    }
}

pin_project! {
    /// The response to a request.
    #[derive(Debug)]
    pub struct RespondFuture<F> {
        #[pin]
        state: CallState<F>,
        writes: Writes,
    }
}

pin_project! {
    #[project = At]
    #[derive(Debug)]
    enum CallState<F> {
        Inside { #[pin] inner: F, id: RequestId },
        Failed { refusal: Refusal, id: RequestId },
        // Dropping a receipt writes the record, also when the client disconnects at that moment.
        Waiting { turn: Coalesce, answer: Option<Response<ReplyBody>>, receipt: Option<Receipt> },
    }
}

impl<F, E> Future for RespondFuture<F>
where
    F: Future<Output = Result<PendingResponse, E>>,
    E: Into<Refusal>,
{
    type Output = Result<Response<ReplyBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_mut().project();
        let mut state = this.state;
        let writes = *this.writes;
        match state.as_mut().project() {
            At::Inside { inner, id } => {
                let pending = match ready!(inner.poll(cx)) {
                    Ok(pending) => pending,
                    Err(error) => PendingResponse::refused(error.into()),
                };
                let is_metered = pending.tally.is_some();
                let (answer, receipt) = finish(pending, *id, writes);
                if !is_metered {
                    return Poll::Ready(Ok(answer));
                }
                state.set(CallState::Waiting { turn: Coalesce::default(), answer: Some(answer), receipt });
                self.poll(cx)
            }
            At::Failed { refusal, id } => {
                let (mut response, _) = finish(PendingResponse::refused(*refusal), *id, writes);
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                Poll::Ready(Ok(response))
            }
            At::Waiting { turn, answer, receipt } => {
                ready!(Pin::new(turn).poll(cx));
                drop(receipt.take());
                answer.take().map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer)))
            }
        }
    }
}

const CORS: [HeaderName; 5] = [
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_MAX_AGE,
];

fn finish(pending: PendingResponse, id: RequestId, writes: Writes) -> (Response<ReplyBody>, Option<Receipt>) {
    let PendingResponse { status, headers, is_json, body, rest, flow, mut tally, windows, rated, refusal } =
        pending;
    let exposed = tally.as_ref().filter(|_| writes.cors).and_then(|_| headers::exposed_with(&headers));
    let mut headers = match &tally {
        Some(tally) => {
            let windows = (rated && writes.rates).then(|| tally.windows_now());
            Metered { id, windows, units: tally.charged(), hit: tally.is_hit(), is_json, is_grpc: false }
                .headers(headers)
        }
        None => match windows.filter(|_| rated && writes.rates) {
            None => headers::plain(id, false, is_json, headers),
            windows => {
                Metered { id, windows, units: 0, hit: false, is_json, is_grpc: false }.headers(headers)
            }
        },
    };
    if let Some(height) = tally.as_ref().and_then(|tally| tally.consistency?.shown) {
        headers.insert(headers::HEAD, HeaderValue::from(height));
    }
    let (body, receipt) = match flow {
        Some(flow) => {
            // The duration of the rest also depends on the client, so it is no measure of load.
            if let Some(tally) = &mut tally {
                tally.leave_load();
            }
            (ReplyBody::flowing(flow, tally), None)
        }
        None => {
            let body = match &mut tally {
                Some(tally) => ReplyBody::held(body, rest, &mut tally.memory),
                None => ReplyBody::held(body, rest, &mut MemoryPermit::default()),
            };
            (body, tally.and_then(Tally::close))
        }
    };
    if let Some(exposed) = exposed {
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
    if !writes.cors {
        for name in CORS {
            headers.remove(name);
        }
    }
    if let Some(refusal) = refusal {
        if let Some(seconds) = refusal.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(methods) = refusal.allow() {
            headers.insert(ALLOW, HeaderValue::from_static(methods));
        }
        if let Some(codings) = refusal.accept_encoding() {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(codings));
        }
        if refusal.asks_for_upgrade() {
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        if refusal.asks_for_key() {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Key realm=\"rpcgate\""));
        }
        if refusal.closes() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    (response, receipt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use rpcgate_core::backend::usage_sink::{Record, Ticket, UsageSink};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::task::Waker;
    use tower::service_fn;

    async fn respond(pending: PendingResponse) -> Response<ReplyBody> {
        let slot = std::cell::Cell::new(Some(pending));
        let inner =
            service_fn(|_: Received<()>| std::future::ready(Ok::<_, Infallible>(slot.take().unwrap())));
        let Ok(response) = RespondLayer::new(Fixture::new().clock).layer(inner).call(Request::new(())).await;
        response
    }

    #[tokio::test]
    async fn every_answer_has_an_id_and_may_be_read_by_any_origin() {
        let response = respond(PendingResponse::refused(Refusal::NoRoute)).await;
        let headers = response.headers();
        assert_eq!(headers["x-request-id"].len(), 36);
        assert_eq!(headers["access-control-allow-origin"], "*");
        assert_eq!(headers["x-cache"], "MISS");
        for name in ["x-ratelimit-remaining-day", "retry-after", "x-request-id"] {
            assert!(headers["access-control-expose-headers"].to_str().unwrap().contains(name));
        }
        assert!(!headers.contains_key("x-ratelimit-limit-minute"), "no caller is known");
        assert!(!headers.contains_key("x-compute-units"), "nothing is metered");
    }

    #[tokio::test]
    async fn an_answer_to_a_known_caller_has_rate_headers_and_is_recorded_before_it_leaves() {
        let fixture = Fixture::new();
        let response = respond(PendingResponse::refused_unread(fixture.tally(), Refusal::Suspended)).await;
        assert_eq!(response.status(), 402);
        assert_eq!(response.headers()["x-ratelimit-remaining-minute"], "10");
        assert_eq!(response.headers()["x-compute-units"], "0");
        assert_eq!(fixture.sink.records().len(), 1);
    }

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn the_shown_head_is_returned_if_it_is_known() {
        for shown in [None, Some(120)] {
            let mut tally = Fixture::new().tally();
            tally.consistency = Some(rpcgate_core::tally::HeadConsistency { least: 1, shown });
            let response = respond(PendingResponse::refused_unread(tally, Refusal::Quota)).await;
            let told = response.headers().get("x-rpcgate-head").map(|value| value.to_str().unwrap());
            assert_eq!(told, shown.map(|_| "120"));
        }
    }

    /// Holds records until a write is requested.
    #[derive(Debug, Default)]
    struct Patient {
        held: AtomicU64,
        written: AtomicU64,
    }

    impl UsageSink for Patient {
        fn append(&self, _: &Record<'_>) {
            panic!("an answer's record may wait");
        }

        fn hold(&self, _: &Record<'_>) -> Option<Ticket> {
            let number = self.held.fetch_add(1, Relaxed) + 1;
            Some(Ticket { slot: 0, number })
        }

        fn write(&self, ticket: Ticket) {
            self.written.fetch_max(ticket.number, Relaxed);
        }
    }

    type Answer = Pin<Box<dyn Future<Output = Response<ReplyBody>> + Send>>;

    fn patient() -> (Arc<Patient>, impl Fn() -> Answer) {
        let fixture = Fixture::new();
        let sink = Arc::<Patient>::default();
        let accounting = Arc::new((*fixture.accounting()).clone().with_sink(sink.clone()));
        let answer = move || {
            let pending =
                PendingResponse::refused_unread(fixture.tally_in(accounting.clone()), Refusal::Suspended);
            let slot = std::sync::Mutex::new(Some(pending));
            let inner = service_fn(move |_: Received<()>| {
                std::future::ready(Ok::<_, Infallible>(slot.lock().unwrap().take().unwrap()))
            });
            let future = RespondLayer::new(fixture.clock.clone()).layer(inner).call(Request::new(()));
            Box::pin(async move { future.await.unwrap_or_else(|never| match never {}) }) as Answer
        };
        (sink, answer)
    }

    #[tokio::test]
    async fn answers_ready_in_one_turn_wait_for_each_other_and_leave_after_the_write() {
        let (sink, answer) = patient();
        let mut answers: Vec<_> = (0..3).map(|_| answer()).collect();
        for answer in &mut answers {
            assert!(answer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let count = || (sink.held.load(Relaxed), sink.written.load(Relaxed));
        assert_eq!(count(), (3, 0));
        let last = answers.pop().unwrap().await;
        assert_eq!((last.status().as_u16(), count()), (402, (3, 3)));
        for answer in answers {
            assert_eq!(answer.await.status(), 402);
        }
    }

    #[tokio::test]
    async fn a_client_that_leaves_while_its_answer_waits_is_recorded() {
        let (sink, answer) = patient();
        let mut answer = answer();
        assert!(answer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(answer);
        assert_eq!(sink.written.load(Relaxed), 1);
    }

    #[tokio::test]
    async fn cors_and_rate_headers_are_optional() {
        let fixture = Fixture::new();
        let layer = RespondLayer::new(fixture.clock.clone());
        for (layer, rates, cors) in
            [(layer.clone(), 9, 2), (layer.clone().without_rates(), 0, 2), (layer.without_cors(), 9, 0)]
        {
            let pending = PendingResponse::refused_unread(fixture.tally(), Refusal::Suspended);
            let slot = std::cell::Cell::new(Some(pending));
            let inner =
                service_fn(|_: Received<()>| std::future::ready(Ok::<_, Infallible>(slot.take().unwrap())));
            let Ok(response) = layer.layer(inner).call(Request::new(())).await;
            let count =
                |part: &str| response.headers().keys().filter(|name| name.as_str().contains(part)).count();
            assert_eq!((count("ratelimit"), count("access-control")), (rates, cors));
            assert!(response.headers().contains_key("x-request-id"));
        }
    }

    #[tokio::test]
    async fn refusals_state_how_to_proceed() {
        let header = async |refusal, name: &str| {
            respond(PendingResponse::refused(refusal))
                .await
                .headers()
                .get(name)
                .map(|v| v.to_str().unwrap().to_owned())
        };
        assert_eq!(
            header(Refusal::NoKey, "www-authenticate").await.as_deref(),
            Some("Key realm=\"rpcgate\"")
        );
        assert_eq!(header(Refusal::Window { retry_after: 5 }, "retry-after").await.as_deref(), Some("5"));
        assert_eq!(
            header(Refusal::MethodNotAllowed { allow: "POST" }, "allow").await.as_deref(),
            Some("POST")
        );
        assert_eq!(header(Refusal::BodyTooLarge, "connection").await.as_deref(), Some("close"));
        assert_eq!(header(Refusal::Closed, "connection").await, None);
    }
}
