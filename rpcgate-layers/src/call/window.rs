//! Plan windows: the requests of a key per UTC minute, hour and day, and the requests of its project per second.
//!
//! The layer comes after the method lists, because a call that they refuse uses no request, and before everything more
//! expensive. A set counts once, or once per item ([`BatchCounts::Items`]); a set without an open call does not count.
//! All windows are checked before any is counted, so a refused request counts in none. The layer refuses with
//! [`Refusal::Window`].
//!
//! In an axum or any other tower stack it also writes the nine rate headers:
//!
//! ```
//! use rpcgate_core::caller::Caller;
//! use rpcgate_core::clock::{ManualClock, Time};
//! use rpcgate_core::backend::counters::MemoryCounters;
//! use rpcgate_core::plan::{Plan, Tier};
//! use rpcgate_layers::call::window::WindowLayer;
//! use std::{convert::Infallible, sync::Arc};
//! use tower::{Layer, Service, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let clock = Arc::new(ManualClock::at(Time::from_secs(0)));
//! let layer = WindowLayer::new(Arc::new(MemoryCounters::default()))
//!     .with_caller(clock, |request: &http::Request<Caller>| Some(request.body().into()));
//! let inner = service_fn(async |_: http::Request<Caller>| Ok::<_, Infallible>(http::Response::new(bytes::Bytes::new())));
//! let mut service = layer.layer(inner);
//! for left in (0..10).rev() {
//!     let request = http::Request::new(Caller::of(1, Plan::of(Tier::Free))); // 10 requests a minute
//!     let response = service.ready().await.unwrap().call(request).await.unwrap();
//!     assert_eq!(response.headers()["x-ratelimit-remaining-minute"], left.to_string());
//! }
//! let response = service.ready().await.unwrap().call(http::Request::new(Caller::of(1, Plan::of(Tier::Free)))).await.unwrap();
//! assert_eq!(response.status(), 429);
//! assert_eq!(response.headers()["retry-after"], "60");
//! # });
//! ```

use crate::foreign::{Foreign, Native, Reject, SetRateLimit, refusing};
use crate::future::ResponseFuture;
use pin_project_lite::pin_project;
use rpcgate_core::backend::Answer;
use rpcgate_core::backend::counters::{Counters, WindowCount};
use rpcgate_core::call::{Before, Calls, Windowed};
use rpcgate_core::caller::CallerRef;
use rpcgate_core::clock::Clock;
use rpcgate_core::plan::BatchCounts;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::window::Windows;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready as done};
use tower_layer::Layer;
use tower_service::Service;

/// Counts requests in the plan windows.
#[derive(Clone, Debug)]
pub struct WindowLayer<W = Native> {
    counters: Arc<dyn Counters>,
    batch: BatchCounts,
    mode: W,
}

impl WindowLayer {
    /// Creates a layer that counts in `counters`, a batch as one request.
    pub fn new(counters: Arc<dyn Counters>) -> Self {
        WindowLayer { counters, batch: BatchCounts::Request, mode: Native }
    }

    /// Sets the way a batch counts.
    #[must_use]
    pub fn with_batches(mut self, batch: BatchCounts) -> Self {
        self.batch = batch;
        self
    }

    /// Adapts the layer to foreign requests. `extract` returns the caller of a request, and `clock` the time of its
    /// arrival. A request without a caller (`None`) is refused with [`Refusal::NoKey`].
    pub fn with_caller<R, F>(self, clock: Arc<dyn Clock>, extract: F) -> WindowLayer<Foreign<F>>
    where
        F: for<'r> Fn(&'r R) -> Option<CallerRef<'r>>,
    {
        self.map_mode(|_| Foreign::new(extract, clock))
    }
}

impl<W> WindowLayer<W> {
    fn map_mode<V>(self, map: impl FnOnce(W) -> V) -> WindowLayer<V> {
        WindowLayer { counters: self.counters, batch: self.batch, mode: map(self.mode) }
    }
}

refusing!(WindowLayer);

impl<S, W: Clone> Layer<S> for WindowLayer<W> {
    type Service = Window<S, W>;

    fn layer(&self, inner: S) -> Window<S, W> {
        Window { inner, counters: self.counters.clone(), batch: self.batch, mode: self.mode.clone() }
    }
}

/// A service that counts in the windows before `inner`.
#[derive(Clone, Debug)]
pub struct Window<S, W = Native> {
    inner: S,
    counters: Arc<dyn Counters>,
    batch: BatchCounts,
    mode: W,
}

