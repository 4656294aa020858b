//! Authentication: from the API key in a request to its caller.
//!
//! The key is taken from the `apikey` header, else from the `apikey` query parameter; a chain may name more places
//! (TON's clients send `X-API-Key` or `api_key`). The header wins over the query. The layer comes after the route, and a
//! request gets its tally here. It refuses with [`Refusal::NoKey`] (unless the directory has an
//! [anonymous](Directory::anonymous) caller), [`Refusal::InvalidKey`], [`Refusal::DirectoryAway`],
//! and with [`Refusal::Overloaded`] while the sink cannot take charged calls. A revoked or expired key is refused
//! like an unknown one, but counted on its project.
//!
//! In any other tower stack it works over `http::Request`, with a [`Directory`] or with any asynchronous function, and puts the
//! caller into the request's extensions, where [`caller_of`](crate::foreign::caller_of) finds it:
//!
//! ```
//! use rpcgate_core::backend::suite;
//! use rpcgate_core::clock::{ManualClock, Time};
//! use rpcgate_layers::{foreign::caller_of, request::authenticate::AuthenticateLayer};
//! use std::{convert::Infallible, sync::Arc};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let clock = Arc::new(ManualClock::at(Time::default()));
//! let layer = AuthenticateLayer::with_lookup(clock, async |key: String| {
//!     Ok((key == "s3cret").then(|| Arc::new(suite::caller(7)))) // as a database would
//! });
//! let inner = service_fn(async |request: http::Request<()>| {
//!     assert_eq!(caller_of(&request).unwrap().key, suite::caller(7).key);
//!     Ok::<_, Infallible>(http::Response::new(bytes::Bytes::new()))
//! });
//! let service = layer.layer(inner);
//! for (uri, status) in [("/a?apikey=s3cret", 200), ("/a?apikey=other", 401), ("/a", 401)] {
//!     let request = http::Request::get(uri).body(()).unwrap();
//!     assert_eq!(service.clone().oneshot(request).await.unwrap().status(), status);
//! }
//! # });
//! ```

mod foreign;

pub use foreign::{LookUp, OverHttp};

use super::admission::{AdmissionResponse, Denied};
use super::message::{Authenticated, Routed};
use crate::future::ResponseFuture;
use http::{HeaderMap, Request, Uri};
use rpcgate_core::adapter::KeyPlaces;
use rpcgate_core::backend::directory::{Directory, Peek};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::{Accounting, Tally};
use std::borrow::Cow;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Finds the caller of a request. `W` is the accounting of rpcgate's own stack, or [`OverHttp`].
#[derive(Clone, Debug)]
pub struct AuthenticateLayer<W = Arc<Accounting>> {
    directory: Arc<dyn Directory>,
    way: W,
}

impl AuthenticateLayer {
    /// A layer that knows the keys of `directory`; tallies are settled with `accounting`.
    pub fn new(directory: Arc<dyn Directory>, accounting: Arc<Accounting>) -> Self {
        AuthenticateLayer { directory, way: accounting }
    }
}

impl<S, W: Clone> Layer<S> for AuthenticateLayer<W> {
    type Service = Authenticate<S, W>;

    fn layer(&self, inner: S) -> Authenticate<S, W> {
        Authenticate { inner, directory: self.directory.clone(), way: self.way.clone() }
    }
}

/// Authentication in front of `inner`.
#[derive(Clone, Debug)]
pub struct Authenticate<S, W = Arc<Accounting>> {
    inner: S,
    directory: Arc<dyn Directory>,
    way: W,
}

impl<S, B> Service<Routed<B>> for Authenticate<S>
where
    B: Send + 'static,
    S: Service<Authenticated<B>, Response: AdmissionResponse> + Clone + Send + 'static,
    S::Error: Send,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, routed: Routed<B>) -> Self::Future {
        let Some(key) = key_of(&routed.received.request, routed.chain.adapter().key_places()) else {
            let anonymous = self.directory.anonymous().ok_or(Denied::unknown(Refusal::NoKey));
            let admitted = anonymous.and_then(|caller| admit(routed, Peek::Known(caller), self.way.clone()));
            return match admitted {
                Ok(known) => ResponseFuture::inner(self.inner.call(known)),
                Err(denied) => ResponseFuture::own(Ok(S::Response::denied(denied))),
            };
        };
        match self.directory.peek(&key) {
            Peek::Miss => {
                let key = key.into_owned();
                let (directory, accounting) = (self.directory.clone(), self.way.clone());
                let ready = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, ready);
                ResponseFuture::waiting(async move {
                    let Ok(peek) = directory.fetch(&key).await else {
                        return Ok(S::Response::denied(Denied::unknown(Refusal::DirectoryAway)));
                    };
                    match admit(routed, peek, accounting) {
                        Ok(known) => inner.call(known).await,
                        Err(denied) => Ok(S::Response::denied(denied)),
                    }
                })
            }
            peek => match admit(routed, peek, self.way.clone()) {
                Ok(known) => ResponseFuture::inner(self.inner.call(known)),
                Err(denied) => ResponseFuture::own(Ok(S::Response::denied(denied))),
            },
        }
    }
}

