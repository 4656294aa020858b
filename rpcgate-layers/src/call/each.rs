//! Turns an ordinary `Service` of one call into a layer.
//!
//! The service is called concurrently for every open call of a set. It returns `Ok(None)` to pass the call on,
//! `Ok(Some(result))` to answer it, or `Err(refusal)`. This costs a few allocations per call; rpcgate's own layers
//! iterate over the set instead. The layer may come anywhere and does not change the type of the set. Its answers are
//! charged like any other if it comes after the quota, and are free if it comes before.
//!
//! ```
//! use bytes::Bytes;
//! use rpcgate_core::call::CallState;
//! use rpcgate_core::refusal::Refusal;
//! use rpcgate_layers::call::each::{EachLayer, OwnedCall};
//! use rpcgate_layers::testing::{Fixture, ScriptedService};
//! use std::time::Duration;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! // No transaction is sent in the second half of an hour.
//! let layer = EachLayer::new(service_fn(async |call: OwnedCall| {
//!     let is_late = call.arrival.secs() % 3_600 >= 1_800;
//!     if is_late && call.method == "toy_send" { Err(Refusal::Closed) } else { Ok(None::<Bytes>) }
//! }));
//! let fixture = Fixture::new(); // 13 minutes past an hour
//! fixture.clock.advance(Duration::from_secs(1_800));
//! let calls = fixture.calls(br#"{"id":1,"method":"toy_send"}"#);
//! let service = layer.layer(ScriptedService::default());
//! let calls = service.oneshot(calls).await.unwrap();
//! assert!(matches!(calls.tally().entries[0].state, CallState::Refused(Refusal::Closed)));
//! # });
//! ```

use crate::future::ResponseFuture;
use bytes::Bytes;
use futures_util::future::join_all;
use rpcgate_core::call::{CallState, Calls, Entry};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::{Chain, MethodRule};
use rpcgate_core::clock::Time;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{Form, Reply, Source};
use rpcgate_core::tally::Tally;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// One call with its own copy of all data.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OwnedCall {
    /// The chain.
    pub chain: Arc<Chain>,
    /// The caller.
    pub caller: Arc<Caller>,
    /// The method as sent, with escapes resolved. For a REST call the name that it is metered by: the last segment of
    /// its path.
    pub method: String,
    /// The parameters as raw JSON, a slice of the request body; empty if the call has none. For a REST call its
    /// [line](rpcgate_core::rest::RestCall::line): HTTP method, path and query.
    pub params: Bytes,
    /// The body of a REST call; empty otherwise.
    pub body: Bytes,
    /// True for a REST call.
    pub is_rest: bool,
    /// The rule of the method.
    pub rule: MethodRule,
    /// The arrival time of the request.
    pub arrival: Time,
}

impl OwnedCall {
    fn new(entry: &Entry, tally: &Tally) -> Self {
        let view = entry.call.view(&tally.body, tally.chain.name());
        // Parts of the body become slices of it. The parts that a REST call derives from its path are copied.
        let owned = |part: &[u8]| match part {
            [] => Bytes::new(),
            _ if view.is_rest && part.as_ptr() != tally.body.as_ptr() => Bytes::copy_from_slice(part),
            _ => tally.body.slice_ref(part),
        };
        OwnedCall {
            chain: tally.chain.clone(),
            caller: tally.caller.clone(),
            method: String::from_utf8_lossy(view.sent).into_owned(),
            params: owned(view.params),
            body: owned(view.body),
            is_rest: view.is_rest,
            rule: entry.call.rule,
            arrival: tally.arrival,
        }
    }
}

/// Calls a service for every call.
#[derive(Clone)]
pub struct EachLayer<P> {
    service: P,
}

impl<P> EachLayer<P> {
    /// Creates a layer that calls clones of `service`.
    pub fn new(service: P) -> Self {
        EachLayer { service }
    }
}

impl<P> fmt::Debug for EachLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EachLayer")
    }
}

impl<S, P: Clone> Layer<S> for EachLayer<P> {
    type Service = Each<S, P>;

    fn layer(&self, inner: S) -> Each<S, P> {
        Each { inner, service: self.service.clone() }
    }
}

