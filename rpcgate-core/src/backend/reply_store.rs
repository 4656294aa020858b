//! The reply store: the raw results of the cache.

use crate::chain::ChainName;
use bytes::Bytes;
use equivalent::Equivalent;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The borrowed key of an answer: chain, its [epoch](crate::chain::ChainHead::epoch), method as sent and exact
/// parameter bytes; never the id or the caller. Hashed once with a seed of this process; see [`ReplyHash`].
#[derive(Clone, Copy, Debug)]
pub struct ReplySought<'a> {
    hash: u64,
    chain: ChainName,
    epoch: u32,
    method: &'a [u8],
    params: &'a [u8],
}

impl<'a> ReplySought<'a> {
    /// Creates the key for a call in epoch 0.
    pub fn new(chain: ChainName, method: &'a [u8], params: &'a [u8]) -> Self {
        ReplySought::again(Self::hash(chain, method, params), chain, method, params)
    }

    /// Creates a key whose [hash](Self::hashed) is known from before. With any other hash nothing is found.
    pub fn again(hash: u64, chain: ChainName, method: &'a [u8], params: &'a [u8]) -> Self {
        debug_assert_eq!(hash, Self::hash(chain, method, params), "it is another's");
        ReplySought { hash, chain, epoch: 0, method, params }
    }

    /// Sets the epoch of the chain. Answers of other epochs are never found.
    #[must_use]
    pub const fn in_epoch(mut self, epoch: u32) -> Self {
        self.epoch = epoch;
        self
    }

    fn hash(chain: ChainName, method: &[u8], params: &[u8]) -> u64 {
        static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::default);
        let mut hasher = SEED.build_hasher();
        hasher.write(chain.as_str().as_bytes());
        hasher.write_usize(method.len());
        hasher.write(method);
        hasher.write(params);
        hasher.finish()
    }

    /// Returns the chain.
    pub const fn chain(&self) -> ChainName {
        self.chain
    }

    /// Returns the epoch of the chain.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns the method as sent.
    pub const fn method(&self) -> &'a [u8] {
        self.method
    }

    /// Returns the parameter bytes. Those of a JSON-RPC call have no white space between tokens.
    pub const fn params(&self) -> &'a [u8] {
        self.params
    }

    /// Returns the hash, in which keys differ in all bits. It differs between processes.
    #[inline]
    pub const fn hashed(&self) -> u64 {
        self.hash
    }

    /// Returns the size of the key in bytes; see [`ReplyKey::len`].
    pub const fn key_len(&self) -> usize {
        size_of::<ReplyKey>() + self.method.len() + self.params.len()
    }

    /// Returns the owned key, to store an answer.
    pub fn to_key(&self) -> ReplyKey {
        let ReplySought { hash, chain, epoch, method, params } = *self;
        // For nearly all calls, only the key itself is allocated.
        let mut call: SmallVec<[u8; 256]> = SmallVec::from_slice(method);
        call.extend_from_slice(params);
        ReplyKey { hash, chain, epoch, method: method.len(), call: Arc::from(call.as_slice()) }
    }
}

impl Hash for ReplySought<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Equivalent<ReplyKey> for ReplySought<'_> {
    #[inline]
    fn equivalent(&self, key: &ReplyKey) -> bool {
        self.hash == key.hash
            && self.epoch == key.epoch
            && self.chain == key.chain
            && key.call.split_at_checked(key.method) == Some((self.method, self.params))
    }
}

/// The owned key of an answer: a [`ReplySought`] with its own bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplyKey {
    /// The first field, so that comparing different keys stops here.
    hash: u64,
    /// The chain.
    pub chain: ChainName,
    epoch: u32,
    /// The end of the method in `call`.
    method: usize,
    /// Method and parameters, shared by clones.
    call: Arc<[u8]>,
}

impl ReplyKey {
    /// Creates the key of a call.
    pub fn new(chain: ChainName, method: &[u8], params: &[u8]) -> Self {
        ReplySought::new(chain, method, params).to_key()
    }

    /// Returns the borrowed key, for look-ups.
    pub fn sought(&self) -> ReplySought<'_> {
        let (method, params) = self.call.split_at_checked(self.method).unwrap_or_default();
        ReplySought { hash: self.hash, chain: self.chain, epoch: self.epoch, method, params }
    }

    /// Returns the hash, in which keys differ in all bits. It differs between processes.
    #[inline]
    pub const fn hashed(&self) -> u64 {
        self.hash
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        self.sought().key_len()
    }

    /// Reports whether method and parameters are empty.
    pub fn is_empty(&self) -> bool {
        self.call.is_empty()
    }
}

impl Hash for ReplyKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A hasher that returns the hash of a [`ReplyKey`] unchanged, for maps of such keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplyHash(u64);

impl BuildHasher for ReplyHash {
    type Hasher = ReplyHash;

    #[inline]
    fn build_hasher(&self) -> ReplyHash {
        ReplyHash(0)
    }
}

impl Hasher for ReplyHash {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 ^= hash;
    }

    /// Never called for keys, but correct for any other value.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// A byte-bounded store of raw results.
