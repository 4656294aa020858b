//! Overload control: limits the calls to a chain whose answers take much longer than usual.
//!
//! The layer comes after the method lists, because a call that they refuse is no load, and before everything that
//! counts, reserves or waits, so a refused set costs almost nothing. A set of calls occupies one place in the
//! [load](rpcgate_core::overload) of its chain from here until its answer begins to leave. That time is the latency
//! that the limit follows, so it includes the gateway's own queues. While the chain answers as usual, there is no
//! limit. Under a limit, projects that use more than their share are refused first; higher tiers have larger shares.
//! The layer refuses with [`Refusal::Shed`].
//!
//! It does not replace the fixed limits: calls in flight at nodes have their own limit, and any number of answers in
//! time is no overload.
//!
//! ```
//! use rpcgate_core::chain::ChainName;
//! use rpcgate_core::clock::Clock;
//! use rpcgate_core::overload::{ChainLoads, LoadRules};
//! use rpcgate_layers::call::overload::OverloadLayer;
//! use rpcgate_layers::testing::Fixture;
//! use std::{convert::Infallible, sync::Arc, time::Duration};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! const TOY: ChainName = ChainName::new("toy");
//! let Fixture { caller, clock, .. } = Fixture::new();
//! let loads = Arc::new(ChainLoads::new(LoadRules::default()));
//! // A hundred calls at a time, which usually take 100 ms, and then 2 s.
//! let enter = || (0..100).filter_map(|_| loads.enter(TOY, &caller, clock.elapsed()).ok()).collect::<Vec<_>>();
//! for millis in [[100; 20].as_slice(), &[2_000; 8]].concat() {
//!     let slots = enter();
//!     clock.advance(Duration::from_millis(millis));
//!     slots.into_iter().flatten().for_each(|slot| slot.answered(0, clock.elapsed()));
//! }
//! let in_flight = enter();
//! assert!(in_flight.len() < 20);
//!
//! let known = caller.clone();
//! let layer = OverloadLayer::by(loads.clone(), clock.clone())
//!     .with_caller(move |_: &http::Request<()>| Some((known.clone().into(), TOY)));
//! let inner = service_fn(async |_: http::Request<()>| Ok::<_, Infallible>(http::Response::new(bytes::Bytes::new())));
//! let service = layer.layer(inner);
//! let call = async || service.clone().oneshot(http::Request::new(())).await.unwrap();
//! let refused = call().await;
//! assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"1".parse().unwrap()));
//! drop(in_flight);
//! assert_eq!(call().await.status(), 200);
//! # });
//! ```

use crate::foreign::{Foreign, Native, Reject, refusing};
use crate::future::ResponseFuture;
use pin_project_lite::pin_project;
use rpcgate_core::call::{Before, Calls, Placed};
use rpcgate_core::caller::CallerRef;
use rpcgate_core::chain::ChainName;
use rpcgate_core::clock::Clock;
use rpcgate_core::overload::{ChainLoads, LoadSlot};
use rpcgate_core::refusal::Refusal;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower_layer::Layer;
use tower_service::Service;

/// Refuses calls to overloaded chains.
#[derive(Clone, Debug)]
pub struct OverloadLayer<W = Native> {
    loads: Arc<ChainLoads>,
    clock: Arc<dyn Clock>,
    mode: W,
}

impl OverloadLayer {
    /// Creates a layer with its own loads and the default rules.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::by(Arc::default(), clock)
    }

    /// Creates a layer that decides by `loads`. All services that it wraps share them.
    pub fn by(loads: Arc<ChainLoads>, clock: Arc<dyn Clock>) -> Self {
        OverloadLayer { loads, clock, mode: Native }
    }

    /// Adapts the layer to foreign requests. `extract` returns the caller and the chain of a request; the chain may be
    /// any name of a resource that can be overloaded. A request occupies its place until its response exists. All
    /// responses of a chain should take about the same time. A request without a caller (`None`) is refused with
    /// [`Refusal::NoKey`].
    pub fn with_caller<R, F>(self, extract: F) -> OverloadLayer<Foreign<F, ()>>
    where
        F: for<'r> Fn(&'r R) -> Option<(CallerRef<'r>, ChainName)>,
    {
        self.map_mode(|_| Foreign::new(extract, ()))
    }
}

impl<W> OverloadLayer<W> {
    fn map_mode<V>(self, map: impl FnOnce(W) -> V) -> OverloadLayer<V> {
        OverloadLayer { loads: self.loads, clock: self.clock, mode: map(self.mode) }
    }
}

refusing!(OverloadLayer);

impl<S, W: Clone> Layer<S> for OverloadLayer<W> {
    type Service = Overload<S, W>;

    fn layer(&self, inner: S) -> Overload<S, W> {
        Overload { inner, loads: self.loads.clone(), clock: self.clock.clone(), mode: self.mode.clone() }
    }
}

/// A service that checks the loads before `inner`.
#[derive(Clone, Debug)]
pub struct Overload<S, W = Native> {
    inner: S,
    loads: Arc<ChainLoads>,
    clock: Arc<dyn Clock>,
    mode: W,
}

impl<S, A> Service<Calls<A>> for Overload<S, Native>
where
    A: Before<Placed>,
    S: Service<Calls<Placed>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut calls: Calls<A>) -> S::Future {
        let tally = calls.tally_mut();
        if self.loads.is_on() && tally.has_open() {
            match self.loads.enter(tally.chain.name(), &tally.caller, self.clock.elapsed()) {
                Ok(slot) => tally.load_slot = slot,
                Err(_) => tally.refuse(Refusal::Shed),
            }
        }
        self.inner.call(calls.at())
    }
}

impl<S, F, J, R> Service<R> for Overload<S, Foreign<F, (), J>>
where
    F: for<'r> Fn(&'r R) -> Option<(CallerRef<'r>, ChainName)>,
    J: Reject<R, S::Response>,
    S: Service<R>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<PlacedFuture<S::Future>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let entered = match (self.mode.extract)(&request) {
            None => Err(Refusal::NoKey),
            Some((caller, chain)) => {
                self.loads.enter(chain, &caller, self.clock.elapsed()).map_err(|_| Refusal::Shed)
            }
        };
        self.mode.pass(request, entered, |request, slot| {
            let inner = self.inner.call(request);
            let clock = self.clock.clone();
            PlacedFuture { inner, slot, clock }
        })
    }
}

pin_project! {
    /// The response of the inner service to a request that occupies a place.
    pub struct PlacedFuture<F> {
        #[pin]
        inner: F,
        slot: Option<LoadSlot>,
        clock: Arc<dyn Clock>,
    }
}

impl<F> fmt::Debug for PlacedFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlacedFuture").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl<F, Res, E> Future for PlacedFuture<F>
where
    F: Future<Output = Result<Res, E>>,
{
    type Output = Result<Res, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx));
        if let Some(slot) = this.slot.take() {
            match &response {
                Ok(_) => slot.answered(0, this.clock.elapsed()),
                Err(_) => slot.passed(this.clock.elapsed()),
            }
        }
        Poll::Ready(response)
    }
}

#[cfg(test)]
mod tests;
