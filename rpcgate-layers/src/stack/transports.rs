use super::{GrpcStack, HttpStack, Parts, WebSocketStack, grpc_stack, http_stack, websocket_stack};
use crate::grpc::GrpcBody;
use crate::reply_body::ReplyBody;
use crate::request::route::host_of;
use crate::websocket::OpenStreams;
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderValue, UPGRADE};
use http::{Method, Request, Response, Version};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use rpcgate_core::chain::Chains;
use rpcgate_core::fault::Fault;
use rpcgate_core::tally::Transport;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use tower_service::Service;

/// The prefix of the paths of WebSocket streams.
const STREAMS: &str = "/ws/";

const GRPC: &[u8] = b"application/grpc";

/// Returns the stacks of all transports as one service:
///
/// | request | stack |
/// |---|---|
/// | HTTP/2 with the content type of gRPC, or of gRPC-Web, which is refused in the form of gRPC, but no CONNECT | [`grpc_stack`] |
/// | a path below `/ws/`, or a WebSocket handshake for `/` at a host of a chain's own | [`websocket_stack`] |
/// | any other | [`http_stack`] |
///
/// ```
/// use rpcgate_layers::{stack::gateway_stack, testing::Fixture};
/// use tower::ServiceExt;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let stack = gateway_stack(&Fixture::new().parts());
/// let status = async |method: &str, path: &str| {
///     let request = http::Request::builder().method(method).uri(path).body(http_body_util::Empty::new()).unwrap();
///     stack.clone().oneshot(request).await.unwrap().status().as_u16()
/// };
/// assert_eq!((status("POST", "/toy").await, status("GET", "/ws/toy").await), (401, 401), "both need a key");
/// assert_eq!((status("GET", "/toy").await, status("POST", "/ws/toy").await), (405, 404));
/// # });
/// ```
pub fn gateway_stack(parts: &Parts) -> GatewayStack {
    let shared = Shared {
        chains: parts.chains.clone(),
        open: parts.streams.clone(),
        streams: websocket_stack(parts),
        grpc: grpc_stack(parts),
    };
    GatewayStack { http: http_stack(parts), grpc: None, shared: Arc::new(shared) }
}

/// All layers of all transports ([`gateway_stack`]). A server keeps one clone for each connection.
pub struct GatewayStack {
    http: HttpStack,
    /// This connection's clone, created at its first gRPC call.
    grpc: Option<Box<GrpcStack>>,
    shared: Arc<Shared>,
}

/// The stacks that most connections never clone.
struct Shared {
    chains: Arc<ArcSwap<Chains>>,
    open: Arc<OpenStreams>,
    streams: WebSocketStack,
    grpc: GrpcStack,
}

impl Clone for GatewayStack {
    fn clone(&self) -> Self {
        GatewayStack { http: self.http.clone(), grpc: None, shared: self.shared.clone() }
    }
}

impl fmt::Debug for GatewayStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayStack").field("open", &self.shared.open).finish_non_exhaustive()
    }
}

impl GatewayStack {
    /// Returns the transport that serves `request`, for a server with services of its own for some of them.
    ///
    /// ```
    /// use rpcgate_core::tally::Transport;
    /// use rpcgate_layers::{stack::gateway_stack, testing::Fixture};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut stack = gateway_stack(&Fixture::new().parts());
    /// let handshake = http::Request::get("/ws/toy").body(http_body_util::Empty::new()).unwrap();
    /// assert_eq!(stack.transport_of(&handshake), Transport::Ws);
    /// let response = stack.call_over(Transport::Ws, handshake).await.unwrap();
    /// assert_eq!(response.status(), 401, "it has no key");
    /// # });
    /// ```
    pub fn transport_of<B>(&self, request: &Request<B>) -> Transport {
        match () {
            () if is_for_grpc(request) => Transport::Grpc,
            () if request.uri().path().starts_with(STREAMS) || self.is_stream_at_host(request) => {
                Transport::Ws
            }
            () => Transport::Http,
        }
    }