fn admit<B>(routed: Routed<B>, peek: Peek, accounting: Arc<Accounting>) -> Result<Authenticated<B>, Denied> {
    let (caller, revoked) = match peek {
        Peek::Known(caller) => (caller, false),
        Peek::Revoked(caller) => (caller, true),
        Peek::Unknown | Peek::Miss => return Err(Denied::unknown(Refusal::InvalidKey)),
    };
    let Routed { received, chain, transport, target } = routed;
    let expired = caller.expires_at.is_some_and(|end| received.arrival >= end);
    let ready = accounting.sink.is_ready();
    let moment = (received.arrival, received.started);
    let headers = received.request.headers();
    let trace = accounting.tracing.as_ref().and_then(|tracing| tracing.sampling.begin(received.id, headers));
    let mut tally = Box::new(Tally::new(received.id, transport, chain, caller, moment, accounting));
    tally.tries.set_trace(trace);
    let known = Authenticated { request: received.request, target, tally };
    if revoked || expired {
        return Err(Denied { rated: false, ..known.deny(Refusal::InvalidKey) });
    }
    if !ready {
        return Err(known.deny(Refusal::Overloaded));
    }
    Ok(known)
}

/// The key in a request, in the first of its places that has one. An empty key counts as absent.
pub fn key_of<B>(request: &Request<B>, places: KeyPlaces) -> Option<Cow<'_, str>> {
    key_in(request.headers(), request.uri(), places)
}

