//! The end of the gRPC call stack.

use rpcgate_core::call::{Before, Calls, Settled};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use tower_service::Service;

/// Returns the call to the [`GrpcService`](super::GrpcService), which holds its messages and sends it to a node if it
/// is still open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pass;

impl<A: Before<Settled>> Service<Calls<A>> for Pass {
    type Response = Calls<Settled>;
    type Error = Infallible;
    type Future = Ready<Result<Calls<Settled>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, calls: Calls<A>) -> Self::Future {
        ready(Ok(calls.at()))
    }
}
