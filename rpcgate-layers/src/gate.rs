//! Gates: layers that make one plain decision about one call. The plumbing here walks the open calls of a set, so a
//! decision is written once and serves single calls and batches alike.

use crate::foreign::{FromFn, Native, RejectWith};
use crate::future::ResponseFuture;
use rpcgate_core::call::{Before, CallState, CallView, Calls};
use rpcgate_core::caller::Caller;
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::refusal::Refusal;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// A decision about one call.
pub trait CallPolicy: Send + Sync + 'static {
    /// The position in the stack.
    type At;

    /// Lets the call pass or says why not. `now` is the moment of the request's arrival.
    ///
    /// # Errors
    /// The refusal that answers the call.
    fn decide(&self, call: CallView<'_>, caller: &Caller, now: Time) -> Result<(), Refusal>;

    /// The same about a call of a foreign request, for which [`concerns`](CallPolicy::concerns) is not asked because there is
    /// no tally.
    ///
    /// # Errors
    /// The refusal that answers the call.
    fn decide_foreign(&self, call: CallView<'_>, caller: &Caller, now: Time) -> Result<(), Refusal> {
        self.decide(call, caller, now)
    }

    /// Whether there is anything to decide for this caller on this chain; `false` skips the whole set.
    fn concerns(&self, tally: &rpcgate_core::tally::Tally) -> bool {
        let _ = tally;
        true
    }
}

/// A gate in front of `inner`.
#[derive(Debug)]
pub struct Gate<S, D, W = Native> {
    inner: S,
    decide: Arc<D>,
    way: W,
}

impl<S, D, W> Gate<S, D, W> {
    /// Puts `decide` in front of `inner`.
    pub fn new(inner: S, decide: Arc<D>, way: W) -> Self {
        Gate { inner, decide, way }
    }
}

impl<S: Clone, D, W: Clone> Clone for Gate<S, D, W> {
    fn clone(&self) -> Self {
        Gate { inner: self.inner.clone(), decide: self.decide.clone(), way: self.way.clone() }
    }
}

impl<S, D, A> Service<Calls<A>> for Gate<S, D, Native>
where
    D: CallPolicy,
    A: Before<D::At>,
    S: Service<Calls<D::At>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut calls: Calls<A>) -> S::Future {
        let tally = calls.tally_mut();
        if self.decide.concerns(tally) {
            let name = tally.chain.name();
            for entry in &mut tally.entries {
                if entry.is_open() {
                    let view = entry.call.view(&tally.body, name);
                    if let Err(refusal) = self.decide.decide(view, &tally.caller, tally.arrival) {
                        entry.state = CallState::Refused(refusal);
                    }
                }
            }
        }
        self.inner.call(calls.at())
    }
}

/// How a foreign request is read: a function returns its caller and call, and the clock tells the time of arrival.
#[derive(Clone, Debug)]
pub struct FromFnWithClock<F> {
    pub(crate) tell: FromFn<F>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl<S, D, F, R> Service<R> for Gate<S, D, FromFnWithClock<F>>
where
    D: CallPolicy,
    F: for<'r> Fn(&'r R) -> Option<(&'r Caller, CallView<'r>)>,
    R: RejectWith<S::Response>,
    S: Service<R>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Some((caller, call)) = (self.way.tell.0)(&request) else {
            return ResponseFuture::own(Ok(request.refuse(Refusal::NoKey)));
        };
        match self.decide.decide_foreign(call, caller, self.way.clock.now()) {
            Ok(()) => ResponseFuture::inner(self.inner.call(request)),
            Err(refusal) => ResponseFuture::own(Ok(request.refuse(refusal))),
        }
    }
}

/// Writes the layer of a gate: `by`, which takes the decision, and `with_call` for requests that are not rpcgate's.
macro_rules! gate_layer {
    ($(#[$doc:meta])* $layer:ident, $decision:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $layer<W = $crate::foreign::Native> {
            decide: std::sync::Arc<$decision>,
            way: W,
        }

        impl<W: Clone> Clone for $layer<W> {
            fn clone(&self) -> Self {
                Self { decide: self.decide.clone(), way: self.way.clone() }
            }
        }

        impl $layer {
            /// A layer that decides by `decision`. Every service it wraps decides by the same one.
            pub fn by(decision: std::sync::Arc<$decision>) -> Self {
                Self { decide: decision, way: $crate::foreign::Native }
            }

            /// The same layer for foreign requests: `tell` returns the caller and the call of a request, and `clock` tells
            /// the time of arrival. A request for which `tell` returns `None` is refused with
            /// [`Refusal::NoKey`](rpcgate_core::refusal::Refusal::NoKey).
            pub fn with_call<R, F>(
                self,
                clock: std::sync::Arc<dyn rpcgate_core::clock::Clock>,
                tell: F,
            ) -> $layer<$crate::gate::FromFnWithClock<F>>
            where
                F: for<'r> Fn(
                    &'r R,
                ) -> Option<(
                    &'r rpcgate_core::caller::Caller,
                    rpcgate_core::call::CallView<'r>,
                )>,
            {
                $layer {
                    decide: self.decide,
                    way: $crate::gate::FromFnWithClock { tell: $crate::foreign::FromFn(tell), clock },
                }
            }
        }

        impl<S, W: Clone> tower_layer::Layer<S> for $layer<W> {
            type Service = $crate::gate::Gate<S, $decision, W>;

            fn layer(&self, inner: S) -> Self::Service {
                $crate::gate::Gate::new(inner, self.decide.clone(), self.way.clone())
            }
        }
    };
}
pub(crate) use gate_layer;
