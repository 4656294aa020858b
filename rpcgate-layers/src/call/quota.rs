//! The quota: the Compute Units of a project in a rolling 24 hours.
//!
//! The layer comes last before the cache, because cached responses are metered too and a refused call must not be
//! reserved. A set is reserved as a whole, entry by entry in order. Units that are not charged in the end (a node
//! failed, the client disconnected before anything was sent) are returned when the set's tally is dropped. The layer
//! refuses with [`Refusal::Quota`].
//!
//! A foreign request is one call. [`recording`](QuotaLayer::recording) passes a record of it to a sink, and
//! [`charging_if`](QuotaLayer::charging_if) selects the responses that are charged:
//!
//! ```
//! use rpcgate_core::call::CallView;
//! use rpcgate_core::chain::{ChainName, MethodRule};
//! use rpcgate_layers::call::quota::QuotaLayer;
//! use rpcgate_layers::testing::Fixture;
//! use std::convert::Infallible;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let fixture = Fixture::with_caller(|caller| caller.quota.cu_per_day = 150);
//! let Fixture { caller, clock, counters, sink, .. } = fixture;
//! let rule = MethodRule::new(75);
//! let layer = QuotaLayer::new(counters)
//!     .with_call(clock, move |_: &http::Request<u16>| {
//!         Some((caller.clone().into(), CallView::new(ChainName::new("toy"), "toy_scan", rule)))
//!     })
//!     .recording(sink.clone())
//!     .charging_if(|response: &http::Response<bytes::Bytes>| response.status() == 200);
//! let inner = service_fn(async |request: http::Request<u16>| {
//!     let response = http::Response::builder().status(request.into_body());
//!     Ok::<_, Infallible>(response.body(bytes::Bytes::from_static(b"done")).unwrap())
//! });
//! let service = layer.layer(inner);
//! let call = async |status| service.clone().oneshot(http::Request::new(status)).await.unwrap().into_body();
//! for status in [200, 500, 200] {
//!     assert_eq!(call(status).await, "done"); // the second one is not charged
//! }
//! assert!(call(200).await.ends_with(b"\"compute unit quota exceeded\"}}"));
//! let charged: Vec<_> = sink.records().iter().map(|record| record.lines[0].cu).collect();
//! assert_eq!(charged, [75, 0, 75, 0]);
//! # });
//! ```

mod foreign;

pub use foreign::{ForeignQuota, MeteredFuture};

use crate::foreign::Native;
use crate::future::ResponseFuture;
use rpcgate_core::backend::Answer;
use rpcgate_core::backend::counters::Counters;
use rpcgate_core::call::{Before, CallState, Calls, Reserved};
use rpcgate_core::quota::{Grant, Mask};
use rpcgate_core::refusal::Refusal;
use smallvec::SmallVec;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Reserves calls in the quota of their project.
#[derive(Clone, Debug)]
pub struct QuotaLayer<W = Native> {
    counters: Arc<dyn Counters>,
    mode: W,
}

impl QuotaLayer {
    /// Creates a layer that reserves in `counters`.
    pub fn new(counters: Arc<dyn Counters>) -> Self {
        QuotaLayer { counters, mode: Native }
    }
}

impl<W> QuotaLayer<W> {
    fn map_mode<V>(self, map: impl FnOnce(W) -> V) -> QuotaLayer<V> {
        QuotaLayer { counters: self.counters, mode: map(self.mode) }
    }
}

impl<S, W: Clone> Layer<S> for QuotaLayer<W> {
    type Service = Quota<S, W>;

    fn layer(&self, inner: S) -> Quota<S, W> {
        Quota { inner, counters: self.counters.clone(), mode: self.mode.clone() }
    }
}

/// A service that reserves in the quota before `inner`.
#[derive(Clone, Debug)]
pub struct Quota<S, W = Native> {
    inner: S,
    counters: Arc<dyn Counters>,
    mode: W,
}

impl<S, A> Service<Calls<A>> for Quota<S>
where
    A: Before<Reserved> + 'static,
    S: Service<Calls<Reserved>> + Clone + Send + 'static,
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
        // A refused call costs 0 units, so positions in the mask are positions in the set.
        let costs: SmallVec<[u32; 4]> =
            tally.entries.iter().map(|entry| if entry.is_open() { entry.call.rule.cu } else { 0 }).collect();
        if costs.iter().all(|cost| *cost == 0) {
            return ResponseFuture::inner(self.inner.call(calls.at()));
        }
        tally.begin();
        match self.counters.reserve(&tally.caller, &costs, tally.arrival) {
            Answer::Now(reserved) => {
                settle(&mut calls, reserved);
                ResponseFuture::inner(self.inner.call(calls.at()))
            }
            Answer::Pending(reserved) => {
                let ready = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, ready);
                ResponseFuture::waiting(async move {
                    settle(&mut calls, reserved.await);
                    inner.call(calls.at()).await
                })
            }
        }
    }
}