    /// Passes `request` to the stack of `transport`, which [`transport_of`](GatewayStack::transport_of) returned.
    pub fn call_over<B>(
        &mut self,
        transport: Transport,
        request: Request<B>,
    ) -> <Self as Service<Request<B>>>::Future
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let state = match transport {
            Transport::Http => FutureState::Http { future: self.http.call(request) },
            Transport::Ws => {
                let mut streams = self.shared.streams.clone();
                FutureState::Stream {
                    future: Box::pin(async move { ready_call(&mut streams, request).await }),
                }
            }
            Transport::Grpc => FutureState::Grpc { future: self.call_grpc(request) },
        };
        GatewayFuture { state }
    }

    fn call_grpc<B>(
        &mut self,
        request: Request<B>,
    ) -> BoxFuture<'static, Result<Response<GrpcBody>, Infallible>>
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let stack = self.grpc.get_or_insert_with(|| Box::new(self.shared.grpc.clone()));
        let mut cx = Context::from_waker(Waker::noop());
        if Service::<Request<B>>::poll_ready(&mut **stack, &mut cx).is_ready() {
            return stack.call(request);
        }
        let mut stack = GrpcStack::clone(stack);
        Box::pin(async move { ready_call(&mut stack, request).await })
    }

    /// Reports whether a request opens a stream at the root of a chain's own host.
    fn is_stream_at_host<B>(&self, request: &Request<B>) -> bool {
        let opens_stream = || {
            request.method() == Method::CONNECT
                || request
                    .headers()
                    .get(UPGRADE)
                    .is_some_and(|upgrade| upgrade.as_bytes().trim_ascii().eq_ignore_ascii_case(b"websocket"))
        };
        matches!(request.uri().path(), "/" | "")
            && opens_stream()
            && host_of(request).is_some_and(|host| self.shared.chains.load().at_host(host).is_some())
    }

    pub(crate) fn open_streams(&self) -> &Arc<OpenStreams> {
        &self.shared.open
    }
}

async fn ready_call<S: Service<R>, R>(service: &mut S, request: R) -> Result<S::Response, S::Error> {
    poll_fn(|cx| service.poll_ready(cx)).await?;
    service.call(request).await
}

fn is_for_grpc<B>(request: &Request<B>) -> bool {
    let is_grpc = |value: &HeaderValue| {
        value.as_bytes().get(..GRPC.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC))
    };
    // The version is checked first, so that HTTP/1.1 calls need no header lookup.
    request.version() == Version::HTTP_2
        && request.headers().get(CONTENT_TYPE).is_some_and(is_grpc)
        && request.method() != Method::CONNECT
}

impl<B: Body<Data = Bytes> + Send + 'static> Service<Request<B>> for GatewayStack {
    type Response = Response<GatewayBody>;
    type Error = Infallible;
    type Future = GatewayFuture<<HttpStack as Service<Request<B>>>::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<B>>::poll_ready(&mut self.http, cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.call_over(self.transport_of(&request), request)
    }
}

pin_project! {
    /// The response to a request over any transport. `F` is that of the HTTP stack.
    pub struct GatewayFuture<F> {
        #[pin]
        state: FutureState<F>,
    }
}

pin_project! {
    #[project = FutureStateNow]
    enum FutureState<F> {
        Http { #[pin] future: F },
        // Boxed, because it is rare and larger.
        Stream { future: BoxFuture<'static, Result<Response<ReplyBody>, Infallible>> },
        Grpc { future: BoxFuture<'static, Result<Response<GrpcBody>, Infallible>> },
    }
}

impl<F> fmt::Debug for GatewayFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayFuture").finish_non_exhaustive()
    }
}

impl<F: Future<Output = Result<Response<ReplyBody>, Infallible>>> Future for GatewayFuture<F> {
    type Output = Result<Response<GatewayBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let http = |answer: Response<ReplyBody>| answer.map(|body| GatewayBody { part: Part::Http { body } });
        Poll::Ready(match self.project().state.project() {
            FutureStateNow::Http { future } => ready!(future.poll(cx)).map(http),
            FutureStateNow::Stream { future } => ready!(future.as_mut().poll(cx)).map(http),
            FutureStateNow::Grpc { future } => ready!(future.as_mut().poll(cx))
                .map(|answer| answer.map(|body| GatewayBody { part: Part::Grpc { body } })),
        })
    }
}

pin_project! {
    /// The body of a response over any transport.
    #[derive(Debug)]
    pub struct GatewayBody {
        #[pin]
        part: Part,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = PartNow]
    enum Part {
        Http { #[pin] body: ReplyBody },
        Grpc { #[pin] body: GrpcBody },
    }
}

impl Body for GatewayBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.project().part.project() {
            PartNow::Http { body } => body.poll_frame(cx),
            PartNow::Grpc { body } => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.part {
            Part::Http { body } => body.is_end_stream(),
            Part::Grpc { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.part {
            Part::Http { body } => body.size_hint(),
            Part::Grpc { body } => body.size_hint(),
        }
    }
}
