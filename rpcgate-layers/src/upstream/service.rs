//! The service at the end of the stack, which sends the open calls to a node.
//!
//! Every call has a number of its own as its id at the node, by which its answer is recognised: an answer with another
//! number belongs to another call, and the try fails. In the answer to a single call, the client's id replaces the
//! number, and the rest is forwarded unchanged. A call that may be cached, for whose answer other clients may be
//! waiting, contains only the method and parameters of its client. The calls of a larger set are sent together if the
//! chain and its nodes support arrays; a broadcast is always sent alone. If the chain has reached its limit of calls in
//! flight, calls are refused with [`Refusal::Overloaded`](rpcgate_core::refusal::Refusal::Overloaded). Every other
//! failure is a [`Fault`] of the call in question and does not affect the rest of the set.
//!
//! If nodes take different methods, a set is split accordingly. A call that no node takes is refused with
//! [`Refusal::Closed`](rpcgate_core::refusal::Refusal::Closed). A read that its node cannot serve is sent once more: to
//! an archive if the node lacks the history, to a node that is ahead if it lacks the block, and to any other node if
//! its error says that it cannot serve the call now. If no node can, the client gets the error and is not charged.
//!
//! A call that uses state of one node, such as a filter, goes to that node. It is refused with
//! [`Refusal::FilterNotFound`](rpcgate_core::refusal::Refusal::FilterNotFound) if no such node exists. The id of new
//! state names its node.
//!
//! If the client names a height that it has seen, the set goes to nodes that are known to have reached it. It is
//! refused with [`Refusal::HeadNotReached`](rpcgate_core::refusal::Refusal::HeadNotReached) if no such node is known
//! after a second.
//!
//! The order of the calls in a set is not guaranteed: a node may work on them at the same time.
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
use super::round::{bind, refuse_untaken};
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

/// The service that sends calls to nodes.
#[derive(Clone, Debug)]
pub struct Upstream {
    pools: Arc<ArcSwap<Pools>>,
    limits: ReplyLimits,
}

impl Upstream {
    /// Creates a service that uses the current `pools`, which may be replaced at any time.
    pub fn new(pools: Arc<ArcSwap<Pools>>) -> Self {
        Upstream { pools, limits: ReplyLimits::default() }
    }

    /// Creates a service for pools that are never replaced. A chain without a pool has no node:
    ///
    /// ```
    /// use rpcgate_core::call::CallState;
    /// use rpcgate_layers::{testing::Fixture, upstream::Upstream};
    /// use tower::ServiceExt;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let calls = Fixture::new().calls(br#"{"id":1,"method":"toy_id"}"#);
    /// let calls = Upstream::of([]).oneshot(calls).await.unwrap();
    /// assert!(matches!(calls.tally().entries[0].state, CallState::Failed(_)));
    /// # });
    /// ```
    pub fn of(pools: impl IntoIterator<Item = Arc<Pool>>) -> Self {
        Upstream::new(Arc::new(ArcSwap::from_pointee(pools.into_iter().collect())))
    }

    /// Sets the limits of answers.
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

async fn forward(pool: &Pool, tally: &mut Tally, limits: ReplyLimits) {
    bind(pool, tally);
    if pool.is_selective() {
        refuse_untaken(pool, tally);
    }
    if !tally.has_open() {
        return;
    }
    if tally.consistency.is_some() {
        // Boxed, so that the future of other calls does not grow.
        return Box::pin(consistency::forward(pool, tally, limits)).await;
    }
    again::send_all(pool, tally, limits, NodeSet::ALL).await;
}

#[cfg(test)]
mod tests;
