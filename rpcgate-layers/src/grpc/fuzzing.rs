//! The gRPC parsers, for fuzz targets.

use super::feed::{ClientBody, Feed, Gone, NodeMessages};
use super::timeout;
use bytes::Bytes;
use http::HeaderValue;
use http_body::{Body, Frame};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::memory::{MemoryBudget, MemoryPermit};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The result of passing a client's messages to nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FedMessages {
    /// The content of the first message, if the call is admitted by it.
    pub first: Option<Vec<u8>>,
    /// The bytes that the first node got.
    pub passed: Vec<u8>,
    /// True if the first node's body ended without an error.
    pub is_complete: bool,
    /// The bytes that the next node got, if the call could begin again.
    pub again: Option<Vec<u8>>,
    /// The number of bytes of body memory that are still held at the end.
    pub left: usize,
}

struct Pieces(std::vec::IntoIter<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Gone;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Gone>>> {
        Poll::Ready(self.0.next().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.len() == 0
    }
}

/// Passes a client's body in pieces to nodes: messages of at most `most` bytes, with `memory` bytes of memory for
/// bodies.
///
/// # Panics
/// If a future is pending although all pieces have arrived.
pub fn fed_messages(pieces: Vec<Bytes>, most: usize, memory: usize) -> FedMessages {
    let budget = MemoryBudget::new(memory);
    let permit = MemoryPermit::of_project(budget.clone(), ProjectId(1));
    let body: ClientBody = Box::pin(Pieces(pieces.into_iter()));
    let feed = Feed::new(body, most, permit);
    let first = match pin!(feed.first(most)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(first) => first.ok().map(|first| first.to_vec()),
        Poll::Pending => panic!("the first message is there"),
    };
    let mut passed = Vec::new();
    let mut is_complete = false;
    let mut again = None;
    if first.is_some() {
        is_complete = drain(feed.open(), &mut passed);
        if is_complete && feed.is_repeatable() {
            let mut second = Vec::new();
            drain(feed.open(), &mut second);
            again = Some(second);
        }
        feed.commit();
    }
    feed.end();
    drop(feed);
    FedMessages { first, passed, is_complete, again, left: budget.held() }
}

/// Reads a body to its end. Reports whether it ended without an error.
fn drain(body: NodeMessages, all: &mut Vec<u8>) -> bool {
    let mut body = pin!(body);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match body.as_mut().poll_frame(&mut cx) {
            Poll::Ready(Some(Ok(frame))) => all.extend(frame.into_data().into_iter().flatten()),
            Poll::Ready(Some(Err(_))) => return false,
            Poll::Ready(None) => return true,
            Poll::Pending => panic!("all pieces are there"),
        }
    }
}

/// Returns the time in a `grpc-timeout` header with these bytes.
pub fn grpc_timeout(value: &HeaderValue) -> Option<Duration> {
    let mut metadata = http::HeaderMap::new();
    metadata.insert("grpc-timeout", value.clone());
    timeout::read(&metadata).ok().flatten()
}

/// Returns the header for this time.
pub fn grpc_timeout_text(left: Duration) -> HeaderValue {
    timeout::write(left)
}
