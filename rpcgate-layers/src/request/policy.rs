//! Decisions about a caller, made before the body is read.

use super::message::{Authenticated, PendingResponse};
use crate::foreign::{FromFn, Native, RejectWith};
use crate::future::ResponseFuture;
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::ChainName;
use rpcgate_core::refusal::Refusal;
use std::task::{Context, Poll};
use tower_service::Service;

/// A decision about a caller that wants to use a chain.
pub trait CallerPolicy: Copy + Send + Sync + 'static {
    /// Lets the request pass or says why not.
    ///
    /// # Errors
    /// The refusal that answers the request.
    fn decide(&self, caller: &Caller, chain: ChainName) -> Result<(), Refusal>;
}

/// A service that asks a policy before it calls `inner`.
#[derive(Clone, Debug)]
pub struct Enforce<S, J, W = Native> {
    inner: S,
    policy: J,
    way: W,
}

impl<S, J, W> Enforce<S, J, W> {
    /// Asks `policy` before `inner` is called.
    pub fn new(inner: S, policy: J, way: W) -> Self {
        Enforce { inner, policy, way }
    }
}

impl<S, J, B> Service<Authenticated<B>> for Enforce<S, J, Native>
where
    J: CallerPolicy,
    S: Service<Authenticated<B>, Response = PendingResponse>,
{
    type Response = PendingResponse;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, known: Authenticated<B>) -> Self::Future {
        match self.policy.decide(&known.tally.caller, known.tally.chain.name()) {
            Ok(()) => ResponseFuture::inner(self.inner.call(known)),
            Err(refusal) => ResponseFuture::own(Ok(known.refuse(refusal))),
        }
    }
}

impl<S, J, F, R> Service<R> for Enforce<S, J, FromFn<F>>
where
    J: CallerPolicy,
    F: for<'r> Fn(&'r R) -> Option<(&'r Caller, ChainName)>,
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
        let Some((caller, chain)) = (self.way.0)(&request) else {
            return ResponseFuture::own(Ok(request.refuse(Refusal::NoKey)));
        };
        match self.policy.decide(caller, chain) {
            Ok(()) => ResponseFuture::inner(self.inner.call(request)),
            Err(refusal) => ResponseFuture::own(Ok(request.refuse(refusal))),
        }
    }
}

/// Writes the layer of a caller policy: `new`, and `with_caller` for requests that are not rpcgate's.
macro_rules! policy_layer {
    ($(#[$doc:meta])* $layer:ident, $policy:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $layer<W = $crate::foreign::Native>(W);

        impl $layer {
            /// The layer. All it needs is in the caller.
            pub fn new() -> Self {
                $layer($crate::foreign::Native)
            }

            /// The same layer for foreign requests: `tell` returns the caller and the chain of a request. A request for
            /// which it returns `None` is refused with [`Refusal::NoKey`](rpcgate_core::refusal::Refusal::NoKey).
            pub fn with_caller<R, F>(self, tell: F) -> $layer<$crate::foreign::FromFn<F>>
            where
                F: for<'r> Fn(&'r R) -> Option<(&'r rpcgate_core::caller::Caller, rpcgate_core::chain::ChainName)>,
            {
                $layer($crate::foreign::FromFn(tell))
            }
        }

        impl Default for $layer {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<S, W: Clone> tower_layer::Layer<S> for $layer<W> {
            type Service = $crate::request::policy::Enforce<S, $policy, W>;

            fn layer(&self, inner: S) -> Self::Service {
                $crate::request::policy::Enforce::new(inner, $policy, self.0.clone())
            }
        }
    };
}
pub(crate) use policy_layer;
