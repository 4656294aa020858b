//! Decisions about a caller, made before the body is read.

use super::admission::AdmissionResponse;
use super::message::Authenticated;
use crate::foreign::{Foreign, Native, Reject};
use crate::future::ResponseFuture;
use rpcgate_core::caller::{Caller, CallerRef};
use rpcgate_core::chain::ChainName;
use rpcgate_core::refusal::Refusal;
use std::task::{Context, Poll};
use tower_service::Service;

/// A decision about a caller that wants to use a chain.
pub trait CallerPolicy: Copy + Send + Sync + 'static {
    /// Lets the request pass, or refuses it.
    ///
    /// # Errors
    /// Returns the refusal that answers the request.
    fn decide(&self, caller: &Caller, chain: ChainName) -> Result<(), Refusal>;
}

/// A service that checks a policy before it calls `inner`.
#[derive(Clone, Debug)]
pub struct Enforce<S, J, W = Native> {
    inner: S,
    policy: J,
    mode: W,
}

impl<S, J, W> Enforce<S, J, W> {
    /// Creates a service that checks `policy` before `inner`.
    pub fn new(inner: S, policy: J, mode: W) -> Self {
        Enforce { inner, policy, mode }
    }
}

impl<S, J, B> Service<Authenticated<B>> for Enforce<S, J, Native>
where
    J: CallerPolicy,
    S: Service<Authenticated<B>, Response: AdmissionResponse>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, known: Authenticated<B>) -> Self::Future {
        match self.policy.decide(&known.tally.caller, known.tally.chain.name()) {
            Ok(()) => ResponseFuture::inner(self.inner.call(known)),
            Err(refusal) => ResponseFuture::own(Ok(S::Response::denied(known.deny(refusal)))),
        }
    }
}

impl<S, P, F, J, R> Service<R> for Enforce<S, P, Foreign<F, (), J>>
where
    P: CallerPolicy,
    F: for<'r> Fn(&'r R) -> Option<(CallerRef<'r>, ChainName)>,
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
            Some((caller, chain)) => self.policy.decide(&caller, chain),
            None => Err(Refusal::NoKey),
        };
        self.mode.pass(request, decided, |request, ()| self.inner.call(request))
    }
}

/// Defines the layer of a caller policy: `new`, and `with_caller` for foreign requests.
macro_rules! policy_layer {
    ($(#[$doc:meta])* $layer:ident, $policy:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $layer<W = $crate::foreign::Native>(W);

        impl<W> $layer<W> {
            fn map_mode<V>(self, map: impl FnOnce(W) -> V) -> $layer<V> {
                $layer(map(self.0))
            }
        }

        impl $layer {
            /// Creates the layer. The caller holds everything it needs.
            pub fn new() -> Self {
                $layer($crate::foreign::Native)
            }

            /// Adapts the layer to foreign requests. `extract` returns the caller and the chain of a request. A request
            /// without a caller (`None`) is refused with [`Refusal::NoKey`](rpcgate_core::refusal::Refusal::NoKey).
            pub fn with_caller<R, F>(self, extract: F) -> $layer<$crate::foreign::Foreign<F, ()>>
            where
                F: for<'r> Fn(
                    &'r R,
                ) -> Option<(
                    rpcgate_core::caller::CallerRef<'r>,
                    rpcgate_core::chain::ChainName,
                )>,
            {
                self.map_mode(|_| $crate::foreign::Foreign::new(extract, ()))
            }
        }

        $crate::foreign::refusing!($layer);

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