fn settle<A>(calls: &mut Calls<A>, (mask, grant): (Mask, Grant)) {
    let tally = calls.tally_mut();
    tally.grant = Some(grant);
    for (index, entry) in tally.entries.iter_mut().enumerate() {
        if entry.is_open() && !mask.has(index) {
            entry.state = CallState::Refused(Refusal::Quota);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::window::WindowLayer;
    use crate::testing::{self, Fixture};
    use rpcgate_core::backend::counters::{MemoryCounters, WindowCount};
    use rpcgate_core::backend::usage_sink::{Record, UsageSink};
    use rpcgate_core::call::{Listed, Opened};
    use rpcgate_core::caller::{Caller, ProjectId};
    use rpcgate_core::clock::Time;
    use rpcgate_core::in_flight::{InFlight, InFlightCall};
    use rpcgate_core::tally::Accounting;
    use rpcgate_core::window::Windows;
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

    const SCANS: &[u8] =
        br#"[{"id":1,"method":"toy_scan"},{"id":2,"method":"toy_id"},{"id":3,"method":"toy_scan"}]"#;

    #[tokio::test]
    async fn a_batch_is_reserved_entry_by_entry_in_order() {
        let fixture = Fixture::with_caller(|caller| caller.quota.cu_per_day = 75);
        let calls = fixture.calls(SCANS).at::<Opened>();
        let calls = testing::through(QuotaLayer::new(fixture.counters.clone()), calls).await;
        let open: Vec<_> = calls.tally().entries.iter().map(rpcgate_core::call::Entry::is_open).collect();
        assert_eq!(
            open,
            [true, true, false],
            "the call that reaches the ceiling is served, free ones always"
        );
        assert_eq!(calls.tally().grant.unwrap().units, 75);
    }

    #[tokio::test]
    async fn calls_refused_earlier_are_not_reserved() {
        let fixture = Fixture::new();
        let mut calls = fixture.calls(SCANS).at::<Opened>();
        calls.tally_mut().entries[0].state = CallState::Refused(Refusal::Heavy { retry_after: 1 });
        let calls = testing::through(QuotaLayer::new(fixture.counters.clone()), calls).await;
        assert_eq!(calls.tally().grant.unwrap().units, 75);
    }

    /// Counters and a sink that assert at each use that a call is in flight.
    #[derive(Debug, Default)]
    struct Watched {
        counters: MemoryCounters,
        calls: Arc<InFlight>,
        looks: AtomicI64,
        records: AtomicI64,
    }

    impl Watched {
        fn has_calls(&self) -> bool {
            let look = self.looks.fetch_add(1, Relaxed);
            self.calls.advance(look) < look
        }
    }

    impl Counters for Watched {
        fn take(&self, caller: &Caller, weight: u32, now: Time) -> Answer<WindowCount> {
            assert!(self.has_calls());
            self.counters.take(caller, weight, now)
        }

        fn peek(&self, caller: &Caller, now: Time) -> Windows {
            self.counters.peek(caller, now)
        }

        fn reserve(&self, caller: &Caller, costs: &[u32], now: Time) -> Answer<(Mask, Grant)> {
            assert!(self.has_calls());
            self.counters.reserve(caller, costs, now)
        }

        fn refund(&self, project: ProjectId, hour: u64, units: u64) {
            assert!(self.has_calls());
            self.counters.refund(project, hour, units);
        }

        fn in_flight(&self) -> Option<InFlightCall> {
            Some(self.calls.enter())
        }
    }

    impl UsageSink for Watched {
        fn append(&self, _: &Record<'_>) {
            assert!(self.has_calls());
            self.records.fetch_add(1, Relaxed);
        }
    }

    #[tokio::test]
    async fn a_call_is_in_flight_before_it_is_counted_and_until_it_is_recorded() {
        let fixture = Fixture::new();
        let watched = Arc::<Watched>::default();
        assert!(!watched.has_calls());
        let accounting = Accounting::new(fixture.clock.clone(), watched.clone(), watched.clone());
        let accounting = Arc::new(accounting);
        for closes in [false, true] {
            let calls = fixture.calls_in(accounting.clone(), SCANS).at::<Listed>();
            assert!(!watched.has_calls(), "nothing is counted for it yet");
            let calls = testing::through(WindowLayer::new(watched.clone()), calls).await;
            drop(testing::through(QuotaLayer::new(watched.clone()), calls.at::<Opened>()).await);
            let calls = fixture.calls_in(accounting.clone(), SCANS).at::<Opened>();
            let calls = testing::through(QuotaLayer::new(watched.clone()), calls).await;
            if closes {
                drop(calls.into_tally().close());
            } else {
                drop(calls);
            }
            assert!(!watched.has_calls(), "its record is in the sink");
        }
        assert_eq!(watched.records.load(Relaxed), 4);
    }

    #[tokio::test]
    async fn units_of_calls_without_an_answer_are_returned() {
        let fixture = Fixture::new();
        let calls = fixture.calls(SCANS).at::<Opened>();
        let calls = testing::through(QuotaLayer::new(fixture.counters.clone()), calls).await;
        let project = calls.tally().caller.project;
        assert_eq!(fixture.counters.used(project, fixture.now()), 150);
        drop(calls);
        assert_eq!(fixture.counters.used(project, fixture.now()), 0);
    }
}