impl<S, A> Service<Calls<A>> for Window<S, Native>
where
    A: Before<Windowed> + 'static,
    S: Service<Calls<Windowed>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut calls: Calls<A>) -> Self::Future {
        let tally = calls.tally_mut();
        let open = tally.entries.iter().filter(|entry| entry.is_open()).count() as u32;
        let weight = match self.batch {
            BatchCounts::Request => open.min(1),
            BatchCounts::Items => open,
        };
        if weight == 0 {
            return ResponseFuture::inner(self.inner.call(calls.at()));
        }
        tally.begin();
        match self.counters.take(&tally.caller, weight, tally.arrival) {
            Answer::Now(taken) => {
                count(&mut calls, weight, taken);
                ResponseFuture::inner(self.inner.call(calls.at()))
            }
            Answer::Pending(taken) => {
                let ready = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, ready);
                ResponseFuture::waiting(async move {
                    count(&mut calls, weight, taken.await);
                    inner.call(calls.at()).await
                })
            }
        }
    }
}

fn count<A>(calls: &mut Calls<A>, weight: u32, taken: WindowCount) {
    let tally = calls.tally_mut();
    tally.windows = Some(taken.windows);
    match taken.refused {
        None => tally.counted = weight,
        Some(Refusal::Window { retry_after }) => {
            // Limits that are scaled down are restored before the hour or the day is over.
            let wait = tally.throttled_until.map(|end| end.micros().saturating_sub(tally.arrival.micros()));
            let wait = wait.map(|micros| micros.div_ceil(1_000_000).max(1));
            let retry_after = wait.map_or(retry_after, |wait| retry_after.min(wait));
            tally.refuse(Refusal::Window { retry_after });
        }
        Some(refusal) => tally.refuse(refusal),
    }
}

impl<S, F, J, R> Service<R> for Window<S, Foreign<F, Arc<dyn Clock>, J>>
where
    F: for<'r> Fn(&'r R) -> Option<CallerRef<'r>>,
    J: Reject<R, S::Response> + Clone + Send + 'static,
    R: Send + 'static,
    S: Service<R> + Clone + Send + 'static,
    S::Response: SetRateLimit,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<RatedFuture<S::Future>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let mode = &self.mode;
        let taken = (mode.extract)(&request).map(|caller| self.counters.take(&caller, 1, mode.clock.now()));
        match taken {
            None => ResponseFuture::own(Ok(mode.reject.reject(request, Refusal::NoKey))),
            Some(Answer::Now(taken)) => match taken.refused {
                None => {
                    let inner = self.inner.call(request);
                    ResponseFuture::inner(RatedFuture { inner, windows: taken.windows })
                }
                Some(refusal) => {
                    let mut response = mode.reject.reject(request, refusal);
                    response.rate(&taken.windows);
                    ResponseFuture::own(Ok(response))
                }
            },
            Some(Answer::Pending(taken)) => {
                let reject = mode.reject.clone();
                let ready = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, ready);
                ResponseFuture::waiting(async move {
                    let taken = taken.await;
                    let mut response = match taken.refused {
                        None => inner.call(request).await?,
                        Some(refusal) => reject.reject(request, refusal),
                    };
                    response.rate(&taken.windows);
                    Ok(response)
                })
            }
        }
    }
}

pin_project! {
    /// The response of the inner service with the rate headers.
    #[derive(Debug)]
    pub struct RatedFuture<F> {
        #[pin]
        inner: F,
        windows: Windows,
    }
}

