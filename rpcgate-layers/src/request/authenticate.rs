//! Authentication: from the API key in a request to its caller.
//!
//! The key is taken from the `apikey` header, else from the `apikey` query parameter; a chain may name more places
//! (TON's clients send `X-API-Key` or `api_key`). The header wins over the query. Stands behind the route, and is where
//! a request gets its account. Refuses with [`Refusal::NoKey`], [`Refusal::InvalidKey`], [`Refusal::DirectoryAway`],
//! and with [`Refusal::Overloaded`] while the ledger cannot take charged calls. A revoked or expired key is refused
//! like an unknown one, but counted on its project.
//!
//! ```
//! use rpcgate_core::adapter::KeyPlaces;
//! use rpcgate_layers::request::authenticate::key_of;
//!
//! let request = http::Request::get("/eth?apikey=query").header("apikey", "header").body(()).unwrap();
//! assert_eq!(key_of(&request, KeyPlaces::default()).as_deref(), Some("header"));
//! let request = http::Request::get("/eth?a=b&apikey=que%72y").body(()).unwrap();
//! assert_eq!(key_of(&request, KeyPlaces::default()).as_deref(), Some("query"));
//! ```

use super::travel::{Departure, Known, Routed};
use futures_util::future::Either;
use http::Request;
use rpcgate_core::adapter::KeyPlaces;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::seam::Later;
use rpcgate_core::seam::directory::{Directory, Peek};
use rpcgate_core::tally::{Books, Tally};
use std::borrow::Cow;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Finds the caller of a request.
#[derive(Clone, Debug)]
pub struct AuthenticateLayer {
    directory: Arc<dyn Directory>,
    books: Arc<Books>,
}

impl AuthenticateLayer {
    /// A layer that knows the keys of `directory`; accounts are settled with `books`.
    pub fn new(directory: Arc<dyn Directory>, books: Arc<Books>) -> Self {
        AuthenticateLayer { directory, books }
    }
}

impl<S> Layer<S> for AuthenticateLayer {
    type Service = Authenticate<S>;

    fn layer(&self, inner: S) -> Authenticate<S> {
        Authenticate { inner, directory: self.directory.clone(), books: self.books.clone() }
    }
}

/// Authentication in front of `inner`.
#[derive(Clone, Debug)]
pub struct Authenticate<S> {
    inner: S,
    directory: Arc<dyn Directory>,
    books: Arc<Books>,
}

impl<S, B> Service<Routed<B>> for Authenticate<S>
where
    B: Send + 'static,
    S: Service<Known<B>, Response = Departure> + Clone + Send + 'static,
    S::Error: Send,
    S::Future: Send,
{
    type Response = Departure;
    type Error = S::Error;
    type Future = Either<
        Either<S::Future, Ready<Result<Departure, S::Error>>>,
        Later<'static, Result<Departure, S::Error>>,
    >;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, routed: Routed<B>) -> Self::Future {
        let Some(key) = key_of(&routed.stamped.request, routed.chain.adapter().key_places()) else {
            return Either::Left(Either::Right(ready(Ok(Departure::refused(Refusal::NoKey)))));
        };
        match self.directory.peek(&key) {
            Peek::Miss => {
                let key = key.into_owned();
                let (directory, books) = (self.directory.clone(), self.books.clone());
                let ready = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, ready);
                Either::Right(Box::pin(async move {
                    let Ok(peek) = directory.fetch(&key).await else {
                        return Ok(Departure::refused(Refusal::DirectoryAway));
                    };
                    match admit(routed, peek, books) {
                        Ok(known) => inner.call(known).await,
                        Err(departure) => Ok(*departure),
                    }
                }))
            }
            peek => Either::Left(match admit(routed, peek, self.books.clone()) {
                Ok(known) => Either::Left(self.inner.call(known)),
                Err(departure) => Either::Right(ready(Ok(*departure))),
            }),
        }
    }
}

fn admit<B>(routed: Routed<B>, peek: Peek, books: Arc<Books>) -> Result<Known<B>, Box<Departure>> {
    let (caller, revoked) = match peek {
        Peek::Known(caller) => (caller, false),
        Peek::Revoked(caller) => (caller, true),
        Peek::Unknown | Peek::Miss => return Err(Box::new(Departure::refused(Refusal::InvalidKey))),
    };
    let Routed { stamped, chain, transport, aim } = routed;
    let expired = caller.expires_at.is_some_and(|end| stamped.arrival >= end);
    let ready = books.ledger.is_ready();
    let moment = (stamped.arrival, stamped.started);
    let known = Known {
        request: stamped.request,
        aim,
        tally: Box::new(Tally::new(stamped.id, transport, chain, caller, moment, books)),
    };
    if revoked || expired {
        let mut departure = known.refuse(Refusal::InvalidKey);
        departure.rated = false;
        return Err(Box::new(departure));
    }
    if !ready {
        return Err(Box::new(known.refuse(Refusal::Overloaded)));
    }
    Ok(known)
}

