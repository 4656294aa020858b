//! Support for requests and responses of any type, so that a layer fits any tower stack.
//!
//! A layer of rpcgate's own stack is [`Native`]: everything that it needs travels with the calls. In any other stack it
//! is [`Foreign`]: a function of the embedder reads the caller and the call from a request. It returns the caller as a
//! [`CallerRef`], borrowed from the request or shared with a table. A refused request is answered according to its type
//! ([`RejectWith`]), or by a function of the embedder (`refusing`, `with_refusal_body`).
//!
//! ```
//! use rpcgate_core::backend::counters::MemoryCounters;
//! use rpcgate_core::{caller::Caller, clock::{ManualClock, Time}, plan::{Plan, Tier}, refusal::Refusal};
//! use rpcgate_layers::call::window::WindowLayer;
//! use std::{collections::HashMap, convert::Infallible, sync::Arc};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! // The embedder's own table of users and its own text of a refusal.
//! let users = HashMap::from([("ann", Arc::new(Caller::of(1, Plan::of(Tier::Free))))]);
//! let layer = WindowLayer::new(Arc::new(MemoryCounters::default()))
//!     .with_caller(Arc::new(ManualClock::at(Time::default())), move |request: &http::Request<String>| {
//!         Some(users.get(request.body().as_str())?.clone().into())
//!     })
//!     .refusing(|request: http::Request<String>, refusal: Refusal| {
//!         let mut response = http::Response::new(format!("{}: {refusal}", request.into_body()));
//!         *response.status_mut() = refusal.status();
//!         response
//!     });
//! let inner = service_fn(async |_: http::Request<String>| Ok::<_, Infallible>(http::Response::new(String::from("welcome"))));
//! let service = layer.layer(inner);
//! let call = async |name: &str| service.clone().oneshot(http::Request::new(name.into())).await.unwrap();
//! assert_eq!(call("ann").await.body(), "welcome");
//! assert_eq!(call("eve").await.body(), "eve: No API key found in request");
//! # });
//! ```

use crate::future::ResponseFuture;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use rpcgate_core::caller::{Caller, CallerRef};
use rpcgate_core::chain::Dialect;
use rpcgate_core::clock::Clock;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::window::Windows;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

/// A request that can be answered with a refusal.
pub trait RejectWith<Res> {
    /// Returns the response to a refused request.
    fn refuse(self, refusal: Refusal) -> Res;
}

impl<B, Body: From<Bytes>> RejectWith<http::Response<Body>> for http::Request<B> {
    /// See [`refused_response`].
    fn refuse(self, refusal: Refusal) -> http::Response<Body> {
        refused_response(refusal, Body::from)
    }
}

/// Returns the HTTP response to a refused request: status, body, `Retry-After` and `Allow` as in the gateway's own
/// responses, with errors in JSON-RPC 2.0 form. `body` builds the body from its bytes.
pub fn refused_response<B>(refusal: Refusal, body: impl FnOnce(Bytes) -> B) -> http::Response<B> {
    let mut bytes = Vec::new();
    refusal.write_alone(Dialect::JsonRpc2, None, &mut bytes);
    let mut response = http::Response::new(body(bytes.into()));
    *response.status_mut() = refusal.status();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = refusal.retry_after() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(methods) = refusal.allow() {
        headers.insert(ALLOW, HeaderValue::from_static(methods));
    }
    response
}

/// A response that can carry the rate limit headers of the plan windows.
pub trait SetRateLimit {
    /// Writes the headers.
    fn rate(&mut self, windows: &Windows);
}

impl<B> SetRateLimit for http::Response<B> {
    fn rate(&mut self, windows: &Windows) {
        crate::headers::write_rates(windows, self.headers_mut());
    }
}

/// Returns the caller that an earlier authentication layer put into the request's extensions as an `Arc<Caller>`. Use
/// it with `with_caller`:
///
/// ```
/// use rpcgate_core::{caller::{Caller, KeyId}, plan::{Plan, Tier}};
/// use rpcgate_layers::foreign::caller_of;
/// use std::sync::Arc;
///
/// let mut request = http::Request::new(());
/// assert!(caller_of(&request).is_none());
/// request.extensions_mut().insert(Arc::new(Caller::of(7, Plan::of(Tier::Free))));
/// assert_eq!(caller_of(&request).unwrap().key, KeyId(7));
/// ```
pub fn caller_of<B>(request: &http::Request<B>) -> Option<CallerRef<'_>> {
    request.extensions().get::<Arc<Caller>>().map(CallerRef::from)
}

/// Marks a layer of rpcgate's own stack, whose requests carry everything that the layer needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

/// Marks a layer of a foreign stack. `extract` reads the layer's data from a request, `clock` is a clock if the layer
/// needs one and `()` otherwise, and `reject` answers refused requests.
#[derive(Clone)]
pub struct Foreign<F, C = Arc<dyn Clock>, J = RejectAsRequest> {
    pub(crate) extract: F,
    pub(crate) clock: C,
    pub(crate) reject: J,
}

impl<F, C> Foreign<F, C> {
    pub(crate) fn new(extract: F, clock: C) -> Self {
        Foreign { extract, clock, reject: RejectAsRequest }
    }
}

