//! The cache: answers kept by chain, method and exact parameter bytes, and one call to a node for all who ask the same
//! at the same time.
//!
//! Stands behind the quota, because cached answers are metered like any other, and before the nodes. A set is split
//! into what is stored, what this set fetches (it *leads*) and what another set, or an earlier entry of this one, is
//! already fetching (it *follows*). All leads of a set are on their way before it waits for anybody else's, so two
//! sets never wait for each other. A follower gets what its leader got, failures too, and waits no longer than a call of
//! its own might take. When a client leaves while others follow its call, the call goes on without it.
//!
//! What may be kept, and how long, is the adapter's word about each answer; errors and answers about things not known
//! yet are never kept. Nothing of a caller is in a key or in what is kept. It refuses nothing.
//!
//! ```
//! use bytes::Bytes;
//! use rpcgate_core::chain::ChainName;
//! use rpcgate_core::backend::reply_store::{ReplySought, ReplyStore};
//! use rpcgate_layers::call::cache::BoundedReplies;
//! use std::time::Duration;
//!
//! let store = BoundedReplies::new(1 << 20);
//! let sought = ReplySought::new(ChainName::new("toy"), b"toy_read", b"[1]");
//! store.put(&sought, &Bytes::from_static(b"\"0x1\""), Some(Duration::from_secs(2)));
//! assert_eq!(store.get(&sought, Duration::from_secs(1)).as_deref(), Some(&b"\"0x1\""[..]));
//! assert_eq!(store.get(&sought, Duration::from_secs(2)), None);
//! ```

mod future;
mod singleflight;
mod store;

pub use singleflight::SingleFlight;
pub use store::{BoundedReplies, Looks};

use crate::spawn::{Spawn, TokioSpawn};
pub use future::CacheFuture;
use future::CacheTask;
use rpcgate_core::backend::reply_store::{ReplySought, ReplyStore};
use rpcgate_core::call::{Before, Cached, CallState, CallView, Calls, Settled};
use rpcgate_core::chain::Flags;
use rpcgate_core::clock::Clock;
use rpcgate_core::reply::{Form, Reply, Rest, Source};
use rpcgate_core::tally::Tally;
use singleflight::{Joined, Leads};
use smallvec::SmallVec;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

/// Answers from a store, and fetches what is missing once.
#[derive(Clone, Debug)]
pub struct CacheLayer {
    shared: Arc<CacheState>,
}

/// What all copies of a cache share.
#[derive(Debug)]
struct CacheState {
    replies: Arc<dyn ReplyStore>,
    flights: SingleFlight,
    clock: Arc<dyn Clock>,
    spawn: Arc<dyn Spawn>,
}

impl CacheLayer {
    /// A layer that keeps answers in `replies`; `clock` says when their time is over.
    pub fn new(replies: Arc<dyn ReplyStore>, clock: Arc<dyn Clock>) -> Self {
        let (flights, spawn) = (SingleFlight::default(), Arc::new(TokioSpawn));
        CacheLayer { shared: Arc::new(CacheState { replies, flights, clock, spawn }) }
    }

    /// A layer that has `spawn` run a call that others wait for, when its own client has left. It shares nothing with this
    /// one but the store of answers.
    #[must_use]
    pub fn with_spawn(&self, spawn: Arc<dyn Spawn>) -> Self {
        let CacheState { replies, clock, .. } = &*self.shared;
        let (replies, clock, flights) = (replies.clone(), clock.clone(), SingleFlight::default());
        CacheLayer { shared: Arc::new(CacheState { replies, flights, clock, spawn }) }
    }
}

impl<S> Layer<S> for CacheLayer {
    type Service = Cache<S>;

    fn layer(&self, inner: S) -> Cache<S> {
        Cache { inner, shared: self.shared.clone() }
    }
}

/// The cache in front of `inner`.
#[derive(Clone, Debug)]
pub struct Cache<S> {
    inner: S,
    shared: Arc<CacheState>,
}

impl<S, A> Service<Calls<A>> for Cache<S>
where
    A: Before<Cached>,
    S: Service<Calls<Cached>, Response = Calls<Settled>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Calls<Settled>;
    type Error = S::Error;
    type Future = CacheFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut calls: Calls<A>) -> Self::Future {
        let split = self.shared.split(calls.tally_mut());
        if split.is_empty() {
            return CacheFuture::inner(self.inner.call(calls.at()));
        }
        let ready = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, ready);
        let shared = self.shared.clone();
        CacheFuture::shared(CacheTask { shared, inner, calls: calls.at(), split })
    }
}

/// What a set has to do with others: the places of its entries that lead and that follow.
#[derive(Debug, Default)]
struct Split {
    leads: Leads,
    follows: SmallVec<[(usize, singleflight::Follow); 1]>,
}

impl Split {
    fn is_empty(&self) -> bool {
        self.leads.is_empty() && self.follows.is_empty()
    }

    /// Whether somebody waits for what this set fetches.
    fn is_followed(&self) -> bool {
        self.leads.is_followed()
    }
}

impl CacheState {
    /// What is kept for this call.
    fn look(&self, sought: &ReplySought<'_>, call: CallView<'_>, now: Duration) -> Option<Form> {
        let kept = self.replies.get(sought, now)?;
        if call.is_rest {
            Rest::restored(kept).map(|rest| Form::Rest(Box::new(rest)))
        } else {
            Some(Form::Result(kept))
        }
    }

    /// Answers the open calls that are stored, parks those that follow, and leaves those open that lead or have
    /// nothing to do with the cache.
    fn split(self: &Arc<Self>, tally: &mut Tally) -> Split {
        let mut split = Split::default();
        // The moment of the look, not of the request's arrival: its body may have come long after.
        let mut now = None;
        let (chain, all) = (tally.chain.name(), tally.entries.len());
        for (place, entry) in tally.entries.iter_mut().enumerate() {
            let rule = entry.call.rule;
            let fit = rule.cache.is_cached()
                && !rule.flags.has(Flags::BROADCAST)
                && entry.is_open()
                && !entry.call.is_notification(&tally.body);
            if !fit {
                continue;
            }
            let view = entry.call.view(&tally.body, chain);
            let sought = ReplySought::new(chain, view.sent, view.params);
            let landed = self.flights.landed(&sought);
            let now = *now.get_or_insert_with(|| self.clock.elapsed());
            if let Some(form) = self.look(&sought, view, now) {
                entry.state = CallState::Answered(Reply { form, from: Source::Stored });
                continue;
            }
            match self.flights.join(&sought, &tally.body) {
                Joined::Lead(lead) => {
                    let is_later = lead.is_later_than(landed);
                    split.leads.push(&self.flights, place, lead, all - place - 1);
                    // Its flight may have landed between our look at the store and here.
                    if is_later && let Some(form) = self.look(&sought, view, now) {
                        entry.state = CallState::Answered(Reply { form: form.clone(), from: Source::Shared });
                        split.leads.land_last(singleflight::FlightOutcome::Answered(form));
                    }
                }
                Joined::Follow(follow) => {
                    entry.state = CallState::Parked;
                    split.leads.own(&follow);
                    split.follows.push((place, follow));
                }
            }
        }
        split
    }
}

#[cfg(test)]
mod tests;
