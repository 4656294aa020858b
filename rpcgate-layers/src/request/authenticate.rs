//! Authentication: from the API key of a request to its caller.
//!
//! The key is in the header `apikey` or `x-api-key`, the query parameter `apikey`, or the credentials in
//! `authorization`; a chain may name more places (TON's clients send `api_key`). With Basic credentials the key is the
//! password, or the user name if the password is not a key. The layer comes after the route and creates the tally of
//! the request. It refuses with [`Refusal::NoKey`] (unless the directory has an [anonymous](Directory::anonymous)
//! caller), [`Refusal::InvalidKey`], [`Refusal::DirectoryAway`], and with [`Refusal::Overloaded`] while the sink cannot
//! take charged calls. A revoked or expired key is refused like an unknown one, but counted for its project.
//!
//! In any other tower stack it works over `http::Request`, with a [`Directory`] or any asynchronous function, and puts
//! the caller into the request's extensions, where [`caller_of`](crate::foreign::caller_of) finds it:
//!
//! ```
//! use rpcgate_core::caller::{Caller, KeyId};
//! use rpcgate_core::clock::{ManualClock, Time};
//! use rpcgate_core::plan::{Plan, Tier};
//! use rpcgate_layers::{foreign::caller_of, request::authenticate::AuthenticateLayer};
//! use std::{convert::Infallible, sync::Arc};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let clock = Arc::new(ManualClock::at(Time::default()));
//! let layer = AuthenticateLayer::with_lookup(clock, async |key: String| {
//!     Ok((key == "s3cret").then(|| Arc::new(Caller::of(7, Plan::of(Tier::Free))))) // as a database would
//! });
//! let inner = service_fn(async |request: http::Request<()>| {
//!     assert_eq!(caller_of(&request).unwrap().key, KeyId(7));
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
mod key;

pub use foreign::{LookUp, OverHttp};
#[cfg(feature = "upstream")]
pub(crate) use key::key_in;
pub use key::key_of;

use super::admission::{AdmissionResponse, Denied};
use super::message::{Authenticated, Routed};
use crate::future::ResponseFuture;
use http::Request;
use http::header::AUTHORIZATION;
use key::{credentials_of, user_of};
use rpcgate_core::backend::directory::{Directory, KeyLookup};
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::{Accounting, Tally};
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Finds the caller of a request. `W` is the accounting of rpcgate's own stack, or [`OverHttp`].
#[derive(Clone, Debug)]
pub struct AuthenticateLayer<W = Arc<Accounting>> {
    directory: Arc<dyn Directory>,
    mode: W,
}

impl AuthenticateLayer {
    /// Creates a layer that knows the keys of `directory`. Tallies are settled with `accounting`.
    pub fn new(directory: Arc<dyn Directory>, accounting: Arc<Accounting>) -> Self {
        AuthenticateLayer { directory, mode: accounting }
    }
}

impl<S, W: Clone> Layer<S> for AuthenticateLayer<W> {
    type Service = Authenticate<S, W>;

    fn layer(&self, inner: S) -> Authenticate<S, W> {
        Authenticate { inner, directory: self.directory.clone(), mode: self.mode.clone() }
    }
}

/// A service that authenticates before `inner`.
#[derive(Clone, Debug)]
pub struct Authenticate<S, W = Arc<Accounting>> {
    inner: S,
    directory: Arc<dyn Directory>,
    mode: W,
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

    fn call(&mut self, mut routed: Routed<B>) -> Self::Future {
        let Some(key) = key_of(&routed.received.request, routed.chain.adapter().key_sources()) else {
            let anonymous = self.directory.anonymous().ok_or(Denied::unknown(Refusal::NoKey));
            let admitted =
                anonymous.and_then(|caller| admit(routed, KeyLookup::Known(caller), self.mode.clone()));
            return match admitted {
                Ok(known) => ResponseFuture::inner(self.inner.call(known)),
                Err(denied) => ResponseFuture::own(Ok(S::Response::denied(denied))),
            };
        };
        let key = match self.directory.peek(&key) {
            KeyLookup::Miss => key.into_owned(),
            KeyLookup::Unknown => match with_user_as_key(&mut routed.received.request) {
                Some(user) => user,
                None => {
                    return ResponseFuture::own(Ok(S::Response::denied(Denied::unknown(
                        Refusal::InvalidKey,
                    ))));
                }
            },
            peek => {
                return match admit(routed, peek, self.mode.clone()) {
                    Ok(known) => ResponseFuture::inner(self.inner.call(known)),
                    Err(denied) => ResponseFuture::own(Ok(S::Response::denied(denied))),
                };
            }
        };
        let directory = self.directory.clone();
        let accounting = self.mode.clone();
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        ResponseFuture::waiting(async move {
            let mut fetched = directory.fetch(&key).await;
            if matches!(fetched, Ok(KeyLookup::Unknown))
                && let Some(user) = with_user_as_key(&mut routed.received.request)
            {
                fetched = directory.fetch(&user).await;
            }
            let Ok(peek) = fetched else {
                return Ok(S::Response::denied(Denied::unknown(Refusal::DirectoryAway)));
            };
            match admit(routed, peek, accounting) {
                Ok(known) => inner.call(known).await,
                Err(denied) => Ok(S::Response::denied(denied)),
            }
        })
    }
}

