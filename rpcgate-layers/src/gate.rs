//! Gates: layers that make one simple decision about one call. The code here iterates over the open calls of a set, so
//! one decision serves single calls and batches.

use crate::foreign::{Foreign, Native, Reject};
use crate::future::ResponseFuture;
use rpcgate_core::call::{Before, CallState, CallView, Calls};
use rpcgate_core::caller::{Caller, CallerRef};
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Tally;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// A decision about one call.
pub trait CallPolicy: Send + Sync + 'static {
    /// The position in the stack.
    type At;

    /// Lets the call pass, or refuses it. `now` is the arrival time of the request.
    ///
    /// # Errors
    /// Returns the refusal that answers the call.
    fn decide(&self, call: CallView<'_>, caller: &Caller, now: Time) -> Result<(), Refusal>;

    /// Decides about a call of a foreign request. [`concerns`](CallPolicy::concerns) is not called for it, because
    /// there is no tally.
    ///
    /// # Errors
    /// Returns the refusal that answers the call.
    fn decide_foreign(&self, call: CallView<'_>, caller: &Caller, now: Time) -> Result<(), Refusal> {
        self.decide(call, caller, now)
    }

    /// Reports whether there is anything to decide for this caller on this chain. `false` skips the whole set.
    fn concerns(&self, tally: &Tally) -> bool {
        let _ = tally;
        true
    }
}

/// A gate in front of `inner`.
#[derive(Debug)]
pub struct Gate<S, D, W = Native> {
    inner: S,
    decide: Arc<D>,
    mode: W,
}

impl<S, D, W> Gate<S, D, W> {
    /// Creates a gate that checks `decide` before `inner`.
    pub fn new(inner: S, decide: Arc<D>, mode: W) -> Self {
        Gate { inner, decide, mode }
    }
}

impl<S: Clone, D, W: Clone> Clone for Gate<S, D, W> {
    fn clone(&self) -> Self {
        Gate { inner: self.inner.clone(), decide: self.decide.clone(), mode: self.mode.clone() }
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

impl<S, D, F, J, R> Service<R> for Gate<S, D, Foreign<F, Arc<dyn Clock>, J>>
where
    D: CallPolicy,
    F: for<'r> Fn(&'r R) -> Option<(CallerRef<'r>, CallView<'r>)>,
    J: Reject<R, S::Response>,
    S: Service<R>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let decided = match (self.mode.extract)(&request) {
            Some((caller, call)) => self.decide.decide_foreign(call, &caller, self.mode.clock.now()),
            None => Err(Refusal::NoKey),
        };
        self.mode.pass(request, decided, |request, ()| self.inner.call(request))
    }
}

/// Defines the layer of a gate: `by`, which takes the decision, and `with_call` for foreign requests.
macro_rules! gate_layer {
    ($(#[$doc:meta])* $layer:ident, $decision:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $layer<W = $crate::foreign::Native> {
            decide: std::sync::Arc<$decision>,
            mode: W,
        }

        impl<W: Clone> Clone for $layer<W> {
            fn clone(&self) -> Self {
                Self { decide: self.decide.clone(), mode: self.mode.clone() }
            }
        }

        impl<W> $layer<W> {
            fn map_mode<V>(self, map: impl FnOnce(W) -> V) -> $layer<V> {
                $layer { decide: self.decide, mode: map(self.mode) }
            }
        }

        impl $layer {
            /// Creates a layer that decides by `decision`. All services that it wraps share the decision.
            pub fn by(decision: std::sync::Arc<$decision>) -> Self {
                Self { decide: decision, mode: $crate::foreign::Native }
            }

            /// Adapts the layer to foreign requests. `extract` returns the caller and the call of a request, and
            /// `clock` gives the time of its arrival. A request without a call (`None`) is refused with
            /// [`Refusal::NoKey`](rpcgate_core::refusal::Refusal::NoKey).
            pub fn with_call<R, F>(
                self,
                clock: std::sync::Arc<dyn rpcgate_core::clock::Clock>,
                extract: F,
            ) -> $layer<$crate::foreign::Foreign<F>>
            where
                F: for<'r> Fn(
                    &'r R,
                ) -> Option<(
                    rpcgate_core::caller::CallerRef<'r>,
                    rpcgate_core::call::CallView<'r>,
                )>,
            {
                self.map_mode(|_| $crate::foreign::Foreign::new(extract, clock))
            }
        }

        $crate::foreign::refusing!($layer);

        impl<S, W: Clone> tower_layer::Layer<S> for $layer<W> {
            type Service = $crate::gate::Gate<S, $decision, W>;

            fn layer(&self, inner: S) -> Self::Service {
                $crate::gate::Gate::new(inner, self.decide.clone(), self.mode.clone())
            }
        }
    };
}
pub(crate) use gate_layer;
