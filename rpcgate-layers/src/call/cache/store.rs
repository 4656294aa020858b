//! The store of one process: moka bounds it in bytes and chooses what to evict; whether an answer's time is over is
//! decided here, by the clock that everything else goes by.

use bytes::Bytes;
use moka::sync::Cache;
use rpcgate_core::clock::Time;
use rpcgate_core::seam::reply_store::{ReplyHash, ReplyKey, ReplyStore};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Raw results in memory.
#[derive(Debug)]
pub struct MokaReplies {
    kept: Cache<ReplyKey, Kept, ReplyHash>,
    largest: usize,
    looks: Box<[Counts; PLACES]>,
}

#[derive(Clone, Debug)]
struct Kept {
    result: Bytes,
    expires_at: Option<Time>,
}

/// How often something was looked for in a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Looks {
    /// And was there.
    pub hits: u64,
    /// And was not, or its time was over.
    pub misses: u64,
}

/// Threads that count without sharing memory with others.
const PLACES: usize = 64;

/// One thread's, apart from its neighbours'.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
}

thread_local! {
    static PLACE: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Relaxed) % PLACES
    };
}

/// What an entry takes up beside its key and its result: moka's own nodes and the allocations' heads.
const OVERHEAD: usize = 600;

impl MokaReplies {
    /// A store of at most `bytes` bytes, keys and housekeeping included. A single answer takes an eighth at most.
    pub fn new(bytes: u64) -> Self {
        let weigh = |key: &ReplyKey, kept: &Kept| {
            u32::try_from(key.len() + kept.result.len() + OVERHEAD).unwrap_or(u32::MAX)
        };
        MokaReplies {
            kept: Cache::builder().max_capacity(bytes).weigher(weigh).build_with_hasher(ReplyHash::default()),
            largest: usize::try_from(bytes / 8).unwrap_or(usize::MAX),
            looks: Box::new(std::array::from_fn(|_| Counts::default())),
        }
    }

    /// How often something was looked for.
    pub fn looks(&self) -> Looks {
        let sum = |count: fn(&Counts) -> &AtomicU64| {
            self.looks.iter().map(|counts| count(counts).load(Relaxed)).sum()
        };
        Looks { hits: sum(|counts| &counts.hits), misses: sum(|counts| &counts.misses) }
    }

    fn find(&self, key: &ReplyKey, now: Time) -> Option<Bytes> {
        let kept = self.kept.get(key)?;
        kept.expires_at.is_none_or(|end| now < end).then_some(kept.result)
    }

    /// Bytes taken up, as far as housekeeping has come.
    pub fn bytes(&self) -> u64 {
        self.kept.weighted_size()
    }

    /// Answers kept, as far as housekeeping has come.
    pub fn entries(&self) -> u64 {
        self.kept.entry_count()
    }
}

impl ReplyStore for MokaReplies {
    fn get(&self, key: &ReplyKey, now: Time) -> Option<Bytes> {
        let found = self.find(key, now);
        // A thread that ends may have lost its place.
        let counts = &self.looks[PLACE.try_with(|place| *place).unwrap_or_default()];
        if found.is_some() { &counts.hits } else { &counts.misses }.fetch_add(1, Relaxed);
        found
    }

    fn put(&self, key: ReplyKey, result: &Bytes, expires_at: Option<Time>) {
        if key.len() + result.len() <= self.largest {
            // A copy, so that a small result does not hold the buffer it came in.
            self.kept.insert(key, Kept { result: Bytes::copy_from_slice(result), expires_at });
        }
    }

    fn settle(&self) {
        self.kept.run_pending_tasks();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::chain::ChainName;
    use rpcgate_core::seam::suite;
    use std::sync::Arc;

    #[test]
    fn moka_keeps_the_reply_store_suite() {
        suite::reply_store(|bytes| Arc::new(MokaReplies::new(bytes as u64)));
    }

    #[test]
    fn a_flood_of_other_keys_does_not_wash_out_a_hot_one() {
        let store = MokaReplies::new(1 << 20);
        let now = Time::from_secs(1);
        let key = |n: u32| ReplyKey::new(ChainName::new("toy"), b"toy_read", n.to_string().as_bytes());
        let hot = ReplyKey::new(ChainName::new("toy"), b"toy_id", b"");
        let result = Bytes::from(vec![b'1'; 500]);
        let mut hits = 0_u64;
        for n in 0..20_000 {
            if store.get(&hot, now).is_some() {
                hits += 1;
            } else {
                store.put(hot.clone(), &result, None);
            }
            store.put(key(n), &result, None);
        }
        store.settle();
        assert!(store.bytes() <= 1 << 20, "{}", store.bytes());
        assert!(hits >= 18_000, "{hits} of 20,000");
        assert_eq!(store.looks(), Looks { hits, misses: 20_000 - hits });
    }
}
