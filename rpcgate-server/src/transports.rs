//! The service of the listeners: every request goes to the stack of its transport.

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use rpcgate_layers::reply_body::ReplyBody;
use rpcgate_layers::stack::{HttpStack, Parts, WebSocketStack, http_stack, websocket_stack};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::util::Oneshot;
use tower::{Service, ServiceExt};

/// The paths of WebSocket streams.
const STREAMS: &str = "/ws/";

/// The stacks of all transports. A connection has a clone of its own.
#[derive(Clone, Debug)]
pub(crate) struct Transports {
    http: HttpStack,
    /// Cloned for each handshake, since most connections have none.
    streams: Arc<WebSocketStack>,
}

impl Transports {
    /// The stacks that are made of `parts`.
    pub(crate) fn new(parts: &Parts) -> Self {
        Transports { http: http_stack(parts), streams: Arc::new(websocket_stack(parts)) }
    }
}

impl<B> Service<Request<B>> for Transports
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    HttpStack: Service<Request<B>, Response = Response<ReplyBody>, Error = Infallible>,
    WebSocketStack: Service<Request<B>, Response = Response<ReplyBody>, Error = Infallible>,
{
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = TransportFuture<B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.http.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if request.uri().path().starts_with(STREAMS) {
            let future = Box::pin(WebSocketStack::clone(&self.streams).oneshot(request));
            return TransportFuture::Stream { future };
        }
        TransportFuture::Http { future: self.http.call(request) }
    }
}

pin_project! {
    /// A request on its way.
    #[project = Projected]
    pub(crate) enum TransportFuture<B>
    where
        HttpStack: Service<Request<B>>,
        WebSocketStack: Service<Request<B>>,
    {
        Http { #[pin] future: <HttpStack as Service<Request<B>>>::Future },
        // Boxed, because it is rare and larger.
        Stream { future: Pin<Box<Oneshot<WebSocketStack, Request<B>>>> },
    }
}

impl<B> Future for TransportFuture<B>
where
    HttpStack: Service<Request<B>, Response = Response<ReplyBody>, Error = Infallible>,
    WebSocketStack: Service<Request<B>, Response = Response<ReplyBody>, Error = Infallible>,
{
    type Output = Result<Response<ReplyBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            Projected::Http { future } => future.poll(cx),
            Projected::Stream { future } => future.as_mut().poll(cx),
        }
    }
}
