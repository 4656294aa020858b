//! The safeguard over `http::Request`s in a foreign stack.

use super::{Safeguard, SafeguardLayer, Safeguarded};
use http::{Request, Response};
use pin_project_lite::pin_project;
use rpcgate_core::caller::Caller;
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::refusal::Refusal;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower_service::Service;

const LIMITED: Refusal = Refusal::Window { retry_after: 0 };

impl SafeguardLayer {
    /// Adapts the layer to `http::Request`s, in a stack whose authentication puts an `Arc<Caller>` into the request's
    /// extensions. The layer counts responses with status 429 itself, by `clock`. So its safeguard must not
    /// [observe](rpcgate_core::tally::Accounting::observed_by) records of the same requests. A request without a caller
    /// passes.
    pub fn over_http(self, clock: Arc<dyn Clock>) -> SafeguardLayer<Arc<dyn Clock>> {
        SafeguardLayer { safeguard: self.safeguard, mode: clock }
    }
}

impl<S, A, B> Service<Request<A>> for Safeguarded<S, Arc<dyn Clock>>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = SafeguardedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        let now = self.mode.now();
        let caller = request.extensions().get::<Arc<Caller>>().cloned();
        if let Some((scaled, _)) = caller.as_ref().and_then(|caller| self.safeguard.look(caller, now)) {
            request.extensions_mut().insert(scaled);
        }
        let watched = caller.map(|caller| (self.safeguard.clone(), caller, now));
        SafeguardedFuture { inner: self.inner.call(request), watched }
    }
}

pin_project! {
    /// The response of the inner service, counted if its status is 429.
    pub struct SafeguardedFuture<F> {
        #[pin]
        inner: F,
        watched: Option<(Arc<Safeguard>, Arc<Caller>, Time)>,
    }
}

impl<F> fmt::Debug for SafeguardedFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SafeguardedFuture").finish_non_exhaustive()
    }
}

impl<F, B, E> Future for SafeguardedFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<B>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx))?;
        if response.status() == LIMITED.status()
            && let Some((safeguard, caller, now)) = this.watched.take()
        {
            safeguard.note_refused(caller.key, caller.project, caller.tenant, now);
        }
        Poll::Ready(Ok(response))
    }
}
