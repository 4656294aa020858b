//! Calls under way: who leads, who follows, and what comes of it.

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use rpcgate_core::fault::Fault;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::Form;
use rpcgate_core::seam::reply_store::ReplyKey;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

const SHARDS: usize = 64;

type Shard = Mutex<HashMap<ReplyKey, Arc<Flight>, RandomState>>;

/// All calls under way that somebody may follow.
#[derive(Debug)]
pub struct Flights {
    map: Arc<Map>,
}

#[derive(Debug)]
struct Map {
    hash: RandomState,
    shards: [Shard; SHARDS],
}

impl Default for Flights {
    fn default() -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Flights { map: Arc::new(Map { hash: RandomState::default(), shards }) }
    }
}

impl Map {
    fn shard(&self, key: &ReplyKey) -> &Shard {
        &self.shards[self.hash.hash_one(key) as usize % SHARDS]
    }
}

#[derive(Debug, Default)]
struct Flight {
    landing: OnceLock<Landing>,
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

impl Flights {
    pub(super) fn join(&self, key: ReplyKey) -> Joined {
        let mut shard = self.map.shard(&key).lock();
        match shard.entry(key) {
            Entry::Occupied(flying) => {
                let flight = flying.get().clone();
                flight.followers.fetch_add(1, Relaxed);
                Joined::Follow(Follow { flight })
            }
            Entry::Vacant(free) => {
                let key = free.key().clone();
                let flight = free.insert(Arc::default()).clone();
                drop(shard);
                Joined::Lead(Lead { key, flight, map: self.map.clone(), own: 0 })
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.map.shards.iter().all(|shard| shard.lock().is_empty())
    }
}

/// The duty to fetch something and to tell the followers. Dropped without landing, it tells them that it is lost.
#[derive(Debug)]
pub(super) struct Lead {
    key: ReplyKey,
    flight: Arc<Flight>,
    map: Arc<Map>,
    own: usize,
}

impl Lead {
    pub(super) fn key(&self) -> &ReplyKey {
        &self.key
    }

    /// Takes note of `follow` if it follows this lead from within the same set: it goes when the set goes.
    pub(super) fn owns(&mut self, follow: &Follow) -> bool {
        let owns = Arc::ptr_eq(&self.flight, &follow.flight);
        self.own += usize::from(owns);
        owns
    }

    /// Whether another set waits for it.
    pub(super) fn is_followed(&self) -> bool {
        self.flight.followers.load(Relaxed) > self.own
    }

    pub(super) fn land(self, landing: Landing) {
        let _ = self.flight.landing.set(landing);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let _ = self.flight.landing.set(Landing::Lost);
        self.map.shard(&self.key).lock().remove(&self.key);
        self.flight.landed.notify_waiters();
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
                return landing.clone();
            }
            landed.await;
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.flight.followers.fetch_sub(1, Relaxed);
    }
}
