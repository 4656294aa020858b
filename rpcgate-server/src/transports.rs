//! The service of the listeners: the stacks of all transports, and the gRPC services of the gateway itself.

use crate::grpc_health::GrpcHealth;
use crate::grpc_reflection::GrpcReflection;
use crate::listen::Connections;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::tally::Transport;
use rpcgate_layers::stack::{GatewayBody, GatewayStack, Parts, gateway_stack};
use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower::Service;

/// The stacks of all transports, with health and reflection. Each connection has its own clone.
#[derive(Clone, Debug)]
pub(crate) struct Transports {
    stack: GatewayStack,
    own: Arc<OwnServices>,
}

#[derive(Debug)]
struct OwnServices {
    health: GrpcHealth,
    reflection: Option<GrpcReflection>,
}

impl Transports {
    /// Builds the stacks from `parts` for a gateway with these connections.
    pub(crate) fn new(
        parts: &Parts,
        connections: &Arc<Connections>,
        reflection: Option<GrpcReflection>,
    ) -> Self {
        let own = OwnServices { health: GrpcHealth::of(connections), reflection };
        Transports { stack: gateway_stack(parts), own: Arc::new(own) }
    }
}

impl<B> Service<Request<B>> for Transports
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>> + Send> + Send + 'static,
{
    type Response = Response<TransportBody>;
    type Error = Infallible;
    type Future = TransportFuture<<GatewayStack as Service<Request<B>>>::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<B>>::poll_ready(&mut self.stack, cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let transport = self.stack.transport_of(&request);
        if transport == Transport::Grpc {
            let path = request.uri().path();
            if GrpcHealth::has(path) {
                return TransportFuture::Tonic { future: self.own.health.answer(request) };
            }
            if let Some(reflection) = self.own.reflection.as_ref().filter(|_| GrpcReflection::has(path)) {
                return TransportFuture::Tonic { future: reflection.answer(request) };
            }
        }
        TransportFuture::Stack { future: self.stack.call_over(transport, request) }
    }
}

pin_project! {
    #[project = Projected]
    pub(crate) enum TransportFuture<F> {
        Stack { #[pin] future: F },
        Tonic { future: BoxFuture<'static, Result<Response<tonic::body::Body>, Infallible>> },
    }
}

impl<F: Future<Output = Result<Response<GatewayBody>, Infallible>>> Future for TransportFuture<F> {
    type Output = Result<Response<TransportBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match self.project() {
            Projected::Stack { future } => {
                ready!(future.poll(cx)).map(|answer| answer.map(|body| TransportBody::Stack { body }))
            }
            Projected::Tonic { future } => ready!(future.as_mut().poll(cx))
                .map(|answer| answer.map(|body| TransportBody::Tonic { body })),
        })
    }
}

pin_project! {
    #[project = BodyNow]
    pub(crate) enum TransportBody {
        Stack { #[pin] body: GatewayBody },
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
            BodyNow::Stack { body } => body.poll_frame(cx).map_err(Into::into),
            BodyNow::Tonic { body } => body.poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            TransportBody::Stack { body } => body.is_end_stream(),
            TransportBody::Tonic { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            TransportBody::Stack { body } => body.size_hint(),
            TransportBody::Tonic { body } => body.size_hint(),
        }
    }
}
