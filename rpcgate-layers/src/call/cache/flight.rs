//! Calls under way: who leads, who follows, and what comes of it.

use parking_lot::Mutex;
use rpcgate_core::fault::Fault;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::Form;
use rpcgate_core::seam::reply_store::{ReplyHash, ReplyKey, ReplySought};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

const SHARDS: usize = 64;

/// All calls under way that somebody may follow.
#[derive(Debug)]
pub struct Flights {
    map: Arc<Map>,
}

#[derive(Debug)]
struct Map {
    shards: [Shard; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    flying: Mutex<HashMap<ReplyKey, Arc<Flight>, ReplyHash>>,
    /// How many have landed here; changed only under the lock.
    landed: AtomicU64,
}

impl Default for Flights {
    fn default() -> Self {
        Flights { map: Arc::new(Map { shards: std::array::from_fn(|_| Shard::default()) }) }
    }
}

impl Map {
    fn shard(&self, hash: u64) -> &Shard {
        // The maps inside go by the lowest and the highest bits.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }
}

#[derive(Debug, Default)]
struct Flight {
    /// Told only where somebody follows, which is rare.
    landing: OnceLock<Box<Landing>>,
    landed: Notify,
    followers: AtomicUsize,
}

/// What came of a call that others follow.
#[derive(Clone, Debug)]
pub(super) enum Landing {
    /// A node answered, with a result or an error of its own.
    Answered(Form),
    /// No node answered.
    Failed(Fault),
    /// It was refused on its way.
    Refused(Refusal),
    /// Its leader went without an end: each follower is on its own again.
    Lost,
}

/// What became of joining.
#[derive(Debug)]
pub(super) enum Joined {
    /// Nobody is fetching this: the caller must.
    Lead(Lead),
    /// Somebody is.
    Follow(Follow),
}

/// How many flights had landed when somebody looked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Landed(u64);

impl Flights {
    /// How many flights have landed so far among those that what is `sought` may be one of. To be read before a look at the
    /// store: whoever finds nothing there, and then leads without a landing in between, has missed nothing.
    pub(super) fn landed(&self, sought: &ReplySought<'_>) -> Landed {
        Landed(self.map.shard(sought.hashed()).landed.load(Ordering::Acquire))
    }

    pub(super) fn join(&self, key: ReplyKey) -> Joined {
        let shard = self.map.shard(key.hashed());
        let mut flying = shard.flying.lock();
        match flying.entry(key) {
            Entry::Occupied(flying) => {
                let flight = flying.get().clone();
                flight.followers.fetch_add(1, Ordering::Relaxed);
                Joined::Follow(Follow { flight })
            }
            Entry::Vacant(free) => {
                let key = free.key().clone();
                let flight = free.insert(Arc::default()).clone();
                let since = Landed(shard.landed.load(Ordering::Relaxed));
                drop(flying);
                Joined::Lead(Lead { key, flight, map: self.map.clone(), own: 0, since, over: false })
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.map.shards.iter().all(|shard| shard.flying.lock().is_empty())
    }
}

/// The duty to fetch something and to tell the followers. Dropped without landing, it tells them that it is lost.
#[derive(Debug)]
pub(super) struct Lead {
    key: ReplyKey,
    flight: Arc<Flight>,
    map: Arc<Map>,
    own: usize,
    since: Landed,
    over: bool,
}

impl Lead {
    pub(super) fn key(&self) -> &ReplyKey {
        &self.key
    }

    /// Whether a flight may have landed between a look that found this and the beginning of this one.
    pub(super) fn is_later_than(&self, landed: Landed) -> bool {
        self.since != landed
    }

    /// Takes note of `follow` if it follows this lead from within the same set: it goes when the set goes.
    pub(super) fn owns(&mut self, follow: &Follow) -> bool {
        let owns = Arc::ptr_eq(&self.flight, &follow.flight);
        self.own += usize::from(owns);
        owns
    }

    /// Whether another set waits for it.
    pub(super) fn is_followed(&self) -> bool {
        self.flight.followers.load(Ordering::Relaxed) > self.own
    }

    /// Tells the followers what came of it.
    pub(super) fn land(self, landing: Landing) {
        self.land_with(|| landing);
    }

    /// The same; `landing` is asked only if there are followers.
    pub(super) fn land_with(mut self, landing: impl FnOnce() -> Landing) {
        self.end(landing);
    }

    fn end(&mut self, landing: impl FnOnce() -> Landing) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let shard = self.map.shard(self.key.hashed());
        let mut flying = shard.flying.lock();
        flying.remove(&self.key);
        shard.landed.fetch_add(1, Ordering::Release);
        drop(flying);
        // Followers join under the lock, so those counted now are all that there will ever be.
        if self.flight.followers.load(Ordering::Relaxed) > 0 {
            let _ = self.flight.landing.set(Box::new(landing()));
            self.flight.landed.notify_waiters();
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.end(|| Landing::Lost);
    }
}

/// The wish to hear what a leader gets.
#[derive(Debug)]
pub(super) struct Follow {
    flight: Arc<Flight>,
}

impl Follow {
    pub(super) async fn landing(&self) -> Landing {
        loop {
            let mut landed = std::pin::pin!(self.flight.landed.notified());
            // Enlisted before the look, so that a landing in between wakes us.
            landed.as_mut().enable();
            if let Some(landing) = self.flight.landing.get() {
                return (**landing).clone();
            }
            landed.await;
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.flight.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::chain::ChainName;

    fn key(params: &[u8]) -> ReplyKey {
        ReplyKey::new(ChainName::new("toy"), b"toy_read", params)
    }

    fn lead(flights: &Flights) -> Lead {
        match flights.join(key(b"[1]")) {
            Joined::Lead(lead) => lead,
            Joined::Follow(_) => panic!("somebody else leads"),
        }
    }

    #[test]
    fn who_leads_after_a_landing_that_his_look_at_the_store_missed_is_told_so() {
        let flights = Flights::default();
        let before = flights.landed(&key(b"[1]").sought());
        let first = lead(&flights);
        assert!(!first.is_later_than(before), "nobody has landed");
        first.land(Landing::Lost);
        let second = lead(&flights);
        assert!(second.is_later_than(before));
        drop(second);
        let now = flights.landed(&key(b"[1]").sought());
        assert_ne!(now, before);
        assert!(!lead(&flights).is_later_than(now));
        assert!(flights.is_empty());
    }

    #[test]
    fn nobody_asks_what_came_of_a_call_that_nobody_follows() {
        let flights = Flights::default();
        lead(&flights).land_with(|| panic!("nobody follows"));
        let first = lead(&flights);
        let Joined::Follow(gone) = flights.join(key(b"[1]")) else { panic!("it is led already") };
        drop(gone);
        first.land_with(|| panic!("nobody follows any more"));
    }
}
