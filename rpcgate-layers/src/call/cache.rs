//! The cache: stores answers by chain, method and exact parameter bytes, and sends concurrent identical calls to a node
//! once.
//!
//! The layer comes after the quota, because cached responses are metered too, and before the nodes. The calls of a set
//! are either stored, fetched by this set (it *leads*), or already being fetched by another set or an earlier entry of
//! this one (it *follows*). A set sends all its leads before it waits for others, so two sets never wait for each
//! other. A follower gets the outcome of its leader, failures included, and waits at most the timeout of its own call.
//! If the leader was refused for overload, a follower of another project is refused only if a second leader is refused
//! too. A call that has been in flight for two seconds gets no new followers: the next call leads, so that a stuck node
//! does not block all clients with the same request. A call with followers continues when its own client disconnects.
//!
//! The adapter decides whether and how long each answer may be stored. Errors and answers about unknown objects are
//! never cached. Neither keys nor stored answers contain data of a caller. The layer refuses nothing.
//!
//! In front of any other client, [`CacheLayer::keyed`] stores the response to a request under the key that a function
//! returns. With [`CacheLayer::with_call`] the function returns the call of a request with its rule: from a [chain's
//! table](rpcgate_core::chain::Chain::look_up), or a custom one. Other requests pass.
//!
//! ```
//! use rpcgate_core::cache_rule::CacheRule;
//! use rpcgate_core::call::CallView;
//! use rpcgate_core::chain::{ChainName, MethodRule};
//! use rpcgate_layers::call::cache::{BoundedReplies, CacheLayer};
//! use rpcgate_layers::testing::Fixture;
//! use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
//! use std::{convert::Infallible, sync::Arc, time::Duration};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let clock = Fixture::new().clock;
//! let layer = CacheLayer::new(Arc::new(BoundedReplies::new(1 << 20)), clock.clone())
//!     .with_call(|request: &http::Request<()>| {
//!         let rule = MethodRule::UNLISTED.cached(CacheRule::secs(3));
//!         Some(CallView::new(ChainName::new("weather"), request.uri().path(), rule))
//!     });
//! static ASKED: AtomicU32 = AtomicU32::new(0);
//! let inner = service_fn(async |_: http::Request<()>| {
//!     Ok::<_, Infallible>(http::Response::new(bytes::Bytes::from(ASKED.fetch_add(1, Relaxed).to_string())))
//! });
//! let service = layer.layer(inner);
//! let get = async |path: &str| {
//!     let request = http::Request::get(path).body(()).unwrap();
//!     service.clone().oneshot(request).await.unwrap().into_body()
//! };
//! assert_eq!((get("/oslo").await, get("/oslo").await, get("/rome").await), ("0".into(), "0".into(), "1".into()));
//! clock.advance(Duration::from_secs(3));
//! assert_eq!(get("/oslo").await, "2");
//! # });
//! ```

mod foreign;
mod future;
mod singleflight;
mod store;

pub use foreign::{ByKey, Cacheable, DescribeCall, ForeignCache, KeepFuture};
pub use future::CacheFuture;
pub use singleflight::SingleFlight;
pub use store::{BoundedReplies, Looks};

use crate::foreign::Native;
use crate::spawn::{Spawn, TokioSpawn};
use future::CacheTask;
use rpcgate_core::adapter::Permanence;
use rpcgate_core::backend::reply_store::{ReplySought, ReplyStore};
use rpcgate_core::cache_rule::CacheDecision;
use rpcgate_core::call::{Before, Cached, CallState, CallView, Calls, Settled};
use rpcgate_core::chain::{Chain, Flags};
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

/// Answers from a store, and fetches a missing answer once.
#[derive(Clone, Debug)]
pub struct CacheLayer<W = Native> {
    shared: Arc<CacheState>,
    mode: W,
}

#[derive(Debug)]
struct CacheState {
    replies: Arc<dyn ReplyStore>,
    in_flight: SingleFlight,
    clock: Arc<dyn Clock>,
    spawn: Arc<dyn Spawn>,
}

impl CacheLayer {
    /// Creates a layer that stores answers in `replies`. `clock` decides when they expire.
    pub fn new(replies: Arc<dyn ReplyStore>, clock: Arc<dyn Clock>) -> Self {
        CacheLayer { shared: CacheState::new(replies, clock, Arc::new(TokioSpawn)), mode: Native }
    }

    /// Creates a layer that uses `spawn` to continue a call with followers after its own client has disconnected. It
    /// shares only the store with this layer.
    #[must_use]
    pub fn with_spawn(&self, spawn: Arc<dyn Spawn>) -> Self {
        let CacheState { replies, clock, .. } = &*self.shared;
        CacheLayer { shared: CacheState::new(replies.clone(), clock.clone(), spawn), mode: Native }
    }
}

