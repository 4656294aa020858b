//! Decisions about a caller, made before the body is read.

use super::travel::{Departure, Known};
use crate::stranger::{By, OnRoad, Refuse};
use futures_util::future::Either;
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::ChainName;
use rpcgate_core::refusal::Refusal;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use tower_service::Service;

/// A decision about a caller who wants to use a chain.
pub trait Judge: Copy + Send + Sync + 'static {
    /// Lets the request pass or says why not.
    ///
    /// # Errors
    /// The refusal that answers the request.
    fn judge(&self, caller: &Caller, chain: ChainName) -> Result<(), Refusal>;
}

/// A judge in front of `inner`.
#[derive(Clone, Debug)]
pub struct Judged<S, J, W = OnRoad> {
    inner: S,
    judge: J,
    way: W,
}

impl<S, J, W> Judged<S, J, W> {
    /// Puts `judge` in front of `inner`.
    pub fn new(inner: S, judge: J, way: W) -> Self {
        Judged { inner, judge, way }
    }
}

impl<S, J, B> Service<Known<B>> for Judged<S, J, OnRoad>
where
    J: Judge,
    S: Service<Known<B>, Response = Departure>,
{
    type Response = Departure;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Departure, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, known: Known<B>) -> Self::Future {
        match self.judge.judge(&known.tally.caller, known.tally.chain.name()) {
            Ok(()) => Either::Left(self.inner.call(known)),
            Err(refusal) => Either::Right(ready(Ok(known.refuse(refusal)))),
        }
    }
}

impl<S, J, F, R> Service<R> for Judged<S, J, By<F>>
where
    J: Judge,
    F: for<'r> Fn(&'r R) -> Option<(&'r Caller, ChainName)>,
    R: Refuse<S::Response>,
    S: Service<R>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<S::Response, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Some((caller, chain)) = (self.way.0)(&request) else {
            return Either::Right(ready(Ok(request.refuse(Refusal::NoKey))));
        };
        match self.judge.judge(caller, chain) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(refusal) => Either::Right(ready(Ok(request.refuse(refusal)))),
        }
    }
}

/// Writes the layer of a judge: `new`, and `with_caller` as the way into a stranger's stack.
macro_rules! judge_layer {
    ($(#[$doc:meta])* $layer:ident, $judge:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $layer<W = $crate::stranger::OnRoad>(W);

        impl $layer {
            /// The layer. All it needs is in the caller.
            pub fn new() -> Self {
                $layer($crate::stranger::OnRoad)
            }

            /// The same layer for requests that are not ours: `tell` says who asks, and for which chain. Whoever is
            /// nobody is refused with [`Refusal::NoKey`](rpcgate_core::refusal::Refusal::NoKey).
            pub fn with_caller<R, F>(self, tell: F) -> $layer<$crate::stranger::By<F>>
            where
                F: for<'r> Fn(&'r R) -> Option<(&'r rpcgate_core::caller::Caller, rpcgate_core::chain::ChainName)>,
            {
                $layer($crate::stranger::By(tell))
            }
        }

        impl Default for $layer {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<S, W: Clone> tower_layer::Layer<S> for $layer<W> {
            type Service = $crate::request::judge::Judged<S, $judge, W>;

            fn layer(&self, inner: S) -> Self::Service {
                $crate::request::judge::Judged::new(inner, $judge, self.0.clone())
            }
        }
    };
}
pub(crate) use judge_layer;
