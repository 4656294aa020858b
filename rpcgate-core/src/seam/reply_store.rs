//! The reply store: where the cache keeps raw results.

use crate::chain::ChainName;
use crate::clock::Time;
use bytes::Bytes;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;

/// What an answer is kept under: chain, method as sent and the exact parameter bytes, compared in full. Never the id,
/// never the caller.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ReplyKey {
    /// The chain.
    pub chain: ChainName,
    /// Method, a zero byte (no method name holds one unescaped), parameters.
    call: Box<[u8]>,
}

impl ReplyKey {
    /// The key of a call.
    pub fn new(chain: ChainName, method: &[u8], params: &[u8]) -> Self {
        let mut call = Vec::with_capacity(8 + method.len() + params.len());
        // The length settles where the method ends, whatever bytes it holds.
        call.extend_from_slice(&(method.len() as u64).to_le_bytes());
        call.extend_from_slice(method);
        call.extend_from_slice(params);
        ReplyKey { chain, call: call.into() }
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
    entries: HashMap<ReplyKey, (Bytes, Option<Time>), RandomState>,
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
    }
}