/// The key in a request, wherever it may be. An empty one is none.
pub fn key_of<B>(request: &Request<B>, places: KeyPlaces) -> Option<Cow<'_, str>> {
    const NAME: &str = "apikey";
    for name in [Some(NAME), places.header].into_iter().flatten() {
        if let Some(value) = request.headers().get(name).filter(|value| !value.is_empty()) {
            // A key that is no text is a key all the same: one that nobody has.
            return Some(Cow::Borrowed(value.to_str().unwrap_or("\u{fffd}")));
        }
    }
    let query = request.uri().query()?;
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
    use super::super::travel::{Aim, Stamped};
    use super::*;
    use crate::testing::Desk;
    use rpcgate_core::caller::{Caller, RequestId};
    use rpcgate_core::clock::Clock;
    use rpcgate_core::seam::directory::MemoryDirectory;
    use rpcgate_core::seam::ledger::{Ledger, Outcome, Record};
    use rpcgate_core::seam::{Away, suite};
    use rpcgate_core::secret::KeyHash;
    use rpcgate_core::tally::Transport;
    use std::convert::Infallible;
    use tower::service_fn;

    async fn send(
        desk: &Desk,
        directory: Arc<dyn Directory>,
        books: Arc<Books>,
        key: Option<&str>,
    ) -> Departure {
        let mut request = Request::post("/toy").body(()).unwrap();
        if let Some(key) = key {
            request.headers_mut().insert("apikey", key.parse().unwrap());
        }
        let stamped = Stamped {
            request: Box::new(request),
            id: RequestId::new(desk.now()),
            arrival: desk.now(),
            started: desk.clock.elapsed(),
        };
        let routed =
            Routed { stamped, chain: desk.chain.clone(), transport: Transport::Http, aim: Aim::JsonRpc };
        let inner = service_fn(async |known: Known<()>| {
            let mut departure = Departure::refused(Refusal::Closed);
            departure.refusal = None;
            departure.tally = Some(known.tally);
            Ok::<_, Infallible>(departure)
        });
        let Ok(departure) = AuthenticateLayer::new(directory, books).layer(inner).call(routed).await;
        departure
    }

    fn directory(callers: Vec<(&str, Caller)>) -> Arc<MemoryDirectory> {
        Arc::new(MemoryDirectory::new(
            callers.into_iter().map(|(key, caller)| (KeyHash::of(key), caller.into())),
        ))
    }

    #[tokio::test]
    async fn no_key_unknown_key_known_key() {
        let (desk, directory) = (Desk::new(), directory(vec![("good", suite::caller(7))]));
        let answer = async |key| send(&desk, directory.clone(), desk.books(), key).await;
        assert_eq!(answer(None).await.refusal, Some(Refusal::NoKey));
        assert_eq!(answer(Some("")).await.refusal, Some(Refusal::NoKey));
        assert_eq!(answer(Some("bad")).await.refusal, Some(Refusal::InvalidKey));
        let departure = answer(Some("good")).await;
        assert_eq!(departure.refusal, None);
        assert_eq!(departure.tally.unwrap().caller.key, suite::caller(7).key);
    }

    #[tokio::test]
    async fn a_revoked_or_expired_key_is_counted_on_its_project_and_gets_no_rate_headers() {
        let desk = Desk::new();
        let expired = Caller { expires_at: Some(desk.now()), ..suite::caller(8) };
        let directory = directory(vec![("gone", suite::caller(7)), ("old", expired)]);
        directory.revoke(KeyHash::of("gone"));
        for key in ["gone", "old"] {
            let departure = send(&desk, directory.clone(), desk.books(), Some(key)).await;
            assert_eq!((departure.refusal, departure.rated), (Some(Refusal::InvalidKey), false), "{key}");
        }
        let records = desk.ledger.records();
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].project, suite::caller(7).project);
        assert_eq!(
            (records[0].lines[0].method.as_str(), records[0].lines[0].outcome),
            ("-", Outcome::Refused)
        );
    }

    #[derive(Debug)]
    struct Slow(Option<Arc<MemoryDirectory>>);

    impl Directory for Slow {
        fn peek(&self, _: &str) -> Peek {
            Peek::Miss
        }
        fn fetch<'a>(&'a self, key: &'a str) -> Later<'a, Result<Peek, Away>> {
            Box::pin(async move {
                tokio::task::yield_now().await;
                self.0.as_ref().map(|known| known.peek(key)).ok_or(Away)
            })
        }
    }

    #[tokio::test]
    async fn a_key_not_seen_before_is_fetched() {
        let desk = Desk::new();
        let slow = Arc::new(Slow(Some(directory(vec![("good", suite::caller(7))]))));
        assert_eq!(send(&desk, slow.clone(), desk.books(), Some("good")).await.refusal, None);
        assert_eq!(send(&desk, slow, desk.books(), Some("bad")).await.refusal, Some(Refusal::InvalidKey));
    }

    #[tokio::test]
    async fn with_the_store_away_an_unknown_key_is_told_to_come_back() {
        let desk = Desk::new();
        let departure = send(&desk, Arc::new(Slow(None)), desk.books(), Some("any")).await;
        assert_eq!((departure.refusal, departure.status.as_u16()), (Some(Refusal::DirectoryAway), 503));
    }

    #[tokio::test]
    async fn a_ledger_that_is_full_refuses_before_anything_counts() {
        #[derive(Debug)]
        struct FullLedger;
        impl Ledger for FullLedger {
            fn append(&self, _: &Record<'_>) {}
            fn is_ready(&self) -> bool {
                false
            }
        }
        let desk = Desk::new();
        let books = Arc::new(Books { ledger: Arc::new(FullLedger), ..Books::clone(&desk.books()) });
        let departure = send(&desk, directory(vec![("good", suite::caller(7))]), books, Some("good")).await;
        assert_eq!(departure.refusal, Some(Refusal::Overloaded));
    }

    #[test]
    fn a_chain_may_name_more_places() {
        let places = KeyPlaces { header: Some("x-api-key"), query: Some("api_key") };
        let ton = Request::get("/ton?api_key=q").header("X-API-Key", "h").body(()).unwrap();
        assert_eq!(key_of(&ton, places).as_deref(), Some("h"));
        assert_eq!(key_of(&ton, KeyPlaces::default()), None);
        let ton = Request::get("/ton?api_key=q").body(()).unwrap();
        assert_eq!(key_of(&ton, places).as_deref(), Some("q"));
    }
}
