//! Upstream: the service at the end of the stack, which sends the calls that are still open to a node.
//!
//! Every call travels under a number of its own, by which its answer is recognised: an answer with another number is that to
//! another call, and a failed try. A node's answer to a set of one passes with its client's id in the place of the number, and is
//! otherwise unchanged. A call that may be cached, for whose answer others may be waiting, carries nothing of its client but
//! method and parameters. Calls of a larger set are sent together where the chain and its nodes take arrays; a broadcast
//! always travels alone. It refuses with [`Refusal::Overloaded`](rpcgate_core::refusal::Refusal::Overloaded) when the chain has too many calls in
//! flight. Every other failure is a [`Fault`] of the call it happened to, never of its neighbours.
//!
//! Where nodes differ in the methods that they take, a set is split accordingly, and a call that none of them takes is refused
//! with [`Refusal::Closed`](rpcgate_core::refusal::Refusal::Closed). A read that its node cannot serve is sent once more:
//! to an archive if the node lacks the history for it, to a node that is ahead if it lacks the block, and to any other node
//! if its error says that it cannot serve the call now. If no node can, the client gets the error and is not charged.
//!
//! A call that uses something that exists at one node alone, such as a filter, goes to that node, and is refused with
//! [`Refusal::FilterNotFound`](rpcgate_core::refusal::Refusal::FilterNotFound) if there is no such node. The id of what a call
//! makes names its node.
//!
//! A set whose client names a height that it has seen goes to nodes that are known to have reached it, and is refused with
//! [`Refusal::HeadNotReached`](rpcgate_core::refusal::Refusal::HeadNotReached) if a second of waiting shows none.
//!
//! It promises no order between the calls of a set: a node may work on them at the same time.
//!
//! ```
//! use rpcgate_core::envelope::{Limits, ParsedBody, WireId, parse};
//!
//! let body = br#"{"id":"mine","params":[1.50],"extra":1,"method":"toy_r\u0065ad"}"#;
//! let Ok(ParsedBody::Single(Ok(call))) = parse(body, &Limits::default()) else { panic!("a call") };
//! let mut sent = Vec::new();
//! call.write(body, WireId::Index(3), &mut sent);
//! assert_eq!(sent, br#"{"id":3,"method":"toy_read","params":[1.50]}"#);
//! ```

use super::again;
use super::consistency;
use super::limits::ReplyLimits;
use super::node_state;
use super::round::refuse_untaken;
use crate::future::ResponseFuture;
use crate::nodes::node_set::NodeSet;
use crate::nodes::{Pool, Pools};
use arc_swap::ArcSwap;
use rpcgate_core::call::{Before, CallState, Calls, Settled};
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::tally::Tally;
use std::convert::Infallible;
use std::future::Ready;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// Sends calls to nodes.
#[derive(Clone, Debug)]
pub struct Upstream {
    pools: Arc<ArcSwap<Pools>>,
    limits: ReplyLimits,
}

impl Upstream {
    /// A service that uses `pools`, also after they have been replaced.
    pub fn new(pools: Arc<ArcSwap<Pools>>) -> Self {
        Upstream { pools, limits: ReplyLimits::default() }
    }

    /// The same service with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: ReplyLimits) -> Self {
        self.limits = limits;
        self
    }
}

impl<A: Before<Settled>> Service<Calls<A>> for Upstream {
    type Response = Calls<Settled>;
    type Error = Infallible;
    type Future = ResponseFuture<Ready<Result<Calls<Settled>, Infallible>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, calls: Calls<A>) -> Self::Future {
        let mut calls: Calls<Settled> = calls.at();
        let tally = calls.tally_mut();
        if !tally.has_open() {
            return ResponseFuture::own(Ok(calls));
        }
        let Some(pool) = self.pools.load().get(tally.chain.name()).cloned() else {
            for entry in tally.entries.iter_mut().filter(|entry| entry.is_open()) {
                entry.state = CallState::Failed(Fault::unsent(Cause::NoNode));
            }
            return ResponseFuture::own(Ok(calls));
        };
        let limits = self.limits;
        ResponseFuture::waiting(async move {
            forward(&pool, calls.tally_mut(), limits).await;
            Ok(calls)
        })
    }
}

/// Sends the open calls of a set and settles them.
async fn forward(pool: &Pool, tally: &mut Tally, limits: ReplyLimits) {
    node_state::bind(pool, tally);
    if pool.is_selective() {
        refuse_untaken(pool, tally);
    }
    if !tally.has_open() {
        return;
    }
    if tally.consistency.is_some() {
        // In a box, so that other calls are no larger.
        return Box::pin(consistency::forward(pool, tally, limits)).await;
    }
    again::send_all(pool, tally, limits, NodeSet::ALL).await;
}

#[cfg(test)]
mod tests;
