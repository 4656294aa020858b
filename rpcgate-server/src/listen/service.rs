//! The service of a connection, which passes requests to the stack and answers some itself.

use super::body::{BodyHandle, BoxError, RequestBody, ResponseBody};
use super::builtin;
use super::connection_state::{Busy, ConnectionState};
use super::connections::Connections;
use super::progress::Progress;
use super::request_head::is_unambiguous;
use super::stream::{Next, StreamEnd};
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use rpcgate_layers::grpc::is_grpc;
use std::convert::Infallible;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use tower::Service;
use tower::ServiceExt;
use tower::util::Oneshot;
use tower_http::compression::predicate::{And, NotForContentType, Predicate, SizeAbove};
use tower_http::compression::{Compression, CompressionBody, CompressionLevel};

/// The minimum size, in bytes, of a compressed answer.
const COMPRESSED_FROM: u16 = 1024;

/// A stack with compression for the requests that accept it.
pub(super) type Compressing<S> = Compression<S, And<SizeAbove, NotForContentType>>;

/// The service of one connection. Hyper takes a service by reference and may call it from several streams at once; the
/// stack needs an exclusive reference, so a lock holds it during the call.
pub(super) struct ConnectionService<S> {
    stack: Mutex<Compressing<S>>,
    connections: Arc<Connections>,
    state: Arc<ConnectionState>,
    streams: bool,
}

impl<S> ConnectionService<S> {
    /// Creates the service of an HTTP/2 connection, whose requests are streams.
    pub(super) fn of_streams(stack: S, connections: Arc<Connections>, state: Arc<ConnectionState>) -> Self {
        ConnectionService { streams: true, ..ConnectionService::new(stack, connections, state) }
    }

    pub(super) fn new(stack: S, connections: Arc<Connections>, state: Arc<ConnectionState>) -> Self {
        let stack = Compression::new(stack)
            .quality(CompressionLevel::Fastest)
            .compress_when(SizeAbove::new(COMPRESSED_FROM.into()).and(NotForContentType::GRPC));
        ConnectionService { stack: Mutex::new(stack), connections, state, streams: false }
    }
}

impl<S, B> hyper::service::Service<Request<Incoming>> for ConnectionService<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody<B>>;
    type Error = Infallible;
    type Future = ResponseFuture<S, B>;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture<S, B> {
        // `is_ambiguous` also forgets the head, so it is always called.
        let is_ambiguous =
            (!self.streams && self.state.is_ambiguous(request.body())) || !is_unambiguous(&request);
        let busy = Some(self.state.begin());
        let progress = self.streams.then(Arc::<Progress>::default);
        if let Some(progress) = &progress {
            Next::Answer(progress.clone()).announce();
        }
        let mut end = None;
        // Hyper leaves out the body of an answer to HEAD only over HTTP/1.
        let is_bodiless = self.streams && request.method() == Method::HEAD;
        if is_ambiguous {
            let source = Source::Builtin { answer: Some(builtin::ambiguous()) };
            return ResponseFuture { source, busy, progress, end, is_bodiless };
        }
        if let Some(answer) = builtin::health(&self.connections, request.method(), request.uri().path()) {
            let source = Source::Builtin { answer: Some(answer) };
            return ResponseFuture { source, busy, progress, end, is_bodiless };
        }
        // The bytes of a WebSocket stream are not a body, and gRPC messages may never end.
        let is_short_stream =
            self.streams && request.method() != Method::CONNECT && !is_grpc(request.headers());
        let mut request = request.map(|body| RequestBody::new(body, self.state.clone(), is_short_stream));
        if self.streams && request.method() == Method::CONNECT {
            let (of_stream, hold) = StreamEnd::new(&self.state);
            request.extensions_mut().insert(hold);
            end = Some(of_stream);
        }
        // gRPC messages are compressed one by one by their writers.
        let is_compressed = request.headers().contains_key(ACCEPT_ENCODING) && !is_grpc(request.headers());
        let source = catch_unwind(AssertUnwindSafe(|| {
            let mut stack = self.stack.lock();
            let mut cx = Context::from_waker(Waker::noop());
            if stack.poll_ready(&mut cx).is_pending() {
                return Source::Waiting { future: Box::pin(stack.clone().oneshot(request)) };
            }
            if is_compressed {
                Source::Compressed { future: stack.call(request) }
            } else {
                Source::Plain { future: stack.get_mut().call(request) }
            }
        }));
        ResponseFuture {
            source: source.unwrap_or_else(|_| Source::Builtin { answer: Some(builtin::panicked()) }),
            busy,
            progress,
            end,
            is_bodiless,
        }
    }
}