pub trait ReplyStore: Send + Sync + Debug {
    /// Returns the result under `sought`, unless it has expired. All times are those of
    /// [`Clock::elapsed`](crate::clock::Clock::elapsed), which changes of the wall clock do not affect.
    fn get(&self, sought: &ReplySought<'_>, now: Duration) -> Option<Bytes>;

    /// Stores `result` until `expires_at`, or until evicted. Copies it if it would keep a larger buffer in memory.
    fn put(&self, sought: &ReplySought<'_>, result: &Bytes, expires_at: Option<Duration>);
}

/// A small store that evicts the oldest entry first.
#[derive(Debug)]
pub struct MemoryReplyStore {
    bound: usize,
    stored: Mutex<StoredReplies>,
}

#[derive(Debug, Default)]
struct StoredReplies {
    entries: HashMap<ReplyKey, (Bytes, Option<Duration>), ReplyHash>,
    order: VecDeque<ReplyKey>,
    bytes: usize,
}

impl MemoryReplyStore {
    /// Creates a store of at most `bound` bytes of keys and results.
    pub fn bounded(bound: usize) -> Self {
        MemoryReplyStore { bound, stored: Mutex::default() }
    }
}

impl StoredReplies {
    fn remove(&mut self, key: &ReplyKey) {
        if let Some((result, _)) = self.entries.remove(key) {
            self.bytes -= key.len() + result.len();
        }
    }
}

impl ReplyStore for MemoryReplyStore {
    fn get(&self, sought: &ReplySought<'_>, now: Duration) -> Option<Bytes> {
        let stored = self.stored.lock();
        let (result, expires_at) = stored.entries.get(&sought.to_key())?;
        expires_at.is_none_or(|end| now < end).then(|| result.clone())
    }

    fn put(&self, sought: &ReplySought<'_>, result: &Bytes, expires_at: Option<Duration>) {
        let key = sought.to_key();
        let size = key.len() + result.len();
        if size > self.bound {
            return;
        }
        let mut stored = self.stored.lock();
        stored.remove(&key);
        stored.order.retain(|known| *known != key);
        while stored.bytes + size > self.bound {
            let Some(oldest) = stored.order.pop_front() else { break };
            stored.remove(&oldest);
        }
        stored.bytes += size;
        stored.order.push_back(key.clone());
        stored.entries.insert(key, (Bytes::copy_from_slice(result), expires_at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::suite;

    #[test]
    fn memory_passes_the_suite_of_reply_stores() {
        suite::reply_store(|bound| std::sync::Arc::new(MemoryReplyStore::bounded(bound)));
    }

    #[test]
    fn method_and_parameters_do_not_run_into_each_other() {
        let chain = ChainName::new("toy");
        assert_ne!(ReplyKey::new(chain, b"ab", b"c"), ReplyKey::new(chain, b"a", b"bc"));
        assert_ne!(ReplyKey::new(chain, b"a", b"[1]"), ReplyKey::new(chain, b"a", b"[1 ]"));
        assert_eq!(ReplyKey::new(chain, &[b'm'; 127], b"[1]"), ReplyKey::new(chain, &[b'm'; 127], b"[1]"));
        assert_eq!(ReplyKey::new(chain, &[b'm'; 300], b"[1]"), ReplyKey::new(chain, &[b'm'; 300], b"[1]"));
        let long = [b'm'; 300];
        for split in [0, 1, 127, 128, 129, 256] {
            assert_ne!(
                ReplyKey::new(chain, &long[..split], &long[split..]),
                ReplyKey::new(chain, &long[..299], &long[299..])
            );
        }
    }

    #[test]
    fn a_key_and_its_clone_have_one_hash_and_other_keys_have_others() {
        let key = |chain, method: &str, params: &str| {
            ReplyKey::new(ChainName::new(chain), method.as_bytes(), params.as_bytes())
        };
        let one = key("toy", "toy_read", "[1]");
        assert_eq!(one.hashed(), key("toy", "toy_read", "[1]").hashed());
        assert_eq!(one.hashed(), one.sought().hashed());
        assert!(one.sought().equivalent(&one) && one.sought().to_key() == one);
        assert_eq!(ReplyHash::default().hash_one(&one), one.clone().hashed());
        for other in [
            key("toz", "toy_read", "[1]"),
            key("toy", "toy_read[", "1]"),
            key("toy", "toy_read", "[2]"),
            key("toy", "toy_read", ""),
        ] {
            assert_ne!(one.hashed(), other.hashed(), "{other:?}");
            assert_ne!(one, other);
            assert!(!one.sought().equivalent(&other));
        }
    }

    #[test]
    fn keys_whose_hashes_collide_are_still_two() {
        let one = ReplyKey::new(ChainName::new("toy"), b"toy_read", b"[1]");
        let other = ReplyKey { hash: one.hash, ..ReplyKey::new(ChainName::new("toy"), b"toy_read", b"[2]") };
        assert_ne!(one, other);
        assert!(!one.sought().equivalent(&other));
        let store = MemoryReplyStore::bounded(1 << 10);
        store.put(&one.sought(), &Bytes::from_static(b"1"), None);
        assert_eq!(store.get(&other.sought(), Duration::ZERO), None);
    }
}