impl<F, Res, E> Future for RatedFuture<F>
where
    F: Future<Output = Result<Res, E>>,
    Res: SetRateLimit,
{
    type Output = Result<Res, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = done!(this.inner.poll(cx))?;
        response.rate(this.windows);
        Poll::Ready(Ok(response))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Fixture};
    use rpcgate_core::backend::counters::MemoryCounters;
    use rpcgate_core::backend::suite;
    use rpcgate_core::call::Listed;
    use rpcgate_core::caller::Caller;

    async fn travel(
        counters: &Arc<MemoryCounters>,
        batch: BatchCounts,
        calls: Calls<Listed>,
    ) -> Calls<Windowed> {
        let layer = WindowLayer::new(counters.clone()).with_batches(batch);
        testing::through(layer, calls).await
    }

    #[tokio::test]
    async fn a_batch_is_one_request() {
        let fixture = Fixture::new();
        let calls = fixture.calls(br#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#).at::<Listed>();
        let calls = travel(&fixture.counters, BatchCounts::Request, calls).await;
        assert_eq!(calls.tally().counted, 1);
        assert_eq!(calls.tally().windows.unwrap().minute.remaining, 9);
    }

    #[tokio::test]
    async fn a_batch_can_be_as_many_requests_as_it_has_items() {
        let fixture = Fixture::new();
        let calls = fixture.calls(br#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#).at::<Listed>();
        let calls = travel(&fixture.counters, BatchCounts::Items, calls).await;
        assert_eq!(calls.tally().counted, 2);
    }

    #[tokio::test]
    async fn a_set_without_an_open_call_takes_no_window() {
        let fixture = Fixture::new();
        let mut calls = fixture.calls(br#"{"id":1,"method":"a"}"#).at::<Listed>();
        calls.tally_mut().entries[0].state = rpcgate_core::call::CallState::Refused(Refusal::NotPermitted);
        let calls = travel(&fixture.counters, BatchCounts::Request, calls).await;
        assert_eq!((calls.tally().counted, calls.tally().windows), (0, None));
        assert_eq!(fixture.counters.peek(&suite::caller(1), fixture.now()).minute.remaining, 10);
    }

    #[tokio::test]
    async fn an_exhausted_window_refuses_the_whole_set() {
        let fixture = Fixture::new();
        for _ in 0..10 {
            let calls = fixture.calls(br#"{"id":1,"method":"a"}"#).at::<Listed>();
            travel(&fixture.counters, BatchCounts::Request, calls).await;
        }
        let calls = fixture.calls(br#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#).at::<Listed>();
        let calls = travel(&fixture.counters, BatchCounts::Request, calls).await;
        assert!(matches!(calls.tally().refused, Some(Refusal::Window { .. })));
        assert!(!calls.tally().has_open());
        assert_eq!(calls.tally().counted, 0);
    }

    // Shows (Limits, budget and quota).
    #[tokio::test]
    async fn retry_after_does_not_exceed_the_end_of_scaled_down_limits() {
        let fixture = Fixture::with_caller(|caller| (caller.plan.per_minute, caller.plan.per_day) = (2, 2));
        // The day is over in 6,400 s.
        for (cooled, expected) in [(600_000, 600), (6_001, 7), (1, 1), (90_000_000, 6_400)] {
            for _ in 0..2 {
                let calls = fixture.calls(br#"{"id":1,"method":"a"}"#).at::<Listed>();
                travel(&fixture.counters, BatchCounts::Request, calls).await;
            }
            let mut calls = fixture.calls(br#"{"id":1,"method":"a"}"#).at::<Listed>();
            calls.tally_mut().throttled_until =
                Some(fixture.now().plus(std::time::Duration::from_millis(cooled)));
            let calls = travel(&fixture.counters, BatchCounts::Request, calls).await;
            assert_eq!(calls.tally().refused, Some(Refusal::Window { retry_after: expected }));
        }
    }

    #[tokio::test]
    async fn counters_that_must_be_waited_for_decide_the_same() {
        #[derive(Debug)]
        struct Far(MemoryCounters);
        impl Counters for Far {
            fn take(
                &self,
                caller: &Caller,
                weight: u32,
                now: rpcgate_core::clock::Time,
            ) -> Answer<WindowCount> {
                let taken = self.0.take(caller, weight, now);
                Answer::Pending(Box::pin(async move {
                    tokio::task::yield_now().await;
                    taken.wait().await
                }))
            }
            fn peek(&self, caller: &Caller, now: rpcgate_core::clock::Time) -> Windows {
                self.0.peek(caller, now)
            }
            fn reserve(
                &self,
                caller: &Caller,
                costs: &[u32],
                now: rpcgate_core::clock::Time,
            ) -> Answer<(rpcgate_core::quota::Mask, rpcgate_core::quota::Grant)> {
                self.0.reserve(caller, costs, now)
            }
            fn refund(&self, project: rpcgate_core::caller::ProjectId, hour: u64, units: u64) {
                self.0.refund(project, hour, units);
            }
        }
        let fixture = Fixture::new();
        let far = Arc::new(Far(MemoryCounters::default()));
        for n in 0..11 {
            let calls = fixture.calls(br#"{"id":1,"method":"a"}"#).at::<Listed>();
            let calls = testing::through(WindowLayer::new(far.clone()), calls).await;
            assert_eq!(calls.tally().refused.is_some(), n == 10);
        }
    }
}