/// The key in the head of a request.
pub(crate) fn key_in<'r>(headers: &'r HeaderMap, uri: &'r Uri, places: KeyPlaces) -> Option<Cow<'r, str>> {
    const NAME: &str = "apikey";
    for name in [Some(NAME), places.header].into_iter().flatten() {
        if let Some(value) = headers.get(name).filter(|value| !value.is_empty()) {
            // A key that is not text counts as an unknown key.
            return Some(Cow::Borrowed(value.to_str().unwrap_or("\u{fffd}")));
        }
    }
    let query = uri.query()?;
    for wanted in [Some(NAME), places.query].into_iter().flatten() {
        let found = form_urlencoded::parse(query.as_bytes())
            .find(|(name, value)| name == wanted && !value.is_empty());
        if let Some((_, value)) = found {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::message::{PendingResponse, Received, Target};
    use super::*;
    use crate::testing::Fixture;
    use rpcgate_core::backend::directory::{MemoryDirectory, OpenDirectory};
    use rpcgate_core::backend::usage_sink::{Outcome, Record, UsageSink};
    use rpcgate_core::backend::{BoxFuture, Unavailable, suite};
    use rpcgate_core::caller::{Caller, RequestId};
    use rpcgate_core::clock::Clock;
    use rpcgate_core::secret::KeyHash;
    use rpcgate_core::tally::Transport;
    use std::convert::Infallible;
    use tower::service_fn;

    async fn send(
        fixture: &Fixture,
        directory: Arc<dyn Directory>,
        accounting: Arc<Accounting>,
        key: Option<&str>,
    ) -> PendingResponse {
        let mut request = Request::post("/toy").body(()).unwrap();
        if let Some(key) = key {
            request.headers_mut().insert("apikey", key.parse().unwrap());
        }
        let received = Received {
            request: Box::new(request),
            id: RequestId::new(fixture.now()),
            arrival: fixture.now(),
            started: fixture.clock.elapsed(),
        };
        let routed = Routed {
            received,
            chain: fixture.chain.clone(),
            transport: Transport::Http,
            target: Target::JsonRpc,
        };
        let inner = service_fn(async |known: Authenticated<()>| {
            let mut pending = PendingResponse::refused(Refusal::Closed);
            pending.refusal = None;
            pending.tally = Some(known.tally);
            Ok::<_, Infallible>(pending)
        });
        let Ok(pending) = AuthenticateLayer::new(directory, accounting).layer(inner).call(routed).await;
        pending
    }

    fn directory(callers: Vec<(&str, Caller)>) -> Arc<MemoryDirectory> {
        Arc::new(MemoryDirectory::new(
            callers.into_iter().map(|(key, caller)| (KeyHash::of(key), caller.into())),
        ))
    }

    #[tokio::test]
    async fn no_key_unknown_key_known_key() {
        let (fixture, directory) = (Fixture::new(), directory(vec![("good", suite::caller(7))]));
        let answer = async |key| send(&fixture, directory.clone(), fixture.accounting(), key).await;
        assert_eq!(answer(None).await.refusal, Some(Refusal::NoKey));
        assert_eq!(answer(Some("")).await.refusal, Some(Refusal::NoKey));
        assert_eq!(answer(Some("bad")).await.refusal, Some(Refusal::InvalidKey));
        let pending = answer(Some("good")).await;
        assert_eq!(pending.refusal, None);
        assert_eq!(pending.tally.unwrap().caller.key, suite::caller(7).key);
    }

    #[tokio::test]
    async fn a_revoked_or_expired_key_is_counted_on_its_project_and_gets_no_rate_headers() {
        let fixture = Fixture::new();
        let expired = suite::caller(8).with_expiry(fixture.now());
        let directory = directory(vec![("gone", suite::caller(7)), ("old", expired)]);
        directory.revoke(KeyHash::of("gone"));
        for key in ["gone", "old"] {
            let pending = send(&fixture, directory.clone(), fixture.accounting(), Some(key)).await;
            assert_eq!((pending.refusal, pending.rated), (Some(Refusal::InvalidKey), false), "{key}");
        }
        let records = fixture.sink.records();
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].project, suite::caller(7).project);
        assert_eq!(
            (records[0].lines[0].method.as_str(), records[0].lines[0].outcome),
            ("-", Outcome::Refused)
        );
    }

    #[tokio::test]
    async fn an_open_directory_admits_requests_with_any_key_or_none() {
        let fixture = Fixture::new();
        let open = Arc::new(OpenDirectory::new(suite::caller(7)));
        for key in [None, Some("any")] {
            let pending = send(&fixture, open.clone(), fixture.accounting(), key).await;
            assert_eq!(pending.refusal, None);
            assert_eq!(pending.tally.unwrap().caller.key, suite::caller(7).key);
        }
    }

    #[derive(Debug)]
    struct Slow(Option<Arc<MemoryDirectory>>);

    impl Directory for Slow {
        fn peek(&self, _: &str) -> Peek {
            Peek::Miss
        }
        fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Peek, Unavailable>> {
            Box::pin(async move {
                tokio::task::yield_now().await;
                self.0.as_ref().map(|known| known.peek(key)).ok_or(Unavailable)
            })
        }
    }

    #[tokio::test]
    async fn a_key_not_seen_before_is_fetched() {
        let fixture = Fixture::new();
        let slow = Arc::new(Slow(Some(directory(vec![("good", suite::caller(7))]))));
        assert_eq!(send(&fixture, slow.clone(), fixture.accounting(), Some("good")).await.refusal, None);
        assert_eq!(
            send(&fixture, slow, fixture.accounting(), Some("bad")).await.refusal,
            Some(Refusal::InvalidKey)
        );
    }

    #[tokio::test]
    async fn with_the_store_unavailable_an_unknown_key_gets_503() {
        let fixture = Fixture::new();
        let pending = send(&fixture, Arc::new(Slow(None)), fixture.accounting(), Some("any")).await;
        assert_eq!((pending.refusal, pending.status.as_u16()), (Some(Refusal::DirectoryAway), 503));
    }

    #[tokio::test]
    async fn a_full_usage_sink_refuses_before_anything_is_counted() {
        #[derive(Debug)]
        struct FullSink;
        impl UsageSink for FullSink {
            fn append(&self, _: &Record<'_>) {}
            fn is_ready(&self) -> bool {
                false
            }
        }
        let fixture = Fixture::new();
        let accounting = Arc::new(Accounting::clone(&fixture.accounting()).with_sink(Arc::new(FullSink)));
        let pending =
            send(&fixture, directory(vec![("good", suite::caller(7))]), accounting, Some("good")).await;
        assert_eq!(pending.refusal, Some(Refusal::Overloaded));
    }

    #[test]
    fn the_header_wins_over_the_query_and_escapes_are_resolved() {
        let request = Request::get("/eth?apikey=query").header("apikey", "header").body(()).unwrap();
        assert_eq!(key_of(&request, KeyPlaces::default()).as_deref(), Some("header"));
        let request = Request::get("/eth?a=b&apikey=que%72y").body(()).unwrap();
        assert_eq!(key_of(&request, KeyPlaces::default()).as_deref(), Some("query"));
    }

    #[test]
    fn a_chain_may_name_more_places() {
        let places = KeyPlaces::default().with_header("x-api-key").with_query("api_key");
        let ton = Request::get("/ton?api_key=q").header("X-API-Key", "h").body(()).unwrap();
        assert_eq!(key_of(&ton, places).as_deref(), Some("h"));
        assert_eq!(key_of(&ton, KeyPlaces::default()), None);
        let ton = Request::get("/ton?api_key=q").body(()).unwrap();
        assert_eq!(key_of(&ton, places).as_deref(), Some("q"));
    }
}
