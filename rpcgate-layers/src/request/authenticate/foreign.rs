//! Authentication of `http::Request`s in a foreign stack.

use super::key::user_of;
use super::{Authenticate, AuthenticateLayer, key_of};
use crate::foreign::{Reject, RejectAsRequest, RejectBody, RejectFn};
use crate::future::ResponseFuture;
use bytes::Bytes;
use http::Request;
use rpcgate_core::adapter::KeySources;
use rpcgate_core::backend::directory::{Directory, KeyLookup};
use rpcgate_core::backend::{BoxFuture, Unavailable};
use rpcgate_core::caller::Caller;
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::refusal::Refusal;
use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// Marks an authentication over `http::Request`.
#[derive(Clone)]
pub struct OverHttp<J = RejectAsRequest> {
    clock: Arc<dyn Clock>,
    sources: KeySources,
    reject: J,
}

impl<J> fmt::Debug for OverHttp<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverHttp").field("places", &self.sources).finish_non_exhaustive()
    }
}

impl AuthenticateLayer<OverHttp> {
    /// Creates a layer over `http::Request` that knows the keys of `directory`. `clock` decides whether a key has
    /// expired. The layer puts the caller into the request's extensions as an `Arc<Caller>`.
    pub fn over_http(directory: Arc<dyn Directory>, clock: Arc<dyn Clock>) -> Self {
        let mode = OverHttp { clock, sources: KeySources::default(), reject: RejectAsRequest };
        AuthenticateLayer { directory, mode }
    }

    /// Creates a layer that looks keys up with an asynchronous function, once per request. `Ok(None)` refuses the
    /// request with [`Refusal::InvalidKey`], and `Err(Unavailable)` with [`Refusal::DirectoryAway`].
    pub fn with_lookup<F, Fut>(clock: Arc<dyn Clock>, look_up: F) -> Self
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Arc<Caller>>, Unavailable>> + Send + 'static,
    {
        AuthenticateLayer::over_http(Arc::new(LookUp(look_up)), clock)
    }
}

impl<J> AuthenticateLayer<OverHttp<J>> {
    /// Adds places in which the layer looks for a key.
    #[must_use]
    pub fn with_key_sources(mut self, sources: KeySources) -> Self {
        self.mode.sources = sources;
        self
    }

    /// Answers refused requests with `refusing(request, refusal)`.
    pub fn refusing<B, Res, G>(self, refusing: G) -> AuthenticateLayer<OverHttp<RejectFn<G>>>
    where
        G: Fn(Request<B>, Refusal) -> Res,
    {
        self.rejecting(RejectFn(refusing))
    }

    /// Answers refused requests as the gateway does, with a body that `body` builds from its bytes.
    pub fn with_refusal_body<B, G>(self, body: G) -> AuthenticateLayer<OverHttp<RejectBody<G>>>
    where
        G: Fn(Bytes) -> B,
    {
        self.rejecting(RejectBody(body))
    }

    fn rejecting<K>(self, reject: K) -> AuthenticateLayer<OverHttp<K>> {
        let OverHttp { clock, sources, .. } = self.mode;
        AuthenticateLayer { directory: self.directory, mode: OverHttp { clock, sources, reject } }
    }
}

impl<S, B, J> Service<Request<B>> for Authenticate<S, OverHttp<J>>
where
    B: Send + 'static,
    J: Reject<Request<B>, S::Response> + Clone + Send + 'static,
    S: Service<Request<B>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let OverHttp { clock, sources, reject } = &self.mode;
        let now = clock.now();
        let key = key_of(&request, *sources);
        let user = user_of(request.headers(), request.uri());
        let peek = key.as_deref().map(|key| self.directory.peek(key));
        if matches!(peek, Some(KeyLookup::Miss))
            || (user.is_some() && matches!(peek, Some(KeyLookup::Unknown)))
        {
            let keys = [key.map(Cow::into_owned), user];
            let directory = self.directory.clone();
            let reject = reject.clone();
            let ready = self.inner.clone();
            let mut inner = std::mem::replace(&mut self.inner, ready);
            return ResponseFuture::waiting(async move {
                let mut admitted = Err(Refusal::NoKey);
                for key in keys.into_iter().flatten() {
                    admitted = match directory.fetch(&key).await {
                        Ok(peek) => admit(peek, now),
                        Err(Unavailable) => Err(Refusal::DirectoryAway),
                    };
                    if !matches!(admitted, Err(Refusal::InvalidKey)) {
                        break;
                    }
                }
                match admitted {
                    Ok(caller) => {
                        request.extensions_mut().insert(caller);
                        inner.call(request).await
                    }
                    Err(refusal) => Ok(reject.reject(request, refusal)),
                }
            });
        }
        let admitted = peek.map_or(Err(Refusal::NoKey), |peek| admit(peek, now));
        match admitted {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                ResponseFuture::inner(self.inner.call(request))
            }
            Err(refusal) => ResponseFuture::own(Ok(reject.reject(request, refusal))),
        }
    }
}