pin_project! {
    /// A request that is being answered. A panic costs this request and its connection, not the process.
    pub(super) struct ResponseFuture<S, B>
    where
        S: Service<Request<RequestBody>, Response = Response<B>>,
        B: Body,
    {
        #[pin]
        source: Source<S, B>,
        busy: Option<Busy>,
        progress: Option<Arc<Progress>>,
        // The end of a WebSocket stream over HTTP/2, if the request opens one.
        end: Option<StreamEnd>,
        is_bodiless: bool,
    }
}

pin_project! {
    #[project = ProjectedSource]
    enum Source<S, B>
    where
        S: Service<Request<RequestBody>, Response = Response<B>>,
        B: Body,
    {
        Plain { #[pin] future: S::Future },
        Compressed { #[pin] future: <Compressing<S> as Service<Request<RequestBody>>>::Future },
        // Boxed, because it is rare and larger than the others.
        Waiting { future: Pin<Box<Oneshot<Compressing<S>, Request<RequestBody>>>> },
        Builtin { answer: Option<Response<Full<Bytes>>> },
    }
}

impl<S, B> Future for ResponseFuture<S, B>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<ResponseBody<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let polled = catch_unwind(AssertUnwindSafe(|| this.source.poll(cx)));
        let answer = match polled {
            Ok(polled) => ready!(polled),
            Err(_) => Answer::Builtin(builtin::panicked()),
        };
        let Some(busy) = this.busy.take() else {
            // Only a future that is polled after its end has none.
            return Poll::Pending;
        };
        let is_last = busy.is_last() && this.progress.is_none();
        let status = answer.status();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            busy.upgrade();
        }
        if let Some(end) = this.end.take().filter(|_| status.is_success()) {
            Next::Writer(end).announce();
        }
        let handle = BodyHandle { busy, progress: this.progress.take() };
        let answer = if *this.is_bodiless { answer.without_body() } else { answer };
        let mut answer = match answer {
            Answer::Plain(answer) => answer.map(|body| ResponseBody::plain(body, handle)),
            Answer::Compressed(answer) => answer.map(|body| ResponseBody::compressed(body, handle)),
            Answer::Builtin(answer) => answer.map(|body| ResponseBody::builtin(body, handle)),
        };
        if is_last {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Poll::Ready(Ok(answer))
    }
}

enum Answer<B: Body> {
    Plain(Response<B>),
    Compressed(Response<Pin<Box<CompressionBody<B>>>>),
    Builtin(Response<Full<Bytes>>),
}

impl<B: Body> Answer<B> {
    /// Returns the answer to HEAD: it keeps the body's length, but not the body.
    fn without_body(self) -> Self
    where
        B::Error: Into<BoxError>,
    {
        fn head<T: Body>(answer: Response<T>) -> Response<Full<Bytes>> {
            let (mut head, body) = answer.into_parts();
            if let Some(length) = body.size_hint().exact().filter(|length| *length > 0) {
                head.headers.entry(CONTENT_LENGTH).or_insert(HeaderValue::from(length));
            }
            Response::from_parts(head, Full::default())
        }
        Answer::Builtin(match self {
            Answer::Plain(answer) => head(answer),
            Answer::Compressed(answer) => head(answer),
            Answer::Builtin(answer) => head(answer),
        })
    }

    fn status(&self) -> StatusCode {
        match self {
            Answer::Plain(answer) => answer.status(),
            Answer::Compressed(answer) => answer.status(),
            Answer::Builtin(answer) => answer.status(),
        }
    }
}

impl<S, B> Source<S, B>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer<B>> {
        match self.project() {
            ProjectedSource::Plain { future } => {
                let Ok(answer) = ready!(future.poll(cx));
                Poll::Ready(Answer::Plain(answer))
            }
            ProjectedSource::Compressed { future } => {
                let Ok(answer) = ready!(future.poll(cx));
                Poll::Ready(Answer::Compressed(answer.map(Box::pin)))
            }
            ProjectedSource::Waiting { future } => {
                let Ok(answer) = ready!(future.as_mut().poll(cx));
                Poll::Ready(Answer::Compressed(answer.map(Box::pin)))
            }
            ProjectedSource::Builtin { answer } => match answer.take() {
                Some(answer) => Poll::Ready(Answer::Builtin(answer)),
                None => Poll::Pending,
            },
        }
    }
}
