//! The in-process store. quick_cache limits its bytes and chooses what to evict. Expiry is decided here, by the
//! monotonic clock, so a step of the wall clock does not change the age of an answer.

use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use rpcgate_core::backend::reply_store::{ReplyHash, ReplyKey, ReplySought, ReplyStore};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Raw results in memory.
#[derive(Debug)]
pub struct BoundedReplies {
    /// `None` if the size is zero.
    replies: Option<Cache<ReplyKey, StoredReply, Weigh, ReplyHash>>,
    largest: usize,
    looks: Box<[Counts; COUNT_SHARDS]>,
}

#[derive(Clone, Debug)]
struct StoredReply {
    result: Bytes,
    expires_at: Option<Duration>,
}

/// The number of look-ups in a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Looks {
    /// The number of look-ups that found an answer.
    pub hits: u64,
    /// The number of look-ups that found no answer or an expired one.
    pub misses: u64,
}

/// The number of threads that count without sharing a cache line.
const COUNT_SHARDS: usize = 64;

/// The counts of one thread, on their own cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
}

thread_local! {
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Relaxed) % COUNT_SHARDS
    };
}

/// The size in bytes of an entry without its key and result: its slot in the table and its allocation headers.
const OVERHEAD: usize = 300;

/// The number of parts of a store, each with a lock and a share of the memory.
const SHARDS: usize = 8;

#[derive(Clone, Debug)]
struct Weigh;

impl Weighter<ReplyKey, StoredReply> for Weigh {
    fn weight(&self, key: &ReplyKey, replies: &StoredReply) -> u64 {
        (key.len() + replies.result.len() + OVERHEAD) as u64
    }
}

impl BoundedReplies {
    /// Creates a store of at most `bytes` bytes, including keys and overhead. One answer may use a sixteenth of them.
    pub fn new(bytes: u64) -> Self {
        // A rough estimate for small answers.
        let items = usize::try_from(bytes / 1_024).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(items)
            .weight_capacity(bytes)
            .build()
            .ok()
            .filter(|_| bytes > 0);
        BoundedReplies {
            replies: options.map(|options| {
                Cache::with_options(options, Weigh, ReplyHash::default(), DefaultLifecycle::default())
            }),
            largest: usize::try_from(bytes / 16).unwrap_or(usize::MAX),
            looks: Box::new(std::array::from_fn(|_| Counts::default())),
        }
    }

    /// Returns the number of look-ups.
    pub fn looks(&self) -> Looks {
        let sum = |count: fn(&Counts) -> &AtomicU64| {
            self.looks.iter().map(|counts| count(counts).load(Relaxed)).sum()
        };
        Looks { hits: sum(|counts| &counts.hits), misses: sum(|counts| &counts.misses) }
    }

    fn find(&self, sought: &ReplySought<'_>, now: Duration) -> Option<Bytes> {
        let replies = self.replies.as_ref()?.get(sought)?;
        replies.expires_at.is_none_or(|end| now < end).then_some(replies.result)
    }

    /// Returns the size of all entries in bytes.
    pub fn bytes(&self) -> u64 {
        self.replies.as_ref().map_or(0, Cache::weight)
    }

    /// Returns the number of stored answers.
    pub fn entries(&self) -> u64 {
        self.replies.as_ref().map_or(0, |replies| replies.len() as u64)
    }
}

impl ReplyStore for BoundedReplies {
    fn get(&self, sought: &ReplySought<'_>, now: Duration) -> Option<Bytes> {
        let found = self.find(sought, now);
        // The thread-local value may be gone while the thread ends.
        let counts = &self.looks[SHARD.try_with(|shard| *shard).unwrap_or_default()];
        if found.is_some() { &counts.hits } else { &counts.misses }.fetch_add(1, Relaxed);
        found
    }

    fn put(&self, sought: &ReplySought<'_>, result: &Bytes, expires_at: Option<Duration>) {
        let size = sought.key_len() + result.len();
        if let Some(replies) = self.replies.as_ref().filter(|_| size <= self.largest) {
            // Copied, so that a small result does not keep its receive buffer alive.
            replies
                .insert(sought.to_key(), StoredReply { result: Bytes::copy_from_slice(result), expires_at });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::suite;
    use rpcgate_core::chain::ChainName;
    use std::sync::Arc;

    #[test]
    fn it_passes_the_suite_of_reply_stores() {
        suite::reply_store(|bytes| Arc::new(BoundedReplies::new(bytes as u64)));
    }

    #[test]
    fn a_flood_of_other_keys_does_not_wash_out_a_hot_one() {
        let store = BoundedReplies::new(1 << 20);
        let now = Duration::from_secs(1);
        let key = |n: u32| ReplyKey::new(ChainName::new("toy"), b"toy_read", n.to_string().as_bytes());
        let hot = ReplyKey::new(ChainName::new("toy"), b"toy_id", b"");
        let result = Bytes::from(vec![b'1'; 500]);
        let mut hits = 0_u64;
        for n in 0..20_000 {
            if store.get(&hot.sought(), now).is_some() {
                hits += 1;
            } else {
                store.put(&hot.sought(), &result, None);
            }
            store.put(&key(n).sought(), &result, None);
        }
        assert!(store.bytes() <= 1 << 20, "{}", store.bytes());
        assert!(hits >= 18_000, "{hits} of 20,000");
        assert_eq!(store.looks(), Looks { hits, misses: 20_000 - hits });
    }
}
