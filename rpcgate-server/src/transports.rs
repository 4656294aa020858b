//! The service of the listeners, which routes every request to the stack of its transport.
//!
//! | request | stack |
//! |---|---|
//! | HTTP/2 with the content type of gRPC, or of gRPC-Web, which is refused in the form of gRPC, but no CONNECT | gRPC, its health and reflection |
//! | a path below `/ws/`, or a WebSocket handshake for `/` at a host of a chain's own | WebSocket |
//! | any other | HTTP |

use crate::grpc_health::GrpcHealth;
use crate::grpc_reflection::GrpcReflection;
use crate::listen::Connections;
use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, UPGRADE};
use http::{Method, Request, Response, Version};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::chain::Chains;
use rpcgate_layers::grpc::GrpcBody;
use rpcgate_layers::reply_body::ReplyBody;
use rpcgate_layers::request::route::host_of;
use rpcgate_layers::stack::{
    GrpcStack, HttpStack, Parts, WebSocketStack, grpc_stack, http_stack, websocket_stack,
};
use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use tower::util::Oneshot;
use tower::{Service, ServiceExt};

const STREAMS: &str = "/ws/";

const GRPC: &[u8] = b"application/grpc";

/// The stacks of all transports. Each connection has its own clone.
#[derive(Debug)]
pub(crate) struct Transports {
    http: HttpStack,
    /// This connection's clone, created at its first gRPC call.
    grpc: Option<Box<GrpcStack>>,
    shared: Arc<Shared>,
}

/// The stacks that most connections never clone.
#[derive(Debug)]
struct Shared {
    chains: Arc<ArcSwap<Chains>>,
    streams: WebSocketStack,
    grpc: GrpcStack,
    health: GrpcHealth,
    reflection: Option<GrpcReflection>,
}

impl Shared {
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
            && host_of(request).is_some_and(|host| self.chains.load().at_host(host).is_some())
    }
}

impl Clone for Transports {
    fn clone(&self) -> Self {
        Transports { http: self.http.clone(), grpc: None, shared: self.shared.clone() }
    }
}

impl Transports {
    /// Builds the stacks from `parts` for a gateway with these connections.
    pub(crate) fn new(
        parts: &Parts,
        connections: &Arc<Connections>,
        reflection: Option<GrpcReflection>,
    ) -> Self {
        let shared = Shared {
            chains: parts.chains.clone(),
            streams: websocket_stack(parts),
            grpc: grpc_stack(parts),
            health: GrpcHealth::of(connections),
            reflection,
        };
        Transports { http: http_stack(parts), grpc: None, shared: Arc::new(shared) }
    }
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

impl<B> Service<Request<B>> for Transports
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>> + Send> + Send + 'static,
    HttpStack: Service<Request<B>, Response = Response<ReplyBody>, Error = Infallible>,
    WebSocketStack: Service<Request<B>, Response = Response<ReplyBody>, Error = Infallible>,
{
    type Response = Response<TransportBody>;
    type Error = Infallible;
    type Future = TransportFuture<B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.http.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if is_for_grpc(&request) {
            return self.call_grpc(request);
        }
        if request.uri().path().starts_with(STREAMS) || self.shared.is_stream_at_host(&request) {
            let future = Box::pin(self.shared.streams.clone().oneshot(request));
            return TransportFuture::Stream { future };
        }
        TransportFuture::Http { future: self.http.call(request) }
    }
}

impl Transports {
    fn call_grpc<B>(&mut self, request: Request<B>) -> TransportFuture<B>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>> + Send> + Send + 'static,
        HttpStack: Service<Request<B>>,
        WebSocketStack: Service<Request<B>>,
    {
        let shared = &self.shared;
        if GrpcHealth::has(request.uri().path()) {
            return TransportFuture::Tonic { future: shared.health.answer(request) };
        }
        if let Some(reflection) =
            shared.reflection.as_ref().filter(|_| GrpcReflection::has(request.uri().path()))
        {
            return TransportFuture::Tonic { future: reflection.answer(request) };
        }
        let stack = self.grpc.get_or_insert_with(|| Box::new(shared.grpc.clone()));
        let mut cx = Context::from_waker(Waker::noop());
        let is_ready = Service::<Request<B>>::poll_ready(&mut **stack, &mut cx).is_ready();
        let future =
            if is_ready { stack.call(request) } else { Box::pin(GrpcStack::clone(stack).oneshot(request)) };
        TransportFuture::Grpc { future }
    }
}

pin_project! {
    #[project = Projected]
    pub(crate) enum TransportFuture<B>
    where
        HttpStack: Service<Request<B>>,
        WebSocketStack: Service<Request<B>>,
    {
        Http { #[pin] future: <HttpStack as Service<Request<B>>>::Future },
        // Boxed, because it is rare and larger.
        Stream { future: Pin<Box<Oneshot<WebSocketStack, Request<B>>>> },
        Grpc { future: BoxFuture<'static, Result<Response<GrpcBody>, Infallible>> },
        Tonic { future: BoxFuture<'static, Result<Response<tonic::body::Body>, Infallible>> },
    }
}

impl<B> Future for TransportFuture<B>
where
    HttpStack: Service<Request<B>, Response = Response<ReplyBody>, Error = Infallible>,
    WebSocketStack: Service<Request<B>, Response = Response<ReplyBody>, Error = Infallible>,
{
    type Output = Result<Response<TransportBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let http = |answer: Response<ReplyBody>| answer.map(|body| TransportBody::Http { body });
        Poll::Ready(match self.project() {
            Projected::Http { future } => ready!(future.poll(cx)).map(http),
            Projected::Stream { future } => ready!(future.as_mut().poll(cx)).map(http),
            Projected::Grpc { future } => {
                ready!(future.as_mut().poll(cx)).map(|answer| answer.map(|body| TransportBody::Grpc { body }))
            }
            Projected::Tonic { future } => ready!(future.as_mut().poll(cx))
                .map(|answer| answer.map(|body| TransportBody::Tonic { body })),
        })
    }
}

pin_project! {
    #[project = BodyNow]
    pub(crate) enum TransportBody {
        Http { #[pin] body: ReplyBody },
        Grpc { #[pin] body: GrpcBody },
        Tonic { #[pin] body: tonic::body::Body },
    }
}

impl Body for TransportBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.project() {
            BodyNow::Http { body } => body.poll_frame(cx).map_err(Into::into),
            BodyNow::Grpc { body } => body.poll_frame(cx).map_err(Into::into),
            BodyNow::Tonic { body } => body.poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            TransportBody::Http { body } => body.is_end_stream(),
            TransportBody::Grpc { body } => body.is_end_stream(),
            TransportBody::Tonic { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            TransportBody::Http { body } => body.size_hint(),
            TransportBody::Grpc { body } => body.size_hint(),
            TransportBody::Tonic { body } => body.size_hint(),
        }
    }
}
