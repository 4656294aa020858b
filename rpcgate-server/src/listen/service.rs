//! The service of a connection: passes requests to the stack, and answers some itself.

use super::body::{Arriving, BoxError, Given, Outgoing};
use super::builtin;
use super::connection_state::{Busy, ConnectionState};
use super::connections::Connections;
use super::progress::Progress;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONNECTION, HeaderValue};
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use std::convert::Infallible;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use tower::Service;
use tower::ServiceExt;
use tower::util::Oneshot;
use tower_http::compression::predicate::SizeAbove;
use tower_http::compression::{Compression, CompressionBody, CompressionLevel};

/// Answers of at least so many bytes are compressed, for clients that ask for it.
const WORTH: u16 = 1024;

/// A stack with compression around it, which only those requests enter that ask for it.
pub(super) type Packing<S> = Compression<S, SizeAbove>;

/// The service of one connection. Hyper takes a service by reference and may call it from several streams at once, so
/// the stack, which is called by exclusive reference, is behind a lock that is held for the call alone.
pub(super) struct ConnectionService<S> {
    stack: Mutex<Packing<S>>,
    connections: Arc<Connections>,
    state: Arc<ConnectionState>,
    streams: bool,
}

impl<S> ConnectionService<S> {
    /// The service of an HTTP/2 connection, whose requests are streams.
    pub(super) fn of_streams(stack: S, connections: Arc<Connections>, state: Arc<ConnectionState>) -> Self {
        ConnectionService { streams: true, ..ConnectionService::new(stack, connections, state) }
    }

    pub(super) fn new(stack: S, connections: Arc<Connections>, state: Arc<ConnectionState>) -> Self {
        let stack = Compression::new(stack)
            .quality(CompressionLevel::Fastest)
            .compress_when(SizeAbove::new(WORTH.into()));
        ConnectionService { stack: Mutex::new(stack), connections, state, streams: false }
    }
}

impl<S, B> hyper::service::Service<Request<Incoming>> for ConnectionService<S>
where
    S: Service<Request<Arriving>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Response = Response<Outgoing<B>>;
    type Error = Infallible;
    type Future = Answering<S, B>;

    fn call(&self, request: Request<Incoming>) -> Answering<S, B> {
        let is_ambiguous = !self.streams && self.state.is_ambiguous(request.body());
        let busy = Some(self.state.begin());
        let progress = self.streams.then(|| self.state.open());
        if let Some(answer) = builtin::health(&self.connections, request.method(), request.uri().path()) {
            return Answering { way: Way::Own { answer: Some(answer) }, busy, progress };
        }
        if is_ambiguous {
            return Answering { way: Way::Own { answer: Some(builtin::ambiguous()) }, busy, progress };
        }
        let request = request.map(|body| Arriving::new(body, self.state.clone()));
        let packed = request.headers().contains_key(ACCEPT_ENCODING);
        let way = catch_unwind(AssertUnwindSafe(|| {
            let mut stack = self.stack.lock();
            let mut cx = Context::from_waker(Waker::noop());
            if stack.poll_ready(&mut cx).is_pending() {
                return Way::Waiting { future: Box::pin(stack.clone().oneshot(request)) };
            }
            if packed {
                Way::Packed { future: stack.call(request) }
            } else {
                Way::Plain { future: stack.get_mut().call(request) }
            }
        }));
        Answering {
            way: way.unwrap_or_else(|_| Way::Own { answer: Some(builtin::panicked()) }),
            busy,
            progress,
        }
    }
}

pin_project! {
    /// A request that is being answered. A panic on the way costs this request and its connection, not the process.
    pub(super) struct Answering<S, B>
    where
        S: Service<Request<Arriving>, Response = Response<B>>,
        B: Body,
    {
        #[pin]
        way: Way<S, B>,
        busy: Option<Busy>,
        progress: Option<Arc<Progress>>,
    }
}

pin_project! {
    #[project = Taken]
    enum Way<S, B>
    where
        S: Service<Request<Arriving>, Response = Response<B>>,
        B: Body,
    {
        Plain { #[pin] future: S::Future },
        Packed { #[pin] future: <Packing<S> as Service<Request<Arriving>>>::Future },
        // Boxed, because it is rare and larger than the others.
        Waiting { future: Pin<Box<Oneshot<Packing<S>, Request<Arriving>>>> },
        Own { answer: Option<Response<Full<Bytes>>> },
    }
}

impl<S, B> Future for Answering<S, B>
where
    S: Service<Request<Arriving>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<Outgoing<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let polled = catch_unwind(AssertUnwindSafe(|| this.way.poll(cx)));
        let answer = match polled {
            Ok(polled) => ready!(polled),
            Err(_) => Made::Own(builtin::panicked()),
        };
        let Some(busy) = this.busy.take() else {
            // Only a future that is polled after its end has none.
            return Poll::Pending;
        };
        let is_last = busy.is_last() && this.progress.is_none();
        let given = Given { busy, progress: this.progress.take() };
        let mut answer = match answer {
            Made::Plain(answer) => answer.map(|body| Outgoing::plain(body, given)),
            Made::Packed(answer) => answer.map(|body| Outgoing::packed(body, given)),
            Made::Own(answer) => answer.map(|body| Outgoing::builtin(body, given)),
        };
        if is_last {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Poll::Ready(Ok(answer))
    }
}

enum Made<B: Body> {
    Plain(Response<B>),
    Packed(Response<Pin<Box<CompressionBody<B>>>>),
    Own(Response<Full<Bytes>>),
}

impl<S, B> Way<S, B>
where
    S: Service<Request<Arriving>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Made<B>> {
        match self.project() {
            Taken::Plain { future } => {
                let Ok(answer) = ready!(future.poll(cx));
                Poll::Ready(Made::Plain(answer))
            }
            Taken::Packed { future } => {
                let Ok(answer) = ready!(future.poll(cx));
                Poll::Ready(Made::Packed(answer.map(Box::pin)))
            }
            Taken::Waiting { future } => {
                let Ok(answer) = ready!(future.as_mut().poll(cx));
                Poll::Ready(Made::Packed(answer.map(Box::pin)))
            }
            Taken::Own { answer } => match answer.take() {
                Some(answer) => Poll::Ready(Made::Own(answer)),
                None => Poll::Pending,
            },
        }
    }
}