fn admit(peek: KeyLookup, now: Time) -> Result<Arc<Caller>, Refusal> {
    match peek {
        KeyLookup::Known(caller) if caller.expires_at.is_none_or(|end| now < end) => Ok(caller),
        _ => Err(Refusal::InvalidKey),
    }
}

/// A directory that calls an asynchronous function for every key.
pub struct LookUp<F>(F);

impl<F> fmt::Debug for LookUp<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LookUp")
    }
}

impl<F, Fut> Directory for LookUp<F>
where
    F: Fn(String) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Option<Arc<Caller>>, Unavailable>> + Send + 'static,
{
    fn peek(&self, _: &str) -> KeyLookup {
        KeyLookup::Miss
    }

    fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<KeyLookup, Unavailable>> {
        let caller = (self.0)(key.to_owned());
        Box::pin(async { Ok(caller.await?.map_or(KeyLookup::Unknown, KeyLookup::Known)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::caller_of;
    use base64::Engine;
    use rpcgate_core::backend::directory::MemoryDirectory;
    use rpcgate_core::backend::suite;
    use rpcgate_core::clock::ManualClock;
    use rpcgate_core::secret::KeyHash;
    use std::convert::Infallible;
    use tower::{ServiceExt, service_fn};
    use tower_layer::Layer;

    async fn send<J>(layer: &AuthenticateLayer<OverHttp<J>>, request: Request<()>) -> (u16, Bytes)
    where
        J: Reject<Request<()>, http::Response<Bytes>> + Clone + Send + 'static,
    {
        let inner = service_fn(async |request: Request<()>| {
            let key = caller_of(&request).map(|caller| caller.key.to_string());
            Ok::<_, Infallible>(http::Response::new(Bytes::from(key.unwrap_or_default())))
        });
        let Ok(response) = layer.layer(inner).oneshot(request).await;
        (response.status().as_u16(), response.into_body())
    }

    fn with_key(key: &str) -> Request<()> {
        Request::get("/").header("x-token", key).body(()).unwrap()
    }

    #[tokio::test]
    async fn a_directory_knows_the_callers_of_foreign_requests_until_their_keys_expire() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(10)));
        let old = suite::caller(2).with_expiry(Time::from_secs(10));
        let directory = MemoryDirectory::new([
            (KeyHash::of("good"), Arc::new(suite::caller(1))),
            (KeyHash::of("old"), Arc::new(old)),
        ]);
        let sources = KeySources::default().with_header("x-token");
        let layer = AuthenticateLayer::over_http(Arc::new(directory), clock).with_key_sources(sources);
        let key = suite::caller(1).key.to_string();
        assert_eq!(send(&layer, with_key("good")).await, (200, key.into()));
        assert_eq!(send(&layer, with_key("old")).await.0, 401);
        assert_eq!(send(&layer, with_key("")).await.0, 401);
    }

    // Shows (Keys).
    #[tokio::test]
    async fn either_part_of_basic_credentials_may_be_the_key() {
        let clock = Arc::new(ManualClock::at(Time::default()));
        let layer = AuthenticateLayer::with_lookup(clock, async |key: String| {
            Ok((key == "good").then(|| Arc::new(suite::caller(1))))
        });
        for (login, status) in
            [("any:good", 200), ("good:any", 200), ("good:", 200), ("any:any", 401), (":", 401)]
        {
            let value = format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(login));
            let request = Request::get("/").header("authorization", value).body(()).unwrap();
            assert_eq!(send(&layer, request).await.0, status, "{login}");
        }
    }

    #[tokio::test]
    async fn an_unavailable_look_up_is_answered_with_the_embedders_text() {
        let clock = Arc::new(ManualClock::at(Time::default()));
        let layer = AuthenticateLayer::with_lookup(clock, async |_: String| Err(Unavailable))
            .refusing(|_: Request<()>, refusal| http::Response::new(Bytes::from(format!("no: {refusal}"))));
        let request = Request::get("/?apikey=any").body(()).unwrap();
        assert_eq!(send(&layer, request).await.1, "no: key cannot be checked now, retry later");
    }
}