impl<F, C, J> Foreign<F, C, J> {
    pub(crate) fn rejecting<K>(self, reject: K) -> Foreign<F, C, K> {
        Foreign { extract: self.extract, clock: self.clock, reject }
    }

    /// Passes a request on with `pass`, or answers it with the refusal.
    pub(crate) fn pass<R, T, P, Res, E>(
        &self,
        request: R,
        decided: Result<T, Refusal>,
        pass: impl FnOnce(R, T) -> P,
    ) -> ResponseFuture<P>
    where
        J: Reject<R, Res>,
        P: Future<Output = Result<Res, E>>,
    {
        match decided {
            Ok(admitted) => ResponseFuture::inner(pass(request, admitted)),
            Err(refusal) => ResponseFuture::own(Ok(self.reject.reject(request, refusal))),
        }
    }
}

impl<F, C, J> fmt::Debug for Foreign<F, C, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign").finish_non_exhaustive()
    }
}

/// Answers the requests that a layer refuses.
pub trait Reject<R, Res> {
    /// Returns the response to `request`.
    fn reject(&self, request: R, refusal: Refusal) -> Res;
}

/// Answers according to the request's type, with [`RejectWith`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RejectAsRequest;

impl<R: RejectWith<Res>, Res> Reject<R, Res> for RejectAsRequest {
    fn reject(&self, request: R, refusal: Refusal) -> Res {
        request.refuse(refusal)
    }
}

/// Answers with a function of request and refusal.
#[derive(Clone, Copy)]
pub struct RejectFn<F>(pub(crate) F);

impl<R, Res, F: Fn(R, Refusal) -> Res> Reject<R, Res> for RejectFn<F> {
    fn reject(&self, request: R, refusal: Refusal) -> Res {
        (self.0)(request, refusal)
    }
}

impl<F> fmt::Debug for RejectFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RejectFn")
    }
}

/// Answers an HTTP request with [`refused_response`], and a function builds the body from its bytes, for example a
/// boxed or a compressed one.
#[derive(Clone, Copy)]
pub struct RejectBody<F>(pub(crate) F);

impl<A, B, F: Fn(Bytes) -> B> Reject<http::Request<A>, http::Response<B>> for RejectBody<F> {
    fn reject(&self, _: http::Request<A>, refusal: Refusal) -> http::Response<B> {
        refused_response(refusal, &self.0)
    }
}

impl<F> fmt::Debug for RejectBody<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RejectBody")
    }
}

/// A decision about a response, for example whether it is charged.
pub trait Accepts<Res> {
    /// Reports whether the response is accepted.
    fn accepts(&self, response: &Res) -> bool;
}

/// Accepts every response.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptAll;

impl<Res> Accepts<Res> for AcceptAll {
    fn accepts(&self, _: &Res) -> bool {
        true
    }
}

/// Accepts the responses for which a function returns `true`.
#[derive(Clone, Copy)]
pub struct AcceptFn<F>(pub(crate) F);

impl<Res, F: Fn(&Res) -> bool> Accepts<Res> for AcceptFn<F> {
    fn accepts(&self, response: &Res) -> bool {
        (self.0)(response)
    }
}

impl<F> fmt::Debug for AcceptFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AcceptFn")
    }
}

/// Defines `refusing` and `with_refusal_body` for a layer whose marker is [`Foreign`] and which has `map_mode`.
macro_rules! refusing {
    ($layer:ident) => {
        impl<F, C, J> $layer<$crate::foreign::Foreign<F, C, J>> {
            /// Answers refused requests with `refusing(request, refusal)`.
            pub fn refusing<R, Res, G>(
                self,
                refusing: G,
            ) -> $layer<$crate::foreign::Foreign<F, C, $crate::foreign::RejectFn<G>>>
            where
                G: Fn(R, rpcgate_core::refusal::Refusal) -> Res,
            {
                self.map_mode(|mode| mode.rejecting($crate::foreign::RejectFn(refusing)))
            }

            /// Answers refused HTTP requests as the gateway does, with a body that `body` builds from its bytes.
            pub fn with_refusal_body<B, G>(
                self,
                body: G,
            ) -> $layer<$crate::foreign::Foreign<F, C, $crate::foreign::RejectBody<G>>>
            where
                G: Fn(bytes::Bytes) -> B,
            {
                self.map_mode(|mode| mode.rejecting($crate::foreign::RejectBody(body)))
            }
        }
    };
}
pub(crate) use refusing;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_gets_the_gateways_own_answer() {
        let response: http::Response<Bytes> =
            http::Request::new(()).refuse(Refusal::Window { retry_after: 9 });
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "9");
        assert_eq!(response.body(), &br#"{"message":"API rate limit exceeded"}"#[..]);
    }

    #[test]
    fn a_body_that_bytes_alone_cannot_build_is_built_by_a_function() {
        struct Framed(usize, Bytes);
        let reject = RejectBody(|bytes: Bytes| Framed(bytes.len(), bytes));
        let response = reject.reject(http::Request::new(()), Refusal::Closed);
        let Framed(length, bytes) = response.into_body();
        assert_eq!(length, bytes.len());
        assert!(bytes.starts_with(br#"{"jsonrpc":"2.0""#));
    }
}