/// A service that calls a service of one call before `inner`.
#[derive(Clone)]
pub struct Each<S, P> {
    inner: S,
    service: P,
}

impl<S, P> fmt::Debug for Each<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Each")
    }
}

impl<S, P, A> Service<Calls<A>> for Each<S, P>
where
    A: 'static,
    P: Service<OwnedCall, Response = Option<Bytes>, Error = Refusal> + Clone + Send + 'static,
    P::Future: Send,
    S: Service<Calls<A>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut calls: Calls<A>) -> Self::Future {
        if !calls.tally().has_open() {
            return ResponseFuture::inner(self.inner.call(calls));
        }
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        let service = self.service.clone();
        ResponseFuture::waiting(async move {
            let tally = calls.tally_mut();
            let responses = tally.entries.iter().enumerate().filter(|(_, entry)| entry.is_open()).map(
                |(index, entry)| {
                    let call = OwnedCall::new(entry, tally);
                    let mut service = service.clone();
                    async move {
                        let response = match std::future::poll_fn(|cx| service.poll_ready(cx)).await {
                            Ok(()) => service.call(call).await,
                            Err(refusal) => Err(refusal),
                        };
                        (index, response)
                    }
                },
            );
            let reserved = tally.grant.is_some();
            for (index, response) in join_all(responses.collect::<Vec<_>>()).await {
                match response {
                    Ok(None) => {}
                    Ok(Some(result)) => {
                        let reply = Reply { form: Form::Result(result), from: Source::Own { reserved } };
                        tally.entries[index].state = CallState::Answered(reply);
                    }
                    Err(refusal) => tally.entries[index].state = CallState::Refused(refusal),
                }
            }
            inner.call(calls).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Fixture};
    use rpcgate_core::call::Parsed;
    use rpcgate_core::rest::{Path, RestCall};
    use tower::service_fn;

    #[tokio::test]
    async fn a_service_of_single_calls_answers_refuses_or_passes_in_order() {
        let layer = EachLayer::new(service_fn(async |call: OwnedCall| match call.method.as_str() {
            "toy_id" => Ok(Some(call.params)),
            "toy_send" => Err(Refusal::Closed),
            _ => Ok(None),
        }));
        let body = br#"[{"id":1,"method":"toy_id","params":[1.0]},{"id":2,"method":"toy_send"},{"id":3,"method":"x"},4]"#;
        let calls: Calls<Parsed> = testing::through(layer, Fixture::new().calls(body)).await;
        let states: Vec<_> = calls.tally().entries.iter().map(|entry| &entry.state).collect();
        assert!(
            matches!(states[0], CallState::Answered(Reply { form: Form::Result(result), .. }) if result == "[1.0]")
        );
        assert!(matches!(states[1], CallState::Refused(Refusal::Closed)));
        assert!(matches!(states[2], CallState::Open));
        assert!(matches!(states[3], CallState::Refused(Refusal::InvalidRequest)));
    }

    #[tokio::test]
    async fn a_rest_call_shows_its_name_its_line_and_its_body() {
        let fixture = Fixture::new();
        let mut tally = fixture.tally();
        let path = Path::canonical("/v2/accounts/0x1").unwrap();
        let rest = RestCall::new(http::Method::POST, &path, "limit=1", http::HeaderMap::new()).unwrap();
        let found = tally.chain.look_up("0x1");
        tally.body = Bytes::from_static(b"posted");
        tally.entries.push(Entry::open(rpcgate_core::call::Call::rest(rest, found)));
        let layer = EachLayer::new(service_fn(async |call: OwnedCall| {
            let seen = format!("{} {} {}", call.method, call.params.len() > 20, call.is_rest);
            assert!(String::from_utf8_lossy(&call.params).contains("/v2/accounts/0x1?limit=1"));
            assert_eq!(call.body, "posted");
            Ok::<_, Refusal>(Some(seen.into()))
        }));
        let calls: Calls<Parsed> = testing::through(layer, Calls::new(tally)).await;
        let CallState::Answered(Reply { form: Form::Result(seen), .. }) = &calls.tally().entries[0].state
        else {
            panic!("it is answered")
        };
        assert_eq!(seen, "0x1 true true");
    }
}
