//! Each: an ordinary service of one call, for those who build a layer of their own between ours.
//!
//! The service is asked about every open call of a set at the same time and says of each: pass on (`Ok(None)`), here is
//! the answer (`Ok(Some(result))`), or no (`Err(refusal)`). It costs a few allocations per call; our own layers walk
//! the set instead. Stands wherever it is put: the set comes out at the layer where it went in. Behind the quota its
//! answers are charged like any other, before it they are free.
//!
//! ```
//! use rpcgate_core::refusal::Refusal;
//! use rpcgate_layers::call::each::{EachLayer, One};
//! use tower::service_fn;
//!
//! // Nobody calls anything in the second half of an hour.
//! let layer = EachLayer::new(service_fn(async |call: One| {
//!     if call.arrival.secs() % 3_600 < 1_800 { Ok(None::<bytes::Bytes>) } else { Err(Refusal::Closed) }
//! }));
//! assert!(format!("{layer:?}").starts_with("EachLayer"));
//! ```

use crate::future::ResponseFuture;
use bytes::Bytes;
use futures_util::future::join_all;
use rpcgate_core::call::{CallState, Calls, Payload};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::{Chain, MethodRule};
use rpcgate_core::clock::Time;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{Form, Reply, Source};
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// One call, owned.
#[derive(Clone, Debug)]
pub struct One {
    /// The chain it is for.
    pub chain: Arc<Chain>,
    /// Whose it is.
    pub caller: Arc<Caller>,
    /// Its method as sent, escapes resolved.
    pub method: String,
    /// Its parameters as raw JSON, a slice of the request's body; empty when there are none.
    pub params: Bytes,
    /// What holds for it.
    pub rule: MethodRule,
    /// When its request came.
    pub arrival: Time,
}

/// Asks a service about every call.
#[derive(Clone)]
pub struct EachLayer<P> {
    service: P,
}

impl<P> EachLayer<P> {
    /// A layer that asks clones of `service`.
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

/// A service of one call in front of `inner`.
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
    P: Service<One, Response = Option<Bytes>, Error = Refusal> + Clone + Send + 'static,
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
            let asked = tally.entries.iter().enumerate().filter(|(_, entry)| entry.is_open()).map(
                |(place, entry)| {
                    let (method, params) = match &entry.call.payload {
                        Payload::JsonRpc(envelope) => (
                            envelope.method.text(&tally.body).to_owned(),
                            envelope
                                .params
                                .map(|params| tally.body.slice(params.range()))
                                .unwrap_or_default(),
                        ),
                        _ => (String::new(), Bytes::new()),
                    };
                    let (chain, caller) = (tally.chain.clone(), tally.caller.clone());
                    let one =
                        One { chain, caller, method, params, rule: entry.call.rule, arrival: tally.arrival };
                    let mut service = service.clone();
                    async move {
                        let said = match std::future::poll_fn(|cx| service.poll_ready(cx)).await {
                            Ok(()) => service.call(one).await,
                            Err(refusal) => Err(refusal),
                        };
                        (place, said)
                    }
                },
            );
            let reserved = tally.grant.is_some();
            for (place, said) in join_all(asked.collect::<Vec<_>>()).await {
                match said {
                    Ok(None) => {}
                    Ok(Some(result)) => {
                        let reply = Reply { form: Form::Result(result), from: Source::Own { reserved } };
                        tally.entries[place].state = CallState::Answered(reply);
                    }
                    Err(refusal) => tally.entries[place].state = CallState::Refused(refusal),
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
    use tower::service_fn;

    #[tokio::test]
    async fn a_service_of_one_call_passes_answers_and_refuses_in_place() {
        let layer = EachLayer::new(service_fn(async |call: One| match call.method.as_str() {
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
}