impl<S, W: Clone> Layer<S> for CacheLayer<W> {
    type Service = Cache<S, W>;

    fn layer(&self, inner: S) -> Cache<S, W> {
        Cache { inner, shared: self.shared.clone(), mode: self.mode.clone() }
    }
}

/// A service that answers from the cache before `inner`.
#[derive(Clone, Debug)]
pub struct Cache<S, W = Native> {
    inner: S,
    shared: Arc<CacheState>,
    mode: W,
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

/// The positions of the entries of a set that lead and that follow.
#[derive(Debug, Default)]
struct Split {
    leads: Leads,
    follows: SmallVec<[(usize, singleflight::Follow); 1]>,
    /// The newest height and the epoch of the chain before any call was sent.
    head: Option<u64>,
    epoch: u32,
}

impl Split {
    fn is_empty(&self) -> bool {
        self.leads.is_empty() && self.follows.is_empty()
    }

    /// Reports whether another set waits for a call of this one.
    fn is_followed(&self) -> bool {
        self.leads.is_followed()
    }
}

impl CacheState {
    fn new(replies: Arc<dyn ReplyStore>, clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>) -> Arc<Self> {
        Arc::new(CacheState { replies, in_flight: SingleFlight::default(), clock, spawn })
    }

    fn look(&self, sought: &ReplySought<'_>, call: CallView<'_>, now: Duration) -> Option<Form> {
        let stored = self.replies.get(sought, now)?;
        if call.is_rest {
            Rest::restored(stored).map(|rest| Form::Rest(Box::new(rest)))
        } else {
            Some(Form::Result(stored))
        }
    }

    /// Answers the stored calls and parks the followers. Leads and calls that cannot be cached stay open.
    fn split(self: &Arc<Self>, tally: &mut Tally) -> Split {
        let head = tally.chain.head().height();
        let epoch = tally.chain.head().epoch();
        let mut split = Split { head, epoch, ..Split::default() };
        // The time of the look-up, not of the request: the body may have arrived much later.
        let mut now = None;
        let chain = tally.chain.name();
        let all = tally.entries.len();
        let may_age = tally.consistency.is_none();
        for (index, entry) in tally.entries.iter_mut().enumerate() {
            let rule = entry.call.rule;
            let fit = rule.cache.is_cached()
                && !rule.flags.has(Flags::BROADCAST)
                && entry.is_open()
                && !entry.call.is_notification(&tally.body);
            if !fit {
                continue;
            }
            let view = entry.call.view(&tally.body, chain);
            let sought = ReplySought::new(chain, view.sent, view.params).in_epoch(epoch);
            if !may_age {
                // Another client's call may be at a node that is behind this client's height. Only permanent answers
                // come from the store.
                let now = *now.get_or_insert_with(|| self.clock.elapsed());
                if let Some(form) =
                    self.look(&sought, view, now).filter(|form| is_permanent(&tally.chain, view, form))
                {
                    entry.state = CallState::Answered(Reply { form, from: Source::Stored });
                }
                continue;
            }
            let landed = self.in_flight.landed(&sought);
            let now = *now.get_or_insert_with(|| self.clock.elapsed());
            if let Some(form) = self.look(&sought, view, now) {
                entry.state = CallState::Answered(Reply { form, from: Source::Stored });
                continue;
            }
            match self.in_flight.join(&sought, &tally.body, now) {
                Joined::Lead(lead) => {
                    let is_later = lead.is_later_than(landed);
                    split.leads.push(&self.in_flight, index, lead, all - index - 1);
                    // An earlier call may have ended after the first look-up.
                    if is_later && let Some(form) = self.look(&sought, view, now) {
                        entry.state = CallState::Answered(Reply { form: form.clone(), from: Source::Shared });
                        split.leads.land_last(singleflight::LeadOutcome::Answered(form));
                    }
                }
                Joined::Follow(follow) => {
                    entry.state = CallState::Parked;
                    split.leads.own(&follow);
                    split.follows.push((index, follow));
                }
            }
        }
        split
    }
}

/// Reports whether this answer never changes, whatever blocks follow.
fn is_permanent(chain: &Chain, view: CallView<'_>, form: &Form) -> bool {
    let settled = form.content().map(|result| chain.adapter().settled(view, result, chain.finality()));
    settled == Some(Permanence::Yes) && view.rule.cache.keep(true) == CacheDecision::Forever
}

#[cfg(test)]
mod tests;
