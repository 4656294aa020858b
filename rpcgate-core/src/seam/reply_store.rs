//! The reply store: where the cache keeps raw results.

use crate::chain::ChainName;
use crate::clock::Time;
use bytes::Bytes;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

/// What an answer is kept under: chain, method as sent and the exact parameter bytes, compared in full. Never the id,
/// never the caller. It is hashed once, when it is made, under a seed of this process's own; see [`ReplyHash`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplyKey {
    /// First, so that keys that differ are told apart by it.
    hash: u64,
    /// The chain.
    pub chain: ChainName,
    /// The method's length, which settles where it ends whatever bytes it holds, seven bits a byte; method; parameters.
    /// Clones share it.
    call: Arc<[u8]>,
}

impl ReplyKey {
    /// The key of a call.
    pub fn new(chain: ChainName, method: &[u8], params: &[u8]) -> Self {
        // Nearly all calls are put together without an allocation beside the one that is kept.
        let mut usual = [0; 256];
        let size = 1 + method.len() + params.len();
        if method.len() < 0x80
            && let Some(call) = usual.get_mut(..size)
            && let Some((first, rest)) = call.split_first_mut()
            && let Some((first_part, second_part)) = rest.split_at_mut_checked(method.len())
        {
            *first = method.len() as u8;
            first_part.copy_from_slice(method);
            second_part.copy_from_slice(params);
            return Self::of(chain, call);
        }
        let mut call = Vec::with_capacity(10 + size);
        let mut length = method.len();
        while length > 0x7f {
            call.push(length as u8 | 0x80);
            length >>= 7;
        }
        call.push(length as u8);
        call.extend_from_slice(method);
        call.extend_from_slice(params);
        Self::of(chain, &call)
    }

    fn of(chain: ChainName, call: &[u8]) -> Self {
        static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::default);
        let mut hasher = SEED.build_hasher();
        hasher.write(chain.as_str().as_bytes());
        hasher.write(call);
        ReplyKey { hash: hasher.finish(), chain, call: Arc::from(call) }
    }

    /// Its hash, in all bits of which keys differ. It is another in every process.
    #[inline]
    pub const fn hashed(&self) -> u64 {
        self.hash
    }

    /// Bytes it takes up.
    pub fn len(&self) -> usize {
        size_of::<Self>() + self.call.len()
    }

    /// Never true: a key holds at least a length.
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

/// Takes a [`ReplyKey`]'s own hash as it is, for maps of such keys.
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

    /// Not what a key calls, but right for any other value.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Keeps raw results, bounded in bytes.
pub trait ReplyStore: Send + Sync + Debug {
    /// The result kept under `key`, unless its time is over at `now`.
    fn get(&self, key: &ReplyKey, now: Time) -> Option<Bytes>;

    /// Keeps `result` under `key` until `expires_at`; `None`: until it is evicted. The result is copied where it
    /// might otherwise hold a larger buffer in memory.
    fn put(&self, key: ReplyKey, result: &Bytes, expires_at: Option<Time>);

    /// Does now what housekeeping the store puts off, such as evicting what is above its bound.
    fn settle(&self) {}
}

/// A small store that evicts the oldest entry first.
#[derive(Debug)]
pub struct MemoryReplyStore {
    bound: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: HashMap<ReplyKey, (Bytes, Option<Time>), ReplyHash>,
    order: VecDeque<ReplyKey>,
    bytes: usize,
}

impl MemoryReplyStore {
    /// A store of at most `bound` bytes of keys and results.
    pub fn bounded(bound: usize) -> Self {
        MemoryReplyStore { bound, kept: Mutex::default() }
    }
}

impl Kept {
    fn remove(&mut self, key: &ReplyKey) {
        if let Some((result, _)) = self.entries.remove(key) {
            self.bytes -= key.len() + result.len();
        }
    }
}

impl ReplyStore for MemoryReplyStore {
    fn get(&self, key: &ReplyKey, now: Time) -> Option<Bytes> {
        let kept = self.kept.lock();
        let (result, expires_at) = kept.entries.get(key)?;
        expires_at.is_none_or(|end| now < end).then(|| result.clone())
    }

    fn put(&self, key: ReplyKey, result: &Bytes, expires_at: Option<Time>) {
        let size = key.len() + result.len();
        if size > self.bound {
            return;
        }
        let mut kept = self.kept.lock();
        kept.remove(&key);
        kept.order.retain(|known| *known != key);
        while kept.bytes + size > self.bound {
            let Some(oldest) = kept.order.pop_front() else { break };
            kept.remove(&oldest);
        }
        kept.bytes += size;
        kept.order.push_back(key.clone());
        kept.entries.insert(key, (Bytes::copy_from_slice(result), expires_at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::suite;

    #[test]
    fn memory_keeps_the_reply_store_suite() {
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
        assert_eq!(ReplyHash::default().hash_one(&one), one.clone().hashed());
        for other in [
            key("toz", "toy_read", "[1]"),
            key("toy", "toy_read[", "1]"),
            key("toy", "toy_read", "[2]"),
            key("toy", "toy_read", ""),
        ] {
            assert_ne!(one.hashed(), other.hashed(), "{other:?}");
            assert_ne!(one, other);
        }
    }

    #[test]
    fn keys_whose_hashes_collide_are_still_two() {
        let one = ReplyKey::new(ChainName::new("toy"), b"toy_read", b"[1]");
        let other = ReplyKey { hash: one.hash, ..ReplyKey::new(ChainName::new("toy"), b"toy_read", b"[2]") };
        assert_ne!(one, other);
        let store = MemoryReplyStore::bounded(1 << 10);
        store.put(one, &Bytes::from_static(b"1"), None);
        assert_eq!(store.get(&other, Time::default()), None);
    }
}
