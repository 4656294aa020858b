//! The future of a layer that either calls its inner service or responds itself.

use pin_project_lite::pin_project;
use rpcgate_core::backend::BoxFuture;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project! {
    /// The response of a layer: that of its inner service, or the layer's own. `F` is the future of the inner service.
    /// Only a layer that waits for a backend allocates.
    pub struct ResponseFuture<F>
    where
        F: Future,
    {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F>
    where
        F: Future,
    {
        Inner { #[pin] inner: F },
        Own { response: Option<F::Output> },
        Waiting { waiting: BoxFuture<'static, F::Output> },
    }
}

impl<F: Future> ResponseFuture<F> {
    pub(crate) fn inner(inner: F) -> Self {
        ResponseFuture { state: State::Inner { inner } }
    }

    /// Returns the layer's own response immediately.
    pub(crate) fn own(response: F::Output) -> Self {
        ResponseFuture { state: State::Own { response: Some(response) } }
    }

    /// Waits for a backend first.
    pub(crate) fn waiting(waiting: impl Future<Output = F::Output> + Send + 'static) -> Self {
        ResponseFuture { state: State::Waiting { waiting: Box::pin(waiting) } }
    }
}

impl<F: Future> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.project().state.project() {
            StateProjection::Inner { inner } => inner.poll(cx),
            StateProjection::Own { response } => response.take().map_or(Poll::Pending, Poll::Ready),
            StateProjection::Waiting { waiting } => waiting.as_mut().poll(cx),
        }
    }
}

impl<F: Future> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Inner { .. } => "Inner",
            State::Own { .. } => "Own",
            State::Waiting { .. } => "Waiting",
        };
        f.debug_tuple("ResponseFuture").field(&state).finish()
    }
}