/// Returns the user name of Basic credentials whose password is not a key, and removes the password from the request,
/// so that any later reader of the key finds the same one.
fn with_user_as_key<B>(request: &mut Request<B>) -> Option<String> {
    let user = user_of(request.headers(), request.uri())?;
    request.headers_mut().insert(AUTHORIZATION, credentials_of(&user)?);
    Some(user)
}

fn admit<B>(
    routed: Routed<B>,
    peek: KeyLookup,
    accounting: Arc<Accounting>,
) -> Result<Authenticated<B>, Denied> {
    let (caller, revoked) = match peek {
        KeyLookup::Known(caller) => (caller, false),
        KeyLookup::Revoked(caller) => (caller, true),
        KeyLookup::Unknown | KeyLookup::Miss => return Err(Denied::unknown(Refusal::InvalidKey)),
    };
    let Routed { received, chain, transport, target } = routed;
    let expired = caller.expires_at.is_some_and(|end| received.arrival >= end);
    let ready = accounting.sink.is_ready();
    let headers = received.request.headers();
    let trace = accounting.tracing.as_ref().and_then(|tracing| tracing.sampling.begin(received.id, headers));
    let mut tally = Box::new(Tally::new(
        received.id,
        transport,
        chain,
        caller,
        received.arrival,
        received.started,
        accounting,
    ));
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

#[cfg(test)]
mod tests {
    use super::super::message::{PendingResponse, Received, Target};
    use super::*;
    use crate::testing::Fixture;
    use base64::Engine;
    use rpcgate_core::backend::directory::{MemoryDirectory, OpenDirectory};
    use rpcgate_core::backend::usage_sink::{Outcome, Record, UsageSink};
    use rpcgate_core::backend::{BoxFuture, Unavailable, suite};
    use rpcgate_core::caller::{Caller, RequestId};
    use rpcgate_core::clock::Clock;
    use rpcgate_core::secret::KeyHash;
    use rpcgate_core::tally::Transport;
    use std::borrow::Cow;
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
        send_request(fixture, directory, accounting, request).await.0
    }

    /// Returns the response, and the key of the request as the next layer reads it.
    async fn send_request(
        fixture: &Fixture,
        directory: Arc<dyn Directory>,
        accounting: Arc<Accounting>,
        request: Request<()>,
    ) -> (PendingResponse, Option<String>) {
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
        let read = Arc::new(parking_lot::Mutex::new(None));
        let seen = read.clone();
        let inner = service_fn(move |known: Authenticated<()>| {
            let mut pending = PendingResponse::refused(Refusal::Closed);
            pending.refusal = None;
            let sources = known.tally.chain.adapter().key_sources();
            *seen.lock() = key_of(&known.request, sources).map(Cow::into_owned);
            pending.tally = Some(known.tally);
            std::future::ready(Ok::<_, Infallible>(pending))
        });
        let Ok(pending) = AuthenticateLayer::new(directory, accounting).layer(inner).call(routed).await;
        let key = read.lock().take();
        (pending, key)
    }

    fn directory(callers: Vec<(&str, Caller)>) -> Arc<MemoryDirectory> {
        Arc::new(MemoryDirectory::new(
            callers.into_iter().map(|(key, caller)| (KeyHash::of(key), caller.into())),
        ))
    }

    #[tokio::test]
    async fn no_key_unknown_key_known_key() {
        let fixture = Fixture::new();
        let directory = directory(vec![("good", suite::caller(7))]);
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
        fn peek(&self, _: &str) -> KeyLookup {
            KeyLookup::Miss
        }
        fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<KeyLookup, Unavailable>> {
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

    // Shows (Keys): Either part of Basic credentials may be the key, which a stream or a long call keeps.
    #[tokio::test]
    async fn either_part_of_basic_credentials_may_be_the_key_and_stays_the_key_of_the_request() {
        let fixture = Fixture::new();
        let known = directory(vec![("good", suite::caller(7))]);
        let later = Arc::new(Slow(Some(known.clone())));
        for (login, is_known) in [
            ("any:good", true),
            ("good:any", true),
            ("good:", true),
            (":good", true),
            ("any:any", false),
            ("good:any:", true),
        ] {
            for directory in [known.clone() as Arc<dyn Directory>, later.clone()] {
                let mut request = Request::post("/toy").body(()).unwrap();
                let value = format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(login));
                request.headers_mut().insert(AUTHORIZATION, value.parse().unwrap());
                let (pending, key) = send_request(&fixture, directory, fixture.accounting(), request).await;
                assert_eq!(pending.refusal, (!is_known).then_some(Refusal::InvalidKey), "{login}");
                assert_eq!(key.as_deref(), is_known.then_some("good"), "{login}");
            }
        }
    }
}
